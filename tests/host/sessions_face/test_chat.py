"""``enginehost chat``: in a folder and at a host by its URL, with a terminal and without."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enginehost.cli.chat.link import link_to
from enginehost.cli.chat.markdown import finished, harmless
from enginehost.cli.chat.show import BROKEN_OFF, Plain
from enginehost.cli.remote import RemoteSource

_OWN_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "enginehost", *sys.argv[1:]])
"""


def environment(place: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ENGINEHOST_")}
    return kept | {"XDG_STATE_HOME": str(place / "state"), "TERM": "xterm", "COLUMNS": "100"}


def chat(place: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "enginehost", "chat", *words],
        cwd=place,
        env=environment(place),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
    )


class Terminal:
    """A person at a terminal."""

    def __init__(self, out: int, process: subprocess.Popen[bytes]) -> None:
        self._out, self.process, self.seen = out, process, ""

    def type(self, text: str) -> None:
        os.write(self._out, text.encode())

    def until(self, pattern: str) -> str:
        """What is shown up to a pattern, without colours."""
        end = time.monotonic() + 40
        while (found := re.search(pattern, self.seen)) is None:
            ready, _, _ = select.select([self._out], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"{pattern!r} was not shown: {self.seen}"
            try:
                more = os.read(self._out, 65536)
            except OSError:
                more = b""
            assert more, f"it ended before {pattern!r}: {self.seen}"
            self.seen += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", more.decode(errors="replace"))
        before, self.seen = self.seen[: found.end()], self.seen[found.end() :]
        return before


@contextmanager
def terminal(place: Path, *words: str) -> Generator[Terminal]:
    out, inner = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _OWN_TERMINAL, "chat", *words],
        cwd=place,
        env=environment(place),
        stdin=inner,
        stdout=inner,
        stderr=inner,
    )
    os.close(inner)
    try:
        yield Terminal(out, process)
    finally:
        process.kill()
        process.wait(30)
        os.close(out)


def test_without_a_terminal_the_answer_alone_stands_on_standard_output(place: Path) -> None:
    ended = chat(place, "helper", "--message", "please add")
    assert (ended.returncode, ended.stdout) == (0, "The result is 3\n")
    assert "→ add(a=1, b=2)\n← add: 3\n" in ended.stderr
    session = re.search(r"session (\S+)", ended.stderr)
    assert session is not None
    again = chat(place, "helper", "--session", session[1], "--json", stdin="hello\n")
    events = [json.loads(line) for line in again.stdout.splitlines()]
    assert (
        "".join(one["data"]["content"] for one in events if one["data"].get("role") == "assistant")
        == "You said: hello"
    )
    assert (events[-1]["event"], events[-1]["data"]["state"]) == ("run", "done")


def test_the_exit_code_says_how_the_turn_ended(place: Path) -> None:
    waits = chat(place, "helper", "-m", "wipe it")
    assert waits.returncode == 77
    assert "enginehost chat helper --session" in waits.stderr
    assert chat(place, "nobody", "-m", "x").returncode == 3
    assert chat(place, "helper", "--session", "nothing", "-m", "x").returncode == 3
    assert chat(place, "helper").returncode == 2


def test_a_person_decides_forks_looks_back_and_leaves(place: Path) -> None:
    with terminal(place, "helper") as person:
        person.until("> ")
        person.type("wipe it\n")
        person.until(r'wipe\(what="disk"\)[\s\S]*answer: ')
        person.type("e\n")
        person.until(r"arguments \(JSON\): ")
        person.type('{"nothing": 1}\n')
        person.until(r"error: [\s\S]*answer: ")
        person.type("e\n")
        person.until(r"arguments \(JSON\): ")
        person.type('{"what": "cache"}\n')
        person.until(r"cache is gone[\s\S]*The result is[\s\S]*> ")
        person.type("/history\n")
        person.until(r"2  user: wipe it[\s\S]*> ")
        person.type("/fork 99\n")
        person.until(r"has no row 99 [\s\S]*> ")
        person.type("/fork 2\n")
        person.until(r"session \S+[\s\S]*> ")
        person.type("hello\n")
        person.until(r"You said: hello[\s\S]*> ")
        person.type("/nothing\n")
        person.until("/help lists them[\\s\\S]*> ")
        person.type("/quit\n")
        person.until("")
        assert person.process.wait(30) == 0


def test_a_waiting_turn_is_taken_up_by_its_sessions_id_and_cancelled_at_the_prompt(place: Path) -> None:
    session = re.search(r"session (\S+)", chat(place, "helper", "-m", "wipe it").stderr)
    assert session is not None
    with terminal(place, "helper", "--session", session[1]) as person:
        person.until(r'wipe\(what="disk"\)[\s\S]*answer: ')
        person.type("/fork\n")
        person.until(r"a question waits here[\s\S]*answer: ")
        person.type("/history\n")
        person.until(r"2  user: wipe it[\s\S]*answer: ")
        person.type("/cancel\n")
        person.until(r"the turn was cancelled[\s\S]*> ")
        person.type("hello\n")
        person.until(r"You said: hello[\s\S]*> ")
        person.type("/cancel\n")
        person.until(r"no turn runs[\s\S]*> ")
        person.type("/quit\n")
        assert person.process.wait(30) == 0


