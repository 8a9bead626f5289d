"""Conversations with agents of others: whose they are, and one question in each at a time."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from enginehost.agents.chain import CHAIN, CONVERSATION
from enginehost.databus.types import ID_BOUND
from enginehost.engine import Call
from enginehost.errors import InvalidRequest

_NAMESPACE = uuid.UUID("5d0e6a52-8a7c-5a53-bd8f-0f4e1f1c9a31")

LONGEST_CONVERSATION = ID_BOUND - 8
"""Bytes of a conversation's id: what the databus has room for, with a suffix."""
MOST_CHAIN = 100
"""Agents that may ask each other, one after the other, over the databus, whatever their own limits say."""


def check_conversation(conversation: str) -> None:
    """Raises :class:`InvalidRequest` for an id that is longer than every face has room for."""
    if len(conversation.encode(errors="replace")) > LONGEST_CONVERSATION:
        raise InvalidRequest(f"conversation_id has more than {LONGEST_CONVERSATION} bytes")


def conversation_with(agent: str) -> str:
    """The conversation that the agent which asks here goes on with; empty where no agent asks.

    It is the same each time in one session, so that the other one remembers; another session has another.
    """
    session = CONVERSATION.get()
    return str(uuid.uuid5(_NAMESPACE, f"{session}\0{agent}")) if session else ""


def chain_here(name: str) -> tuple[str, ...]:
    """The agents that asked each other until here. Raises :class:`InvalidRequest` where they are too many."""
    chain = CHAIN.get()
    if len(chain) >= MOST_CHAIN:
        way = " → ".join((*chain[:3], "…", *chain[-2:], name))
        text = f"agents may call each other {MOST_CHAIN} deep on the databus, and this would be deeper: {way}"
        raise InvalidRequest(text, detail={"reason": "depth"})
    return chain


@dataclass(slots=True, eq=False)
class _Line:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0
    trace: int = 0
    depth: int = 0


class Turns:
    """One question in a conversation at a time; the others wait in order, as long as their callers do."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, _Line] = {}

    def __len__(self) -> int:
        """Conversations in which somebody asks now."""
        return len(self._lines)

    @asynccontextmanager
    async def of(self, conversation: Hashable, call: Call) -> AsyncGenerator[None]:
        """Wait for the turn of ``call``.

        Raises :class:`InvalidRequest` where the question that is being answered waits for this one: agents
        that ask each other in one conversation would wait for ever.
        """
        line = self._lines.setdefault(conversation, _Line())
        depth = len(CHAIN.get())
        if line.lock.locked() and line.trace == call.trace and line.depth < depth:
            way = " → ".join((*CHAIN.get(), call.function))
            text = f"{call.function} is asked in a conversation in which it is to answer already: {way}"
            raise InvalidRequest(text, detail={"reason": "loop"})
        line.waiting += 1
        try:
            async with line.lock:
                line.trace, line.depth = call.trace, depth
                yield
        finally:
            line.waiting -= 1
            if not line.waiting:
                self._lines.pop(conversation, None)
