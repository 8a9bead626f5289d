"""Hosts without files on the bus, peers beside them, and the responder without a bus."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import Any

import pytest

from enginehost.databus import Databus, DatabusConfig
from enginehost.databus.guard import Guard
from enginehost.databus.identity import Identity
from enginehost.policy import Policy, open_policy

from .peer_process import Peer, running_peer
from .served import ServedCatalog
from .wired_responder import Make, Provider

StartHost = Callable[..., Awaitable[tuple[ServedCatalog, Databus]]]


@pytest.fixture
async def start_host(dds_domain: int) -> AsyncIterator[StartHost]:
    """Starts hosts on the bus; all are stopped at the end."""
    pytest.importorskip("cyclonedds")
    async with AsyncExitStack() as stack:

        async def start(policy: Policy | None = None, **config: Any) -> tuple[ServedCatalog, Databus]:
            host = ServedCatalog(policy or open_policy())
            bus = Databus(host, DatabusConfig(domain=dds_domain, **config))
            stack.push_async_callback(host.close)
            await bus.start()
            stack.push_async_callback(bus.stop)
            return host, bus

        yield start


@pytest.fixture
async def peer(dds_domain: int) -> AsyncIterator[Peer]:
    """A peer that is there before the host."""
    pytest.importorskip("cyclonedds")
    async with running_peer(dds_domain) as peer:
        yield peer


@pytest.fixture
def late_peer(dds_domain: int) -> Callable[..., AbstractAsyncContextManager[Peer]]:
    """Starts a peer, with options, when it is called."""
    pytest.importorskip("cyclonedds")
    return partial(running_peer, dds_domain)


@pytest.fixture
async def provider() -> AsyncIterator[Make]:
    """Makes responders without a bus; all are closed at the end."""
    made: list[Provider] = []

    def make(
        policy: Policy | None = None,
        guard: Callable[[Identity], Guard | None] = lambda _: None,
        **options: Any,
    ) -> Provider:
        made.append(Provider(policy or open_policy(), guard, **options))
        return made[-1]

    yield make
    for one in made:
        await one.responder.close(0.0)
        await one.host.close()


@pytest.fixture
def raw(dds_domain: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Raw peers of this process, for surveys."""
    pytest.importorskip("cyclonedds")
    from enginehost.databus.cyclone import survey as looking_on

    from .raw_peers import Raw

    monkeypatch.setattr(looking_on, "QUIET_SECONDS", 0.02)  # peers in this process are seen at once
    peers = Raw(dds_domain)
    yield peers
    peers.close()
