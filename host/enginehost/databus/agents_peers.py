"""Agents that are known as agents alone, asked as Genesis asks them.

A request says its conversation, and in the first era nothing else that its answer could repeat. So one
question of a conversation is on its way at a time. Where an answer did not come in time the conversation goes
on under a further id: what comes late must not pass for the answer to the next question.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from enginehost.agents.facts import AGENT_PARAMETERS
from enginehost.databus.agents_list import BusAgent
from enginehost.databus.agents_topics import from_agents, from_agents_2, from_interfaces_2
from enginehost.databus.agents_turns import Turns, chain_here, check_conversation, conversation_with
from enginehost.databus.agents_understood import AgentOffer
from enginehost.databus.offers import shown
from enginehost.databus.port import PairEnd, Sample, Transport
from enginehost.databus.types import AGENT_AGENT_REQUEST
from enginehost.engine import Call, Function
from enginehost.errors import (
    EngineUnavailable,
    ExecutionFailed,
    OutcomeUnknown,
    TooLarge,
)
from enginehost.signature import Annotations, FunctionSignature
from enginehost.values import encode

log = logging.getLogger("enginehost.databus")

REACH_SECONDS = 3.0
"""How long a question waits until the agent is connected."""

MOST_TRIED = 50
"""Agents that are tried at once whether they take questions, those first that have been there longest."""

MOST_SUFFIXES = 10_000
"""Conversations that are remembered to go on under a further id."""

_MESSAGE_BYTES = AGENT_AGENT_REQUEST.bound("message")


@dataclass(slots=True, eq=False)
class _Asked:
    """A question on its way."""

    request_id: str
    conversation: str
    answer: asyncio.Future[Mapping[str, Any]]
    about: str = ""


class _Agent:
    """One agent: the way to it, and what it has been asked."""

    def __init__(self, transport: Transport, offer: AgentOffer) -> None:
        self.offer = offer
        self._transport = transport
        self._end: asyncio.Task[PairEnd] | None = None
        self._asked: list[_Asked] = []
        self._deaf = False
        self._gone = asyncio.Event()

    async def reached(self) -> PairEnd | None:
        """The way to it; ``None`` where it takes no questions, or is not there any more."""
        if self._gone.is_set():
            return None
        if self._end is None:
            self._end = asyncio.ensure_future(self._opened())
        try:
            end = await asyncio.shield(self._end)
        except ValueError:
            return None
        reaching = asyncio.ensure_future(end.reach("", REACH_SECONDS))
        going = asyncio.ensure_future(self._gone.wait())
        try:
            await asyncio.wait((reaching, going), return_when=asyncio.FIRST_COMPLETED)
            return end if not going.done() and reaching.result() else None
        finally:
            reaching.cancel()
            going.cancel()

    async def takes_questions(self) -> bool:
        """Whether somebody reads what it is asked; the first time it has a while to be connected."""
        if self._deaf:
            return self._end is not None and self._end.done() and await self._heeds(self._end)
        self._deaf = await self.reached() is None
        return not self._deaf

    async def _heeds(self, opened: asyncio.Task[PairEnd]) -> bool:
        try:
            return await (await opened).reach("", 0.0)
        except ValueError:
            return False

    async def _opened(self) -> PairEnd:
        offer = self.offer
        if offer.era == 1:
            pair = from_agents(offer.service, offer.id)
        elif offer.replier:
            pair = from_interfaces_2(offer.service)
        else:
            pair = from_agents_2(offer.service)
        return await self._transport.pair(pair, self._heard, self._left, serves=False)

    async def ask(self, end: PairEnd, message: str, conversation: str, call: Call) -> Mapping[str, Any]:
        """The reply. Raises :class:`OutcomeUnknown` where the agent goes before it answers."""
        asked = _Asked(uuid.uuid4().hex, conversation, asyncio.get_running_loop().create_future())
        self._asked.append(asked)
        try:
            about = await end.send(self._request(asked, message, call))
            if about is None:
                raise EngineUnavailable(f"{call.function} does not take its requests", reason="behind")
            asked.about = about
            return await asked.answer
        finally:
            self._asked.remove(asked)

    def _request(self, asked: _Asked, message: str, call: Call) -> dict[str, Any]:
        said = {"message": message, "conversation_id": asked.conversation}
        if self.offer.era == 1:
            return said
        metadata = {
            "traceparent": f"00-{call.chain_id}-{call.call_id}-{'01' if call.arrived.sampled else '00'}",
            "agents": list(chain_here(call.function)),
        }
        target = {"request_id": asked.request_id, "target_service_guid": self.offer.replier}
        return said | target | {"metadata": encode(metadata).decode()}

    def go(self) -> None:
        """It is not there any more."""
        self._gone.set()
        for asked in self._asked:
            if not asked.answer.done():
                text = f"{self.offer.function} went before it answered; it may have done what it was asked"
                asked.answer.set_exception(OutcomeUnknown(text))

    async def close(self) -> None:
        """Delete the endpoints."""
        self.go()
        if self._end is not None:
            try:
                await (await self._end).close()
            except ValueError:
                return

    def _heard(self, samples: Sequence[Sample]) -> None:
        for sample in samples:
            asked = self._asked_for(sample)
            if asked is not None and not asked.answer.done():
                asked.answer.set_result(sample.values)

    def _asked_for(self, sample: Sample) -> _Asked | None:
        """The question that a reply answers.

        Genesis 0.3 leaves both ids empty now and then: such a reply is for the only question there is.
        """
        values = sample.values
        said, request_id = str(values["conversation_id"]), str(values.get("request_id", ""))
        if sample.about:
            return next((one for one in self._asked if one.about == sample.about), None)
        if request_id:
            return next((one for one in self._asked if one.request_id == request_id), None)
        if said:
            return next((one for one in self._asked if one.conversation == said), None)
        return self._asked[0] if self.offer.era == 2 and len(self._asked) == 1 else None

    def _left(self, participant: str) -> None:
        end = self._end.result() if self._end is not None and self._end.done() else None
        if end is not None and not end.peers:
            for asked in self._asked:
                if not asked.answer.done():
                    text = f"{self.offer.function} went before it answered"
                    asked.answer.set_exception(OutcomeUnknown(f"{text}; it may have done what it was asked"))


@dataclass(slots=True, eq=False)
class _Group:
    """The agents of one service and name, and the function that asks one of them."""

    signature: FunctionSignature
    agents: dict[tuple[str, str], _Agent] = field(default_factory=dict[tuple[str, str], _Agent])


class Peers:
    """See :class:`~enginehost.databus.agents_directory.PeerAgents`. ``turns`` orders conversations."""

    def __init__(self, transport: Transport, turns: Turns) -> None:
        self._transport = transport
        self._turns = turns
        self._groups: dict[str, _Group] = {}
        self._suffixes: dict[tuple[str, str], int] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def come(self, offer: AgentOffer, participant: str) -> Function:
        """See :class:`~enginehost.databus.agents_directory.PeerAgents`."""
        group = self._groups.setdefault(offer.function, _Group(_signature(offer)))
        group.agents[offer.id, participant] = _Agent(self._transport, offer)
        return self._function(group)

    def leave(self, offer: AgentOffer, participant: str) -> Function | None:
        """See :class:`~enginehost.databus.agents_directory.PeerAgents`."""
        group = self._groups[offer.function]
        agent = group.agents.pop((offer.id, participant))
        agent.go()
        self._later(agent.close())
        if group.agents:
            return self._function(group)
        del self._groups[offer.function]
        return None

    async def askable(self, agents: Sequence[BusAgent]) -> list[BusAgent]:
        """Those of ``agents`` that can be asked; hosts like this one always can."""
        unsure = [one for one in agents if not one.host and one.function in self._groups]
        tried = sorted(unsure, key=lambda one: -one.age)[:MOST_TRIED]
        answers = await asyncio.gather(*(self._takes_questions(one.function) for one in tried))
        left_out = {one.id for one in unsure} - {
            one.id for one, takes in zip(tried, answers, strict=True) if takes
        }
        return [one for one in agents if one.id not in left_out]

    async def _takes_questions(self, name: str) -> bool:
        group = self._groups.get(name)
        there = list(group.agents.values()) if group is not None else []
        return any(await asyncio.gather(*(one.takes_questions() for one in there)))

    async def close(self) -> None:
        """Ask nobody any more."""
        agents = [agent for group in self._groups.values() for agent in group.agents.values()]
        for agent in agents:
            agent.go()
        await asyncio.gather(*(agent.close() for agent in agents), *self._closing, return_exceptions=True)

    def _function(self, group: _Group) -> Function:
        async def run(arguments: dict[str, Any], call: Call) -> str:
            return await self._ask(group, arguments, call)

        return Function(group.signature, run)

    async def _ask(self, group: _Group, arguments: dict[str, Any], call: Call) -> str:
        message = str(arguments["message"])
        name = group.signature.name
        conversation = str(arguments.get("conversation_id") or conversation_with(name) or uuid.uuid4())
        chain_here(name)
        _check(name, message, conversation, [one.offer for one in group.agents.values()])
        async with self._turns.of((name, conversation), call):
            tried: set[_Agent] = set()
            while (agent := self._another(name, tried)) is not None:
                tried.add(agent)
                if (end := await agent.reached()) is not None:
                    return await self._answer(agent, end, message, conversation, call)
            raise EngineUnavailable(f"{name} takes no questions", reason="unreachable")

    def _another(self, name: str, tried: set[_Agent]) -> _Agent | None:
        """One of the agents that there are now: who tells more of itself meanwhile is made anew."""
        group = self._groups.get(name)
        agents = group.agents.values() if group is not None else ()
        return next((one for one in agents if one not in tried), None)

    async def _answer(self, agent: _Agent, end: PairEnd, message: str, conversation: str, call: Call) -> str:
        key = call.function, conversation
        further = self._suffixes.get(key, 0)
        try:
            on_the_wire = f"{conversation}~{further}" if further else conversation
            reply = await agent.ask(end, message, on_the_wire, call)
        except (asyncio.CancelledError, OutcomeUnknown):
            self._suffixes[key] = further + 1
            if len(self._suffixes) > MOST_SUFFIXES:
                del self._suffixes[next(iter(self._suffixes))]
            raise
        text = str(reply["message"])
        if reply["status"]:
            raise ExecutionFailed(f"{call.function}: {shown(text)[:2_000]}")
        return text

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _signature(offer: AgentOffer) -> FunctionSignature:
    hints = Annotations(open_world=True)
    return FunctionSignature(
        offer.function,
        offer.description,
        AGENT_PARAMETERS,
        result={"type": "string"},
        annotations=hints,
        tags=offer.tags,
    )


def _check(name: str, message: str, conversation: str, offers: Sequence[AgentOffer]) -> None:
    """Raise what refuses a question that the types of the databus have no room for."""
    if any(offer.era == 1 for offer in offers) and (size := len(message.encode())) > _MESSAGE_BYTES:
        raise TooLarge(f"the message to {name}", limit=_MESSAGE_BYTES, size=size)
    check_conversation(conversation)
