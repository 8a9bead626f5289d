"""The events of Responses as messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from enginehost.errors import ExecutionFailed
from enginehost.llm.failures import from_event
from enginehost.llm.message import Message, Type, new_id
from enginehost.llm.outgoing import Outgoing, require_text
from enginehost.llm.sse import UNLIKE, cut_off, malformed
from enginehost_openai.chat_stream import FILTERED, event_of, filtered, usage_of
from enginehost_openai.responses_body import API
from enginehost_openai.tools import Structured, Tools

_TEXT = ("response.output_text.delta", "response.refusal.delta")
_THOUGHT = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_ENDS = ("response.completed", "response.incomplete", "response.failed")


class ResponsesReader:
    """Reads one answer. Unknown events and items are passed over."""

    def __init__(self, who: str, tools: Tools, form: Structured | None, model: str) -> None:
        self._who = who
        self._tools = tools
        self._form = form
        self._model = model
        self._out = Outgoing()
        self._json: list[str] = []
        self._whole: set[Any] = set()
        self._part: Any = None
        self._last: Sequence[Message] = ()
        self.ended = False
        """Whether the provider has said that the answer is over."""

    def feed(self, data: bytes) -> Sequence[Message]:
        """The messages that an event brings."""
        try:
            return self._event(event_of(data))
        except UNLIKE as error:
            raise malformed("an event is not as Responses has it") from error

    def _event(self, said: dict[str, Any]) -> Sequence[Message]:
        kind = said.get("type", "")
        if kind in _TEXT:
            return self._text(said, refused=kind == _TEXT[1])
        if kind in _THOUGHT:
            return self._thought(said)
        if kind == "response.output_item.done":
            return self._item(said.get("item") or {}, said.get("output_index"))
        if kind in _ENDS:
            return self._over(kind, said.get("response") or {})
        if kind == "error" or "error" in said:
            raise from_event(self._who, said.get("error") or said)
        return ()

    def _text(self, said: dict[str, Any], *, refused: bool) -> Sequence[Message]:
        text = said.get("delta") or ""
        if not text:
            return ()
        if self._form is not None and not refused:
            require_text(text)
            self._json.append(text)
            return ()
        return self._out.piece(Type.TEXT, text)

    def _thought(self, said: dict[str, Any]) -> Sequence[Message]:
        """Parts of a summary are paragraphs."""
        part = (said.get("output_index"), said.get("summary_index", said.get("content_index")))
        before = "\n\n" if self._part is not None and self._part[0] == part[0] and self._part != part else ""
        self._part = part
        return self._out.piece(Type.REASONING, before + (said.get("delta") or ""))

    def _item(self, item: dict[str, Any], index: Any) -> Sequence[Message]:
        key = item.get("id") or index
        if key in self._whole:
            return ()
        self._whole.add(key)
        match item.get("type"):
            case "message":
                return self._message(item)
            case "reasoning":
                return self._reasoning(item)
            case "function_call":
                return self._call(item)
            case _:
                return ()

    def _message(self, item: dict[str, Any]) -> Sequence[Message]:
        if not self._json or self._form is None:
            return self._out.close()
        text, self._json = "".join(self._json), []
        return (
            () if item.get("status") == "incomplete" else self._out.whole(Type.DATA, self._form.value(text))
        )

    def _reasoning(self, item: dict[str, Any]) -> Sequence[Message]:
        """What the provider needs back, whether it told its thoughts or not."""
        self._part = None
        kept = {
            name: item[name] for name in ("id", "summary", "content", "encrypted_content") if item.get(name)
        }
        item = {"type": "reasoning", "summary": [], **kept}
        provider = {"api": API, "model": self._model, "item": item}
        return self._out.finish(Type.REASONING, provider)

    def _call(self, item: dict[str, Any]) -> Sequence[Message]:
        name = str(item.get("name") or "")
        if not name:
            raise malformed("a tool call has no name")
        if item.get("status") == "incomplete":
            raise cut_off(f"its call of {name[:100]} is incomplete")
        arguments = self._tools.arguments(name, str(item.get("arguments") or ""))
        query = {"tool": name, "id": new_id(), "args": arguments}
        provider = {"api": API, "id": str(item.get("call_id") or "")}
        return self._out.whole(Type.TOOL_CALL, query=query, provider=provider)

    def _over(self, kind: str, response: dict[str, Any]) -> Sequence[Message]:
        if kind == "response.failed":
            raise from_event(self._who, response.get("error") or {})
        found: list[Message] = []
        listed: list[Any] = response.get("output") or []
        for index, item in enumerate(listed):
            if isinstance(item, dict):  # what no event of its own has told
                found += self._item(cast("dict[str, Any]", item), index)
        finish = ""
        if kind == "response.incomplete":
            finish = str((response.get("incomplete_details") or {}).get("reason") or "incomplete")
            if finish == FILTERED:
                raise filtered(self._who)
            if self._form is not None:
                raise ExecutionFailed(
                    f"the model's structured answer was cut off: {finish}",
                    detail={"type": "CutOff", "retryable": False},
                )
        usage = usage_of(response.get("usage"), str(response.get("model") or self._model))
        self.ended = True
        self._last = self._out.end(usage, "length" if finish == "max_output_tokens" else finish)
        return found

    def end(self) -> Sequence[Message]:
        """The rest, at the end of the stream. Raises where that came before the end of the answer."""
        if not self.ended:
            raise cut_off()
        return self._last
