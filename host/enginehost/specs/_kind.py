"""What one kind of face is: how it shows a function, and how arguments and results travel there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from enginehost.errors import InvalidRequest
from enginehost.signature import FunctionSignature

SpecMapper = Callable[[FunctionSignature, str], dict[str, Any]]
"""Shows a signature under a name (already legal on that face)."""


def _as_it_is(signature: FunctionSignature, value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class SpecKind:
    """One kind. ``read`` is the inverse of ``show``, ``unpack`` that of ``pack`` (results).

    ``text_arguments``: arguments travel as JSON text.
    """

    show: SpecMapper
    read: Callable[[Mapping[str, Any]], FunctionSignature] | None = None
    pack: Callable[[FunctionSignature, Any], Any] = _as_it_is
    unpack: Callable[[FunctionSignature, Any], Any] = _as_it_is
    text_arguments: bool = False


def member(body: Mapping[str, Any], key: str, kind: type[Any], default: Any = None) -> Any:
    """``body[key]`` if it is a ``kind``. Absent or null: ``default``, and an error without one."""
    value = body.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, kind):
        raise InvalidRequest(f"{key!r} of a tool must be a JSON {_WORDS[kind]}", detail={"key": key})
    return value


_WORDS: Mapping[type[Any], str] = {str: "string", Mapping: "object", list: "array"}
