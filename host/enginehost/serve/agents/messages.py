"""``POST /v1/agents/{name}/messages`` and ``POST /v1/agents/messages``: a question in, the answer out.

The answer is one JSON object, or server-sent events: ``agent`` (who answers, and in which conversation), an
``item`` for each piece of the answer, ``done``; or ``error``, which is the last.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from enginehost.agents.chain import DECISION
from enginehost.agents.identity import owner_of
from enginehost.agents.spans import hidden
from enginehost.caller import Caller
from enginehost.databus import BusAgent
from enginehost.engine import Call
from enginehost.errors import EngineHostError, EngineUnavailable, Forbidden, InvalidRequest, WaitsForPerson
from enginehost.genesis.routing import Because, Routed, Router
from enginehost.serve.agents.bodies import Said, said_in
from enginehost.serve.agents.seen import agent_called, agents_callable, agents_seen, is_own
from enginehost.serve.disconnect import Watch
from enginehost.serve.events import QUIET_SECONDS, EventStream
from enginehost.serve.problem import HeaderList, refuse, respond
from enginehost.serve.request import timeout_of, trace_of, wants_events
from enginehost.serve.sessions.access import caller_of
from enginehost.steps import Step, StepKind, telling
from enginehost.store.port import Owner
from enginehost.trace_context import TraceContext
from enginehost.values import decode, write

if TYPE_CHECKING:
    from enginehost.host import Host

_OTHERS = uuid.UUID("0c8f6a1e-9f5e-5d0c-8d0b-3a6f0b6b7a52")


@dataclass(slots=True, eq=False)
class _Question:
    """A question whose agent is known. ``conversation`` is the caller's word for it."""

    said: Said
    routed: Routed
    conversation: str
    call: Call
    timeout: float | None
    step: Step

    @property
    def about(self) -> dict[str, Any]:
        """Who answers and why, and in which conversation."""
        agent, because = self.routed
        return {
            "agent": {"id": agent.id, "name": agent.name, "service": agent.service},
            "routed": {"by": str(because), "reason": because.words},
            "conversation_id": self.conversation,
        }


