"""Rows as the ``messages`` of Chat Completions, written as they come."""

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
API = "openai-chat"
"""Marks what a row keeps for this API."""

_TEXTS = (Type.TEXT, Type.DATA)


def head(config: OpenAiConfig, request: ModelRequest, tools: Tools, form: Structured | None) -> bytes:
    """Everything before the messages; tools go first, so that a provider's cache finds them again."""
    said: dict[str, Any] = {"model": request.model, "stream": True}
    if config.stream_usage:
        said["stream_options"] = {"include_usage": True}
    if request.tools:
        said["tools"] = tools.specs()
        said |= _choice(request, tools)
        if not request.parallel_tools:
            said["parallel_tool_calls"] = False
    if form is not None:
        said["response_format"] = {"type": "json_schema", "json_schema": form.format}
    given = {
        config.max_tokens_field: request.max_tokens or config.max_tokens,
        "temperature": config.temperature if request.temperature is None else request.temperature,
        "stop": list(request.stop) or None,
        "reasoning_effort": request.reasoning or config.reasoning_effort or None,
        "prompt_cache_key": config.prompt_cache_key if request.cache and config.prompt_cache_key else None,
    }
    said |= {name: value for name, value in given.items() if value is not None}
    return b"{" + members(with_extra(said, request.extra, "messages")) + b',"messages":['


def _choice(request: ModelRequest, tools: Tools) -> dict[str, Any]:
    choice = request.tool_choice
    if choice.kind == "tool":
        return {"tool_choice": {"type": "function", "function": {"name": tools.name(choice.name)}}}
    return {} if choice.kind == "auto" else {"tool_choice": choice.kind}


class ChatWriter:
    """Makes messages of rows.

    What a user says in one go is one message (a list of parts, or just text where it is one text); so is
    what the model says and calls before the results come.
    """

    plain = PlainForm((b'{"role":"user","content":', b"}"), (b'{"role":"assistant","content":', b"}"))

    def __init__(self, tools: Tools, *, return_reasoning: bool) -> None:
        self._tools = tools
        self._return_reasoning = return_reasoning
        self._pieces = Pieces()
        self._ids = WireIds()
        self._begun = False
        self._turn = ""
        """What is written: ``text`` (of a user, may become parts), ``parts``, ``assistant``, or nothing."""
        self._text = b""
        self._after = b""
        self._call_id = ""
        self._has_content = False
        self._calls: list[bytes] = []
        self._thought: list[str] = []
        self._thoughts: dict[str, list[str]] = {}

    def write(self, message: Message) -> bytes:
        """The text for one row, or a piece of one."""
        first, last = self._pieces.look(message)
        if message.type is Type.TOOL_RESULT:
            return self._result(message, first, last)
        match message.role:
            case Role.SYSTEM:
                return self._plain("system", message, first, last)
            case Role.USER:
                return self._user(message, first, last)
            case Role.ASSISTANT:
                return self._assistant(message, first, last)
            case Role.TOOL:
                raise InvalidRequest(f"a row of role tool is a tool_result, not {message.type}")

    def before_passage(self) -> bytes:
        """See :class:`~enginehost.llm.body.PlainWriter`."""
        return self._close() + self._next()

    def end(self) -> bytes:
        """Close what is open."""
        if self._pieces.inside:
            raise InvalidRequest("the rows end in the middle of a message")
        return self._close()

    def _next(self) -> bytes:
        comma, self._begun = b"," if self._begun else b"", True
        return comma

    def _close(self) -> bytes:
        turn, self._turn = self._turn, ""
        match turn:
            case "text":
                return self._next() + b'{"role":"user","content":' + self._text + b"}"
            case "parts":
                return b"]}"
            case "assistant":
                return self._end_of_assistant()
            case _:
                return b""

    def _plain(self, role: str, message: Message, first: bool, last: bool) -> bytes:
        before = after = b""
        if first:
            before = self._close() + self._next() + b'{"role":"' + role.encode() + b'","content":"'
        if last:
            after = b'"}'
        return before + escaped(message.content) + after

    # What a user says

    def _user(self, message: Message, first: bool, last: bool) -> bytes:
        if message.type in (Type.IMAGE, Type.FILE):
            return self._media(message, first, last)
        if message.type not in _TEXTS:
            raise InvalidRequest(f"a user's row is no {message.type}")
        if not (first and last):  # a long one: as text of its own
            return self._plain("user", message, first, last)
        text = json_bytes(message.content)
        if self._turn in ("text", "parts"):
            return self._part() + b'{"type":"text","text":' + text + b"}"
        closed = self._close()
        self._turn, self._text = "text", text
        return closed

    def _part(self) -> bytes:
        """What stands before the next part of a user's message."""
        if self._turn == "parts":
            return b","
        if self._turn == "text":
            self._turn = "parts"
            one = b'{"type":"text","text":' + self._text + b"},"
            return self._next() + b'{"role":"user","content":[' + one
        closed = self._close()
        self._turn = "parts"
        return closed + self._next() + b'{"role":"user","content":['

    def _media(self, message: Message, first: bool, last: bool) -> bytes:
        before = b""
        if first:
            head_, self._after, holds = ends(message, responses=False)
            before = self._part() + head_
            if not holds:
                return before + self._after
        return before + message.content.encode() + (self._after if last else b"")

    # What the model said

    def _assistant(self, message: Message, first: bool, last: bool) -> bytes:
        before = b""
        if self._turn != "assistant":
            before = self._close() + self._next() + b'{"role":"assistant"'
            self._turn, self._has_content = "assistant", False
            self._calls, self._thoughts = [], {}
        match message.type:
            case Type.TEXT | Type.DATA:
                if first:
                    before += escaped("\n\n") if self._has_content else b',"content":"'
                    self._has_content = True
                return before + escaped(message.content)
            case Type.REASONING:
                self._think(message, first, last)
                return before
            case Type.TOOL_CALL:
                self._calls.append(self._call(message))
                return before
            case _:
                raise InvalidRequest(f"Chat Completions takes no {message.type} of the model's own")

    def _think(self, message: Message, first: bool, last: bool) -> None:
        if not self._return_reasoning:
            return
        if first:
            self._thought = []
        self._thought.append(message.content)
        kept: Mapping[str, Any] = message.provider or {}
        if last and kept.get("api") == API:
            self._thoughts.setdefault(str(kept.get("field", "reasoning_content")), []).extend(self._thought)

    def _call(self, message: Message) -> bytes:
        query = message.query or {}
        tool = str(query.get("tool", ""))
        function = {
            "name": self._tools.name(tool),
            "arguments": self._tools.text(tool, query.get("args", {})),
        }
        return json_bytes({"id": self._ids.call(message), "type": "function", "function": function})

    def _end_of_assistant(self) -> bytes:
        parts = [b'"' if self._has_content else b',"content":null']
        for name, texts in self._thoughts.items():
            parts.append(b"," + json_bytes(name) + b":" + json_bytes("".join(texts)))
        if self._calls:
            parts.append(b',"tool_calls":[' + b",".join(self._calls) + b"]")
        return b"".join((*parts, b"}"))

    def _result(self, message: Message, first: bool, last: bool) -> bytes:
        before = after = b""
        if first:
            before, self._call_id = self._close() + self._next() + b'{"role":"tool","content":"', ""
        self._call_id = message.call_id or self._call_id
        if last:
            after = b'","tool_call_id":' + json_bytes(self._ids.result(self._call_id)) + b"}"
        return before + escaped(message.content) + after
