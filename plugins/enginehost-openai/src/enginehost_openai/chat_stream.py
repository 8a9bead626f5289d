"""The events of Chat Completions as messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from enginehost.errors import ExecutionFailed
from enginehost.llm.failures import from_event
from enginehost.llm.message import Message, Type, Usage, new_id
from enginehost.llm.outgoing import Outgoing, require_text
from enginehost.llm.sse import UNLIKE, cut_off, loads, malformed
from enginehost.llm.usage import dollars, tokens
from enginehost_openai.chat_body import API
from enginehost_openai.tools import Structured, Tools

FILTERED = "content_filter"
"""Why an answer ended that is none, in both APIs."""

_THOUGHTS = ("reasoning_content", "reasoning")
"""Where servers put what a model thinks; OpenAI itself tells nothing here."""


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])


class ChatReader:
    """Reads one answer. Unknown events and members are passed over."""

    def __init__(self, who: str, tools: Tools, form: Structured | None) -> None:
        self._who = who
        self._tools = tools
        self._form = form
        self._out = Outgoing()
        self._calls: dict[Any, _Call] = {}
        self._last: _Call | None = None
        self._json: list[str] = []
        self._usage = Usage()
        self._thought_in = ""
        self._finish = ""
        self.ended = False
        """Whether the provider has said why the answer ended."""

    def feed(self, data: bytes) -> Sequence[Message]:
        """The messages that an event brings."""
        try:
            return self._event(event_of(data))
        except UNLIKE as error:
            raise malformed("an event is not as Chat Completions has it") from error

    def _event(self, said: dict[str, Any]) -> Sequence[Message]:
        if said.get("error"):
            raise from_event(self._who, said["error"])
        if usage := said.get("usage"):
            self._usage = usage_of(usage, str(said.get("model") or ""))
        choices = said.get("choices")
        if not choices:
            return ()
        choice: dict[str, Any] = choices[0]
        delta: dict[str, Any] = choice.get("delta") or choice.get("message") or {}
        found = self._delta(delta)
        if finish := choice.get("finish_reason"):
            self._finish, self.ended = str(finish), True
        return found

    def _delta(self, delta: dict[str, Any]) -> Sequence[Message]:
        found: Sequence[Message] = ()
        for name in _THOUGHTS:
            if thought := delta.get(name):
                self._thought_in = name
                found = self._out.piece(Type.REASONING, thought)
                break
        text = delta.get("content") or delta.get("refusal")
        if text:
            found = (*found, *self._end_thought(), *self._said(text, delta))
        for call in delta.get("tool_calls") or ():
            self._call(call)
        return found

    def _said(self, text: str, delta: Mapping[str, Any]) -> Sequence[Message]:
        if self._form is not None and not delta.get("refusal"):
            require_text(text)
            self._json.append(text)
            return ()
        return self._out.piece(Type.TEXT, text)

    def _end_thought(self) -> Sequence[Message]:
        if not self._thought_in:
            return ()
        name, self._thought_in = self._thought_in, ""
        return self._out.close({"api": API, "field": name})

    def _call(self, piece: dict[str, Any]) -> None:
        """A piece of a tool call: by its index; but a new id with a name is a new call in any case."""
        function: dict[str, Any] = piece.get("function") or {}
        given, name = str(piece.get("id") or ""), str(function.get("name") or "")
        index = piece.get("index")
        call = self._last if index is None else self._calls.get(index)
        if call is None or (name and given and call.name and given != call.id):
            key = len(self._calls) if index is None or index in self._calls else index
            call = self._calls[key if key not in self._calls else ("another", len(self._calls))] = _Call()
        call.id = call.id or given
        call.name = call.name or name
        arguments = function.get("arguments")
        if arguments:
            call.arguments.append(arguments if isinstance(arguments, str) else _text(arguments))
        self._last = call

    def _data(self, form: Structured) -> str:
        """The structured answer. One that reached its most tokens is cut again where it is asked again."""
        try:
            return form.value("".join(self._json))
        except ExecutionFailed as error:
            if self._finish == "length":
                error.detail |= {"retryable": False, "hint": "allow more with MAX_TOKENS or max_tokens"}
            raise

    def end(self) -> Sequence[Message]:
        """The rest, at the end of the stream. Raises where that came before the end of the answer."""
        if not self.ended:
            raise cut_off()
        if self._finish == FILTERED:
            raise filtered(self._who)
        found: list[Message] = list(self._end_thought())
        if self._json and self._form is not None:
            found += self._out.whole(Type.DATA, self._data(self._form))
        for call in self._calls.values():
            if not call.name:
                raise malformed("a tool call has no name")
            arguments = self._tools.arguments(call.name, "".join(call.arguments))
            query = {"tool": call.name, "id": new_id(), "args": arguments}
            found += self._out.whole(Type.TOOL_CALL, query=query, provider={"api": API, "id": call.id})
        finish = "" if self._finish in ("stop", "tool_calls", "function_call") else self._finish
        return (*found, *self._out.end(self._usage, finish))


def event_of(data: bytes) -> dict[str, Any]:
    """The JSON object of an event."""
    event = loads(data)
    if not isinstance(event, dict):
        raise malformed("an event is no JSON object")
    return cast("dict[str, Any]", event)


def filtered(who: str) -> ExecutionFailed:
    """The error for an answer that the provider's filter stopped."""
    detail = {"type": "Refusal", "retryable": False}
    return ExecutionFailed(f"{who}: a content filter stopped the answer", detail=detail)


def usage_of(usage: Any, model: str) -> Usage:
    """The tokens of an answer; both APIs count cached tokens among those of input."""
    said = _object(usage)
    into = _object(said.get("prompt_tokens_details") or said.get("input_tokens_details"))
    out = _object(said.get("completion_tokens_details") or said.get("output_tokens_details"))
    cached = tokens(into.get("cached_tokens"))
    return Usage(
        input=max(0, tokens(said.get("prompt_tokens") or said.get("input_tokens")) - cached),
        output=tokens(said.get("completion_tokens") or said.get("output_tokens")),
        cached=cached,
        reasoning=tokens(out.get("reasoning_tokens")),
        cost=dollars(said.get("cost")),
        model=model,
    )


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(arguments: Any) -> str:
    """Some servers give the arguments as an object."""
    import orjson

    return orjson.dumps(arguments).decode()
