"""Hosts that follow a folder of files, and an engine that answers with its text."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from enginehost import Host, HostSettings
from enginehost.config import EngineConfig
from enginehost.engine import AbstractFunctionEngine, Call, EngineContext, EngineState
from enginehost.entrypoints import ENGINES, Alias
from enginehost.errors import ConfigError, EngineUnavailable, UnknownFunction
from enginehost.following import Following
from enginehost.plugins import PluginRegistry

SECONDS = 60.0
"""How long a test waits for what should take a fraction of a second."""


class EchoConfig(EngineConfig):
    """Keys of the test engine."""

    text: str = Field(default="", description="What it answers.")
    script: str = Field(default="", description="A file it depends on.")
    open_waits: bool = Field(default=False, description="Whether opening waits until it is let go.")
    open_fails: bool = Field(default=False, description="Whether opening fails.")
    wait: bool = Field(default=False, description="Whether a call waits until released.")
    must_exist: bool = Field(default=False, description="Whether no engine is made without the script.")


class Echo(AbstractFunctionEngine):
    """Answers with its text; remembers the engines that were closed."""

    config_model = EchoConfig
    config: EchoConfig
    closed: list[str] = []  # noqa: RUF012 - the tests read it
    opening: list[str] = []  # noqa: RUF012 - likewise
    opens: asyncio.Event
    release: asyncio.Event

    def __init__(self, context: EngineContext, config: EchoConfig) -> None:
        super().__init__(context, config)
        if config.must_exist and not (context.folder / config.script).exists():
            raise ConfigError(f"there is no file {config.script}")

    async def open(self) -> None:
        if self.config.open_waits:
            Echo.opening.append(self.config.text)
            await Echo.opens.wait()
        if self.config.open_fails:
            raise RuntimeError("cannot open today")

    async def close(self) -> None:
        Echo.closed.append(self.config.text)

    def watched(self) -> list[Path]:
        return [self.context.folder / self.config.script] if self.config.script else []

    async def execute(self, parameters: dict[str, Any], call: Call) -> str:
        if self.config.wait:
            await Echo.release.wait()
        if self.config.script:
            return (self.context.folder / self.config.script).read_text()
        return self.config.text


@pytest.fixture
def registry() -> PluginRegistry:
    registry = PluginRegistry([])
    registry.add_engine_class(Alias("Echo", "tests:Echo", ENGINES, "tests", "1"), Echo)
    Echo.closed, Echo.opening = [], []
    return registry


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "smss"
    folder.mkdir()
    return folder


def smss(name: str, text: str = "", **keys: Any) -> str:
    lines = [f"ENGINE_CLASS = Echo\nFUNCTION_NAME = {name}\nFUNCTION_DESCRIPTION = d\nTEXT = {text}\n"]
    lines += [f"{key.upper()} = {value}\n" for key, value in keys.items()]
    return "".join(lines)


@asynccontextmanager
async def serving(folder: Path, registry: PluginRegistry, **settings: Any) -> AsyncIterator[Host]:
    host = Host(folder, None, settings=HostSettings(**settings), registry=registry)
    await host.start()
    try:
        yield host
    finally:
        await host.stop(drain=0.5)


async def eventually(check: Callable[[], Awaitable[bool]]) -> float:
    """Seconds until ``check`` holds; fails after :data:`SECONDS`."""
    started = time.monotonic()
    while time.monotonic() - started < SECONDS:
        if await check():
            return time.monotonic() - started
        await asyncio.sleep(0.01)
    pytest.fail(f"not so within {SECONDS:g} s")


async def answers(host: Host, name: str, text: str) -> float:
    async def check() -> bool:
        try:
            return await host.call(name) == text
        except (UnknownFunction, EngineUnavailable):
            return False

    return await eventually(check)


async def vanishes(host: Host, name: str) -> float:
    async def check() -> bool:
        return host.catalog.get(name) is None

    return await eventually(check)


async def in_state(host: Host, engine_id: str, state: EngineState) -> None:
    async def check() -> bool:
        record = host.catalog.records.get(engine_id)
        return record is not None and record.state is state

    await eventually(check)


class Grace:
    """The time that something may be gone, which is over when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.over = asyncio.Event()
        self.begun = asyncio.Event()
        self.over.set()
        monkeypatch.setattr(Following, "_pause", lambda following, seconds: self._pause())

    async def _pause(self) -> None:
        self.begun.set()
        await self.over.wait()

    @contextmanager
    def lasting(self) -> Generator[None]:
        """Meanwhile it is not over; ``begun`` is set when the host has seen that something is gone."""
        self.begun.clear()
        self.over.clear()
        try:
            yield
        finally:
            self.over.set()


@pytest.fixture
async def grace(monkeypatch: pytest.MonkeyPatch) -> Grace:
    return Grace(monkeypatch)


@asynccontextmanager
async def never_missing(host: Host, name: str) -> AsyncGenerator[None]:
    """Call ``name`` all the time meanwhile; each call has to be answered."""
    over, calls = asyncio.Event(), 0

    async def keep_calling() -> None:
        nonlocal calls
        while not over.is_set():
            await host.call(name)
            calls += 1
            await asyncio.sleep(0.001)

    caller = asyncio.create_task(keep_calling())
    try:
        yield
    finally:
        over.set()
        await caller
    assert calls
