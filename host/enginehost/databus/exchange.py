"""One request that is on its way, and what has come back of it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from enginehost.databus.metadata import ReplyMetadata
from enginehost.databus.port import ExecutionReply
from enginehost.databus.replicas import Provider
from enginehost.trace_context import NO_TRACE, TraceContext

MOST_AHEAD_BYTES = 4 << 20
"""Bytes of a stream that may wait for its reader."""
MOST_AHEAD = 1_024
"""Items of a stream that may wait for its reader."""
FIRST_CREDIT = 64


class ProviderGone(Exception):
    """Whoever was asked is not heard of any more."""


class Ask(NamedTuple):
    """What is asked: ``parameters`` is a JSON object; ``until`` is when no answer is of use any more.

    ``until`` is monotonic seconds. ``repeatable``: asking twice does no harm (idempotent, or read-only).
    ``caller`` is for whom it is asked, ``trace`` the span that asks, ``agents`` those that asked each other.
    ``decide``: what a person decided about a question of the agent that is asked; ``question``: what tells
    this question to it from others.
    """

    name: str
    parameters: bytes
    until: float | None = None
    repeatable: bool = False
    caller: str = ""
    trace: TraceContext = NO_TRACE
    agents: tuple[str, ...] = ()
    decide: Mapping[str, Any] | None = None
    question: str = ""


@dataclass(slots=True, eq=False)
class Exchange:
    """A request under its id. ``answer`` has the final reply, or :class:`ProviderGone`.

    ``wanted`` is what its metadata says besides what every request's says. ``remind_at`` (monotonic seconds)
    is when the provider is asked again, should nothing be heard until then. ``missed``: its provider is out
    of sight, and being waited for.
    """

    request_id: str
    function_id: str
    provider: Provider
    ask: Ask
    answer: asyncio.Future[tuple[ExecutionReply, ReplyMetadata]]
    wanted: dict[str, Any] = field(default_factory=dict)
    accepted: bool = False
    items: Incoming | None = None
    remind_at: float = 0.0
    reminders: int = 0
    missed: bool = False

    def take(self, reply: ExecutionReply, metadata: ReplyMetadata) -> None:
        """A reply came."""
        if metadata.final:
            if not self.answer.done():
                self.answer.set_result((reply, metadata))
        else:
            self.accepted = True
            if self.items is not None and not metadata.accepted:
                self.items.put(reply, metadata)
                return
        if self.items is not None:
            self.items.wake.set()

    def lose(self) -> None:
        """The provider went."""
        if not self.answer.done():
            self.answer.set_exception(ProviderGone())
        if self.items is not None:
            self.items.wake.set()


@dataclass(slots=True, eq=False)
class Incoming:
    """Replies of a stream that its reader has not taken yet, and the credit that is given for them."""

    replies: deque[tuple[ExecutionReply, ReplyMetadata]] = field(default_factory=deque)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    expected: int = 1
    granted: int = FIRST_CREDIT
    taken: int = 0
    received: int = 0
    received_bytes: int = 0
    torn: bool = False
    """Something between was lost."""

    def put(self, reply: ExecutionReply, metadata: ReplyMetadata) -> None:
        """A reply with items came."""
        if metadata.sequence and metadata.sequence != self.expected:
            self.torn = True
        self.expected = metadata.sequence + 1
        self.received += max(1, metadata.items)
        self.received_bytes += len(reply.result)
        self.replies.append((reply, metadata))
        self.wake.set()

    def more(self) -> int:
        """How many further items may be sent now; 0 while it is too early to say so."""
        size = max(1, self.received_bytes // max(1, self.received))
        window = max(1, min(MOST_AHEAD, MOST_AHEAD_BYTES // size))
        grant = self.taken + window - self.granted
        if grant < max(1, window // 2):
            return 0
        self.granted += grant
        return grant


def items_of(value: Any, metadata: ReplyMetadata) -> list[Any]:
    """The items in the result of one reply: an array of them where it says that it has several."""
    return value if metadata.items and isinstance(value, list) else [value]
