"""Walking JSON Schema 2020-12: copies, rewriting, references, what allows ``null``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

_ONE, _MANY, _NAMED = "one", "many", "named"

APPLICATORS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "additionalProperties",
            "contains",
            "contentSchema",
            "else",
            "if",
            "items",
            "not",
            "propertyNames",
            "then",
            "unevaluatedItems",
            "unevaluatedProperties",
        ),
        _ONE,
    ),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), _MANY),
    **dict.fromkeys(("$defs", "definitions", "dependentSchemas", "patternProperties", "properties"), _NAMED),
}
"""The keywords that hold schemas: one, a list of them, or some by name."""

ANNOTATIONS = frozenset(
    ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment")
)
"""Keywords that say something and forbid nothing."""

_HEAD = ("type", "properties", "required")
_MAX_REFERENCES = 32


def plain(value: Any) -> Any:
    """A copy of dicts and lists only, whatever kind of mapping or sequence they were."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def rewrite(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """A copy of ``schema`` with ``change`` applied to each schema in it, innermost first."""
    if not isinstance(schema, Mapping):
        return plain(schema)
    copy: dict[str, Any] = {}
    for keyword, value in schema.items():
        shape = APPLICATORS.get(keyword)
        if shape is None:
            copy[keyword] = plain(value)
        elif shape == _NAMED and isinstance(value, Mapping):
            copy[keyword] = {name: rewrite(sub, change) for name, sub in value.items()}
        elif isinstance(value, list | tuple):  # ``items`` too: a list there is the form before 2020-12
            copy[keyword] = [rewrite(sub, change) for sub in value]
        else:
            copy[keyword] = rewrite(value, change)
    return change(copy)


def subschemas(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The schemas directly inside ``schema``, each with the keyword that holds it."""
    for keyword, value in schema.items():
        shape = APPLICATORS.get(keyword)
        if shape is None:
            continue
        if shape == _NAMED and isinstance(value, Mapping):
            inner = list(value.values())
        else:
            inner = list(value) if isinstance(value, list | tuple) else [value]
        yield from ((keyword, sub) for sub in inner if isinstance(sub, dict))


def every_schema(schema: Any) -> Iterator[dict[str, Any]]:
    """``schema`` and all schemas in it."""
    if isinstance(schema, dict):
        yield schema
        for _, sub in subschemas(schema):
            yield from every_schema(sub)


def resolve(reference: Any, root: Mapping[str, Any]) -> Any:
    """What a local ``$ref`` (``#`` or ``#/pointer``) points at; ``None`` where nothing is."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    here: Any = root
    for raw in reference.split("/")[1:]:
        token = unquote(raw).replace("~1", "/").replace("~0", "~")
        if isinstance(here, Mapping) and token in here:
            here = here[token]
        elif isinstance(here, list) and token.isdecimal() and int(token) < len(here):
            here = here[int(token)]
        else:
            return None
    return here


def follow(schema: Any, root: Mapping[str, Any]) -> Any:
    """``schema``, or what its ``$ref`` leads to in the end, with the keywords beside it laid over."""
    for _ in range(_MAX_REFERENCES):
        if not isinstance(schema, Mapping) or "$ref" not in schema:
            return schema
        target = resolve(schema["$ref"], root)
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        if not isinstance(target, Mapping):
            return beside if target is None else target
        schema = {**target, **beside}
    return {}


def in_order(schema: dict[str, Any]) -> dict[str, Any]:
    """An object schema with ``type``, ``properties``, ``required`` first; an empty ``required`` goes."""
    ordered: dict[str, Any] = {"type": "object", "properties": schema.get("properties") or {}}
    if schema.get("required"):
        ordered["required"] = schema["required"]
    ordered.update((key, value) for key, value in schema.items() if key not in _HEAD)
    return ordered


def types_of(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """The declared types; empty where nothing is declared."""
    declared = schema.get("type", ())
    return (declared,) if isinstance(declared, str) else tuple(declared)


def allows_null(schema: Any, root: Mapping[str, Any], depth: int = 0) -> bool:
    """Whether ``null`` is an instance, as far as types, values and compositions say."""
    if isinstance(schema, bool) or not isinstance(schema, Mapping) or depth > _MAX_REFERENCES:
        return schema is not False
    if "$ref" in schema:
        schema = follow(schema, root)
        if not isinstance(schema, Mapping):
            return schema is not False
    types = types_of(schema)
    return (
        (not types or "null" in types)
        and ("enum" not in schema or None in schema["enum"])
        and ("const" not in schema or schema["const"] is None)
        and all(allows_null(sub, root, depth + 1) for sub in schema.get("allOf", ()))
        and all(
            any(allows_null(sub, root, depth + 1) for sub in schema[key])
            for key in ("anyOf", "oneOf")
            if key in schema
        )
    )
