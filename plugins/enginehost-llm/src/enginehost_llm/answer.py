"""The events of ``llm`` as messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import orjson

from enginehost.llm.message import Message, Role, Status, Type, Usage, new_id
from enginehost.llm.sse import malformed
from enginehost_llm.context import PROVIDER

_KINDS = {"text": Type.TEXT, "reasoning": Type.REASONING}


class Answer:
    """One answer as it comes. Tool calls come at its end, when the plugin has added them all."""

    def __init__(self, model: str, structured: bool) -> None:
        self._model = model
        self._structured = structured
        self._open: tuple[Any, Type, str] | None = None
        self._metadata: dict[str, Any] = {}
        self._texts: list[str] = []
        self._of_calls: dict[str, Any] = {}
        self._last: Message | None = None

    def take(self, event: Any) -> Iterator[Message]:
        """The pieces that come of an event."""
        kind = _KINDS.get(event.type)
        if kind is None:
            if event.type == "tool_call_name" and event.provider_metadata and event.tool_call_id:
                self._of_calls[event.tool_call_id] = event.provider_metadata
            return
        part = (event.message_index, event.part_index)
        if self._open is None or self._open[:2] != (part, kind):
            yield from self._closed()
            yield from self._released()
            self._open = (part, kind, new_id())
        self._metadata |= event.provider_metadata or {}
        if not event.chunk:
            return
        if self._structured and kind is Type.TEXT:
            self._texts.append(event.chunk)
        else:
            yield Message(Role.ASSISTANT, kind, event.chunk, None, None, None, Status.OPEN, self._open[2])

    def end(self, calls: list[Any], usage: Usage) -> Iterator[Message]:
        """The last messages: tool calls, and the usage on the last of all."""
        yield from self._closed()
        for call in calls:
            yield from self._released()
            query = {"tool": call.name, "id": new_id(), "args": call.arguments or {}}
            provider = self._provider(self._of_calls.get(call.tool_call_id), call.tool_call_id)
            self._last = Message(Role.ASSISTANT, Type.TOOL_CALL, query=query, provider=provider, id=new_id())
        yield replace(self._last or Message(Role.ASSISTANT, id=new_id()), usage=usage)

    def _closed(self) -> Iterator[Message]:
        """The end of the part that is open; the last message waits for the one after it."""
        if self._open is None:
            return
        _, kind, id = self._open
        yield from self._released()
        if self._texts:
            text, self._texts = "".join(self._texts), []
            self._last = Message(Role.ASSISTANT, Type.DATA, _checked(text), id=id)
        else:
            provider = self._provider(self._metadata) if self._metadata else None
            self._last = Message(Role.ASSISTANT, kind, provider=provider, id=id)
        self._open, self._metadata = None, {}

    def _released(self) -> Iterator[Message]:
        if self._last is not None:
            last, self._last = self._last, None
            yield last

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
        max(0, (response.input_tokens or 0) - cached),
        response.output_tokens or 0,
        cached,
        reasoning=reasoning,
        model=str(response.resolved_model or model),
    )


def _found(details: Mapping[str, Any], *names: str) -> int:
    """A count somewhere in what a plugin says, which each says in its own way."""
    for name, value in details.items():
        if name in names and isinstance(value, int):
            return value
        if isinstance(value, Mapping) and (inner := _found(value, *names)):
            return inner
    return 0
