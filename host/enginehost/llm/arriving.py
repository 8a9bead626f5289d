"""An answer that arrives in blocks, as messages: what Anthropic's Messages and Bedrock's Converse share.

An engine tells what its provider says (:meth:`Arriving.begin`, :meth:`Arriving.text`, …), and this gives the
messages and refuses what is no whole answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from enginehost.errors import ExecutionFailed
from enginehost.llm.message import Message, Type, Usage, new_id
from enginehost.llm.outgoing import Outgoing, require_text
from enginehost.llm.sse import cut_off, malformed
from enginehost.llm.structured import Structured
from enginehost.llm.usage import tokens

_JSON = "JSON"


@dataclass(slots=True)
class _Block:
    kind: Type
    name: str = ""
    call: str = ""
    own: dict[str, Any] = field(default_factory=dict[str, Any])
    parts: list[str] = field(default_factory=list[str])
    """Text that is given only when it is whole."""


class Arriving:
    """One answer. ``who`` names the engine in errors, ``provider`` the member of ``Message.provider``."""

    def __init__(self, who: str, provider: str, model: str, structured: Structured | None = None) -> None:
        self.who = who
        self.usage = Usage(model=model)
        self.ended = False
        self._provider = provider
        self._structured = structured
        self._out = Outgoing()
        self._blocks: dict[int, _Block] = {}
        self._broken = ""

    def __contains__(self, index: int) -> bool:
        return index in self._blocks

    def begin(self, index: int, kind: Type, *, name: str = "", call: str = "") -> Sequence[Message]:
        """A block begins; of a tool call, ``name`` is the tool and ``call`` the provider's id."""
        self._blocks[index] = _Block(kind, name, call)
        return self._out.release()

    def text(self, index: int, text: str) -> Sequence[Message]:
        """A piece of text or reasoning. Raises ``TypeError`` for what is no text."""
        block = self._blocks.get(index)
        if block is None or not text:
            return ()
        if block.kind is Type.TEXT and self._structured is not None and not self._structured.tool:
            require_text(text)
            block.parts.append(text)
            return ()
        return self._out.piece(block.kind, text)

    def arguments(self, index: int, text: str) -> None:
        """A piece of a tool call's arguments, as JSON text."""
        if index in self._blocks:
            self._blocks[index].parts.append(text)

    def keep(self, index: int, name: str, text: str) -> None:
        """A piece of what the provider wants back of a thought."""
        if index in self._blocks:
            own = self._blocks[index].own
            own[name] = own.get(name, "") + text

    def close(self, index: int) -> Sequence[Message]:
        """A block has ended."""
        block = self._blocks.pop(index, None)
        if block is None:
            return ()
        if block.kind is Type.TOOL_CALL:
            return self._call(block)
        if block.parts:
            return self._data("".join(block.parts))
        return self._out.finish(block.kind, {self._provider: block.own} if block.own else None)

    def count(self, usage: Mapping[str, Any], names: Mapping[str, str]) -> None:
        """Take in the provider's usage; ``names`` has its names for the fields of :class:`Usage`."""
        found = {
            ours: tokens(said) for theirs, ours in names.items() if (said := usage.get(theirs)) is not None
        }
        self.usage = replace(self.usage, **found)

    def end(self, stop: str, *, ordinary: bool, cut: bool, calls: bool) -> Sequence[Message]:
        """The last messages. Raises :class:`ExecutionFailed` where what came is no whole answer.

        ``stop`` is the provider's reason; ``ordinary``: it needs no telling; ``cut``: a limit was reached;
        ``calls``: tools were called.
        """
        if self._broken == _JSON and calls:  # beside a call a text may be no answer yet
            self._broken = ""
        if self._broken and cut:
            raise ExecutionFailed(
                f"{self.who}: the answer reached its most tokens in the middle of {self._broken}",
                detail={"type": "CutOff", "retryable": False, "hint": "allow more with MAX_TOKENS"},
            )
        if self._broken:
            raise malformed(f"what came for {self._broken} cannot be read as JSON")
        if self._blocks:
            raise cut_off("a part of it has no end")
        self.ended = True
        if ordinary:
            return self._out.end(self.usage)
        kept = (self._out.waiting.provider if self._out.waiting else None) or {}
        ours = {**kept.get(self._provider, {}), "stop_reason": stop}
        return self._out.end(self.usage, "length" if cut else stop, {self._provider: ours})

    def refused(self, why: str) -> ExecutionFailed:
        """The error for a model, or its provider's guard, that does not answer."""
        return ExecutionFailed(f"{self.who}: {why}", detail={"type": "Refusal", "retryable": False})

    def _call(self, block: _Block) -> Sequence[Message]:
        try:
            args: Any = orjson.loads("".join(block.parts) or "{}")
        except orjson.JSONDecodeError:
            args = None
        if not isinstance(args, dict):
            self._broken = self._broken or block.name
            return self._out.release()
        if self._structured is not None and block.name == self._structured.tool:
            value = args.get("answer") if self._structured.wrapped else args
            return self._out.whole(Type.DATA, orjson.dumps(value).decode())
        query = {"tool": block.name, "id": new_id(), "args": args}
        provider = {self._provider: {"id": block.call}} if block.call else None
        return self._out.whole(Type.TOOL_CALL, query=query, provider=provider)

    def _data(self, text: str) -> Sequence[Message]:
        try:
            orjson.loads(text)
        except orjson.JSONDecodeError:
            self._broken = self._broken or _JSON
            return self._out.whole(Type.TEXT, text)
        return self._out.whole(Type.DATA, text)
