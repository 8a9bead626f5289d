"""The agents of this host for programs that ask agents as Genesis does, in either era.

Such a question carries no proof: its caller is anonymous, and the policy decides what that one may ask. A
conversation is a session of that caller. Questions of one conversation are answered one after the other.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from enginehost.agents.chain import CHAIN
from enginehost.caller import Caller
from enginehost.catalog import Entry
from enginehost.databus.agents_capability import front_agents, interface_service, replier_guid
from enginehost.databus.agents_front import is_for_us
from enginehost.databus.agents_loops import a_place
from enginehost.databus.agents_topics import (
    from_agents,
    from_agents_2,
    from_interfaces,
    from_interfaces_2,
)
from enginehost.databus.agents_turns import Turns
from enginehost.databus.agents_understood import AgentOffer
from enginehost.databus.capability import shorten
from enginehost.databus.metadata import RequestMetadata
from enginehost.databus.port import PairEnd, Sample, TopicPair, Transport
from enginehost.databus.running import BUS_CALLER
from enginehost.databus.types import ID_BOUND
from enginehost.engine import Call
from enginehost.errors import EngineHostError, EngineUnavailable, InvalidRequest, Overloaded
from enginehost.policy import Policy
from enginehost.record import Stats
from enginehost.trace_context import NO_TRACE, TraceContext
from enginehost.values import MalformedJson, decode

log = logging.getLogger("enginehost.databus")

INTERFACE_FAILED, AGENT_FAILED = (1, "Error: "), (-1, "Error processing request: ")
"""The status of a reply that is an error, and what its message begins with, as Genesis has them."""

METADATA_BOUND = 64 * 1024
MESSAGE_BOUND = 1 << 20
"""Characters of a question in the second era, which has no bound of its own."""


class AskedHost(Protocol):
    """What answering needs of a host."""

    def new_call(self, name: str, caller: Caller | None = None, arrived: TraceContext = NO_TRACE) -> Call:
        """``Host.new_call``."""
        ...

    def call_json(
        self, call: Call, arguments: Mapping[str, Any], *, timeout: float | None = None
    ) -> Awaitable[bytes]:
        """``Host.call_json``."""
        ...

    def visible(self, name: str, caller: Caller) -> Entry | None:
        """``Host.visible``."""
        ...

    def stats(self, name: str) -> Stats | None:
        """``Host.stats``."""
        ...

    @property
    def policy(self) -> Policy:
        """``Host.policy``."""
        ...


@dataclass(slots=True, eq=False)
class _Route:
    """Whom a question on a pair of topics is for: the one that it targets, else the ``front`` one.

    ``asked_at``: where other hosts may hear the same question, if any.
    """

    front: str = ""
    asked_at: str = ""
    targets: dict[str, str] = field(default_factory=dict[str, str])
    failed: tuple[int, str] = AGENT_FAILED
    second: bool = False

    def agent(self, values: Mapping[str, Any]) -> str:
        """The agent's name; empty where it is none of this host's to answer."""
        if not self.second:
            return self.front
        if values["service_instance_tag"] or _calls_a_function(values["message"]):
            return ""  # no agent here has a tag, and functions are called on the same topics
        target = str(values["target_service_guid"])
        return self.targets.get(target, "") if target else self.front


class AgentServer:
    """Keeps the topics of the agents on offer open, and answers what comes there.

    At most ``most`` questions are answered at once, three quarters of that of one participant. ``others``
    gives the agents of a service at other hosts, and whether anybody may ask them.
    """

    def __init__(
        self,
        host: AskedHost,
        transport: Transport,
        *,
        second_era: bool,
        most: int,
        others: Callable[[str], Iterable[tuple[AgentOffer, bool]]] = lambda _: (),
    ) -> None:
        self.answered = 0
        self._host = host
        self._transport = transport
        self._second_era = second_era
        self._most = most
        self._others = others
        self._agents: Mapping[str, Mapping[str, Any]] = {}
        self._turns = Turns()
        self._wanted: dict[TopicPair, _Route] = {}
        self._routes: dict[TopicPair, _Route] = {}
        self._ends: dict[TopicPair, PairEnd] = {}
        self._unservable: set[TopicPair] = set()
        self._asking: set[asyncio.Task[None]] = set()
        self._shares: Counter[str] = Counter()
        self._stopping = False
        self._wake = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._follow(), name="databus-agents")

    @property
    def in_flight(self) -> int:
        """Questions that are being answered."""
        return len(self._asking)

    def offered(self, agents: Mapping[str, Mapping[str, Any]]) -> None:
        """These agents (``AGENT_CAPABILITY`` by name) are on offer now."""
        self._agents = agents
        self._wanted = routes_to(agents, second_era=self._second_era)
        self._wake.set()

    async def close(self, drain: float) -> None:
        """Take nothing more; what runs has ``drain`` seconds, then it is told that the host stops."""
        self._stopping = True
        self._task.cancel()
        await asyncio.wait((self._task,))
        if self._asking:
            await asyncio.wait(tuple(self._asking), timeout=drain)
        for task in self._asking:
            task.cancel()
        if self._asking:
            await asyncio.wait(tuple(self._asking), timeout=1.0)
        await asyncio.gather(*(end.close() for end in self._ends.values()))

    async def _follow(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            wanted = self._wanted
            self._routes = wanted
            for pair in [pair for pair in self._ends if pair not in wanted]:
                await self._ends.pop(pair).close()
            for pair in wanted:
                if pair not in self._ends and pair not in self._unservable:
                    await self._open(pair)

    async def _open(self, pair: TopicPair) -> None:
        def heard(samples: Sequence[Sample]) -> None:
            for sample in samples:
                self._heard(pair, sample)

        try:
            self._ends[pair] = await self._transport.pair(pair, heard, lambda _: None, serves=True)
        except ValueError as refused:
            self._unservable.add(pair)
            log.info("an agent cannot be asked as Genesis asks agents: %s", refused)
        except Exception:  # the plugin boundary: the others can still be asked
            log.exception("the topics of an agent cannot be opened")

    def _heard(self, pair: TopicPair, sample: Sample) -> None:
        route, end = self._routes.get(pair), self._ends.get(pair)
        name = route.agent(sample.values) if route is not None else ""
        if route is None or end is None or not name or not self._is_for_us(name, route, sample):
            return
        refusal = self._refusal(sample)
        work = self._answer(name, route, end, sample, refusal)
        task = asyncio.get_running_loop().create_task(work)
        self._asking.add(task)
        self._shares[sample.participant] += 1
        task.add_done_callback(lambda done: self._ended(done, sample.participant))

    def _is_for_us(self, name: str, route: _Route, sample: Sample) -> bool:
        own = self._agents.get(name)
        if own is None or not route.asked_at or sample.values.get("target_service_guid"):
            return True
        entry = self._host.visible(name, BUS_CALLER)
        open_to_all = entry is not None and self._host.policy.may_call(BUS_CALLER, entry.signature)
        others = self._others(str(own["service_name"]))
        return is_for_us(own, route.asked_at, others, anybody_may_ask=open_to_all)

    def _ended(self, task: asyncio.Task[None], participant: str) -> None:
        self._asking.discard(task)
        self._shares[participant] -= 1
        if not self._shares[participant]:
            del self._shares[participant]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a reply of an agent could not be sent", exc_info=error)

    def _refusal(self, sample: Sample) -> EngineHostError | None:
        if self._stopping:
            return EngineUnavailable("the host is stopping", state="closing")
        if len(self._asking) >= self._most or self._shares[sample.participant] >= self._most * 3 // 4:
            return Overloaded(f"{len(self._asking)} questions to agents are being answered already")
        if len(sample.values["conversation_id"].encode(errors="replace")) > ID_BOUND:
            return InvalidRequest(f"conversation_id has at most {ID_BOUND} bytes")
        if len(sample.values["message"]) > MESSAGE_BOUND:
            return InvalidRequest(f"a message has at most {MESSAGE_BOUND} characters")
        return None

    async def _answer(
        self, name: str, route: _Route, end: PairEnd, sample: Sample, refusal: EngineHostError | None
    ) -> None:
        values = sample.values
        conversation = str(values["conversation_id"]) or str(uuid.uuid4())
        status, said = 0, ""
        try:
            if refusal is not None:
                raise refusal
            said = await self._said(name, conversation, values)
        except EngineHostError as error:
            status, said = route.failed[0], route.failed[1] + error.message
        except asyncio.CancelledError:
            if not self._stopping:
                raise
            status, said = route.failed[0], route.failed[1] + "the host stopped before the agent answered"
        reply = {"message": _within(name, said, route), "status": status}
        reply["conversation_id"] = conversation[:ID_BOUND]
        if route.second:
            guid = next((guid for guid, agent in route.targets.items() if agent == name), "")
            reply |= {"request_id": values["request_id"], "replier_service_guid": guid}
        if await end.send(reply, sample.about) is not None:
            self.answered += 1

    async def _said(self, name: str, conversation: str, values: Mapping[str, Any]) -> str:
        metadata = _metadata(values)
        caller = BUS_CALLER
        call = self._host.new_call(name, caller, metadata.trace)
        if metadata.agents:
            await a_place(self._host, name, caller, metadata.agents)
            CHAIN.set(metadata.agents)
        async with self._turns.of((name, conversation), call):
            arguments = {"message": values["message"], "conversation_id": conversation}
            result = await self._host.call_json(call, arguments, timeout=metadata.timeout)
        return _text(result)


def routes_to(agents: Mapping[str, Mapping[str, Any]], *, second_era: bool) -> dict[TopicPair, _Route]:
    """On which topics which agents are asked."""
    fronts = front_agents(agents)
    routes: dict[TopicPair, _Route] = {}
    for name, agent in agents.items():
        service, agent_id = str(agent["service_name"]), str(agent["agent_id"])
        routes[from_agents(service, agent_id)] = _Route(name)
        asked_at = interface_service(agent, fronts)
        routes[from_interfaces(asked_at)] = _Route(name, asked_at, failed=INTERFACE_FAILED)
        if second_era:
            own = {replier_guid(agent_id): name}
            for base in {asked_at, service}:
                route = _Route(failed=INTERFACE_FAILED, second=True)
                route = routes.setdefault(from_interfaces_2(base), route)
                route.targets |= own
                asks = routes.setdefault(from_agents_2(base), _Route(second=True))
                asks.targets |= own
                if base == asked_at:
                    route.front = asks.front = name
                    route.asked_at = asks.asked_at = asked_at
    return routes


def _calls_a_function(message: str) -> bool:
    if not message.startswith("{"):
        return False
    try:
        found: Any = decode(message.encode())
    except (MalformedJson, UnicodeEncodeError):
        return False
    return isinstance(found, dict) and isinstance(found.get("function"), str) and "params" in found


def _metadata(values: Mapping[str, Any]) -> RequestMetadata:
    text = str(values.get("metadata", "")).encode(errors="replace")
    return RequestMetadata.read(text) if len(text) <= METADATA_BOUND else RequestMetadata()


def _within(name: str, said: str, route: _Route) -> str:
    """An answer as the type carries it."""
    if route.second:
        return said.replace("\0", "\ufffd")
    bound = from_interfaces("").reply.bound("message")
    if (size := len(said.encode(errors="replace"))) > bound:
        log.warning("%s: its answer has %d bytes, the databus carries %d: it is cut", name, size, bound)
    return shorten(said, bound)


def _text(result: bytes) -> str:
    """An answer as text; pieces of a stream are joined."""
    found: Any = decode(result)
    if isinstance(found, list) and all(isinstance(piece, str) for piece in found):
        return "".join(found)
    return found if isinstance(found, str) else result.decode()
