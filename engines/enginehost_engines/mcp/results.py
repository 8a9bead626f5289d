"""What a tool answered, as a value.

``structuredContent`` where there is any; else one text as text (as the JSON that it is, where the tool has an
output schema), nothing as ``None``, several blocks as a list. Blocks that are no text are dicts (see
:func:`block_value`), their data bytes.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any

from enginehost.errors import ExecutionFailed, ResultInvalid

LONGEST_ERROR = 2000
"""The most characters of a tool's own error that callers read."""


def value_of(name: str, result: Any, *, has_schema: bool) -> Any:
    """The value of a ``CallToolResult``. Raises ``ExecutionFailed`` where it says ``isError``.

    ``has_schema``: the tool has an output schema, so that a text which is JSON is read as that.
    """
    if result.is_error:
        raise tool_failure(name, result.content)
    if result.structured_content is not None:
        return result.structured_content
    values = [block_value(name, block) for block in result.content]
    if not values:
        return None
    if len(values) > 1:
        return values
    return _as_json(values[0]) if has_schema and isinstance(values[0], str) else values[0]


def _as_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def tool_failure(name: str, content: Sequence[Any]) -> ExecutionFailed:
    """The error of a tool that failed, in its own words."""
    words = " ".join(block.text for block in content if block.type == "text")
    text = one_line(words) or "the tool says that it failed, and not why"
    return ExecutionFailed(f"{name}: {text}", detail={"type": "ToolError"})


def one_line(text: str, limit: int = LONGEST_ERROR) -> str:
    """A text of a stranger, on one line and not too long."""
    text = text[: 2 * limit]
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def block_value(name: str, block: Any) -> Any:
    """One content block.

    Text is text. An image or audio is ``{"type", "media_type", "data"}`` with bytes; a link
    ``{"type": "resource_link", "uri", "name", …}``; an embedded resource ``{"type": "resource", "uri"}`` with
    ``text`` or ``data``, and ``media_type`` where it is known.
    """
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            data = _bytes(name, block.data)
            return {"type": block.type, "media_type": block.mime_type, "data": data}
        case "resource_link":
            link = {"title": block.title, "description": block.description, "media_type": block.mime_type}
            known = {key: text for key, text in {**link, "size": block.size}.items() if text is not None}
            return {"type": "resource_link", "uri": str(block.uri), "name": block.name, **known}
        case _:
            return _resource(name, block.resource)


def _resource(name: str, resource: Any) -> dict[str, Any]:
    value: dict[str, Any] = {"type": "resource", "uri": str(resource.uri)}
    if resource.mime_type is not None:
        value["media_type"] = resource.mime_type
    blob = getattr(resource, "blob", None)
    if blob is None:
        return {**value, "text": resource.text}
    return {**value, "data": _bytes(name, blob)}


def _bytes(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ResultInvalid(f"{name} answered with data that is no base64") from error
