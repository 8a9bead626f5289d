"""An agent as a function: a message in, the answer's text out, whole or as it comes."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any
from urllib.parse import quote

from enginehost.agents.chain import CHAIN, DECISION, QUESTION
from enginehost.agents.contract import Agents, Session
from enginehost.agents.rows import Decision
from enginehost.caller import Caller
from enginehost.errors import (
    CallCancelled,
    EngineHostError,
    EngineUnavailable,
    ExecutionFailed,
    InvalidRequest,
    Overloaded,
    TooLarge,
    WaitsForPerson,
    error_from_json,
)
from enginehost.llm.message import Message, Role, Type
from enginehost.store.port import Position, Run, RunState

WAITS = "waits-for-a-person"
"""``detail["reason"]`` of a call whose turn waits for a person."""
LIMIT = "limit"
"""Likewise, of one whose turn ended at a limit; the code of such a run's error, too."""


async def ask(agents: Agents, name: str, message: str, conversation: str, caller: Caller) -> str:
    """What agent ``name`` answers. Raises what its turn failed with.

    Raises :class:`~enginehost.errors.WaitsForPerson` where a person has to decide something first: the
    turn stays as it is, and ``detail`` has the conversation's id and the questions. So does a message to a
    conversation that waits already, which does not take it in. Raises
    :class:`~enginehost.errors.ExecutionFailed` where the turn ended at a limit, with the text so far in
    ``detail``. A call that is broken off breaks its turn off.
    """
    only = (DECISION.get() or {}).get("only") is True
    async with _turn(agents, name, message, conversation, caller) as (session, begun, _):
        if only:
            return ""  # the session that asked hears what comes of it by a call of its own
        run = await session.wait(begun)
        await check_answered(session, run, name)
        return await session.reply(run)


async def ask_stream(
    agents: Agents, name: str, message: str, conversation: str, caller: Caller
) -> AsyncGenerator[str, None]:
    """Likewise, text by text as the agent says it.

    What comes of a decision, and of a question that was asked before, is said in one piece.
    """
    if DECISION.get() is not None:
        yield await ask(agents, name, message, conversation, caller)
        return
    async with _turn(agents, name, message, conversation, caller) as (session, begun, again):
        if again:
            now = await session.wait(begun)
            await check_answered(session, now, name)
            yield await session.reply(now)
            return
        now = begun
        async with aclosing(session.events(Position(begun.started_by))) as events:
            async for event in events:
                if event.message is not None and _is_said(event.message):
                    yield event.message.content
                if event.run is not None and event.run.id == begun.id:
                    now = event.run
                    if now.state.ended or now.state is RunState.PAUSED:
                        break
        await check_answered(session, now, name)


@asynccontextmanager
async def _turn(
    agents: Agents, name: str, message: str, conversation: str, caller: Caller
) -> AsyncGenerator[tuple[Session, Run, bool], None]:
    """The session, the turn that answers, and whether that began when the question was asked before."""
    session = await agents.start(conversation or None, agent=name, owner=caller, alone=True)
    if (decided := DECISION.get()) is not None:
        DECISION.set(None)
        yield session, await _decided(session, decided), False
        return
    before, question = await session.run(), QUESTION.get()
    again = question and before is not None and before.data.get("question") == question
    if not again or before is None or before.state is RunState.CANCELLED:
        again, before = False, await _begun(session, before, message, name)
    QUESTION.set("")  # what the turn asks in its turn is another one
    try:
        with agents.awaiting(before):
            yield session, before, bool(again)
    except (asyncio.CancelledError, GeneratorExit):
        with suppress(EngineHostError):
            await session.cancel()
        raise


async def _begun(session: Session, before: Run | None, message: str, name: str) -> Run:
    """A turn for the message, where the conversation is free for one."""
    busy = before is not None and not before.state.ended
    if CHAIN.get() and busy:  # it may be the turn that waits for this one
        raise Overloaded(f"the conversation {session.id} of {name} is busy with another turn")
    if before is not None and before.state is RunState.PAUSED:
        await check_answered(session, before, name)
    run = await session.write(message)
    if run is None:
        raise ExecutionFailed(f"{name}: the message began no turn")
    return run


async def _decided(session: Session, decided: Mapping[str, Any]) -> Run:
    """Tell a turn that waits what a person decided at the other end.

    Raises ``InvalidRequest``: of a question that is not there, or is decided already, too.
    """
    try:
        await _decide(session, decided)
    except InvalidRequest as error:
        if decided.get("again") is not True or error.detail.get("reason") not in ("no-question", "settled"):
            raise
    run = await session.run()
    if run is None:
        raise InvalidRequest("nothing waits in this conversation", detail={"reason": "no-question"})
    return run


async def _decide(session: Session, decided: Mapping[str, Any]) -> None:
    question, text = str(decided.get("question", "")), str(decided.get("text", ""))
    match decided.get("decision"):
        case Decision.APPROVE:
            await session.approve(question)
        case Decision.REJECT:
            await session.reject(question, text)
        case Decision.EDIT:
            await session.edit(question, decided.get("args") or {})
        case Decision.ANSWER:
            await session.answer(question, text)
        case "cancel":
            await session.cancel()
        case _:
            raise InvalidRequest("a decision is approve, reject, edit, answer or cancel")


def _is_said(message: Message) -> bool:
    return message.role is Role.ASSISTANT and message.type is Type.TEXT and bool(message.content)


async def _so_far(session: Session, run: Run) -> str:
    """What a turn that was stopped had said; of a text beyond the bounds of an answer, nothing."""
    try:
        return await session.reply(run)
    except TooLarge:
        return ""


async def check_answered(session: Session, run: Run, name: str) -> None:
    """Raise what a turn that gave no answer has to say."""
    about: dict[str, Any] = {"conversation_id": session.id}
    if run.state is RunState.PAUSED:
        questions = [dict(one.query or {}) | {"text": one.content} for one in await session.questions()]
        about["hint"] = (
            f"decide it with `{shlex.join(['enginehost', 'chat', name, '--session', session.id])}`, or with"
            f" POST /v1/sessions/{quote(session.id, safe='')}/approvals/CALL"
        )
        text = "; ".join(str(one["text"]) for one in questions) or "a result from outside is missing"
        raise WaitsForPerson(
            f"the agent waits for a person: {text} (conversation {session.id})",
            detail={"reason": WAITS, "questions": questions, **about},
        )
    if run.state is RunState.DONE and run.error is not None and run.error.get("code") == LIMIT:
        text = str(run.error.get("message", "the turn ended at a limit"))
        raise ExecutionFailed(
            f"{text} (conversation {session.id})",
            detail={"reason": LIMIT, "text": await _so_far(session, run), **about},
        )
    if run.state is RunState.FAILED:
        raise error_from_json(run.error or {"code": "execution_failed", "message": "the turn failed"})
    if run.state is RunState.CANCELLED:
        raise CallCancelled("the agent's turn was cancelled", detail=about)
    if not run.state.ended:
        text = f"the host stops; conversation {session.id} goes on in another process"
        raise EngineUnavailable(text, state="closing", reason=text)
