"""Agents as tools of agents.

The other agent answers in a session of its own, whose id comes from the session and the call that asked, so
that whoever takes the turn over finds that session again instead of asking twice. Its turn settles the call
when it ends: at once, or days later, when a person has decided what it waits for.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from enginehost.agents.chain import CHAIN
from enginehost.agents.contract import AgentSpec
from enginehost.agents.rows import failure, result
from enginehost.errors import InvalidRequest, UnknownSession, error_from_json
from enginehost.llm.message import Message, Role, Type, user
from enginehost.store.port import Run, RunState, Settled

if TYPE_CHECKING:
    from enginehost.agents.runner import Runner
    from enginehost.agents.service import AgentService
    from enginehost.agents.session import AgentSession

__all__ = ["CHAIN", "chain_of", "deeper", "delegate", "tell"]

_NAMESPACE = uuid.UUID("8c5b5c0e-6d0f-5a39-9a3c-5a1f3d6f0b77")


async def delegate(runner: Runner, call: Message, name: str, args: Mapping[str, Any]) -> bool:
    """Ask agent ``name``, and wait for its turn; whether that waits for a person.

    Raises ``InvalidRequest`` where agents call each other too deep, and ``Overloaded`` where the conversation
    that was named is busy.
    """
    chain = deeper(chain_of(runner.run, runner.spec), name, runner.spec.limits.depth)
    conversation = str(
        args.get("conversation_id") or uuid.uuid5(_NAMESPACE, f"{call.session} {call.call_id}")
    )
    child = await runner.agents.start(conversation, agent=name, owner=runner.session.caller, alone=True)
    runner.data.setdefault("children", {})[call.call_id] = child.id
    run = await _asked(child, call)
    if run is None:
        parent = {"session": runner.session.id, "run": runner.run.id, "call": call.query}
        sequence = await _question(child, str(args["message"]), derived="conversation_id" not in args)
        run = await child.begin_turn(sequence, alone=True, data={"chain": chain, "parent": parent})
    try:
        ended = await runner.agents.wait(run)
    except asyncio.CancelledError:
        if runner.breaks_off:
            await child.cancel()
        raise
    return not ended.state.ended


def chain_of(run: Run, spec: AgentSpec) -> list[str]:
    """The agents that asked each other, from the first one to the one that answers in ``run``."""
    return list(map(str, run.data.get("chain") or [spec.name]))


def deeper(chain: Sequence[str], name: str, depth: int) -> list[str]:
    """The chain with one agent more. Raises ``InvalidRequest`` where that is too deep."""
    longer = [*chain, name]
    if len(longer) - 1 > depth:
        way = " → ".join(longer)
        raise InvalidRequest(
            f"agents may call each other {depth} deep, and this would be deeper: {way}",
            detail={"reason": "depth", "chain": longer},
        )
    return longer


async def _asked(child: AgentSession, call: Message) -> Run | None:
    """The turn that was begun for this call already, by a process that died or before a pause."""
    runs = await child.runs()
    return next((run for run in runs if _call_of(run) == call.call_id), None)


def _call_of(run: Run) -> str:
    parent = run.data.get("parent")
    return str(parent["call"].get("id", "")) if isinstance(parent, Mapping) else ""


async def _question(child: AgentSession, message: str, *, derived: bool) -> int:
    """The sequence of the message in the other agent's session; one that stands there already counts."""
    if derived:
        for row in await child.history(limit=10):
            if row.role is Role.USER and row.type is Type.TEXT:
                return row.sequence
    return (await child.append([user(message)]))[0].sequence


async def tell(agents: AgentService, child: AgentSession, run: Run, state: RunState, error: Any) -> None:
    """Settle the call that a turn was begun for, before the turn ends."""
    parent = run.data.get("parent")
    if not isinstance(parent, Mapping):
        return
    call = Message(Role.ASSISTANT, Type.TOOL_CALL, query=parent["call"])
    if state is RunState.DONE:
        answer = {"answer": await child.reply(run), "conversation_id": child.id}
        if error:  # it was stopped, at a limit or by a stage
            answer["stopped"] = str(error.get("message", ""))
        row = result(call, orjson.dumps(answer).decode())
    elif error:
        row = failure(call, error_from_json(error))
    else:
        row = failure(call, "the agent's turn was cancelled", "cancelled")
    try:
        await agents.store.append(str(parent["session"]), [row], child.owner)
    except Settled:
        pass  # by whoever ended this turn before and died, perhaps before it woke the other one
    except UnknownSession:  # it was deleted meanwhile
        return
    asking = await agents.store.run(str(parent["run"]))
    if asking is not None:
        await agents.resume(asking)
