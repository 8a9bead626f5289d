"""Rows as ``system`` and ``messages`` of Converse, written as they come."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from enginehost.llm.blocks import ATTACHED, TEXTS, Blocks, call_id, shown_call
from enginehost.llm.body import json_bytes, members
from enginehost.llm.message import Message, Role, Type
from enginehost.llm.model import ModelRequest
from enginehost.llm.passage import PlainForm

PROVIDER = "bedrock"
"""The member of ``Message.provider`` that is ours."""

IMAGES = {"image/jpeg": "jpeg", "image/png": "png", "image/gif": "gif", "image/webp": "webp"}
"""Media types of images that Converse takes, and its words for them."""

DOCUMENTS = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
}
"""The same for files."""

_POINT = b',{"cachePoint":{"type":"default"}}'
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9 ()\[\]-]+")
"""What a document's name may not hold; Bedrock warns of prompts in names."""


class Rows(Blocks):
    """Writes the rows. Raises ``ValueError`` for one that Converse has no place for.

    ``caches``: the model takes cache points.
    """

    provider = PROVIDER
    plain = PlainForm(
        (b'{"role":"user","content":[{"text":', b"}]}"),
        (b'{"role":"assistant","content":[{"text":', b"}]}"),
    )

    def __init__(self, request: ModelRequest, caches: bool) -> None:
        super().__init__(request)
        self._caches = caches and request.cache
        self._documents = 0

    def open_block(self, message: Message) -> bytes:
        """A block up to its text."""
        kind = message.type
        if kind in TEXTS:
            return b'{"text":"'
        if message.role is Role.SYSTEM:
            raise ValueError(f"an instruction of Bedrock's is text, not {kind}")
        if kind is Type.TOOL_RESULT:
            return b'{"toolResult":{"content":[{"text":"'
        if kind is Type.REASONING:
            if "redacted" in self.own(message):
                return b'{"reasoningContent":{"redactedContent":'
            return b'{"reasoningContent":{"reasoningText":{"text":"'
        if kind is Type.TOOL_CALL:
            return b'{"toolUse":'
        if kind is Type.IMAGE:
            return b'{"image":{' + _format(self.query, IMAGES, "images") + _source(self.query)
        if kind is Type.FILE:
            return b'{"document":{' + self._document()
        raise ValueError(f"Bedrock has no place for a message of type {kind}")

    def end_block(self, message: Message) -> bytes:
        """A block after its text."""
        query = self.query
        if message.type is Type.TOOL_RESULT:
            failed = b',"status":"error"' if query.get("error") else b""
            return b'"}],"toolUseId":' + json_bytes(call_id(query)) + failed + b"}}"
        if message.type is Type.REASONING:
            return _end_thought(self.own(message))
        if message.type is Type.TOOL_CALL:
            name, args = shown_call(self.request, query, "bedrock")
            return json_bytes({"toolUseId": call_id(query), "name": name, "input": args}) + b"}"
        if message.type in ATTACHED:
            return b"}}}" if query.get("url") else b'"}}}'
        return b'"}'

    def finish_block(self, message: Message, last: bool) -> bytes:
        """The point up to which the context is kept in the cache, after the last block."""
        return _POINT if last and self._caches and message.type is not Type.REASONING else b""

    def _document(self) -> bytes:
        self._documents += 1
        name = _NOT_IN_NAMES.sub(" ", str(self.query.get("name") or "")).strip()
        name = " ".join(name.split())[:180] or "document"
        # names in one request have to differ
        named = members({"name": f"{name} {self._documents}" if self._documents > 1 else name}) + b","
        return named + _format(self.query, DOCUMENTS, "files") + _source(self.query)


def _end_thought(own: Mapping[str, Any]) -> bytes:
    if "redacted" in own:
        return json_bytes(own["redacted"]) + b"}}"
    return b'","signature":' + json_bytes(own["signature"]) + b"}}}"


def _format(query: Mapping[str, Any], formats: Mapping[str, str], what: str) -> bytes:
    media_type = str(query.get("media_type", "")).partition(";")[0].strip().lower()
    if media_type not in formats:
        raise ValueError(f"Bedrock takes {what} of {', '.join(sorted(formats))}, not {media_type!r}")
    return members({"format": formats[media_type]}) + b","


def _source(query: Mapping[str, Any]) -> bytes:
    url = query.get("url")
    if not url:
        return b'"source":{"bytes":"'
    if not str(url).startswith("s3://"):
        raise ValueError("Bedrock takes the address of an image or a file in S3 (s3://…) only")
    return b'"source":{"s3Location":' + json_bytes({"uri": str(url)})