class Messages:
    """Both routes as ASGI applications: with a name in the path, or routed by ``router``."""

    def __init__(self, host: Host, router: Router) -> None:
        self._host = host
        self._router = router
        self._most_bytes = int(host.settings.http.max_body_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one question."""
        request = Request(scope, receive)
        headers = dict(scope["headers"])
        said = await said_in(request, self._most_bytes, named="name" in request.path_params)
        question = await self._asked(request, said, headers)
        if wants_events(headers):
            await self._answer_events(question, receive, send)
        else:
            await self._answer(question, receive, send)

    async def _asked(self, request: Request, said: Said, headers: dict[bytes, bytes]) -> _Question:
        timeout, host = timeout_of(headers), self._host
        caller: Caller = request.scope["enginehost"].caller
        if said.conversation:
            caller = caller_of(request)  # a conversation is somebody's: who shows no proof has none
        conversation = said.conversation or uuid.uuid4().hex
        place = owner_of(caller), conversation
        if name := request.path_params.get("name"):
            routed = Routed(
                await agent_called(host, name, caller, self._router.answering(place)), Because.NAMED
            )
            if said.decision is None:  # a decision begins nothing
                self._router.answers(place, routed.agent)
        else:
            askable = host.bus.askable if host.bus is not None else None
            candidates = self._candidates(caller)
            routed = await self._router.route(said.message, candidates, place, askable=askable)
        if said.decision is not None and not (routed.agent.host or is_own(host, routed.agent)):
            raise InvalidRequest(
                f"{routed.agent.name} is no agent of a host like this: it asks nobody to decide"
            )
        about = _told_of(place, said, "" if is_own(host, routed.agent) else routed.agent.id)
        step = host.steps.begin(StepKind.REQUEST, routed.agent.function, trace_of(headers), about=about)
        call = host.new_call(routed.agent.function, caller, TraceContext(step.trace, step.span))
        return _Question(said, routed, conversation, call, timeout, step)

    def _candidates(self, caller: Caller) -> list[BusAgent]:
        found = agents_callable(self._host, caller)
        if found:
            return found
        # who could show a proof and showed none is asked for it, whatever there is for others
        if agents_seen(self._host, caller) or (caller.may_prove and not caller.authenticated):
            raise Forbidden(f"{caller.subject} may not call any agent")
        raise EngineUnavailable("there is no agent here", reason="no-agent")

    async def _answer(self, question: _Question, receive: Receive, send: Send) -> None:
        watch = Watch(receive)
        headers = _own_headers(question)
        try:
            with self._told(question):
                text = await self._whole(question)
        except asyncio.CancelledError:
            watch.settle()
            return
        except EngineHostError as error:
            await refuse(send, self._as_told(question, error), headers, question.call.call_id)
            return
        finally:
            watch.stop()
        body = write({"answer": text} | question.about)
        await respond(send, 200, [(b"content-type", b"application/json"), *headers], body)

    async def _answer_events(self, question: _Question, receive: Receive, send: Send) -> None:
        stream = EventStream(send, lambda: _own_headers(question))
        watch = Watch(receive, beat=stream.beat, every=QUIET_SECONDS)
        try:
            async with aclosing(self._pieces(question)) as pieces:
                count, first = 0, True
                async for piece in pieces:
                    if first:
                        await stream.event(b"agent", write(question.about))
                        first = False
                    await stream.event(b"item", piece)
                    count += 1
            if first:
                await stream.event(b"agent", write(question.about))
            await stream.event(b"done", b'{"items":%d}' % count)
            await stream.end()
        except asyncio.CancelledError:
            watch.settle()
        except EngineHostError as error:
            told, call_id = self._as_told(question, error), question.call.call_id
            if stream.started:
                await stream.fail(told, call_id)
            else:
                await refuse(send, told, _own_headers(question), call_id)
        finally:
            watch.stop()

    async def _pieces(self, question: _Question) -> AsyncGenerator[bytes, None]:
        """The pieces of the answer, each as a JSON text; what comes of a decision is one piece."""
        with self._told(question):
            if question.said.decision is not None:
                yield write(await self._whole(question))
                return
            given = self._arguments(question)
            items = self._host.stream_json(question.call, given, timeout=question.timeout)
            async with aclosing(items):
                async for item in items:
                    yield item

    def _told(self, question: _Question) -> AbstractContextManager[None]:
        """Tell monitors how the request ends."""
        return telling(lambda outcome: self._host.steps.end(question.step, outcome))

    async def _whole(self, question: _Question) -> str:
        token = DECISION.set(question.said.decision)
        try:
            given = self._arguments(question)
            result: Any = decode(await self._host.call_json(question.call, given, timeout=question.timeout))
        finally:
            DECISION.reset(token)
        return "".join(map(str, result)) if isinstance(result, list) else str(result)

    def _arguments(self, question: _Question) -> dict[str, str]:
        return {"message": question.said.message, "conversation_id": self._there(question)}

    def _there(self, question: _Question) -> str:
        """The conversation as the agent knows it.

        Another host sees this one as the caller, whoever asks here: conversations of two callers under the
        same id must not become one there.
        """
        if is_own(self._host, question.routed.agent):
            return question.conversation
        owner = owner_of(question.call.caller)
        return str(uuid.uuid5(_OTHERS, f"{owner.subject}\0{owner.tenant}\0{question.conversation}"))

    def _as_told(self, question: _Question, error: EngineHostError) -> EngineHostError:
        """The error in the words of this route: which conversation waits, and how it is decided."""
        there = self._there(question)
        if not isinstance(error, WaitsForPerson) or error.detail.get("conversation_id") != there:
            return error
        error.message = error.message.replace(there, question.conversation)
        error.detail["conversation_id"] = question.conversation
        error.detail["hint"] = (
            f"send its conversation_id and a decision to /v1/agents/{question.routed.agent.name}/messages"
        )
        return error


def _told_of(place: tuple[Owner, str], said: Said, agent_id: str) -> dict[str, str]:
    """What monitors are told of a request: enough to find what it goes on with, and nothing to do so by."""
    owner, conversation = place
    about = {"conversation": hidden(f"{owner.subject}\0{owner.tenant}\0{conversation}"), "agent_id": agent_id}
    return about | ({"decision": str(said.decision.get("decision", ""))} if said.decision is not None else {})


def _own_headers(question: _Question) -> HeaderList:
    return [(b"x-call-id", question.call.call_id.encode())]
