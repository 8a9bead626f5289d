"""Rows as ``system`` and ``messages`` of the Messages API, written as they come."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from enginehost.llm.blocks import ATTACHED, TEXTS, Blocks, call_id, shown_call
from enginehost.llm.body import escaped, json_bytes, members
from enginehost.llm.message import Message, Role, Type
from enginehost.llm.passage import PlainForm

PROVIDER = "anthropic"
"""The member of ``Message.provider`` that is ours."""

IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""Media types of images that the API reads."""

_MARK = b',"cache_control":{"type":"ephemeral"}'


class Rows(Blocks):
    """Writes the rows. Raises ``ValueError`` for one that the API has no place for."""

    provider = PROVIDER
    plain = PlainForm(
        (b'{"role":"user","content":[{"type":"text","text":', b"}]}"),
        (b'{"role":"assistant","content":[{"type":"text","text":', b"}]}"),
    )

    def needs_whole(self, first: Message) -> bool:
        """A text file too: it is decoded."""
        return super().needs_whole(first) or (first.type is Type.FILE and _is_text(first.query or {}))

    def open_block(self, message: Message) -> bytes:
        """A block up to its text."""
        kind = message.type
        if kind in TEXTS:
            return b'{"type":"text","text":"'
        if message.role is Role.SYSTEM:
            raise ValueError(f"an instruction of Anthropic's is text, not {kind}")
        if kind is Type.TOOL_RESULT:
            return b'{"type":"tool_result","content":"'
        if kind is Type.REASONING:
            redacted = "redacted" in self.own(message)
            return b'{"type":"redacted_thinking"' if redacted else b'{"type":"thinking","thinking":"'
        if kind is Type.TOOL_CALL:
            return b'{"type":"tool_use",'
        if kind is Type.IMAGE:
            return b'{"type":"image","source":{' + _image(self.query)
        if kind is Type.FILE and message.role is Role.ASSISTANT:
            raise ValueError("Anthropic's API has no place for a file that the model gave")
        if kind is Type.FILE:
            return b'{"type":"document",' + _file(self.query)
        raise ValueError(f"Anthropic's API has no place for a message of type {kind}")

    def text(self, message: Message) -> bytes:
        """The text of a row or piece as it stands in its block."""
        if message.type is Type.FILE and _is_text(self.query) and not self.query.get("url"):
            return escaped(_decoded(message.content))
        return super().text(message)

    def end_block(self, message: Message) -> bytes:
        """A block after its text, without its last brace."""
        query = self.query
        if message.type is Type.TOOL_RESULT:
            failed = b',"is_error":true' if query.get("error") else b""
            return b'","tool_use_id":' + json_bytes(call_id(query)) + failed
        if message.type is Type.REASONING:
            data = self.own(message)
            if "redacted" in data:
                return b',"data":' + json_bytes(data["redacted"])
            return b'","signature":' + json_bytes(data["signature"])
        if message.type is Type.TOOL_CALL:
            name, args = shown_call(self.request, query, "anthropic")
            return members({"id": call_id(query), "name": name, "input": args})
        if message.type in ATTACHED:
            return b"}" if query.get("url") else b'"}'
        return b'"'

    def finish_block(self, message: Message, last: bool) -> bytes:
        """The last brace, and before it the mark up to which the context is kept in the cache."""
        marked = last and self.request.cache and message.type is not Type.REASONING
        return (_MARK if marked else b"") + b"}"


def _is_text(query: Mapping[str, Any]) -> bool:
    return str(query.get("media_type", "")).startswith("text/")


def _image(query: Mapping[str, Any]) -> bytes:
    if url := query.get("url"):
        return b'"type":"url",' + members({"url": str(url)})
    media_type = str(query.get("media_type", ""))
    if media_type not in IMAGES:
        raise ValueError(f"Anthropic's API reads images of {', '.join(sorted(IMAGES))}, not {media_type!r}")
    return b'"type":"base64",' + members({"media_type": media_type}) + b',"data":"'


def _file(query: Mapping[str, Any]) -> bytes:
    title = members({"title": str(query["name"])}) + b"," if query.get("name") else b""
    media_type = str(query.get("media_type", ""))
    if url := query.get("url"):
        return title + b'"source":{"type":"url",' + members({"url": str(url)})
    if media_type == "application/pdf":
        return title + b'"source":{"type":"base64","media_type":"application/pdf","data":"'
    if _is_text(query):
        return title + b'"source":{"type":"text","media_type":"text/plain","data":"'
    raise ValueError(f"Anthropic's API reads files of application/pdf and text, not {media_type!r}")


def _decoded(content: str) -> str:
    try:
        return base64.b64decode(content, validate=True).decode()
    except ValueError:
        raise ValueError("a text file is no UTF-8 in base64") from None
