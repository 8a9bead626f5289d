"""The events of the Messages API as messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from enginehost.llm.arriving import Arriving
from enginehost.llm.failures import from_event
from enginehost.llm.message import Message, Type
from enginehost.llm.sse import UNLIKE, malformed
from enginehost.llm.structured import Structured
from enginehost_anthropic.rows import PROVIDER

_KINDS = {
    "text": Type.TEXT,
    "thinking": Type.REASONING,
    "redacted_thinking": Type.REASONING,
    "tool_use": Type.TOOL_CALL,
}
_ORDINARY = frozenset({"end_turn", "tool_use", "stop_sequence", ""})
_CUT = frozenset({"max_tokens", "model_context_window_exceeded"})
_USAGE = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_input_tokens": "cached",
    "cache_creation_input_tokens": "cache_written",
}


class Answer:
    """One answer as it comes."""

    def __init__(self, who: str, model: str, structured: Structured | None = None) -> None:
        self._arriving = Arriving(who, PROVIDER, model, structured)
        self._stop = ""

    @property
    def ended(self) -> bool:
        """Whether the provider has said its last word."""
        return self._arriving.ended

    def take(self, event: Any) -> Iterator[Message]:
        """The messages and pieces that come of an event. Unknown events are passed over.

        Raises :class:`~enginehost.errors.ExecutionFailed` for one that is not as the API has it.
        """
        try:
            yield from self._take(event)
        except UNLIKE as error:
            raise malformed("an event is not as Anthropic's API has it") from error

    def _take(self, event: Mapping[str, Any]) -> Iterator[Message]:
        kind = event.get("type")
        if kind == "content_block_delta":
            yield from self._delta(event.get("index", 0), event.get("delta") or {})
        elif kind == "content_block_start":
            yield from self._start(event.get("index", 0), event.get("content_block") or {})
        elif kind == "content_block_stop":
            yield from self._arriving.close(event.get("index", 0))
        elif kind == "message_start":
            self._begin(event.get("message") or {})
        elif kind == "message_delta":
            self._stop = str((event.get("delta") or {}).get("stop_reason") or self._stop)
            self._count(event.get("usage") or {})
        elif kind == "message_stop":
            yield from self._end()
        elif kind == "error":
            raise from_event(self._arriving.who, event.get("error"))

    def _begin(self, message: Mapping[str, Any]) -> None:
        usage = self._arriving.usage
        self._arriving.usage = replace(usage, model=str(message.get("model") or usage.model))
        self._count(message.get("usage") or {})

    def _start(self, index: int, block: Mapping[str, Any]) -> Iterator[Message]:
        kind = _KINDS.get(str(block.get("type")))
        if kind is None:  # what the provider runs on its side
            return
        arriving = self._arriving
        yield from arriving.begin(index, kind, name=str(block.get("name", "")), call=str(block.get("id", "")))
        if "data" in block:
            arriving.keep(index, "redacted", str(block["data"]))
        if block.get("signature"):
            arriving.keep(index, "signature", str(block["signature"]))
        yield from arriving.text(index, str(block.get("text") or block.get("thinking") or ""))

    def _delta(self, index: int, delta: Mapping[str, Any]) -> Iterator[Message]:
        kind = delta.get("type")
        if kind == "text_delta":
            yield from self._arriving.text(index, delta["text"])
        elif kind == "thinking_delta":
            yield from self._arriving.text(index, delta["thinking"])
        elif kind == "input_json_delta":
            self._arriving.arguments(index, delta["partial_json"])
        elif kind == "signature_delta":
            self._arriving.keep(index, "signature", delta["signature"])

    def _end(self) -> Sequence[Message]:
        stop = self._stop
        if stop == "refusal":
            raise self._arriving.refused("the model refused to answer")
        return self._arriving.end(
            stop, ordinary=stop in _ORDINARY, cut=stop in _CUT, calls=stop == "tool_use"
        )

    def _count(self, usage: Mapping[str, Any]) -> None:
        self._arriving.count(usage, _USAGE)
        self._arriving.count(usage.get("output_tokens_details") or {}, {"thinking_tokens": "reasoning"})
