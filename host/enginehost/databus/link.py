"""The half of the databus that calls: who is there, and the way to them. Hosts and clients have one."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

from enginehost.catalog import Catalog, Entry
from enginehost.databus.agents_directory import AgentDirectory
from enginehost.databus.agents_list import AgentEvent
from enginehost.databus.agents_offering import AGENTS
from enginehost.databus.agents_peers import Peers
from enginehost.databus.agents_turns import Turns
from enginehost.databus.agents_understood import AgentOffer
from enginehost.databus.aliases import Aliases
from enginehost.databus.config import DatabusConfig
from enginehost.databus.describing import DESCRIBE
from enginehost.databus.directory import Directory
from enginehost.databus.exchange import Ask
from enginehost.databus.identity import Identity
from enginehost.databus.metadata import partition_of
from enginehost.databus.offering import ADVERTISEMENTS
from enginehost.databus.offers import Offer, with_schema
from enginehost.databus.port import Transport
from enginehost.databus.proof import Proofs
from enginehost.databus.replicas import Provider, Replica
from enginehost.databus.requester import Requester
from enginehost.errors import EngineHostError, EngineUnavailable, OutcomeUnknown
from enginehost.policy import matcher
from enginehost.values import decode, encode

log = logging.getLogger("enginehost.databus")

DESCRIBE_SECONDS = 10.0

DISCOVERY_SECONDS = 3.0
"""How long to wait for a function that is not there yet: a program that has just joined sees nothing."""

QUIET_SECONDS = 0.3
"""After so long without news all that is there has been seen."""
_AT_ONCE = 8
"""Providers that are asked for signatures at once."""

MISTAKEN_SECONDS = 2.0
"""How long a host that has our own id may take to prove that it runs."""


class Link:
    """What others offer, in ``catalog``, and the calls to them.

    ``rival`` hears of a program that runs now and has our own host id, by its incarnation; ``overwritten`` of
    one that had it and is not there any more.
    """

    def __init__(
        self,
        catalog: Catalog,
        transport: Transport,
        identity: Identity,
        config: DatabusConfig,
        proofs: Proofs,
        *,
        aliases: Path | None = None,
        rival: Callable[[str], None] = lambda _: None,
        overwritten: Callable[[], None] = lambda: None,
    ) -> None:
        self._catalog = catalog
        self._identity = identity
        self._transport = transport
        self._rival = rival
        self._overwritten = overwritten
        self._asking = asyncio.Semaphore(_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._suspects: set[str] = set()
        self.requester = Requester(transport, identity.incarnation, proofs)
        names, turns = Aliases(aliases), Turns()
        self._second_era = config.second_era
        self.directory = Directory(
            catalog,
            self.requester,
            names,
            own=lambda: (identity.host_id, identity.incarnation),
            vet=proofs.capability,
            let_in=let_in(config),
            conflict=self._suspect,
            complete=self._complete,
            changed=self._function_changed,
        )
        self.peers = Peers(transport, turns)
        self.agents = AgentDirectory(
            catalog,
            names,
            self.directory,
            self.peers,
            turns,
            own=lambda: identity.host_id,
            let_in=let_in_agent(config),
            vet=proofs.agent,
        )

    async def start(self) -> None:
        """Take replies, and follow what is offered."""
        await self.requester.start()
        await self._transport.watch(self.directory)
        await self._transport.follow(AGENTS, self.agents.era(1))
        if self._second_era:
            await self._transport.follow(ADVERTISEMENTS, self.agents.era(2))

    async def look_again(self) -> None:
        """This process stood still for a while: what it knows of others may be wrong."""
        await self._transport.watch_again()

    async def settled(self, timeout: float = DISCOVERY_SECONDS, quiet: float = QUIET_SECONDS) -> None:
        """Wait until nothing new has been seen for ``quiet`` seconds, at most ``timeout``."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        while (now := loop.time()) < started + timeout:
            seen = max(self.directory.quiet_since, self.agents.quiet_since)
            if seen and now >= max(seen, started) + quiet:
                return
            await asyncio.sleep(0.02)

    async def arrival(self, name: str, timeout: float = DISCOVERY_SECONDS) -> Entry | None:
        """The function ``name`` of the catalog as soon as it is there; ``None`` where it does not come."""
        if (entry := self._catalog.get(name)) is not None:
            return entry
        arrived = asyncio.Event()
        unsubscribe = self._catalog.subscribe(lambda _: arrived.set())
        try:
            async with asyncio.timeout(timeout):
                while (entry := self._catalog.get(name)) is None:
                    arrived.clear()
                    await arrived.wait()
        except TimeoutError:
            return None
        else:
            return entry
        finally:
            unsubscribe()

    async def close(self) -> None:
        """Hear nothing any more; end the calls that wait."""
        self.directory.close()
        self.agents.close()
        await self.peers.close()
        for task in self._tasks:
            task.cancel()
        await self.requester.close()

    def describe(self) -> dict[str, Any]:
        """Facts for an operator, as a JSON object."""
        directory, requester = self.directory, self.requester
        return {
            "remote_functions": len(directory),
            "remote_agents": len(self.agents.agents()),
            "agent_faults": dict(self.agents.faults),
            "providers": len(directory.providers),
            "calls_out": requester.in_flight,
            "replies_refused": requester.forged,
            "capability_faults": dict(directory.faults),
        }

    def _function_changed(self, function_id: str) -> None:
        self.agents.function_changed(function_id)

    # A schema that its capability has no room for

    def _complete(self, offer: Offer, provider: Provider) -> None:
        self._start(self._completed(offer, provider))

    async def _completed(self, offer: Offer, provider: Provider) -> None:
        function_id = offer.capability.function_id
        try:
            async with self._asking:
                told: Any = decode(await self._described(provider, offer.service, function_id))
        except EngineHostError as failure:
            name = offer.signature.name
            log.warning("%s: its provider does not tell its schema: %s", name, failure.message)
            return
        if isinstance(told, dict):
            self.directory.told(function_id, with_schema(offer, told))

    async def _described(self, provider: Provider, service: str, function_id: str) -> bytes:
        describe_id = str(uuid.uuid5(uuid.UUID(provider.host_id), f"{service}\0{DESCRIBE}"))
        ask = Ask(
            DESCRIBE,
            encode({"function_id": function_id}),
            until=time.monotonic() + DESCRIBE_SECONDS,
            repeatable=True,
        )
        try:
            async with asyncio.timeout(DESCRIBE_SECONDS):
                return await self.requester.call(ask, [Replica(describe_id, provider)])
        except TimeoutError:
            raise EngineUnavailable(f"{provider.host_id} does not answer") from None

    # Another host with our id

    def _suspect(self, offer: Offer, participant: str) -> None:
        if offer.incarnation not in self._suspects:
            self._suspects.add(offer.incarnation)
            self._start(self._questioned(offer, participant))

    async def _questioned(self, offer: Offer, participant: str) -> None:
        """What an earlier start of this host has left is seen for a moment too: only who answers counts."""
        provider = Provider(
            participant, self._identity.host_id, offer.incarnation, partition_of(offer.incarnation)
        )
        answers = await self._answers(offer, provider)
        self._suspects.discard(offer.incarnation)
        self.requester.gone(provider)
        if answers:
            self._rival(offer.incarnation)
        else:  # it may have taken another id meanwhile, and has written over ours
            self._overwritten()

    async def _answers(self, offer: Offer, provider: Provider) -> bool:
        try:
            if not await self.requester.reaches(provider, MISTAKEN_SECONDS):
                return False
            async with asyncio.timeout(MISTAKEN_SECONDS):
                await self._described(provider, offer.service, offer.capability.function_id)
        except (TimeoutError, EngineUnavailable, OutcomeUnknown):
            return False
        except EngineHostError:
            return True  # it answers, whatever it says
        return True

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def let_in_agent(config: DatabusConfig) -> Callable[[AgentOffer], bool]:
    """Likewise for what is known as an agent alone; nobody signs that, so that it has to be wanted so."""
    services, names, tags = (
        matcher(*patterns) if patterns else None
        for patterns in (config.let_in_services, config.let_in_functions, config.let_in_tags)
    )

    def fits(offer: AgentOffer) -> bool:
        return (
            config.accepts_any
            and (services is None or services(offer.service))
            and (names is None or names(offer.name) or names(offer.function))
            and (tags is None or any(map(tags, offer.tags)))
        )

    return fits


async def agent_events(link: Link) -> AsyncGenerator[AgentEvent, None]:
    """Agents that arrive, change and depart, from now on."""
    queue = link.agents.listen()
    try:
        while True:
            yield await queue.get()
    finally:
        link.agents.unlisten(queue)


def let_in(config: DatabusConfig) -> Callable[[Offer], bool]:
    """The filters of a config: every one that is set has to fit."""
    services, names, tags = (
        matcher(*patterns) if patterns else None
        for patterns in (config.let_in_services, config.let_in_functions, config.let_in_tags)
    )

    def fits(offer: Offer) -> bool:
        name = offer.capability.name
        return (
            (services is None or services(offer.service))
            and (names is None or names(name) or names(offer.signature.name))
            and (tags is None or any(map(tags, offer.signature.tags)))
        )

    return fits
