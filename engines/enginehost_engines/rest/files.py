"""Parameters that are files: what callers may give, and the bytes that are sent."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

from enginehost_engines.rest.placement import Place, Placement

FilePart = tuple[str, bytes] | tuple[str, bytes, str]
"""Name, content, and media type where one is given."""


_OF_CONTENT = ("type", "contentEncoding", "contentMediaType", "format", "minLength", "maxLength")
"""What the schema of a file's text says of its content too."""


def with_files(parameters: Mapping[str, Any], placements: Iterable[Placement]) -> Mapping[str, Any]:
    """The schema of the parameters, in which text that becomes a file may also have a name and a media type.

    The same object where there is none. (Bytes count as their base64 text.)
    """
    properties: Mapping[str, Any] = parameters.get("properties") or {}
    wider = {
        placement.parameter: widened
        for placement in placements
        if placement.place is Place.FILE
        and (widened := _widened(properties.get(placement.parameter))) is not None
    }
    return {**parameters, "properties": {**properties, **wider}} if wider else parameters


def _widened(schema: Any) -> dict[str, Any] | None:
    """The wider schema; ``None`` where it stays as it is: the author knows better."""
    if not isinstance(schema, Mapping) or "enum" in schema or "const" in schema or "pattern" in schema:
        return None
    if schema.get("type") == "array":
        items = _widened(schema.get("items"))
        return None if items is None else {**schema, "items": items}
    if schema.get("type") != "string":
        return None
    words = str(schema.get("description", ""))
    base64 = is_base64(schema)
    said = f"({'base64' if base64 else 'text'}, or an object with content, filename and content_type)"
    content = {key: value for key, value in schema.items() if key in _OF_CONTENT}
    return {
        **schema,
        "type": ["string", "object"],
        "properties": {
            "content": content,
            "filename": {"type": "string"},
            "content_type": {"type": "string"},
        },
        "required": ["content"],
        "description": f"{words} {said}".strip(),
    }


def is_base64(schema: Any) -> bool:
    """Whether text with this schema stands for bytes, or that of its items does."""
    if not isinstance(schema, Mapping):
        return False
    if str(schema.get("contentEncoding", "")).lower() == "base64" or schema.get("format") == "byte":
        return True
    return schema.get("type") == "array" and is_base64(schema.get("items"))


def file_part(value: Any, decode_base64: bool) -> FilePart:
    """A file from bytes, text, or ``{"content", "filename"?, "content_type"?}``."""
    if not isinstance(value, Mapping):
        return "file", content_of(value, decode_base64)
    if "content" not in value:
        raise ValueError("must have the member 'content' to be a file")
    name, media_type = str(value.get("filename") or "file"), str(value.get("content_type") or "")
    if any(char in '"\\' or not char.isprintable() for char in name + media_type):
        raise ValueError("has a file name or content type with quotes, backslashes or control characters")
    if "/" in name or name in (".", ".."):
        raise ValueError("has a file name that is a path: only its last part may be sent")
    content = content_of(value["content"], decode_base64)
    return (name, content, media_type) if media_type else (name, content)


def content_of(value: Any, decode_base64: bool) -> bytes:
    """Bytes as they are, text in UTF-8 or, with ``decode_base64``, what it stands for."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        return _from_base64(value) if decode_base64 else value.encode()
    raise ValueError("must be bytes, or base64 text" if decode_base64 else "must be bytes or text")


def _from_base64(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        raise ValueError("must be base64") from None
