"""A message: the one row of a conversation, in the store, on the wire between stages, and to a model.

While a message arrives it comes in pieces: messages of one ``id`` with status ``open``, each with a further
part of ``content``; the last one has status ``done``, ``failed`` or ``cancelled`` and, where there are any,
``query``, ``provider`` and ``usage``. A message that comes whole has status ``done`` at once. A tool call
always comes whole.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Role(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Type(StrEnum):
    """What is said."""

    TEXT = "text"
    IMAGE = "image"
    """``query`` has ``media_type`` and either ``url`` or nothing: ``content`` is base64 then."""
    FILE = "file"
    """Likewise, with ``name``."""
    TOOL_CALL = "tool_call"
    """``query`` is ``{"tool", "id", "args"}``; ``id`` is ours and unique within the session."""
    TOOL_RESULT = "tool_result"
    """``query`` is ``{"tool", "id"}`` and ``content`` the result as JSON text; or ``query`` has ``lazy`` too:
    ``{"tool", "id", "lazy": {"tool", "args"}}``, a query that is run again when the context is loaded.
    ``query["error"]`` is true for a result that is an error."""
    REASONING = "reasoning"
    """What a model thought; ``provider`` holds its signature, which goes back with it unchanged."""
    DATA = "data"
    """A JSON value (structured output, notes of a harness): ``content`` is JSON text."""
    APPROVAL = "approval"
    """A question to a person or their decision: ``query`` has ``id`` (of the call), ``kind`` and, decided,
    ``decision``."""
    COMPACTION = "compaction"
    """Stands for all rows of its session up to ``query["upto"]`` when the context is loaded."""


class Status(StrEnum):
    """How far a message has come."""

    OPEN = "open"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one answer: ``input`` without ``cached`` and ``cache_written`` ones, and ``output``.

    ``cost`` is in US dollars where prices are known. ``model`` is who answered.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    cache_written: int = 0
    reasoning: int = 0
    cost: float | None = None
    model: str = ""

    @property
    def total(self) -> int:
        """All tokens, cached ones too."""
        return self.input + self.cached + self.cache_written + self.output


@dataclass(frozen=True, slots=True)
class Message:
    """One message, or a piece of one. What the store gives is empty in a message that is new.

    ``provider["finish"]`` of the last message of an answer says why it ended, unless that is the ordinary
    end: ``length`` where a limit of tokens cut it.

    ``sequence`` orders the rows of a ``session`` (from 1; 0 is not stored yet). ``prev`` is the id of the row
    from which a forked session goes on, in its first row alone. Times are seconds since 1970.
    """

    role: Role
    type: Type = Type.TEXT
    content: str = ""
    query: Mapping[str, Any] | None = None
    provider: Mapping[str, Any] | None = None
    usage: Usage | None = None
    status: Status = Status.DONE
    id: str = ""
    session: str = ""
    sequence: int = 0
    prev: str = ""
    created_at: float = 0.0
    modified_at: float = 0.0
    created_by: str = ""
    tenant: str = ""

    @property
    def call_id(self) -> str:
        """The id of the tool call that a call, a result or an approval is about."""
        return str(self.query.get("id", "")) if self.query else ""

    @property
    def whole(self) -> bool:
        """Whether nothing further of this message comes."""
        return self.status is not Status.OPEN


def user(text: str) -> Message:
    """What a user says."""
    return Message(Role.USER, content=text)


def system(text: str) -> Message:
    """An instruction."""
    return Message(Role.SYSTEM, content=text)


def new_id() -> str:
    """A UUID version 7 (RFC 9562): ids sort by the time they were made."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
