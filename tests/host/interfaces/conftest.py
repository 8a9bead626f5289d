"""Hosts with agents on scripted models, on a bus of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from textwrap import dedent
from typing import Any

import httpx2
import pytest

from enginehost.databus import DatabusConfig
from enginehost.host import Host
from enginehost.serve import HttpServer
from enginehost.settings import HostSettings

PATIENCE = 20.0

WEATHER = """
answers:
  - when: {result: '*'}
    say: "Done: $result"
  - when: {text: wipe}
    reply: [{text: "I wipe."}, {call: {tool: wipe, args: {what: disk}}}]
  - when: {text: slowly}
    tokens_per_second: 20
    say: "one two three four five six seven eight nine ten one two three four five six seven eight nine ten"
  - say: "Weather, turn $turn: $text"
"""
SUMS = """
answers:
  - say: "Sums, turn $turn: $text"
"""
WIPE = """
ENGINE_CLASS = LocalPython
PYTHON_SCRIPT_PATH = disk.py
FUNCTION_NAME = wipe
FUNCTION_DESCRIPTION = Wipes.
APPROVAL = always
"""


def agent(name: str, about: str, *more: str) -> str:
    lines = ["ENGINE_CLASS = Agent", f"FUNCTION_NAME = {name}", f"FUNCTION_DESCRIPTION = {about}", *more]
    return "\n".join(("MODEL = actor", *lines, ""))


WEATHERMAN = agent(
    "weatherman",
    "Knows whether it rains or shines.",
    "SPECIALIZATIONS = weather",
    "FUNCTION_TAGS = outdoors",
    "TOOLS = wipe",
    "STREAM = true",
)
ADDER = agent("adder", "Adds up prices and invoices.", "SPECIALIZATIONS = arithmetic")

StartHost = Callable[..., Awaitable[Host]]


def write(folder: Path, script: str, **files: str) -> Path:
    """A folder with a model that plays ``script``, and files by name."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "actor.smss").write_text("ENGINE_CLASS = Scripted\nENGINE_ALIAS = actor\nSCRIPT = actor.yaml\n")
    (folder / "actor.yaml").write_text(dedent(script))
    (folder / "disk.py").write_text("def wipe(what: str) -> str:\n    return f'{what} is gone'\n")
    for name, text in files.items():
        (folder / f"{name}.smss").write_text(dedent(text))
    return folder


@pytest.fixture
async def start(dds_domain: int, tmp_path: Path) -> AsyncIterator[StartHost]:
    """Starts hosts: ``start(service, script, file=text, …)``; all stop at the end, last one first."""
    pytest.importorskip("cyclonedds")
    async with AsyncExitStack() as stack:

        async def started(
            service: str, script: str, *, settings: dict[str, Any] | None = None, **files: str
        ) -> Host:
            folder = write(tmp_path / service / "smss", script, **files)
            state = tmp_path / service / "state"
            config = DatabusConfig(domain=dds_domain, service=service, state_dir=state)
            given = HostSettings(state_dir=state, **(settings or {}))
            return await stack.enter_async_context(Host(folder, config, settings=given, watch=False))

        yield started


@pytest.fixture
async def client() -> AsyncIterator[Callable[..., Awaitable[httpx2.AsyncClient]]]:
    """Serves a host over HTTP: ``client(host, token)``."""
    async with AsyncExitStack() as stack:

        async def made(host: Host, token: str = "") -> httpx2.AsyncClient:
            server = HttpServer(host, "127.0.0.1:0")
            await server.start()
            stack.push_async_callback(server.stop, 0.0)
            headers = {"authorization": f"Bearer {token}"} if token else {}
            one = httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=PATIENCE)
            return await stack.enter_async_context(one)

        yield made


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(0.01)


async def sees(host: Host, *names: str) -> None:
    """Wait until the host sees these agents."""
    bus = host.bus
    assert bus is not None
    await until(lambda: set(names) <= {one.name for one in bus.agents()})
