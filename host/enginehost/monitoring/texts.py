"""Content as it was kept: JSON text, perhaps cut."""

from __future__ import annotations

from typing import Any

import orjson


def value_of(text: str) -> Any:
    """The value; what is cut, or no JSON, stays text."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def is_whole(text: str) -> bool:
    """Whether all of the value is there."""
    value = value_of(text)
    if isinstance(value, str):
        return text[:1] == '"'
    return not (isinstance(value, dict) and "$cut" in value)
