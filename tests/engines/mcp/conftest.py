"""Hosts whose folder has MCP servers: real ones of the official SDK, and raw ones that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from enginehost.host import Host
from enginehost.settings import HostSettings

HERE = Path(__file__).parent
PATIENCE = 30.0
"""Guard against hanging."""


def command(*words: str) -> str:
    return "MCP_COMMAND = " + json.dumps([sys.executable, *words])


def real(*more: str) -> str:
    """A file whose server is one of the SDK, over stdio."""
    return "\n".join(["ENGINE_CLASS = MCP", command(str(HERE / "real_server.py"), "stdio"), *more])


def raw(bad: str, *more: str, place: Path | None = None) -> str:
    """A file whose server misbehaves."""
    words = [str(HERE / "raw_server.py"), bad, *([str(place)] if place else [])]
    return "\n".join(["ENGINE_CLASS = MCP", command(*words), "MCP_RECONNECT_SECONDS = 0.2", *more])


@asynccontextmanager
async def host_on(
    folder: Path, /, *, settings: dict[str, Any] | None = None, watch: bool = False, **files: str
) -> AsyncIterator[Host]:
    """A host whose folder has these files; every engine has opened, or failed to."""
    (folder / "smss").mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / "smss" / f"{name}.smss").write_text(text + "\n")
    made = HostSettings(state_dir=folder / "state", **(settings or {}))
    async with Host(folder / "smss", None, settings=made, watch=watch) as host:
        await until(lambda: not any(state == "loading" for state in states(host).values()))
        yield host


def states(host: Host) -> dict[str, str]:
    return {one.path.stem if one.path else "": str(one.state) for one in host.catalog.records.values()}


def reason(host: Host) -> str:
    (record,) = host.catalog.records.values()
    return record.reason


def states_reason(host: Host, stem: str) -> str:
    return next(one.reason for one in host.catalog.records.values() if one.path and one.path.stem == stem)


def names(host: Host) -> list[str]:
    return [entry.name for entry in host.functions()]


async def until(holds: Callable[[], object], patience: float = PATIENCE) -> None:
    """Wait until something is so: it comes from another process, which tells nobody."""
    deadline = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < deadline, "it did not come to be so"
        await asyncio.sleep(0.01)


def runs(pid: int) -> bool:
    """Whether a process does, and is no zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def speak_older(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have sessions begin with the handshake, as with servers that know no newer revision."""
    import enginehost_engines.mcp.session as session

    client = session.Client

    def older(*given: Any, **named: Any) -> Any:
        return client(*given, **{**named, "mode": "legacy"})

    monkeypatch.setattr(session, "Client", older)


class HttpServer:
    """A real server in a process of its own, on a port that stays the same when it comes back."""

    def __init__(self, way: str, token: str = "") -> None:
        self.way, self.token, self.port = way, token, 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{'sse' if self.way == 'sse' else 'mcp'}"

    def file(self, *more: str) -> str:
        return "\n".join(
            ["ENGINE_CLASS = MCP", f"MCP_URL = {self.url}", "MCP_RECONNECT_SECONDS = 0.2", *more]
        )

    def start(self) -> None:
        words = [self.way, str(self.port), *([self.token] if self.token else [])]
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "real_server.py"), *words], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def _ended(started: list[HttpServer]) -> None:
    for server in started:
        with contextlib.suppress(AssertionError):
            server.kill()


@pytest.fixture
def http_server() -> Iterator[Callable[..., HttpServer]]:
    """Starts servers, and ends them."""
    started: list[HttpServer] = []

    def start(way: str = "http", token: str = "") -> HttpServer:
        started.append(HttpServer(way, token))
        return started[-1]

    yield start
    _ended(started)


@pytest.fixture(scope="module")
def lasting_server() -> Iterator[Callable[..., HttpServer]]:
    """Servers that a module's tests share."""
    started: dict[tuple[str, str], HttpServer] = {}

    def find(way: str, token: str = "") -> HttpServer:
        if (way, token) not in started:
            started[way, token] = HttpServer(way, token)
        return started[way, token]

    yield find
    _ended(list(started.values()))
