"""Hosts with agents on scripted models, on one bus."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from enginehost.databus import DatabusConfig
from enginehost.host import Host
from enginehost.settings import HostSettings

PATIENCE = 20.0

WEATHER = """
answers:
  - when: {text: remember}
    say: "Noted ($turn)."
  - say: "Sunny in turn $turn: $text"
"""
PRIMARY = """
answers:
  - when: {result: '*'}
    say: "They say $result"
  - when: {text: weather}
    reply: [{call: {tool: get_weather_info, args: {message: "how is it"}}}]
  - say: "Nobody asked."
"""


def agent(name: str, *more: str) -> str:
    lines = ["ENGINE_CLASS = Agent", f"FUNCTION_NAME = {name}", f"FUNCTION_DESCRIPTION = Is {name}.", *more]
    return "\n".join(("MODEL = actor", *lines, ""))


def write(folder: Path, script: str, **files: str) -> Path:
    """A folder with a model that plays ``script``, and files by name."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "actor.smss").write_text("ENGINE_CLASS = Scripted\nENGINE_ALIAS = actor\nSCRIPT = actor.yaml\n")
    (folder / "actor.yaml").write_text(dedent(script))
    for name, text in files.items():
        (folder / f"{name}.smss").write_text(dedent(text))
    return folder


StartHost = Callable[..., Awaitable[Host]]


@pytest.fixture
async def start(dds_domain: int, tmp_path: Path) -> AsyncIterator[StartHost]:
    """Starts hosts: ``start(service, script, file=text, …)``; all stop at the end, last one first.

    A second one of a service says so in ``bus``: ``start("other", …, bus={"service": "far"})``.
    """
    pytest.importorskip("cyclonedds")
    async with AsyncExitStack() as stack:

        async def started(
            service: str,
            script: str,
            *,
            bus: dict[str, Any] | None = None,
            settings: dict[str, Any] | None = None,
            **files: str,
        ) -> Host:
            folder = write(tmp_path / service / "smss", script, **files)
            state = tmp_path / service / "state"
            said = {"service": service, **(bus or {})}
            config = DatabusConfig(domain=dds_domain, state_dir=state, **said)
            given = HostSettings(state_dir=state, **(settings or {}))
            host = Host(folder, config, settings=given, watch=False)
            await stack.enter_async_context(host)
            return host

        yield started


async def until(holds: Callable[[], Any], patience: float = PATIENCE) -> None:
    async with asyncio.timeout(patience):
        while not holds():
            await asyncio.sleep(0.01)


async def known(host: Host, name: str) -> Any:
    """The function ``name``, once the host sees it."""
    await until(lambda: host.catalog.get(name))
    return host.catalog.get(name)


async def sees(host: Host, name: str) -> Any:
    """The agent ``name``, once the host sees it."""
    assert host.bus is not None
    bus = host.bus
    await until(lambda: name in {one.name for one in bus.agents()})
    return next(one for one in bus.agents() if one.name == name)