def test_ctrl_c_ends_the_turn_and_not_the_chat(place: Path) -> None:
    with terminal(place, "helper") as person:
        person.until("> ")
        person.type("slowly\n")
        person.until("one two")
        person.type("\x03")
        person.until(r"cancelling the turn[\s\S]*the turn was cancelled[\s\S]*> ")
        person.type("hello\n")
        person.until(r"You said: hello[\s\S]*> ")
        person.type("\x04")
        assert person.process.wait(30) == 0


async def test_a_chat_over_http_approves_at_the_prompt(world: Any, place: Path) -> None:
    side = await world.side()

    def talk() -> int:
        with terminal(place, "helper", "--url", str(side.client.base_url)) as person:
            person.until("> ")
            person.type("wipe it\n")
            person.until("answer: ")
            person.type("a\n")
            person.until(r"disk is gone[\s\S]*> ")
            person.type("/quit\n")
            return person.process.wait(30)

    assert await asyncio.to_thread(talk) == 0


async def test_a_chat_over_http_goes_on_where_its_connection_was_lost(world: Any) -> None:
    a, b = await world.side(), await world.side()
    session = await a.start()
    ports = [(one.client.base_url.host, one.client.base_url.port) for one in (a, b)]
    cuts = iter([400, 700, 900])

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Bytes of one connection to either host, which breaks after some of the answer."""
        left = next(cuts, 10**9)
        inner, outer = await asyncio.open_connection(*ports[left % 3 == 0])
        outer.write(await reader.readuntil(b"\r\n\r\n"))
        while left > 0 and (data := await inner.read(min(left, 4096))):
            left -= len(data)
            writer.write(data)
            await writer.drain()
        outer.close()
        writer.transport.abort()

    proxy = await asyncio.start_server(carry, "127.0.0.1", 0)
    try:
        port = proxy.sockets[0].getsockname()[1]
        await a.say(session, "a long one")
        found: list[tuple[str, str, Any]] = []
        async with asyncio.timeout(40), RemoteSource(f"http://127.0.0.1:{port}", None) as source:
            events = link_to(source).events(session, "0.0")
            async for event in events:
                found.append(event)
                if event[1] == "run" and event[2]["state"] == "done":
                    break
            await events.aclose()
    finally:
        proxy.close()
    assert next(cuts, None) is None
    assert len({one[0] for one in found}) == len(found)
    text = "".join(data["content"] for _, _, data in found if data.get("role") == "assistant")
    assert text.split() == ["word"] * 300


@given(st.text(alphabet="ab `~\n#-", max_size=80), st.lists(st.integers(0, 80), max_size=5))
def test_blocks_of_markdown_are_printed_once_however_the_text_is_cut(text: str, cuts: list[int]) -> None:
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    printed = rest = ""
    for start, end in itertools.pairwise(places):
        done, rest = finished(rest + text[start:end])
        printed += done
    assert printed + rest == text


@pytest.mark.parametrize("text", ["\x1b[2J", "a\rb", "\x07", "\x9b31m"])
def test_what_an_agent_says_steers_no_terminal(text: str) -> None:
    assert harmless(text).isprintable()
    assert harmless("one\n\ttwo") == "one\n    two"


@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_an_answer_that_was_given_up_does_not_stand_in_a_pipe(
    capsys: pytest.CaptureFixture[str], end: str
) -> None:
    show = Plain(whole=True)
    for status, content in (
        ("open", "half of"),
        (end, ""),
        ("open", "the "),
        ("open", "answer"),
        ("done", ""),
    ):
        data = {"role": "assistant", "type": "text", "status": status, "content": content}
        show.event("", "message", data)
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("the answer\n", f"{BROKEN_OFF}\n")


async def test_a_session_whose_agent_is_gone_says_so(world: Any, place: Path) -> None:
    side = await world.side()
    session = await side.start()
    (place / "smss" / "helper.smss").unlink()
    later = await world.side()
    answer = await later.post(f"/{session}/messages", {"message": "x"})
    assert answer.status_code == 404
    assert "the agent of this session, 'helper', is not here" in answer.text


async def test_a_call_that_waits_says_how_to_decide_it_at_the_same_place(world: Any, place: Path) -> None:
    side = await world.side()
    url = str(side.client.base_url).rstrip("/")
    command = [sys.executable, "-m", "enginehost", "call", "helper", "message=wipe it", "--url", url]
    options: dict[str, Any] = {"cwd": place, "env": environment(place), "capture_output": True, "text": True}
    waits = await asyncio.to_thread(lambda: subprocess.run(command, timeout=60, **options))
    hinted = re.search("`enginehost (chat helper --session [^`]*)`", waits.stderr)
    assert hinted is not None, waits.stderr
    assert hinted[1].endswith(f"--url {url}")
    words = [sys.executable, "-m", "enginehost", *hinted[1].split(), "-m", "and now"]
    goes_on = await asyncio.to_thread(lambda: subprocess.run(words, timeout=60, **options))
    assert goes_on.returncode != 3, goes_on.stderr  # the session is found there
