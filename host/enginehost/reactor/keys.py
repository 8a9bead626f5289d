"""What a reactor declares of its keys, and the description that callers get of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from enginehost.type_words import type_schema

_BY_NAME: Mapping[str, Mapping[str, Any]] = {
    "limit": {"type": "integer"},
    "offset": {"type": "integer"},
    "map": {"type": "object"},
    "object": {"type": "object"},
}
"""Keys whose type SEMOSS knows by their name; any JSON value fits the others."""


@dataclass(frozen=True, slots=True)
class Key:
    """A noun that a reactor takes, under its own name or an alias. ``several``: callers give a list."""

    name: str
    aliases: tuple[str, ...]
    required: bool
    several: bool


def read_keys(
    keys_to_get: Sequence[str], key_required: Sequence[int] | None, key_multi: Sequence[int] | None
) -> list[Key]:
    """The keys as declared: ``"name,alias"`` has an alias; a mark of 1 means yes, a missing one no."""
    return [
        Key(*_names(text), required=_mark(key_required, place), several=_mark(key_multi, place))
        for place, text in enumerate(keys_to_get)
    ]


def _names(text: str) -> tuple[str, tuple[str, ...]]:
    name, *aliases = (part.strip() for part in text.split(","))
    return name, tuple(aliases)


def _mark(marks: Sequence[int] | None, place: int) -> bool:
    return marks is not None and place < len(marks) and bool(marks[place])


def description(
    keys: Iterable[Key],
    marked: bool,
    type_of: Callable[[str], Any],
    text_of: Callable[[str], str | None],
    doc: str,
    result: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What callers learn: ``{"keys", "required", "schemas", "doc", "result"}``.

    ``marked``: whether the reactor says which keys are required; if not, all are, as in SEMOSS's tools.
    Raises ``ValueError`` for a type that is none.
    """
    keys = list(keys)
    return {
        "keys": [key.name for key in keys],
        "required": [key.name for key in keys if key.required or not marked],
        "schemas": {key.name: _schema(key, type_of(key.name), text_of(key.name)) for key in keys},
        "doc": doc,
        "result": None if result is None else dict(result),
    }


def _schema(key: Key, declared: Any, text: str | None) -> dict[str, Any]:
    schema = dict(_BY_NAME.get(key.name, {}) if declared is None else schema_of(key.name, declared))
    if key.several and schema.get("type") != "array":
        schema = {"type": "array", **({"items": schema} if schema else {})}
    return schema | ({"description": text} if text else {})


def schema_of(key: str, declared: Any) -> Mapping[str, Any]:
    """The JSON Schema of a type as authors write it: a word, a Python type, a schema.

    Raises ``ValueError``.
    """
    if isinstance(declared, Mapping):
        return cast("Mapping[str, Any]", declared)
    word = declared.__name__ if isinstance(declared, type) else str(declared)
    schema = type_schema(word)
    if schema is None:
        raise ValueError(f"the type {word[:80]!r} of the key {key} is not known: write int, list[str], …")
    return schema
