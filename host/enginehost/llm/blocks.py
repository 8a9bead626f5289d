"""Rows as instructions and turns of blocks: the form that Anthropic's Messages and Bedrock's Converse share.

``"system":[block, …],"messages":[{"role": …, "content":[block, …]}, …]``, written as the rows come.
"""

from __future__ import annotations

import hashlib
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from enginehost.llm.body import Turns
from enginehost.llm.message import Message, Role, Type
from enginehost.llm.model import ModelRequest
from enginehost.specs import arguments_to

TEXTS = frozenset({Type.TEXT, Type.DATA})
"""Types that are text to a model."""

ATTACHED = frozenset({Type.IMAGE, Type.FILE})
"""Types whose content is base64, or stands at an address."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Blocks(Turns):
    """Writes rows. A block waits for the next row before it is closed, so that the last can be marked.

    Blank texts are left out: both APIs refuse them. Raises ``ValueError`` for rows in the wrong order.
    """

    provider: ClassVar[str]
    """The member of ``Message.provider`` that is the engine's."""

    def __init__(self, request: ModelRequest) -> None:
        super().__init__()
        self.request = request
        self.query: Mapping[str, Any] = {}
        """That of the message whose block is open."""
        self._waits: Message | None = None
        self._began = False
        self._in_system = False
        self._held: list[Message] = []
        self._blank = ""

    @abstractmethod
    def finish_block(self, message: Message, last: bool) -> bytes:
        """What closes the block of ``message``; ``last``: it is the last of the instructions, or of all."""

    def own(self, thought: Message) -> Mapping[str, Any]:
        """What this provider wants back of a thought; empty where it has none that can go back."""
        found: Any = (thought.provider or {}).get(self.provider)
        return found if isinstance(found, Mapping) and ("signature" in found or "redacted" in found) else {}

    def needs_whole(self, first: Message) -> bool:
        """Whether a block cannot begin before the last piece of its message is there."""
        if first.type in ATTACHED:
            return first.query is None
        return first.type in (Type.REASONING, Type.TOOL_CALL)

    def write(self, message: Message) -> bytes:
        """The text of one row or piece; may be empty."""
        if not self._pieces.inside:
            held = self._hold(message)
            if held is None or (held.type is Type.REASONING and not self.own(held)):
                return b""
            message = held
            self.query = message.query or {}
        elif message.query:
            self.query = message.query
        return self._finished(self._in_system and message.role is not Role.SYSTEM) + super().write(message)

    def before_passage(self) -> bytes:
        """See :class:`~enginehost.llm.body.PlainWriter`; no block of a passage is the last."""
        return self._finished(False) + super().before_passage()

    def text(self, message: Message) -> bytes:
        """The text of a row or piece as it stands in its block."""
        redacted = message.type is Type.REASONING and "redacted" in self.own(message)
        at_address = message.type in ATTACHED and self.query.get("url")
        if message.type is Type.TOOL_CALL or redacted or at_address:
            return b""
        return super().text(message)

    def close_block(self, message: Message) -> bytes:
        """The end of a block but for what :meth:`finish_block` gives."""
        self._waits = message
        return self.end_block(message)

    @abstractmethod
    def end_block(self, message: Message) -> bytes:
        """What stands after a message's text; of pieces, the last is given."""

    def end(self) -> bytes:
        """What closes the text. Raises ``ValueError`` where there is nothing to answer."""
        if self._held:
            raise ValueError("the rows end in the middle of a message")
        if not self._began:
            raise ValueError("there is no message to answer")
        return self._finished(True) + super().end() + b"]"

    def role(self, message: Message) -> str:
        """``system``, ``user`` (results too) or ``assistant``."""
        if message.type is Type.TOOL_RESULT:
            return "user"
        if message.role is Role.SYSTEM and self._began:
            raise ValueError("instructions stand before all other messages")
        return "user" if message.role is Role.TOOL else str(message.role)

    def open_turn(self, role: str) -> bytes:
        """The beginning of ``system``, or of a message."""
        self._in_system = role == "system"
        if self._in_system:
            return b'"system":['
        first, self._began = not self._began, True
        return (b'"messages":[' if first else b"") + b'{"role":"' + role.encode() + b'","content":['

    def close_turn(self, role: str) -> bytes:
        """Its end."""
        return b"]" if role == "system" else b"]}"

    def _hold(self, message: Message) -> Message | None:
        """A message that may be written now; ``None`` while more of it has to come, and where it is blank."""
        if self._held or (not message.whole and self.needs_whole(message)):
            self._held.append(message)
            if not message.whole:
                return None
            message, self._held = joined(self._held), []
        if message.type not in TEXTS:
            return message
        if not message.content.strip():
            self._blank = "" if message.whole else self._blank + message.content
            return None
        if self._blank:
            message, self._blank = replace(message, content=self._blank + message.content), ""
        return message

    def _finished(self, last: bool) -> bytes:
        if self._waits is None:
            return b""
        message, self._waits = self._waits, None
        return self.finish_block(message, last)


def joined(pieces: Sequence[Message]) -> Message:
    """The pieces of a message as one; what the last piece does not have, the first may."""
    last = pieces[-1]
    query = last.query or pieces[0].query
    provider = last.provider or pieces[0].provider
    return replace(last, content="".join(one.content for one in pieces), query=query, provider=provider)


def call_id(query: Mapping[str, Any]) -> str:
    """The id of a call as providers take it: ours, unless another system made it."""
    id = str(query.get("id", ""))
    return (
        id if _ID.fullmatch(id) else "call_" + hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[:32]
    )


def shown_call(request: ModelRequest, query: Mapping[str, Any], kind: str) -> tuple[str, Any]:
    """Name and arguments of a call as a model sees them, also of a tool that is not offered any more.

    ``kind`` is one of :mod:`enginehost.specs`.
    """
    tool, args = str(query.get("tool", "")), query.get("args") or {}
    signature = next((one for one in request.tools if one.name == tool), None)
    if signature is not None:
        args = arguments_to(signature, kind, args)
    return request.shown(tool), args
