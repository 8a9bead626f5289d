"""What a person sees on a terminal while a command takes its time, and what programs never see."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from .conftest import SLOW, SLOW_SCRIPT, TRUSTED, write

PATIENCE = 60.0
"""Seconds until a command that does not come to its end counts as hung."""

HOLD = """
    ENGINE_CLASS = LocalPython
    PYTHON_SCRIPT_PATH = hold.py
    FUNCTION_NAME = {0}
    FUNCTION_DESCRIPTION = Waits until the file `go` is there.
"""
SCRIPT = """
    import time
    from pathlib import Path

    def wait():
        while not Path({path!r}).exists():
            time.sleep(0.01)

    def hold():
        wait()
        return "held"

    def hold_and_fail():
        wait()
        raise RuntimeError("it broke")

    def hold_items():
        wait()
        yield 1
        yield 2

    def nap():
        time.sleep(1.5)
        return "rested"
"""
_PART = re.compile(r"\x1b\[(?P<numbers>[0-9;?]*)(?P<order>[A-Za-z])|(?P<text>[^\x1b])", re.DOTALL)


def screen(written: str) -> list[str]:
    """The lines that stand on a terminal in the end: what was erased or written over is gone."""
    lines, row, column = [""], 0, 0
    assert "".join(match[0] for match in _PART.finditer(written)) == written, repr(written)
    for match in _PART.finditer(written):
        order, text = match["order"], match["text"]
        if order == "K":
            assert match["numbers"] == "2"
            lines[row] = ""
        elif order == "A":
            row -= int(match["numbers"])
        elif text == "\r":
            column = 0
        elif text == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif text:
            lines[row] = lines[row][:column].ljust(column) + text + lines[row][column + 1 :]
            column += 1
        else:
            assert order in "hlm", repr(match[0])  # the cursor, and colours
    return [line.rstrip() for line in lines if line.rstrip()]


class Terminal:
    """A command on a terminal of its own; ``piped`` of its outputs go to a pipe instead."""

    def __init__(self, words: tuple[str, ...], cwd: Path, env: Mapping[str, str], piped: str) -> None:
        self._ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (24, 80))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "enginehost", *words],
            cwd=cwd,
            env={**os.environ, "TERM": "xterm", **env},
            stdin=theirs,
            stdout=subprocess.PIPE if piped == "stdout" else theirs,
            stderr=subprocess.PIPE if piped == "stderr" else theirs,
        )
        os.close(theirs)
        self._written = b""
        self._until = time.monotonic() + PATIENCE

    @property
    def written(self) -> str:
        """All that came to the terminal."""
        return self._written.decode()

    def shows(self, text: str) -> None:
        """Wait until ``text`` has been written."""
        while text.encode() not in self._written:
            assert self._read(), f"it ended without {text!r}: {self._written[-500:]!r}"

    def ended(self) -> int:
        """The exit code, once all is written."""
        while self._read():
            pass
        return self.process.wait(PATIENCE)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._ours], [], [], max(0.0, self._until - time.monotonic()))
        assert ready, f"it hangs: {self._written[-500:]!r}"
        data = b""
        with suppress(OSError):  # what Linux says where nobody has the other end any more
            data = os.read(self._ours, 65536)
        self._written += data
        return bool(data)

    def close(self) -> None:
        self.process.kill()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        self.process.wait(PATIENCE)
        os.close(self._ours)


Start = Callable[..., Terminal]


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """``start("call", "hold")``: the command runs on a terminal, beside the folder ``smss``."""
    started: list[Terminal] = []

    def run(*words: str, env: Mapping[str, str] | None = None, piped: str = "") -> Terminal:
        started.append(Terminal(words, folder.parent, env or {}, piped))
        return started[-1]

    yield run
    for terminal in started:
        terminal.close()


@pytest.fixture
def go(folder: Path) -> Path:
    """The file that lets the functions go on."""
    path = folder.parent / "go"
    functions = ("hold", "hold_and_fail", "hold_items", "nap")
    write(folder, {f"{name}.smss": HOLD.format(name) for name in functions})
    write(folder, {"hold.py": SCRIPT.format(path=str(path))})
    return path


def cursor_is_shown(written: str) -> bool:
    return written.rfind("\x1b[?25h") >= written.rfind("\x1b[?25l")


@pytest.mark.parametrize(
    ("words", "code", "left"),
    [
        (("call", "hold"), 0, ['"held"']),
        (("call", "hold", "--raw"), 0, ["held"]),
        (("call", "hold_items", "--stream"), 0, ["1", "2"]),
        (
            ("call", "hold_and_fail"),
            1,
            [
                "error: hold_and_fail failed: RuntimeError: it broke",
                'hint: smss/hold.py:14: raise RuntimeError("it broke") '
                "(`enginehost --debug call …` shows the traceback)",
            ],
        ),
    ],
    ids=["result", "raw", "stream", "error"],
)
def test_a_slow_call_says_what_it_waits_for_and_leaves_nothing_of_it(
    start: Start, go: Path, words: tuple[str, ...], code: int, left: list[str]
) -> None:
    terminal = start(*words)
    terminal.shows(f"calling {words[1]} …")
    go.touch()
    assert terminal.ended() == code
    assert screen(terminal.written) == left
    assert cursor_is_shown(terminal.written)


@pytest.mark.parametrize("name", ["smss", "[/red]", "long" * 40], ids=["plain", "markup", "three lines"])
def test_a_folder_that_loads_slowly_is_told_whatever_its_name(
    start: Start, folder: Path, go: Path, name: str
) -> None:
    slow = folder.parent / name
    slow.mkdir(parents=True, exist_ok=True)
    write(slow, {"slow.smss": SLOW, "slow.py": SLOW_SCRIPT.format(path=str(go))})
    terminal = start("describe", "slow", "--folder", name, env=TRUSTED)
    terminal.shows("loading")
    terminal.shows(name[:60])
    go.touch()
    assert terminal.ended() == 0
    assert screen(terminal.written)[0] == "slow"
    assert "Traceback" not in terminal.written


def test_ctrl_c_leaves_the_terminal_as_it_was(start: Start, go: Path) -> None:
    terminal = start("call", "hold")
    terminal.shows("calling hold …")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.ended() == 130
    assert "Traceback" not in terminal.written
    assert [line for line in screen(terminal.written) if "calling" in line] == []
    assert cursor_is_shown(terminal.written)


def test_a_terminal_that_can_only_print_gets_no_orders(start: Start, go: Path) -> None:
    terminal = start("call", "nap", env={"TERM": "dumb"})
    assert terminal.ended() == 0
    assert "\x1b" not in terminal.written
    assert screen(terminal.written)[-1] == '"rested"'


def test_what_programs_read_holds_no_progress(start: Start, go: Path) -> None:
    """The call takes longer than a person is left without news: what did not come then does not come."""
    no_news = start("call", "nap", piped="stdout"), start("call", "nap", piped="stderr")
    json = start("call", "nap", "--json", "{}")
    assert [terminal.ended() for terminal in (*no_news, json)] == [0, 0, 0]
    out: Any = no_news[0].process.stdout
    err: Any = no_news[1].process.stderr
    assert (out.read(), no_news[0].written) == (b'"rested"\n', "")
    assert (err.read(), screen(no_news[1].written)) == (b"", ['"rested"'])
    assert "calling" not in json.written
    assert screen(json.written) == ['"rested"']
