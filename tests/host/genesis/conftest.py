"""Programs on a databus of the test's own."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from enginehost.databus import Client
from enginehost.testing.wire import Provider, provider_on_thread

from .models import follows, installed, say

PATIENCE = 20.0

StartProgram = Callable[..., AbstractAsyncContextManager[Process]]


@pytest.fixture
def at_home(tmp_path: Path, dds_domain: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The environment of this process and its children: a bus, and a state directory, of their own."""
    pytest.importorskip("cyclonedds")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("ENGINEHOST_DATABUS__DOMAIN", str(dds_domain))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def program(at_home: Path) -> StartProgram:
    """Starts a Python program, and kills it at the end if it still runs."""

    @asynccontextmanager
    async def start(file: Path | str, **environment: str) -> AsyncIterator[Process]:
        path = Path(file)
        if isinstance(file, str):
            path = at_home / "program.py"
            path.write_text(file)
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(path), stdout=PIPE, stderr=PIPE, env={**os.environ, **environment}
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    return start


@pytest.fixture
async def bus(at_home: Path, dds_domain: int) -> AsyncIterator[Client]:
    """A client on the bus."""
    async with Client(domain=dds_domain) as client:
        yield client


async def until(holds: Callable[[], Any]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(0.02)


@pytest.fixture
def openai(at_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """A server that speaks OpenAI's API, which the environment names; the plugin for it is installed."""
    pytest.importorskip("openai")
    before = installed(at_home / "site")
    for path in reversed(before.split(os.pathsep)):
        monkeypatch.syspath_prepend(path)
    monkeypatch.setenv("PYTHONPATH", before)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with provider_on_thread(follows(lambda text, tools: say(f"heard {text}"))) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        yield server
