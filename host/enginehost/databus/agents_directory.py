"""The agents of others on the databus: who they are, and as functions that this host's callers may ask.

An agent whose function is on the bus too (that of every host like this one, under the same id) is that
function, which has its agent's name as a further one. One that is known as an agent alone becomes a function
of its own: ``service.name``, with ``message`` and ``conversation_id``.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from enginehost.agents.facts import AGENT_TYPE
from enginehost.catalog import OTHERS, Catalog, EngineRecord
from enginehost.databus.advertisement import AGENT
from enginehost.databus.agents_list import AgentChange, AgentEvent, BusAgent
from enginehost.databus.agents_names import tool_name
from enginehost.databus.agents_turns import Turns
from enginehost.databus.agents_understood import AgentOffer, second_era, understand_agent
from enginehost.databus.aliases import Aliases
from enginehost.databus.port import Instance
from enginehost.databus.remote import RemoteFunction
from enginehost.databus.replicas import Provider
from enginehost.engine import EngineState, Function
from enginehost.errors import Unauthorized

log = logging.getLogger("enginehost.databus")

MOST_AGENTS = 20_000
"""Advertisements of agents that are remembered."""
MOST_FAULTS = 100
TOGETHER_SECONDS = 3.0
"""Agents that are seen first within so many seconds were there together: none had its name before."""
MOST_WAITING = 10_000
"""Arrivals and departures that wait for one who hears of them; the oldest are dropped."""
CONFIRM_SECONDS = 3.0
"""After the reader was made anew: what is not seen again until then has gone."""


class Functions(Protocol):
    """The directory of functions, as far as agents need it."""

    def provider_of(self, function_id: str) -> Provider | None:
        """Who offers the function, once it can be called."""
        ...

    def remote_of(self, function_id: str) -> RemoteFunction | None:
        """What runs it."""
        ...

    def is_public(self, function_id: str) -> bool:
        """Whether its provider says that anybody may call it."""
        ...


class PeerAgents(Protocol):
    """The way to agents that are known as agents alone (``agents_peers.py``)."""

    def come(self, offer: AgentOffer, participant: str) -> Function:
        """One more program answers as this agent: the function that asks it."""
        ...

    def leave(self, offer: AgentOffer, participant: str) -> Function | None:
        """One program less; the function that asks those who are left, ``None`` where nobody is."""
        ...


@dataclass(slots=True, eq=False)
class _Known:
    """One advertisement. ``shown``: what it is in the list of agents; ``asked``: a function of its own."""

    offer: AgentOffer
    values: Mapping[str, Any]
    participant: str
    era: int
    seen: int
    since: float
    shown: BusAgent | None = None
    asked: bool = False


class AgentDirectory:
    """Follows the agents of other programs. Lives on one event loop.

    ``own`` is this program's host id. ``let_in``: whether an agent that is known as one alone may enter.
    ``vet`` raises ``Unauthorized`` for a sample that the host of its function did not sign, where it signs.
    """

    def __init__(
        self,
        catalog: Catalog,
        aliases: Aliases,
        functions: Functions,
        peers: PeerAgents,
        turns: Turns,
        *,
        own: Callable[[], str],
        let_in: Callable[[AgentOffer], bool],
        vet: Callable[[Mapping[str, Any], Provider], None] = lambda *_: None,
    ) -> None:
        self.faults: dict[str, str] = {}
        """What is wrong with advertisements that are of no use, by their ids; the latest hundred."""
        self._catalog = catalog
        self._aliases = aliases
        self._functions = functions
        self._peers = peers
        self._turns = turns
        self._own = own
        self._let_in = let_in
        self._vet = vet
        self._known: dict[str, _Known] = {}
        self._rivals: dict[str, tuple[Instance, int]] = {}
        """What somebody else than its host says of an agent: the host as it was started anew, or nobody."""
        self._records: dict[str, EngineRecord] = {}
        self._names: dict[str, list[_Known]] = {}
        """Agents that are functions of their own, by these functions' names."""
        self._listeners: list[asyncio.Queue[AgentEvent]] = []
        self._rounds = {1: 0, 2: 0}
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._last_seen = 0.0
        self._closed = False

    def __len__(self) -> int:
        """Advertisements of agents that are remembered."""
        return len(self._known)

    @property
    def quiet_since(self) -> float:
        """When something was seen for the last time (the loop's clock); 0 where nothing ever was."""
        return self._last_seen

    def agents(self) -> list[BusAgent]:
        """The agents that can be asked now, by service and name."""
        now, rivals = time.monotonic(), self._called_the_same()
        found = [
            replace(known.shown, age=now - known.since, holds=self._held(known, known.shown.holds, rivals))
            for known in self._known.values()
            if known.shown
        ]
        return sorted(found, key=lambda agent: (agent.service, agent.name, agent.id))

    def _called_the_same(self) -> Mapping[str, list[_Known]]:
        found: dict[str, list[_Known]] = {}
        for known in self._known.values():
            if known.shown and not self._aliases.kept:
                for name in _short_names(known.offer):
                    found.setdefault(name, []).append(known)
        return found

    def _held(
        self, known: _Known, names: tuple[str, ...], called: Mapping[str, list[_Known]]
    ) -> tuple[str, ...]:
        """Of names those that are an agent's own.

        Who is new here cannot tell which of those that it found had a name first, unless names are kept.
        """
        return tuple(
            name
            for name in names
            if all(
                one.offer.function == known.offer.function or one.since - known.since > TOGETHER_SECONDS
                for one in called.get(name, ())
            )
        )

    def beside(self, service: str) -> list[tuple[AgentOffer, bool]]:
        """The agents of a service at other hosts like this one, and whether anybody may ask them."""
        found = [one for one in self._known.values() if one.offer.service == service and one.offer.host]
        is_public = self._functions.is_public
        return [(one.offer, one.shown is not None and is_public(one.offer.id)) for one in found]

    def listen(self) -> asyncio.Queue[AgentEvent]:
        """A queue of what happens from now on, until :meth:`unlisten`."""
        queue: asyncio.Queue[AgentEvent] = asyncio.Queue(MOST_WAITING)
        self._listeners.append(queue)
        return queue

    def unlisten(self, queue: asyncio.Queue[AgentEvent]) -> None:
        """Nobody takes from the queue any more."""
        self._listeners.remove(queue)

    def close(self) -> None:
        """Hear nothing any more."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()

    def era(self, number: int) -> Era:
        """What hears of the advertisements of an era, for :meth:`Transport.follow`."""
        return Era(self, number)

    # What the transport tells

    def seen(self, era: int, instances: Sequence[Instance]) -> None:
        """Advertisements of an era came, changed or went."""
        if self._closed:
            return
        self._last_seen = asyncio.get_running_loop().time()
        for one in instances:
            self._heard(one, era)

    def _heard(self, one: Instance, era: int) -> None:
        if one.values is None:
            self._went(one, era)
        elif era == 1 or one.values["kind"] == AGENT:
            self._came(one.values, one, era)

    def anew(self, era: int) -> None:
        """Everything of an era that is there is seen once more."""
        self._rounds[era] += 1
        if (timer := self._timers.pop(era, None)) is not None:
            timer.cancel()
        later = asyncio.get_running_loop().call_later
        self._timers[era] = later(CONFIRM_SECONDS, self._confirmed, era, self._rounds[era])

    def function_changed(self, function_id: str) -> None:
        """The directory of functions has a function of this id now, or has it no more."""
        if self._closed:
            return
        known, provider = self._known.get(function_id), self._functions.provider_of(function_id)
        if known is not None:
            self._settle(known)
        rival = self._rivals.get(function_id)
        if rival is not None and provider is not None and rival[0].participant == provider.participant:
            self._heard(*self._rivals.pop(function_id))

    def _confirmed(self, era: int, round_number: int) -> None:
        late = [key for key, one in self._known.items() if one.era == era and one.seen < round_number]
        for key in late:
            self._forget(key)

    # One agent

    def _came(self, values: Mapping[str, Any], one: Instance, era: int) -> None:
        before = self._known.get(one.key)
        if before is not None and (before.era < era or self._is_a_rival(one, before)):
            if before.era == era and (len(self._rivals) < MOST_AGENTS or one.key in self._rivals):
                self._rivals[one.key] = one, era
            return
        try:
            if era == 2:
                values = second_era(values, before.values if before is not None else None)
            offer = understand_agent(values, era)
        except ValueError as reason:
            self._fault(one.key, str(reason))
            return
        if offer.host == self._own() or (era == 2 and offer.incarnation):
            return  # ours, or known by its sample of the first era
        if before is None and len(self._known) >= MOST_AGENTS:
            self._fault(one.key, f"there are {MOST_AGENTS} agents already")
            return
        self.faults.pop(one.key, None)
        if before is not None and (before.offer, before.participant) == (offer, one.participant):
            before.seen, before.values = self._rounds[era], values
            return
        shown = before.shown if before is not None else None
        if before is not None:
            self._unask(before)
        since = before.since if before is not None else time.monotonic()
        known = _Known(offer, values, one.participant, era, self._rounds[era], since, shown)
        self._known[one.key] = known
        self._settle(known)

    def _is_a_rival(self, one: Instance, before: _Known) -> bool:
        """Whether it is not the host of an agent that speaks of it here, while its host is there."""
        provider = self._functions.provider_of(one.key)
        host = provider.participant if provider is not None else ""
        return host == before.participant != one.participant

    def _went(self, one: Instance, era: int) -> None:
        self.faults.pop(one.key, None)
        known = self._known.get(one.key)
        if (rival := self._rivals.get(one.key)) is not None and rival[0].participant == one.participant:
            del self._rivals[one.key]
        if known is not None and known.era == era and one.participant in ("", known.participant):
            self._forget(one.key)
            if (rival := self._rivals.pop(one.key, None)) is not None:
                self._heard(*rival)

    def _forget(self, key: str) -> None:
        known = self._known.pop(key)
        self._unask(known)
        self._show(known, None)

    def _settle(self, known: _Known) -> None:
        """Bring the catalog and the list of agents to what is known of one agent."""
        offer = known.offer
        provider = self._functions.provider_of(offer.id)
        if provider is not None and provider.participant == known.participant:
            self._unask(known)
            if not self._is_its_hosts(known, provider):
                self._show(known, None)
                return
            if (remote := self._functions.remote_of(offer.id)) is not None:
                remote.turns = self._turns
            self._show(known, self._named(offer))
        elif not offer.incarnation and provider is None and self._let_in(offer):
            self._ask(known)
            self._show(known, self._named(offer))
        else:
            self._unask(known)
            self._show(known, None)

    def _is_its_hosts(self, known: _Known, provider: Provider) -> bool:
        try:
            self._vet(known.values, provider)
        except Unauthorized as reason:
            self._fault(known.offer.id, reason.message)
            return False
        return True

    def _show(self, known: _Known, agent: BusAgent | None) -> None:
        before, known.shown = known.shown, agent
        if before is None and agent is not None:
            self._tell(AgentChange.ARRIVED, agent)
        elif before is not None and agent is None:
            self._tell(AgentChange.DEPARTED, before)
        elif before is not None and agent is not None and before != agent:
            self._tell(AgentChange.CHANGED, agent)

    def _tell(self, kind: AgentChange, agent: BusAgent) -> None:
        for queue in self._listeners:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(AgentEvent(kind, agent))

    # Functions and names

    def _ask(self, known: _Known) -> None:
        if known.asked:
            return
        known.asked = True
        function = self._peers.come(known.offer, known.participant)
        name = known.offer.function
        self._names.setdefault(name, []).append(known)
        self._catalog.amend(self._record(known.offer.service), [function], [])

    def _unask(self, known: _Known) -> None:
        if not known.asked:
            return
        known.asked = False
        name, offer = known.offer.function, known.offer
        self._names[name].remove(known)
        function = self._peers.leave(offer, known.participant)
        if function is not None:
            return
        del self._names[name]
        record = self._record(offer.service)
        self._catalog.amend(record, [], [name])
        if not self._catalog.entries_of(record.engine_id):
            self._catalog.remove(record.engine_id)
            del self._records[offer.service]

    def _record(self, service: str) -> EngineRecord:
        record = self._records.get(service)
        if record is None:
            record = self._records[service] = EngineRecord(
                f"databus-agents:{service}", OTHERS, display_name=service, state=EngineState.READY
            )
        return record

    def _named(self, offer: AgentOffer) -> BusAgent:
        """The agent with its names: the one that models see is claimed last, and so goes before the other."""
        target = tool = offer.function
        holds: list[str] = []
        for name in _short_names(offer):
            if self._aliases.claim(name, target, self._free):
                self._catalog.alias(name, None)  # to the end, so that it is the one that is shown
                self._catalog.alias(name, target)
                tool = name
                holds.append(name)
        return BusAgent(
            offer.id,
            offer.name,
            offer.service,
            offer.description,
            offer.type or AGENT_TYPE,
            offer.specializations,
            offer.capabilities,
            offer.tags,
            offer.model,
            offer.default_capable,
            offer.host,
            target,
            tool,
            0.0,
            tuple(holds),
        )

    def _free(self, name: str) -> bool:
        return self._catalog.get(name) is None and not self._catalog.declaring(name)

    def _fault(self, key: str, fault: str) -> None:
        if key not in self.faults:
            log.warning("an agent on the databus is of no use, %.100r: %s", key, fault)
        self.faults[key] = fault
        if len(self.faults) > MOST_FAULTS:
            del self.faults[next(iter(self.faults))]


class Era:
    """Hears of the advertisements of one era."""

    def __init__(self, directory: AgentDirectory, number: int) -> None:
        self._directory = directory
        self._number = number

    def seen(self, instances: Sequence[Instance]) -> None:
        """See :class:`~enginehost.databus.port.InstanceWatcher`."""
        self._directory.seen(self._number, instances)

    def anew(self) -> None:
        """See :class:`~enginehost.databus.port.InstanceWatcher`."""
        self._directory.anew(self._number)


def _short_names(offer: AgentOffer) -> list[str]:
    return [name for name in dict.fromkeys((offer.name, tool_name(offer.specializations))) if name]
