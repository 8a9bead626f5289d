"""A host's place on the databus."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from enginehost.catalog import Catalog
from enginehost.databus.advertise import Advertiser
from enginehost.databus.config import DatabusConfig
from enginehost.databus.identity import Identity
from enginehost.databus.port import Transport
from enginehost.databus.respond import BUS_CALLER, CallJson, Responder
from enginehost.errors import EngineUnavailable
from enginehost.signature import FunctionSignature

if TYPE_CHECKING:
    from enginehost.policy import Policy


class BusHost(Protocol):
    """What the databus needs of a host."""

    @property
    def folder(self) -> Path | None:
        """The folder it serves; the id on the bus is kept by it."""
        ...

    @property
    def catalog(self) -> Catalog:
        """Its functions."""
        ...

    @property
    def policy(self) -> Policy:
        """Who may view and call them."""
        ...

    @property
    def call_json(self) -> CallJson:
        """The one way in."""
        ...


@dataclass(frozen=True, slots=True)
class _Joined:
    """What there is while the host is on the bus."""

    identity: Identity
    transport: Transport
    advertiser: Advertiser
    responder: Responder


class Databus:
    """Advertises the functions of a host and answers calls from the bus.

    Peers are anonymous: they see what the policy shows to anonymous.
    """

    def __init__(self, host: BusHost, config: DatabusConfig) -> None:
        self.config = config
        self._host = host
        self._joined: _Joined | None = None

    async def start(self) -> None:
        """Join the bus; functions appear on it as soon as they can be written.

        Raises :class:`EngineUnavailable`, with the reason, where that is impossible.
        """
        config = self.config
        transport = await asyncio.to_thread(_join, config)
        identity = Identity(config.state_dir, self._host.folder)
        advertiser = Advertiser(self._host.catalog, transport, identity, config.service, self._visible)
        responder = Responder(
            self._host.call_json,
            transport,
            identity,
            advertiser.name_of,
            max_in_flight=config.max_in_flight,
            max_request_bytes=config.max_request_bytes,
        )
        self._joined = _Joined(identity, transport, advertiser, responder)
        await transport.serve(responder.receive)

    async def stop(self, drain: float = 1.0) -> None:
        """Withdraw all functions, let running calls end within ``drain`` seconds, leave the bus.

        Requests that come meanwhile, and calls that do not end, are answered with an error.
        """
        joined, self._joined = self._joined, None
        if joined is None:
            return
        try:
            await asyncio.gather(joined.advertiser.close(), joined.responder.close(drain))
        finally:
            await joined.transport.close()
            joined.identity.close()

    def refresh(self) -> None:
        """Advertise anew: the policy has changed."""
        if self._joined is not None:
            self._joined.advertiser.refresh()

    def describe(self) -> dict[str, Any]:
        """The bus as an operator wants to see it, as a JSON object."""
        about: dict[str, Any] = {
            "joined": self._joined is not None,
            "domain": self.config.domain,
            "interface": self.config.interface,
            "service": self.config.service,
        }
        if self._joined is None:
            return about
        joined = self._joined
        return (
            about
            | joined.transport.describe()
            | {
                "host_id": joined.identity.host_id,
                "incarnation": joined.identity.incarnation,
                "capabilities": joined.advertiser.offered,
                "pending": joined.advertiser.pending,
                "in_flight": joined.responder.in_flight,
                "answered": joined.responder.answered,
                "lost": joined.responder.lost,
            }
        )

    def _visible(self, signature: FunctionSignature) -> bool:
        return self._host.policy.may_view(BUS_CALLER, signature)


def _join(config: DatabusConfig) -> Transport:
    try:
        from enginehost.databus.cyclone import CycloneTransport
    except Exception as failure:
        # Besides ImportError the library raises errors of its own when it cannot be loaded.
        raise EngineUnavailable(
            "the DDS library (cyclonedds 11) is not installed for this Python and platform",
            reason="no-dds-library",
        ) from failure
    return CycloneTransport(config)
