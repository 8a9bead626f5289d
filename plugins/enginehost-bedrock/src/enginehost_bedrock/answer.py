"""The events of ConverseStream, and the whole answer of Converse, as messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from enginehost.llm.arriving import Arriving
from enginehost.llm.message import Message, Type
from enginehost.llm.sse import UNLIKE, cut_off, malformed
from enginehost.llm.structured import Structured
from enginehost_bedrock.rows import PROVIDER

_ORDINARY = frozenset({"end_turn", "tool_use", "stop_sequence"})
_CUT = frozenset({"max_tokens", "model_context_window_exceeded"})
_REFUSED = {
    "guardrail_intervened": "a guardrail stopped the answer",
    "content_filtered": "a content filter stopped the answer",
}
_MALFORMED = frozenset({"malformed_tool_use", "malformed_model_output"})
_USAGE = {
    "inputTokens": "input",
    "outputTokens": "output",
    "cacheReadInputTokens": "cached",
    "cacheWriteInputTokens": "cache_written",
}


class Answer:
    """One answer as it comes. The usage comes after the stop reason, so :meth:`end` is called last."""

    def __init__(self, who: str, model: str, structured: Structured | None = None) -> None:
        self._arriving = Arriving(who, PROVIDER, model, structured)
        self._stop = ""

    def take(self, kind: str, event: Mapping[str, Any]) -> Iterator[Message]:
        """The messages and pieces that come of an event. Unknown events are passed over.

        Raises :class:`~enginehost.errors.ExecutionFailed` for one that is not as Bedrock has it.
        """
        try:
            yield from self._take(kind, event)
        except UNLIKE as error:
            raise malformed("an event is not as Bedrock has it") from error

    def whole(self, answer: Mapping[str, Any]) -> Iterator[Message]:
        """What Converse answered, all at once."""
        try:
            yield from self._whole(answer)
        except UNLIKE as error:
            raise malformed("it is not as Bedrock has it") from error

    def _take(self, kind: str, event: Mapping[str, Any]) -> Iterator[Message]:
        index = event.get("contentBlockIndex", 0)
        if kind == "contentBlockDelta":
            yield from self._delta(index, event.get("delta") or {})
        elif kind == "contentBlockStart":
            tool: Mapping[str, Any] = (event.get("start") or {}).get("toolUse") or {}
            if tool and not tool.get("type"):  # what has a type runs on the provider's side
                yield from self._arriving.begin(
                    index, Type.TOOL_CALL, name=str(tool.get("name", "")), call=str(tool.get("toolUseId", ""))
                )
        elif kind == "contentBlockStop":
            yield from self._arriving.close(index)
        elif kind == "messageStop":
            self._stop = str(event.get("stopReason") or "end_turn")
        elif kind == "metadata":
            self._arriving.count(event.get("usage") or {}, _USAGE)

    def _whole(self, answer: Mapping[str, Any]) -> Iterator[Message]:
        message: Mapping[str, Any] = (answer.get("output") or {}).get("message") or {}
        for index, block in enumerate(message.get("content") or ()):
            if tool := block.get("toolUse"):
                yield from self.take("contentBlockStart", {"contentBlockIndex": index, "start": block})
                self._arriving.arguments(index, orjson.dumps(tool.get("input") or {}).decode())
            else:
                yield from self._delta(index, _as_delta(block))
            yield from self._arriving.close(index)
        yield from self.take("messageStop", answer)
        yield from self.take("metadata", answer)
        yield from self.end()

    def end(self) -> Sequence[Message]:
        """The last messages. Raises where the provider has not said that the answer is whole."""
        stop = self._stop
        if not stop:
            raise cut_off()
        if stop in _REFUSED:
            raise self._arriving.refused(_REFUSED[stop])
        if stop in _MALFORMED:
            raise cut_off("the model wrote a tool call that cannot be read")
        return self._arriving.end(
            stop, ordinary=stop in _ORDINARY, cut=stop in _CUT, calls=stop == "tool_use"
        )

    def _delta(self, index: int, delta: Mapping[str, Any]) -> Iterator[Message]:
        arriving = self._arriving
        if "text" in delta:
            if index not in arriving:
                yield from arriving.begin(index, Type.TEXT)
            yield from arriving.text(index, delta["text"])
        elif "toolUse" in delta:
            arriving.arguments(index, delta["toolUse"].get("input", ""))
        elif "reasoningContent" in delta:
            if index not in arriving:
                yield from arriving.begin(index, Type.REASONING)
            thought: Mapping[str, Any] = delta["reasoningContent"]
            yield from arriving.text(index, thought.get("text", ""))
            if "signature" in thought:
                arriving.keep(index, "signature", thought["signature"])
            if "redactedContent" in thought:
                arriving.keep(index, "redacted", thought["redactedContent"])


def _as_delta(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """A block of Converse as the delta that would have brought it."""
    thought: Mapping[str, Any] = block.get("reasoningContent") or {}
    if "reasoningText" in thought:
        return {"reasoningContent": thought["reasoningText"]}
    return block
