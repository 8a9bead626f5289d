"""Results of calls as tools answer: for models as content, for programs as ``structuredContent``."""

from __future__ import annotations

from typing import Any

import orjson

from enginehost.errors import EngineHostError
from enginehost.serve.mcp.mirrored import mirrored_in
from enginehost.signature import FunctionSignature
from enginehost.specs._results import is_object, result_schema
from enginehost.values import write

_PICTURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
)
_IN_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
_BYTES = b'"$bytes":'
MARK = "mcp_content"
"""The member of :class:`enginehost.values.McpContent`."""
_MARKED = b'{"%b":[' % MARK.encode()


class Shape:
    """How results of one function travel. ``structured``: there is an ``outputSchema``.

    ``mirrored`` are those of its arguments that clients repeat as headers.
    """

    __slots__ = ("mirrored", "structured", "wrapped")

    def __init__(self, signature: FunctionSignature) -> None:
        schema = result_schema(signature)
        self.structured = schema is not None
        self.wrapped = not is_object(schema)
        self.mirrored = mirrored_in(signature.parameters)

    def result(self, found: bytes) -> bytes:
        """The ``CallToolResult`` of a result, which is JSON."""
        if found.startswith(_MARKED):
            return write({"content": blocks_of(orjson.loads(found))})
        content = _content(found) if _BYTES in found else _text_block(found)
        if self.structured:
            shown = b'{"result":%b}' % found if self.wrapped else found
            return b'{"content":[%b],"structuredContent":%b}' % (content, shown)
        if found.startswith(b"{") and _BYTES not in found:
            return b'{"content":[%b],"structuredContent":%b}' % (content, found)
        return b'{"content":[%b]}' % content


def failed(error: EngineHostError) -> bytes:
    """The ``CallToolResult`` of a call that failed, for a model to read."""
    text = orjson.dumps(error.message, default=str)
    return b'{"content":[{"type":"text","text":%b}],"isError":true}' % text


def _text_block(found: bytes) -> bytes:
    """A block with a result as text: a text is itself, everything else its JSON."""
    text = found if found.startswith(b'"') else orjson.dumps(found.decode())
    return b'{"type":"text","text":%b}' % text


def _content(found: bytes) -> bytes:
    """The blocks of a result with bytes in it: pictures and sounds as such, other bytes as a resource."""
    value: Any = orjson.loads(found)
    parts: list[Any] = value if isinstance(value, list) else [value]
    if not all(isinstance(part, str) or _encoded(part) is not None for part in parts):
        return _text_block(found)
    return b",".join(write(_block(part, number)) for number, part in enumerate(parts))


def blocks_of(value: Any) -> list[dict[str, Any]]:
    """A JSON value as content: the blocks of :class:`~enginehost.values.McpContent`, else one."""
    if isinstance(value, dict) and value.keys() == {MARK} and isinstance(value[MARK], list):
        return [_block(part, number) for number, part in enumerate(value[MARK])] or [_block("", 0)]
    return [_block(value, 0)]


def _encoded(part: Any) -> str | None:
    text = part.get("$bytes") if isinstance(part, dict) and len(part) == 1 else None
    return text if isinstance(text, str) else None


def _block(part: Any, number: int) -> dict[str, Any]:
    encoded = _encoded(part)
    if encoded is not None:
        return _of_bytes(encoded, number)
    if isinstance(part, dict) and isinstance(part.get("type"), str):
        return _written_out(part)
    return {"type": "text", "text": part if isinstance(part, str) else write(part).decode()}


def _of_bytes(encoded: str, number: int) -> dict[str, Any]:
    media = media_of(encoded)
    kind = media.partition("/")[0]
    if kind in ("image", "audio"):
        return {"type": kind, "data": encoded, "mimeType": media}
    about = {"uri": f"result://{number}", "mimeType": media, "blob": encoded}
    return {"type": "resource", "resource": about}


def _written_out(block: dict[str, Any]) -> dict[str, Any]:
    """A block as a function wrote it, with its bytes in base64."""
    found: dict[str, Any] = {name: _encoded(value) or value for name, value in block.items()}
    resource = found.get("resource")
    if isinstance(resource, dict):
        found["resource"] = {name: _encoded(value) or value for name, value in resource.items()}
    return found


def media_of(encoded: str) -> str:
    """The media type of bytes in base64, by how they begin."""
    from base64 import b64decode

    start = b64decode(encoded[:24])
    if start.startswith(b"RIFF"):
        return _IN_RIFF.get(start[8:12], "application/octet-stream")
    found = (media for magic, media in _PICTURES if start.startswith(magic))
    return next(found, "application/octet-stream")
