"""A call of a function as one could type it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from json import dumps
from math import inf
from shlex import quote
from typing import Any, cast

from enginehost.cli.output import one_line
from enginehost.schema_references import resolved

_OF_FORMAT: Mapping[str, str] = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "email": "ada@example.org",
    "hostname": "example.org",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.org",
    "url": "https://example.org",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
}
"""Text of each format; addresses are those that stand for no one (RFC 2606, 3849, 5737)."""

_DEEPEST = 5
"""Levels of lists and objects to which samples are made."""


def example_call(name: str, parameters: Mapping[str, Any], *options: str) -> str:
    """``enginehost call NAME …`` with a value for each parameter that has to be given."""
    words = ["enginehost", "call", name, *_arguments(parameters), *options]
    return one_line(" ".join(map(quote, words)))


def _arguments(parameters: Mapping[str, Any]) -> Iterator[str]:
    properties: Mapping[str, Any] = parameters.get("properties") or {}
    for name in parameters.get("required") or []:
        schema = properties.get(name)
        found = resolved(schema, parameters)
        yield _argument(name, found if isinstance(found, dict) else {}, parameters)


def _argument(name: str, schema: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    """``name=text`` where that arrives as the sample, else ``name:=JSON``."""
    from enginehost.validation import coerced

    value, was_given = _given(schema)
    if not was_given:
        value = _made(schema, root, 0)
    text = value if isinstance(value, str) else dumps(value, ensure_ascii=False)
    arrives = coerced({**root, "properties": {name: schema}}, {name: text})[name]
    is_plain = isinstance(value, (str, int, float)) and type(arrives) is type(value) and arrives == value
    if not is_plain or not (was_given or "type" in schema):  # without a type more than text may be meant
        return f"{name}:={dumps(value, ensure_ascii=False)}"
    return f"{name}=@{text}" if text.startswith("@") else f"{name}={text}"


def _given(schema: Mapping[str, Any]) -> tuple[Any, bool]:
    """A value that the schema itself names, and whether it names one."""
    named = (schema.get("const"), schema.get("default"), *_list(schema, "examples"), *_list(schema, "enum"))
    found = [value for value in named if value is not None]
    return (found[0], True) if found else (None, False)


def _sample(schema: Any, root: Mapping[str, Any], depth: int) -> Any:
    schema = resolved(schema, root)
    about = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    value, was_given = _given(about)
    return value if was_given else _made(about, root, depth)


def _made(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Any:
    """A value that the schema allows, as far as that is easily said."""
    for key in ("anyOf", "oneOf"):
        if choices := _list(schema, key):
            return _sample(choices[0], root, depth + 1) if depth < _DEEPEST else None
    kind = _kind(schema)
    if kind in ("integer", "number"):
        return _number(schema)
    if kind == "array":
        least = max(1, int(schema.get("minItems", 1)))
        return [_sample(schema.get("items"), root, depth + 1)] * least if depth < _DEEPEST else []
    if kind == "object":
        properties: Mapping[str, Any] = schema.get("properties") or {}
        names = _list(schema, "required") if depth < _DEEPEST else []
        return {name: _sample(properties.get(name), root, depth + 1) for name in names}
    return {"boolean": True, "null": None}.get(kind, _text(schema))


def _kind(schema: Mapping[str, Any]) -> str:
    kinds = schema.get("type")
    if isinstance(kinds, list):
        kinds = next((kind for kind in cast("list[Any]", kinds) if kind != "null"), "null")
    if kinds is None:
        kinds = "object" if "properties" in schema else "array" if "items" in schema else "string"
    return str(kinds)


def _number(schema: Mapping[str, Any]) -> int | float:
    """1, or what is allowed beside it."""
    least = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
    most = schema.get("maximum", schema.get("exclusiveMaximum", inf) - 1)
    return min(max(1, least), most)


def _text(schema: Mapping[str, Any]) -> str:
    text = _OF_FORMAT.get(str(schema.get("format", "")), "text")
    return text.ljust(int(schema.get("minLength", 0)), "x")[: schema.get("maxLength")]


def _list(schema: Mapping[str, Any], key: str) -> list[Any]:
    found = schema.get(key)
    return cast("list[Any]", found) if isinstance(found, list) else []
