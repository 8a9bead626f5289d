"""Rows as the ``input`` items of Responses, written as they come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from enginehost.errors import InvalidRequest
from enginehost.llm.body import Pieces, escaped, json_bytes, members, with_extra
from enginehost.llm.message import Message, Role, Type
from enginehost.llm.model import ModelRequest
from enginehost.llm.passage import PlainForm
from enginehost_openai.config import OpenAiConfig
from enginehost_openai.media import ends
from enginehost_openai.tools import Structured, Tools
from enginehost_openai.wire_ids import WireIds

TAIL = b"]}"
API = "openai-responses"
"""Marks what a row keeps for this API."""


def head(config: OpenAiConfig, request: ModelRequest, tools: Tools, form: Structured | None) -> bytes:
    """Everything before the items. Nothing is stored there: the conversation is ours."""
    said: dict[str, Any] = {"model": request.model, "stream": True, "store": False}
    said["include"] = ["reasoning.encrypted_content"]
    if request.stop:
        raise InvalidRequest("Responses takes no stop sequences: leave stop out, or use API = chat")
    if request.tools:
        said["tools"] = tools.specs()
        said |= _choice(request, tools)
        if not request.parallel_tools:
            said["parallel_tool_calls"] = False
    if form is not None:
        said["text"] = {"format": {"type": "json_schema", **form.format}}
    reasoning = {
        "effort": request.reasoning or config.reasoning_effort,
        "summary": config.reasoning_summary,
    }
    given = {
        "max_output_tokens": request.max_tokens or config.max_tokens,
        "temperature": config.temperature if request.temperature is None else request.temperature,
        "reasoning": {name: value for name, value in reasoning.items() if value} or None,
        "prompt_cache_key": config.prompt_cache_key if request.cache and config.prompt_cache_key else None,
    }
    said |= {name: value for name, value in given.items() if value is not None}
    return b"{" + members(with_extra(said, request.extra, "input")) + b',"input":['


def _choice(request: ModelRequest, tools: Tools) -> dict[str, Any]:
    choice = request.tool_choice
    if choice.kind == "tool":
        return {"tool_choice": {"type": "function", "name": tools.name(choice.name)}}
    return {} if choice.kind == "auto" else {"tool_choice": choice.kind}


class ResponsesWriter:
    """Makes items of rows; rows of one user after each other make one."""

    plain = PlainForm(
        (b'{"role":"user","content":[{"type":"input_text","text":', b"}]}"),
        (b'{"role":"assistant","content":[{"type":"output_text","text":', b"}]}"),
    )

    def __init__(self, tools: Tools, model: str) -> None:
        self._tools = tools
        self._model = model
        self._pieces = Pieces()
        self._ids = WireIds()
        self._begun = False
        self._of_user = False
        self._after = b""
        self._call_id = ""

    def write(self, message: Message) -> bytes:
        """The text for one row, or a piece of one."""
        first, last = self._pieces.look(message)
        match message.role, message.type:
            case _, Type.TOOL_RESULT:
                return self._result(message, first, last)
            case _, Type.REASONING:
                return self._reasoning(message) if last else b""
            case _, Type.TOOL_CALL:
                return self._item() + self._call(message)
            case Role.SYSTEM, Type.TEXT | Type.DATA:
                return self._text(b'{"role":"system","content":"', message, first, last, b'"}')
            case Role.ASSISTANT, Type.TEXT | Type.DATA:
                start = b'{"role":"assistant","content":[{"type":"output_text","text":"'
                return self._text(start, message, first, last, b'"}]}')
            case Role.USER, _:
                return self._user(message, first, last)
            case role, kind:
                raise InvalidRequest(f"Responses takes no {kind} of role {role}")

    def before_passage(self) -> bytes:
        """See :class:`~enginehost.llm.body.PlainWriter`."""
        return self._item()

    def end(self) -> bytes:
        """Close what is open."""
        if self._pieces.inside:
            raise InvalidRequest("the rows end in the middle of a message")
        return b"]}" if self._of_user else b""

    def _item(self) -> bytes:
        """What stands before an item."""
        closed = b"]}" if self._of_user else b""
        comma, self._begun, self._of_user = b"," if self._begun else b"", True, False
        return closed + comma

    def _text(self, start: bytes, message: Message, first: bool, last: bool, after: bytes) -> bytes:
        before = self._item() + start if first else b""
        return before + escaped(message.content) + (after if last else b"")

    def _user(self, message: Message, first: bool, last: bool) -> bytes:
        before, holds = b"", True
        if first:
            if self._of_user:
                before = b","
            else:
                before = self._item() + b'{"role":"user","content":['
                self._of_user = True
            start, self._after, holds = self._part(message)
            before += start
        if not holds:
            return before + self._after
        return before + escaped(message.content) + (self._after if last else b"")

    def _part(self, message: Message) -> tuple[bytes, bytes, bool]:
        if message.type in (Type.IMAGE, Type.FILE):
            return ends(message, responses=True)
        if message.type not in (Type.TEXT, Type.DATA):
            raise InvalidRequest(f"a user's row is no {message.type}")
        return b'{"type":"input_text","text":"', b'"}', True

    def _reasoning(self, message: Message) -> bytes:
        """The provider's own item, unchanged; one of another model means nothing to this one."""
        kept: Mapping[str, Any] = message.provider or {}
        if kept.get("api") != API or kept.get("model") != self._model or "item" not in kept:
            return b""
        return self._item() + json_bytes(kept["item"])

    def _call(self, message: Message) -> bytes:
        query = message.query or {}
        tool = str(query.get("tool", ""))
        item = {
            "type": "function_call",
            "call_id": self._ids.call(message),
            "name": self._tools.name(tool),
            "arguments": self._tools.text(tool, query.get("args", {})),
        }
        return json_bytes(item)

    def _result(self, message: Message, first: bool, last: bool) -> bytes:
        before = after = b""
        if first:
            before, self._call_id = self._item() + b'{"type":"function_call_output","output":"', ""
        self._call_id = message.call_id or self._call_id
        if last:
            after = b'","call_id":' + json_bytes(self._ids.result(self._call_id)) + b"}"
        return before + escaped(message.content) + after
