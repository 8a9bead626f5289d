"""An agent as a model: the messages of a request are the conversation; nothing is kept once it is answered.

The agent calls its own tools while it answers. A turn that a person has to decide on is an error that says
how it is decided; its session stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from enginehost.agents.asking import check_answered
from enginehost.agents.session import AgentSession
from enginehost.caller import Caller
from enginehost.errors import EngineHostError
from enginehost.llm.message import Message, Role, Status, Type
from enginehost.serve.openai.asked import Asked
from enginehost.serve.openai.faults import Unsupported
from enginehost.store.port import Position, Run, RunState

if TYPE_CHECKING:
    from enginehost.agents.service import AgentService

_TAKEN = frozenset({"max_tokens", "temperature", "stop", "extra", "reasoning"})
"""Options that an agent's own settings go before: no client changes what its model is told."""
_SAID = (Type.TEXT, Type.DATA)


async def answered(
    agents: AgentService, name: str, asked: Asked, caller: Caller
) -> AsyncGenerator[Message, None]:
    """What the agent says, as it comes; of a turn that is done, its usage at the end."""
    system, before, last = _told(asked)
    session = await agents.start(agent=name, owner=caller, system=system)
    keep = False
    try:
        if before:
            await session.append(before)
        run = await session.write(last)
        if run is None:
            raise Unsupported("messages", "the last message must be the user's")
        with agents.awaiting(run):
            ended = run
            async with aclosing(session.events(Position(run.started_by))) as events:
                async for event in events:
                    if event.message is not None and _is_said(event.message):
                        yield event.message
                    if event.run is not None and event.run.id == run.id:
                        ended = event.run
                        if ended.state.ended or ended.state is RunState.PAUSED:
                            break
        keep = ended.state is RunState.PAUSED
        await check_answered(session, ended, name)
        yield _end(ended)
    finally:
        if not keep:
            await asyncio.shield(_forget(agents, session))


def _end(run: Run) -> Message:
    return Message(Role.ASSISTANT, usage=run.usage)


async def _forget(agents: AgentService, session: AgentSession) -> None:
    with suppress(EngineHostError):
        await session.cancel()
        await agents.store.delete(session.id, session.owner)


def _is_said(message: Message) -> bool:
    return message.role is Role.ASSISTANT and message.type in _SAID and message.status is not Status.FAILED


def _told(asked: Asked) -> tuple[str, Sequence[Message], Sequence[Message]]:
    """Instructions, what was said before, and what the user says now."""
    if strange := sorted(set(asked.options) - _TAKEN):
        param = {"schema": "response_format", "tool_choice": "tools", "parallel_tools": "tools"}
        name = param.get(strange[0], strange[0])
        raise Unsupported(name, f"an agent has its own tools and form of answer: {name} is not taken for one")
    rows = list(asked.rows)
    if any(row.type in (Type.TOOL_CALL, Type.TOOL_RESULT) for row in rows):
        raise Unsupported("messages", "an agent calls its own tools: leave calls and their results out")
    system = "\n\n".join(row.content for row in rows if row.role is Role.SYSTEM)
    said = [row for row in rows if row.role is not Role.SYSTEM]
    at = len(said)
    while at and said[at - 1].role is Role.USER:
        at -= 1
    if at == len(said):
        raise Unsupported("messages", "the last message must be the user's")
    return system, said[:at], said[at:]
