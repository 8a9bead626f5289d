"""The events of ``llm`` as messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from enginehost.llm.message import Message, Type, Usage, new_id
from enginehost.llm.outgoing import Outgoing
from enginehost.llm.sse import malformed
from enginehost.llm.usage import tokens
from enginehost_llm.context import PROVIDER

_KINDS = {"text": Type.TEXT, "reasoning": Type.REASONING}


class Answer:
    """One answer as it comes. Tool calls come at its end, when the plugin has added them all."""

    def __init__(self, model: str, structured: bool) -> None:
        self._model = model
        self._structured = structured
        self._out = Outgoing()
        self._part: tuple[Any, Any, Type] | None = None
        self._metadata: dict[str, Any] = {}
        self._texts: list[str] = []
        self._of_calls: dict[str, Any] = {}

    def take(self, event: Any) -> Iterator[Message]:
        """The pieces that come of an event."""
        kind = _KINDS.get(event.type)
        if kind is None:
            if event.type == "tool_call_name" and event.provider_metadata and event.tool_call_id:
                self._of_calls[event.tool_call_id] = event.provider_metadata
            return
        part = (event.message_index, event.part_index, kind)
        if part != self._part:
            yield from self._closed()
            yield from self._out.release()
            self._part = part
        self._metadata |= event.provider_metadata or {}
        if not event.chunk:
            return
        if self._structured and kind is Type.TEXT:
            self._texts.append(event.chunk)
        else:
            yield from self._out.piece(kind, event.chunk)

    def end(self, calls: list[Any], usage: Usage) -> Iterator[Message]:
        """The last messages: tool calls, and the usage on the last of all."""
        yield from self._closed()
        for call in calls:
            query = {"tool": call.name, "id": new_id(), "args": call.arguments or {}}
            provider = self._provider(self._of_calls.get(call.tool_call_id), call.tool_call_id)
            yield from self._out.whole(Type.TOOL_CALL, query=query, provider=provider)
        yield from self._out.end(usage)

    def _closed(self) -> Iterator[Message]:
        """The end of the part that is open."""
        if self._part is None:
            return
        if self._texts:
            text, self._texts = "".join(self._texts), []
            yield from self._out.whole(Type.DATA, _checked(text))
        else:
            provider = self._provider(self._metadata) if self._metadata else None
            yield from self._out.finish(self._part[-1], provider)
        self._part, self._metadata = None, {}

    def _provider(self, metadata: Any, call: str | None = None) -> dict[str, Any]:
        own: dict[str, Any] = {"model": self._model}
        own |= {name: one for name, one in (("metadata", metadata), ("id", call)) if one}
        return {PROVIDER: own}


def _checked(text: str) -> str:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        raise malformed("what came for JSON cannot be read as JSON") from None
    return text


def usage_of(response: Any, model: str) -> Usage:
    """The tokens that a plugin counted; 0 where it does not say."""
    details: Mapping[str, Any] = response.token_details or {}
    cached = _found(details, "cached_tokens", "cache_read_input_tokens", "cachedContentTokenCount")
    reasoning = _found(details, "reasoning_tokens", "thoughtsTokenCount", "thinking_tokens")
    return Usage(
        max(0, tokens(response.input_tokens) - cached),
        tokens(response.output_tokens),
        cached,
        reasoning=reasoning,
        model=str(response.resolved_model or model),
    )


def _found(details: Mapping[str, Any], *names: str) -> int:
    """A count somewhere in what a plugin says, which each says in its own way."""
    for name, value in details.items():
        if name in names and (found := tokens(value)):
            return found
        if isinstance(value, Mapping) and (inner := _found(value, *names)):
            return inner
    return 0
