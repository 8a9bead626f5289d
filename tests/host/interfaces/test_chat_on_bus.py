"""``enginehost chat --bus``: with a terminal and without."""

from __future__ import annotations

import asyncio
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

import pytest

from .conftest import ADDER, SUMS, WEATHER, WEATHERMAN, WIPE, StartHost

pytest.importorskip("cyclonedds")

_OWN_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "enginehost", *sys.argv[1:]])
"""


def environment(place: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ENGINEHOST_")}
    return kept | {"XDG_STATE_HOME": str(place / "chat"), "TERM": "xterm", "COLUMNS": "120"}


async def chat(place: Path, domain: int, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "enginehost", "chat", *words, "--bus", "--domain", str(domain)]
    options = {"cwd": place, "env": environment(place), "input": stdin, "timeout": 60}
    return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, **options)


class Terminal:
    """A person at a terminal."""

    def __init__(self, out: int, process: subprocess.Popen[bytes]) -> None:
        self._out, self.process, self.seen = out, process, ""

    async def type(self, text: str, pattern: str) -> str:
        os.write(self._out, f"{text}\n".encode())
        return await self.until(pattern)

    async def until(self, pattern: str) -> str:
        return await asyncio.to_thread(self._until, pattern)

    def _until(self, pattern: str) -> str:
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
def terminal(place: Path, domain: int, *words: str) -> Generator[Terminal]:
    out, inner = pty.openpty()
    command = [sys.executable, "-c", _OWN_TERMINAL, "chat", *words, "--bus", "--domain", str(domain)]
    process = subprocess.Popen(
        command, cwd=place, env=environment(place), stdin=inner, stdout=inner, stderr=inner
    )
    os.close(inner)
    try:
        yield Terminal(out, process)
    finally:
        process.kill()
        process.wait(30)
        os.close(out)


async def test_without_a_terminal_the_agent_named_or_the_one_that_fits_answers(
    start: StartHost, tmp_path: Path, dds_domain: int
) -> None:
    await start("far", WEATHER, weatherman=WEATHERMAN, wipe=WIPE)
    await start("near", SUMS, adder=ADDER)
    named, routed, nobody, wrong = await asyncio.gather(
        chat(tmp_path, dds_domain, "get_weather_info", "--session", "tuesday", "-m", "hi"),
        chat(tmp_path, dds_domain, "--json", stdin="sum up the invoice\n"),
        chat(tmp_path, dds_domain, "-m", "qqqq"),
        chat(tmp_path, dds_domain, "nobody", "-m", "hi"),
    )
    assert (named.returncode, named.stdout) == (0, "Weather, turn 1: hi\n"), named.stderr
    events = [json.loads(line) for line in routed.stdout.splitlines()]
    assert (events[0]["event"], events[0]["data"]["name"]) == ("agent", "adder")
    assert events[0]["data"]["by"] == "classifier"
    said = "".join(one["data"]["content"] for one in events if one["event"] == "message")
    assert said == "Sums, turn 1: sum up the invoice"
    assert events[-1]["data"]["status"] == "done"
    assert (nobody.returncode, "no agent fits this question" in nobody.stderr) == (2, True)
    assert (wrong.returncode, "there is weatherman, adder" in wrong.stderr) == (3, True)
    again, waits = await asyncio.gather(
        chat(tmp_path, dds_domain, "weatherman", "--session", "tuesday", "-m", "more"),
        chat(tmp_path, dds_domain, "weatherman", "--session", "friday", "-m", "wipe it"),
    )
    assert again.stdout == "Weather, turn 2: more\n"
    assert (waits.returncode, waits.stdout) == (77, "I wipe.\n")
    hint = f"enginehost chat weatherman --session friday --bus --domain {dds_domain}"
    assert hint in waits.stderr


async def test_a_person_chooses_decides_changes_and_sees_who_comes_and_goes(
    start: StartHost, tmp_path: Path, dds_domain: int
) -> None:
    await start("far", WEATHER, weatherman=WEATHERMAN, wipe=WIPE)
    with terminal(tmp_path, dds_domain) as person:
        shown = await person.until(r"whoever fits\): ")
        assert re.search(r"1 +weatherman +far \(\w+\) +weather +Knows whether it rains or shines", shown)
        await person.type("9", r"error: no agent '9'[\s\S]*whoever fits\): ")
        await person.type("1", r"weatherman answers now[\s\S]*> ")
        await person.type("hello", r"Weather, turn 1: hello[\s\S]*> ")
        await person.type("again", r"Weather, turn 2: again[\s\S]*> ")
        near = await start("near", SUMS, adder=ADDER)
        await person.until(r"\+ adder \(near\) arrived[\s\S]*> ")
        await person.type("wipe it", r'I wipe\.[\s\S]*wipe\(what="disk"\)[\s\S]*answer: ')
        await person.type("e", r"arguments \(JSON\): ")
        await person.type('{"what": "cache"}', r"Done: [\s\S]*cache is gone[\s\S]*> ")
        await person.type("/auto", r"that it is for[\s\S]*> ")
        await person.type("sum up my invoice", r"→ adder \(what it says[\s\S]*Sums, turn 1: sum[\s\S]*> ")
        await person.type("/agents", r"1 +weatherman[\s\S]*2 +adder[\s\S]*> ")
        await person.type("/use 1", r"weatherman answers now[\s\S]*> ")
        await person.type("/new", r"new conversation[\s\S]*> ")
        await person.type("hello", r"Weather, turn 1: hello[\s\S]*> ")
        await near.stop()
        await person.until(r"- adder \(near\) departed[\s\S]*> ")
        await person.type("/use adder", r"error: no agent 'adder'[\s\S]*/agents lists[\s\S]*> ")
        await person.type("slowly", "one two")
        await person.type("\x03", r"Ctrl\+C again[\s\S]*> ")
        await person.type("/nothing", r"/help lists them[\s\S]*> ")
        await person.type("/quit", "left")
        assert await asyncio.to_thread(person.process.wait, 30) == 0


async def test_without_the_bus_the_agent_has_to_be_named(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "enginehost", "chat", "-m", "hi"]
    options = {"cwd": tmp_path, "env": environment(tmp_path), "timeout": 60}
    ended = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, **options)
    assert (ended.returncode, "error: the agent is missing" in ended.stderr) == (2, True)
