"""A host's place on the databus."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from enginehost.caller import Caller
from enginehost.catalog import Catalog
from enginehost.contributions import Implementation
from enginehost.databus.advertise import Advertiser
from enginehost.databus.agents_list import AgentEvent, BusAgent
from enginehost.databus.agents_serving import AgentServer
from enginehost.databus.agents_understood import AgentOffer
from enginehost.databus.answering import CallPath
from enginehost.databus.config import DatabusConfig
from enginehost.databus.events import EventHost, Events
from enginehost.databus.guard import Guard, guard_of
from enginehost.databus.identity import Identity, names_file
from enginehost.databus.link import DISCOVERY_SECONDS, Link, agent_events
from enginehost.databus.metadata import is_incarnation, partition_of
from enginehost.databus.pause import Pulse
from enginehost.databus.peers import LOST, LOST_HINT, told
from enginehost.databus.port import Transport
from enginehost.databus.proof import Proofs, proofs_of
from enginehost.databus.respond import Responder
from enginehost.databus.running import BUS_CALLER
from enginehost.databus.transports import find_transport, unavailable
from enginehost.databus.trust import MISSING_TRUST_HINT, missing_trust
from enginehost.diagnostics import IN_PROBLEMS, Diagnostic, Severity
from enginehost.errors import EngineUnavailable
from enginehost.policy import CALL, VIEW
from enginehost.record import Stats
from enginehost.signature import FunctionSignature

if TYPE_CHECKING:
    from enginehost.policy import Policy

log = logging.getLogger("enginehost.databus")


class BusHost(CallPath, EventHost, Protocol):
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

    def stats(self, name: str) -> Stats | None:
        """What was measured of a function."""
        ...


@dataclass(frozen=True, slots=True)
class _Joined:
    """What there is while the host is on the bus."""

    identity: Identity
    guard: Guard
    transport: Transport
    advertiser: Advertiser
    responder: Responder
    agents: AgentServer
    pulse: Pulse
    link: Link | None
    events: Events


class Databus:
    """Advertises the functions of a host and answers calls from the bus.

    Peers that sign with a trusted key are that key's caller; others are anonymous, and see what the policy
    shows to anonymous. ``transports`` are those of plugins, by name. Raises :class:`ConfigError` where the
    config names none that there is.
    """

    def __init__(
        self, host: BusHost, config: DatabusConfig, transports: Mapping[str, Implementation] | None = None
    ) -> None:
        self.config = config
        self._join = find_transport(config.transport, transports or {})
        self._host = host
        self._joined: _Joined | None = None
        self._trusted: list[Caller] = []
        self._problems: list[Diagnostic] = []

    async def start(self) -> None:
        """Join the bus; functions appear on it as soon as they can be written.

        Raises :class:`EngineUnavailable`, with the reason, where that is impossible, and
        :class:`ConfigError` where it is the config that is wrong.
        """
        config = self.config
        identity = Identity(config.state_dir, self._host.folder)
        try:
            guard = await asyncio.to_thread(guard_of, config, identity)
            proofs = await asyncio.to_thread(proofs_of, config, lambda: identity.incarnation)
            transport = await asyncio.to_thread(self._join, config)
        except BaseException:
            identity.close()
            raise
        joined = self._joined = self._made(identity, guard, transport, proofs)
        try:
            partition = partition_of(identity.incarnation)
            await transport.serve(joined.responder.receive, partition, joined.responder.gone)
            if joined.link is not None:
                await joined.link.start()
            joined.events.start()
            self._problems = list(_doubts(config, transport))
        except (Exception, SystemExit) as failure:  # the plugin boundary
            await self.stop(0.0)
            raise unavailable(config.transport, failure) from failure

    def _made(self, identity: Identity, guard: Guard, transport: Transport, proofs: Proofs) -> _Joined:
        config = self.config
        self._trusted = list(guard.callers())
        most = config.max_in_flight
        agents = AgentServer(
            self._host,
            transport,
            second_era=config.second_era,
            most=most,
            others=self._beside,
        )
        advertiser = Advertiser(
            self._host.catalog,
            transport,
            identity,
            config.service,
            lambda signature: self._rights(guard, signature),
            stats=self._host.stats,
            guard=guard,
            second_era=config.second_era,
            agents_changed=agents.offered,
        )
        responder = Responder(
            self._host,
            transport,
            identity,
            advertiser.name_of,
            max_in_flight=config.max_in_flight,
            max_request_bytes=config.max_request_bytes,
            guard=guard,
        )
        pulse = Pulse(self._beat, self._stood_still)
        link = self._linked(identity, transport, proofs) if config.directory else None
        events = Events(transport, self._host, identity, config, lambda one: self._rights(guard, one))
        return _Joined(identity, guard, transport, advertiser, responder, agents, pulse, link, events)

    def _linked(self, identity: Identity, transport: Transport, proofs: Proofs) -> Link:
        config, host = self.config, self._host
        return Link(
            host.catalog,
            transport,
            identity,
            config,
            proofs,
            aliases=_names(config, host.folder),
            rival=self.renew_identity,
            overwritten=self.refresh,
        )

    async def stop(self, drain: float = 1.0) -> None:
        """Withdraw all functions, let running calls end within ``drain`` seconds, leave the bus.

        Requests that come meanwhile, and calls that do not end, are answered with an error.
        """
        joined, self._joined = self._joined, None
        if joined is None:
            return
        try:
            await joined.pulse.close()
            if joined.link is not None:
                await joined.link.close()
            closing = joined.responder.close(drain), joined.agents.close(drain)
            await asyncio.gather(joined.advertiser.close(), *closing)
            await joined.events.stop()
        finally:
            await leave(joined.transport)
            joined.identity.close()

    async def settled(self) -> None:
        """Wait until what others offer has been seen, as far as it is there."""
        if self._joined is not None and self._joined.link is not None:
            await self._joined.link.settled()

    async def arrival(self, name: str, timeout: float = DISCOVERY_SECONDS) -> None:
        """Wait until somebody offers ``name``, at most ``timeout`` seconds."""
        if self._joined is not None and self._joined.link is not None:
            await self._joined.link.arrival(name, timeout)

    def ids(self, name: str, service: str) -> tuple[str, str]:
        """The ids of this host and of its function ``name``; empty while it is on no bus."""
        identity = self._joined.identity if self._joined is not None else None
        return (identity.host_id, identity.function_id(service, name)) if identity is not None else ("", "")

    @property
    def place(self) -> tuple[str, str] | None:
        """The host's id on the bus, and its incarnation; ``None`` while it is on none."""
        joined = self._joined
        return None if joined is None else (joined.identity.host_id, joined.identity.incarnation)

    def agents(self) -> list[BusAgent]:
        """The agents of other programs that can be asked now, by service and name."""
        joined = self._joined
        return joined.link.agents.agents() if joined is not None and joined.link is not None else []

    async def askable(self, agents: Sequence[BusAgent]) -> list[BusAgent]:
        """Those of ``agents`` that take questions."""
        joined = self._joined
        if joined is None or joined.link is None:
            return list(agents)
        return await joined.link.peers.askable(agents)

    def _beside(self, service: str) -> list[tuple[AgentOffer, bool]]:
        joined = self._joined
        return joined.link.agents.beside(service) if joined is not None and joined.link is not None else []

    async def agent_events(self) -> AsyncGenerator[AgentEvent, None]:
        """Agents that arrive, change and depart, from now on.

        Raises :class:`EngineUnavailable` where the host is on no bus, or looks at nobody there.
        """
        joined = self._joined
        if joined is None or joined.link is None:
            raise EngineUnavailable("this host looks for no agents on the databus", reason="no-directory")
        async with aclosing(agent_events(joined.link)) as events:
            async for event in events:
                yield event

    def refresh(self) -> None:
        """Advertise anew: the policy has changed."""
        if self._joined is not None:
            self._joined.advertiser.refresh()
            self._joined.events.refresh()

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
                "answered": joined.responder.replies.answered,
                "lost": joined.responder.replies.lost,
                "questions": joined.agents.in_flight,
                "questions_answered": joined.agents.answered,
                "signs": joined.guard.signs,
                "trusted_keys": len(self._trusted),
            }
            | {"events": joined.events.describe()}
            | (joined.link.describe() if joined.link is not None else {})
        )

    def problems(self) -> list[Diagnostic]:
        """What is wrong with this host's place on the bus."""
        return list(self._problems)

    def renew_identity(self, foreign: str) -> None:
        """Another host, started as ``foreign``, offers functions under this host's own id.

        The one that was started later takes a fresh id; the other writes anew what the later one overwrote.
        """
        joined = self._joined
        if joined is None or not is_incarnation(foreign) or foreign == joined.identity.incarnation:
            return
        if foreign > joined.identity.incarnation:
            self.refresh()
            return
        message = (
            f"another host on the databus has the id {joined.identity.host_id}; this one, started later, "
            "takes a fresh id that is not kept"
        )
        hint = "was a state directory copied, or an image of a machine? Give each host a state_dir of its own"
        log.warning("%s (%s)", message, hint, extra=IN_PROBLEMS)
        self._problems.append(Diagnostic("databus", 0, 0, Severity.WARNING, "databus-id", message, hint))
        joined.advertiser.renew()
        joined.events.refresh()

    def _beat(self) -> None:
        joined = self._joined
        if joined is None:
            return
        trusted = list(joined.guard.callers())
        if trusted != self._trusted:  # what is on the bus depends on who may see it
            self._trusted = trusted
            self.refresh()

    async def _stood_still(self) -> None:
        """Others took this host for gone, and it has missed what they did."""
        joined = self._joined
        if joined is None:
            return
        self.refresh()
        if joined.link is not None:
            await joined.link.look_again()

    def _rights(self, guard: Guard, signature: FunctionSignature) -> int:
        """Whether anybody on the bus may view a function, and whether everybody may call it."""
        wanted, policy = self.config.tags, self._host.policy
        if wanted and not any(tag in wanted for tag in signature.tags):
            return 0
        public = policy.rights(BUS_CALLER, signature)
        if public & VIEW or any(policy.rights(one, signature) & VIEW for one in guard.callers()):
            return VIEW | (public & CALL)
        return 0


def _doubts(config: DatabusConfig, transport: Transport) -> Iterator[Diagnostic]:
    """What somebody should look at, though the host is on the bus."""
    if lost := transport.describe().get(LOST):
        yield Diagnostic("databus", 0, 0, Severity.WARNING, "databus-peers", told(lost), LOST_HINT)
    if message := missing_trust(config):
        log.warning("databus: %s", message, extra=IN_PROBLEMS)
        yield Diagnostic("databus", 0, 0, Severity.WARNING, "databus-trust", message, MISSING_TRUST_HINT)


def _names(config: DatabusConfig, folder: Path | None) -> Path | None:
    """Where short names are kept: for the host of a folder, not for whoever looks at the bus in passing."""
    if config.state_dir is None or folder is None:
        return None
    return names_file(config.state_dir, folder)


async def leave(transport: Transport) -> None:
    """Close a transport, whatever it says to that."""
    try:
        await transport.close()
    except (Exception, SystemExit):  # the plugin boundary: the host stops in any case
        log.exception("the databus transport did not close cleanly")
