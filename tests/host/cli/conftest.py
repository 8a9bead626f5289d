"""The command line, run in this process where that is enough, and as a program of its own where it is not."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from enginehost.cli import main

ADD = """
    ENGINE_CLASS = LocalPython
    PYTHON_SCRIPT_PATH = tools.py
    FUNCTION_NAME = add
    FUNCTION_DESCRIPTION = Add two numbers.
    FUNCTION_PARAMETERS = [{"name": "a", "type": "number"}, {"name": "b", "type": "number", "default": 1}]
    FUNCTION_REQUIRED_PARAMETERS = ["a"]
    FUNCTION_RESULT = {"type": "number"}
    FUNCTION_TAGS = math
"""
COUNT = """
    ENGINE_CLASS = LocalPython
    PYTHON_SCRIPT_PATH = tools.py
    FUNCTION_NAME = count
    FUNCTION_DESCRIPTION = Count.
    FUNCTION_PARAMETERS = [{"name": "to", "type": "integer"}]
    FUNCTION_REQUIRED_PARAMETERS = ["to"]
"""
ECHO = """
    ENGINE_CLASS = LocalPython
    PYTHON_SCRIPT_PATH = tools.py
    FUNCTION_NAME = echo
    FUNCTION_DESCRIPTION = Give back what came.
    FUNCTION_PARAMETERS = [{"name": "value"}, {"name": "text", "type": "string"}]
"""
FAIL = """
    ENGINE_CLASS = LocalPython
    PYTHON_SCRIPT_PATH = tools.py
    FUNCTION_NAME = fail
    FUNCTION_DESCRIPTION = Fail.
"""
SLOW = """
    ENGINE_CLASS = LocalPython
    PYTHON_SCRIPT_PATH = slow.py
    PYTHON_ISOLATION = none
    FUNCTION_NAME = slow
    FUNCTION_DESCRIPTION = Opens when the file `go` is there.
"""
SLOW_SCRIPT = """
    import time
    from pathlib import Path

    while not Path({path!r}).exists():
        time.sleep(0.02)

    async def slow():
        return "opened"
"""
TRUSTED = {"ENGINEHOST_IN_PROCESS_PYTHON": "true"}
TOOLS = """
    async def add(a, b):
        return a + b

    async def count(to):
        for number in range(to):
            yield number

    async def echo(value=None, text=None):
        return value if text is None else text

    async def fail():
        raise RuntimeError("it broke")
"""
BROKEN = "ENGINE_CLASS = LocalPythn\nFUNCTION_NAME = broken\n"


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err)["error"]


Cli = Callable[..., Outcome]


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    """``cli("list", "--json")``: run a command in this process, beside the folder ``smss``."""
    monkeypatch.chdir(folder.parent)
    logger = logging.getLogger("enginehost")
    handlers = list(logger.handlers)

    def run(*words: str) -> Outcome:
        with pytest.raises(SystemExit) as ended:
            main(words)
        captured = capfd.readouterr()
        return Outcome(int(ended.value.code or 0), captured.out, captured.err)

    yield run
    logger.handlers[:] = handlers


def write(folder: Path, files: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(dedent(text).lstrip(), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder ``smss`` with a few functions; the settings of whoever runs the tests do not count."""
    for name in os.environ:
        if name.startswith("ENGINEHOST_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = tmp_path / "smss"
    write(
        made, {"add.smss": ADD, "count.smss": COUNT, "echo.smss": ECHO, "fail.smss": FAIL, "tools.py": TOOLS}
    )
    return made


def program(
    *words: str, cwd: Path, env: Mapping[str, str] | None = None, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """``enginehost`` as a program of its own."""
    return subprocess.run(
        [sys.executable, "-m", "enginehost", *words],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
    )


_UNTIL_ITS_PAGE = """
import os, signal, threading
from enginehost.cli import startup, main
show = startup.page
def page(*arguments):
    threading.Timer(0, os.kill, (os.getpid(), signal.SIGTERM)).start()
    return show(*arguments)
startup.page = page
main(["run", "--http", "127.0.0.1:0", "--no-bus", "--log", "console"])
"""


def run_until_its_page(folder: Path, *first: str) -> subprocess.CompletedProcess[str]:
    """``enginehost run`` for people, stopped when it shows its page; ``first`` are lines that go before."""
    return subprocess.run(
        [sys.executable, "-c", "\n".join((*first, _UNTIL_ITS_PAGE))],
        cwd=folder.parent,
        capture_output=True,
        text=True,
        timeout=60,
    )


@dataclass
class Running:
    """A host that was started with ``enginehost run``."""

    process: subprocess.Popen[str]
    url: str
    events: list[dict[str, Any]]

    def next_event(self, name: str) -> dict[str, Any]:
        """Read the log up to the event ``name``."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            event = json.loads(line)
            self.events.append(event)
            if event["event"] == name:
                return event
        raise AssertionError(f"the host ended without {name}: {self.events}")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.events.append(json.loads(line))
        return self.process.wait(30)


@contextmanager
def running(
    folder: Path, *words: str, env: Mapping[str, str] | None = None, until: str = "ready"
) -> Generator[Running]:
    """A host that serves ``folder`` on a free port (but not with ``--no-http``), without databus."""
    command: Sequence[str] = (
        *(sys.executable, "-m", "enginehost", "run", str(folder), "--http", "127.0.0.1:0"),
        *("--no-bus", "--log", "json", *words),
    )
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=folder.parent, env={**os.environ, **(env or {})}
    )
    host = Running(process, "", [])
    try:
        if "--no-http" not in words:
            host.url = host.next_event("listening")["http"]
        if until != "listening":
            host.next_event(until)
        yield host
    finally:
        process.kill()
        process.wait(30)
        assert process.stderr is not None
        process.stderr.close()
