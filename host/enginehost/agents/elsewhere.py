"""Calls of agents on other hosts whose turns wait for a person: asked here, decided here, told there.

The other host answers that its agent waits, with its questions. Each becomes a question of the session that
asked. A decision goes to the other host first, which may refuse it; once it stands there it is stored here,
and what comes of it is the answer of a further call of the agent, in the conversation that waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from enginehost.agents.chain import DECISION, trace_for_calls
from enginehost.agents.ledger import CallState
from enginehost.agents.rows import Decision, Question, decision_of
from enginehost.errors import EngineHostError, InvalidRequest, WaitsForPerson
from enginehost.llm.message import Message, Role, Type

if TYPE_CHECKING:
    from enginehost.agents.port import AgentHost
    from enginehost.caller import Caller

CANCEL_SECONDS = 5.0
"""How long the other host has to hear that a turn that waits there is of no use any more."""


def waits_elsewhere(error: EngineHostError) -> list[Mapping[str, Any]]:
    """The questions of an agent of another host that waits for a person; none where it does not."""
    detail = error.detail
    if not isinstance(error, WaitsForPerson):
        return []
    asked: Any = detail.get("questions")
    listed: list[Any] = asked if isinstance(asked, list) else []
    there = isinstance(detail.get("conversation_id"), str)
    return [one for one in listed if there and isinstance(one, Mapping) and isinstance(one.get("id"), str)]


def questions_here(state: CallState, agent: str, error: EngineHostError) -> list[Message]:
    """The rows that ask what the other host asks, of questions that were not asked yet."""
    rows: list[Message] = []
    for one in waits_elsewhere(error):
        asked_as = f"{state.id}~{one['id']}"
        if asked_as in state.questions:
            continue
        query = {
            "id": asked_as,
            "kind": str(Question.APPROVAL),
            "call": state.id,
            "tool": str(one.get("tool", agent)),
            "args": one.get("args", {}),
            "remote": {"question": one["id"], "agent": agent},
        }
        text = f"{agent} asks: {str(one.get('text', ''))[:2_000] or 'May it go on?'}"
        rows.append(Message(Role.SYSTEM, Type.APPROVAL, text, query=query))
    return rows


def next_decision(state: CallState, sent: list[str]) -> Mapping[str, Any] | None:
    """The next decision that the other host has to hear; ``None`` where there is none."""
    for asked_as, row in state.decisions.items():
        said = row.query or {}
        if "remote" not in said or asked_as in sent:
            continue
        decided = decision_of(row)
        told = {"question": said["remote"]["question"], "decision": str(decided), "text": row.content}
        told["again"] = True  # whoever decided told it there before
        return told | ({"args": said.get("args", {})} if decided is Decision.EDIT else {})
    return None


def asked_elsewhere(state: CallState) -> bool:
    """Whether the call waits, or waited, for a decision that another host is to hear."""
    return any("remote" in (row.query or {}) for row in state.questions.values())


async def decide_elsewhere(
    host: AgentHost, caller: Caller, wait: Mapping[str, Any], row: Message
) -> InvalidRequest | None:
    """Let a decision stand at the other host before it is stored here.

    Returns the refusal of one that was decided there before. Raises what else the other host refuses, such as
    ``InvalidArguments``, and ``EngineUnavailable`` where it cannot be reached: the question is open then.
    """
    said = row.query or {}
    told: dict[str, Any] = {
        "question": said["remote"]["question"],
        "decision": said["decision"],
        "text": row.content,
        "only": True,
    }
    if "args" in said and said["decision"] == Decision.EDIT:
        told["args"] = said["args"]
    token = DECISION.set(told)
    try:
        call = host.new_call(str(wait["agent"]), caller, trace_for_calls())
        await host.call_json(call, {"message": "decision", "conversation_id": wait["conversation_id"]})
    except InvalidRequest as error:
        if error.detail.get("reason") not in ("no-question", "settled"):
            raise
        return error
    finally:
        DECISION.reset(token)
    return None


async def cancel_elsewhere(host: AgentHost, caller: Caller, waits: Mapping[str, Mapping[str, Any]]) -> None:
    """End turns of other hosts that wait for a decision nobody will make any more, as far as they hear it."""
    token = DECISION.set({"question": "", "decision": "cancel"})
    try:
        for one in waits.values():
            with suppress(EngineHostError, TimeoutError):
                async with asyncio.timeout(CANCEL_SECONDS):
                    call = host.new_call(str(one["agent"]), caller, trace_for_calls())
                    said = {"message": "cancel", "conversation_id": one["conversation_id"]}
                    await host.call_json(call, said)
    finally:
        DECISION.reset(token)
