"""Networks of several hosts; in them run hosts as a user starts them, and the peer of the databus tests."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from tests.host.databus.peer_process import Peer
from tests.netns import namespaces
from tests.netns.namespaces import PATIENCE, LossyNetwork, Network

PEER = Path(__file__).parents[1] / "host" / "databus" / "peer.py"
POLICY = """
    policy:
      rules:
        - allow: call
          callers: anyone
          faces: [databus, http]
"""
"""Away from loopback, anonymous callers may do nothing until a policy says so."""


@pytest.fixture(scope="session", autouse=True)
def _root() -> None:
    if sys.platform != "linux" or os.geteuid() or not shutil.which("ip"):
        pytest.skip("network namespaces need Linux, root and iproute2")
    namespaces.remove_leftovers()


@pytest.fixture
def network() -> Callable[..., AbstractAsyncContextManager[Network]]:
    """``async with network(hosts=2) as net``: hosts on one bridge."""
    return namespaces.bridged


@pytest.fixture
def lossy() -> Callable[..., AbstractAsyncContextManager[LossyNetwork]]:
    """``async with lossy(hosts=2, loss=10, delay_ms=50, …) as net``: hosts with a relay between them."""
    return namespaces.lossy


@dataclass
class Served:
    """A host that was started with ``enginehost run``, its address within its network, and what it logged."""

    process: asyncio.subprocess.Process
    url: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)

    async def listen(self, ready: asyncio.Event) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            event = json.loads(line)
            self.events.append(event)
            self.url = event.get("http", self.url)
            if event["event"] == "ready":
                ready.set()


Serve = Callable[..., AbstractAsyncContextManager[Served]]


@pytest.fixture
def serve(dds_domain: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Serve:
    """``async with serve(net, 0, {"add.smss": …}) as host``: host 0 serves these files on the bus.

    It serves HTTP too, on loopback: ``net.within(0, …)`` reaches ``host.url``.
    ``words`` are further options of ``enginehost run``. Everyone may call everything.
    """
    pytest.importorskip("cyclonedds")
    for name in os.environ:
        if name.startswith("ENGINEHOST_"):
            monkeypatch.delenv(name)

    @asynccontextmanager
    async def started(net: Network, host: int, files: dict[str, str], *words: str) -> AsyncGenerator[Served]:
        home = tmp_path / f"host{host}"
        (home / "smss").mkdir(parents=True, exist_ok=True)
        _write(home, {"enginehost.yaml": POLICY} | {f"smss/{name}": text for name, text in files.items()})
        command = (
            *(sys.executable, "-m", "enginehost", "run", "smss", "--http", "127.0.0.1:0", "--log", "json"),
            *("--domain", str(dds_domain), "--bus-interface", net.interface(host), *words),
        )
        process = await net.start(
            host,
            command,
            cwd=home,
            env=os.environ | {"XDG_STATE_HOME": str(home / "state")},
            stderr=asyncio.subprocess.PIPE,
            limit=1 << 20,
        )
        async with _listening(process) as served:
            yield served

    return started


@asynccontextmanager
async def _listening(process: asyncio.subprocess.Process) -> AsyncGenerator[Served]:
    """The host, as soon as it is ready; it is killed at the end."""
    served, ready = Served(process), asyncio.Event()
    listening = asyncio.create_task(served.listen(ready))
    starting = asyncio.create_task(ready.wait())
    try:
        await asyncio.wait((starting, listening), timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        assert ready.is_set(), f"the host does not start: {served.events}"
        yield served
    finally:
        starting.cancel()
        if process.returncode is None:
            process.kill()
        await process.wait()
        await listening


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip(), encoding="utf-8")


StartPeer = Callable[..., AbstractAsyncContextManager[Peer]]


@pytest.fixture
def peer_in(dds_domain: int) -> StartPeer:
    """``async with peer_in(net, 1) as peer``: a program in host 1 that knows nothing but the types."""
    pytest.importorskip("cyclonedds")

    @asynccontextmanager
    async def started(net: Network, host: int, *options: str) -> AsyncGenerator[Peer]:
        process = await net.start(
            host,
            (sys.executable, str(PEER), str(dds_domain), "--interface", net.interface(host), *options),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=1 << 20,
        )
        peer = Peer(process)
        try:
            yield peer
        finally:
            await peer.close()

    return started
