"""A host's place on the databus."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from enginehost.catalog import Catalog
from enginehost.contributions import Implementation
from enginehost.databus.advertise import Advertiser
from enginehost.databus.config import DatabusConfig
from enginehost.databus.identity import Identity
from enginehost.databus.port import Transport
from enginehost.databus.respond import BUS_CALLER, CallPath, Responder
from enginehost.databus.transports import find_transport, unavailable
from enginehost.signature import FunctionSignature

if TYPE_CHECKING:
    from enginehost.policy import Policy

log = logging.getLogger("enginehost.databus")


class BusHost(CallPath, Protocol):
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


@dataclass(frozen=True, slots=True)
class _Joined:
    """What there is while the host is on the bus."""

    identity: Identity
    transport: Transport
    advertiser: Advertiser
    responder: Responder


class Databus:
    """Advertises the functions of a host and answers calls from the bus.

    Peers are anonymous: they see what the policy shows to anonymous. ``transports`` are those of plugins,
    by name. Raises :class:`ConfigError` where the config names none that there is.
    """

    def __init__(
        self, host: BusHost, config: DatabusConfig, transports: Mapping[str, Implementation] | None = None
    ) -> None:
        self.config = config
        self._join = find_transport(config.transport, transports or {})
        self._host = host
        self._joined: _Joined | None = None

    async def start(self) -> None:
        """Join the bus; functions appear on it as soon as they can be written.

        Raises :class:`EngineUnavailable`, with the reason, where that is impossible, and
        :class:`ConfigError` where it is the config that is wrong.
        """
        config = self.config
        transport = await asyncio.to_thread(self._join, config)
        identity = Identity(config.state_dir, self._host.folder)
        advertiser = Advertiser(self._host.catalog, transport, identity, config.service, self._rights)
        responder = Responder(
            self._host,
            transport,
            identity,
            advertiser.name_of,
            max_in_flight=config.max_in_flight,
            max_request_bytes=config.max_request_bytes,
        )
        self._joined = _Joined(identity, transport, advertiser, responder)
        try:
            await transport.serve(responder.receive)
        except (Exception, SystemExit) as failure:  # the plugin boundary
            await self.stop(0.0)
            raise unavailable(config.transport, failure) from failure

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
            await leave(joined.transport)
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
            "transport": self.config.transport,
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

    def _rights(self, signature: FunctionSignature) -> int:
        wanted = self.config.tags
        if wanted and not any(tag in wanted for tag in signature.tags):
            return 0
        return self._host.policy.rights(BUS_CALLER, signature)


async def leave(transport: Transport) -> None:
    """Close a transport, whatever it says to that."""
    try:
        await transport.close()
    except (Exception, SystemExit):  # the plugin boundary: the host stops in any case
        log.exception("the databus transport did not close cleanly")
