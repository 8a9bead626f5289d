"""OpenAI's strict subset of JSON Schema.

From OpenAI's guide to structured outputs ("supported schemas"): every property is required and every
object closed, an optional one is a union with ``null``; ``anyOf`` but not ``oneOf``, ``allOf``,
``not``, ``dependentRequired``, ``dependentSchemas``, ``if``/``then``/``else``; of the constraints
``pattern``, ``format`` (nine of them), the five numeric ones, ``minItems`` and ``maxItems``; at most
5,000 properties, 10 levels, 1,000 enum values, 120,000 characters of names and values.

A keyword that only narrows goes into the description of its schema; the host checks it when the call
comes. What the subset cannot express at all (a value of any type, an object with free keys, a tuple)
makes the whole schema not strict.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from enginehost.specs._notes import with_note
from enginehost.specs._parameters import TOP_LEVEL_REFUSED, acceptable
from enginehost.specs._schema import ANNOTATIONS, allows_null, every_schema, in_order, subschemas, types_of

_FORMATS = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"),
)
_NUMERIC = ("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_OF_TYPE: Mapping[str, frozenset[str]] = {
    "string": frozenset(("pattern", "format")),
    "number": frozenset(_NUMERIC),
    "integer": frozenset(_NUMERIC),
    "boolean": frozenset(),
    "null": frozenset(),
    "array": frozenset(("items", "minItems", "maxItems")),
    "object": frozenset(("properties", "required", "additionalProperties")),
}
_NEVER = frozenset(
    ("allOf", "prefixItems", "patternProperties", "$id", "$anchor", "$dynamicRef", "definitions")
)
_STRUCTURE = frozenset(("type", "enum", "const", "anyOf", "oneOf", "$ref", "$defs")).union(*_OF_TYPE.values())
_PYTHON: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}


class _NotStrict(Exception):
    """The subset cannot express this schema."""


def strict_parameters(parameters: Mapping[str, Any]) -> dict[str, Any] | None:
    """``parameters`` in the strict subset, or ``None`` where it cannot say them."""
    root = acceptable(parameters)
    if any(keyword in root for keyword in TOP_LEVEL_REFUSED):
        return None
    definitions = root.pop("$defs", {})
    root = {**root, "type": "object", "properties": root.get("properties") or {}}
    mapper = _Strict({**root, "$defs": definitions})
    try:
        strict = mapper.object(root, top=True)
        if definitions:
            strict["$defs"] = {name: mapper.schema(sub) for name, sub in definitions.items()}
        _check_limits(strict)
    except _NotStrict:
        return None
    return in_order(strict) | {"required": list(strict["properties"])}


class _Strict:
    """Maps the schemas of one document; ``root`` is where references start."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root

    def schema(self, schema: Any) -> dict[str, Any]:
        if not isinstance(schema, dict) or _NEVER & schema.keys():
            raise _NotStrict
        if "$ref" in schema:
            return self._reference(schema)
        if "anyOf" in schema or "oneOf" in schema:
            return self._union(schema)
        types = types_of(schema) or _types_of_values(schema)
        if not types:
            raise _NotStrict
        if len(types) == 1:
            return self._typed(schema, types[0])
        parts = [self._typed(_bare(schema), kind) for kind in types if kind != "null"]
        if len(parts) == 1:
            typed = self._typed(schema, next(kind for kind in types if kind != "null"))
            return nullable(typed) if allows_null(schema, self._root) else typed
        branches = [*parts, {"type": "null"}] if allows_null(schema, self._root) else parts
        return _described({"anyOf": branches}, schema, _left_over(schema))

    def _reference(self, schema: dict[str, Any]) -> dict[str, Any]:
        reference = schema["$ref"]
        beside = schema.keys() - {"$ref"}
        if not (reference == "#" or reference.startswith("#/$defs/")) or beside - ANNOTATIONS:
            raise _NotStrict
        # Nothing may stand beside ``$ref``, so that what stands there needs a schema around it.
        return _described({"anyOf": [{"$ref": reference}]}, schema, {}) if beside else {"$ref": reference}

    def _union(self, schema: dict[str, Any]) -> dict[str, Any]:
        (keyword, *more) = [key for key in ("anyOf", "oneOf") if key in schema]
        if more or (schema.keys() & _STRUCTURE) - {keyword}:
            raise _NotStrict
        return _described(
            {"anyOf": [self.schema(sub) for sub in schema[keyword]]}, schema, _left_over(schema)
        )

    def _typed(self, schema: dict[str, Any], kind: str) -> dict[str, Any]:
        if kind == "object":
            return self.object(schema)
        if kind not in _OF_TYPE:
            raise _NotStrict
        strict: dict[str, Any] = {"type": kind}
        for keyword in schema.keys() & (_OF_TYPE[kind] | {"enum", "const"}):
            strict[keyword] = schema[keyword]
        left = _left_over(schema)
        if strict.get("format") not in (None, *_FORMATS):
            left["format"] = strict.pop("format")
        if "enum" in strict:
            strict["enum"] = [value for value in strict["enum"] if _is_a(value, kind)]
            if not strict["enum"]:
                raise _NotStrict
        if kind == "array":
            strict["items"] = self.schema(schema.get("items"))
        return _described(strict, schema, left)

    def object(self, schema: dict[str, Any], *, top: bool = False) -> dict[str, Any]:
        properties = schema.get("properties")
        more = schema.get("additionalProperties")
        required = schema.get("required") or ()
        closed = more is False or (more is None and bool(properties or top))
        if not closed or schema.keys() & {"enum", "const"} or set(required) - set(properties or ()):
            raise _NotStrict
        mapped = {
            name: self.schema(sub) if name in required else nullable(self.schema(sub))
            for name, sub in (properties or {}).items()
        }
        strict = {
            "type": "object",
            "properties": mapped,
            "required": list(mapped),
            "additionalProperties": False,
        }
        return _described(strict, schema, _left_over(schema))


def nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """A strict ``schema`` that takes ``null`` too."""
    kinds = types_of(schema)
    if "null" in kinds:
        return schema
    if "anyOf" in schema:
        branches = schema["anyOf"]
        return schema if {"type": "null"} in branches else {**schema, "anyOf": [*branches, {"type": "null"}]}
    if not kinds or kinds == ("object",):
        outside = {key: schema[key] for key in ("title", "description") if key in schema}
        inside = {key: value for key, value in schema.items() if key not in outside}
        return {"anyOf": [inside, {"type": "null"}], **outside}
    wider = {**schema, "type": [*kinds, "null"]}
    if "const" in wider:
        wider["enum"] = [wider.pop("const")]
    if "enum" in wider:
        wider["enum"] = [*wider["enum"], None]
    return wider


def _left_over(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords the subset does not know, which only narrow or explain."""
    known = _STRUCTURE | {"title", "description", "$comment", "$schema"}
    return {key: value for key, value in schema.items() if key not in known}


def _described(strict: dict[str, Any], schema: Mapping[str, Any], left: Mapping[str, Any]) -> dict[str, Any]:
    if "title" in schema:
        strict["title"] = schema["title"]
    description = with_note(str(schema.get("description", "")), left)
    if description:
        strict["description"] = description
    return strict


def _bare(schema: dict[str, Any]) -> dict[str, Any]:
    """Only what decides about values, for one branch of a split schema."""
    return {key: value for key, value in schema.items() if key in _STRUCTURE}


def _types_of_values(schema: Mapping[str, Any]) -> tuple[str, ...]:
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    order = ("string", "boolean", "integer", "number", "array", "object", "null")
    found = {next(kind for kind in order if _is_a(value, kind)) for value in values}
    return tuple(kind for kind in order if kind in found)


def _is_a(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _PYTHON[kind])


_MAX_PROPERTIES, _MAX_LEVELS, _MAX_ENUM, _MAX_TEXT = 5_000, 10, 1_000, 120_000
_LONG_ENUM, _MAX_LONG_ENUM_TEXT = 250, 15_000


def _check_limits(schema: dict[str, Any]) -> None:
    properties = values = text = 0
    for sub in every_schema(schema):
        names = [*sub.get("properties", ()), *sub.get("$defs", ())]
        enum = sub.get("enum", ())
        words = sum(len(value) for value in enum if isinstance(value, str))
        properties += len(sub.get("properties", ()))
        values += len(enum)
        text += words + sum(map(len, names)) + len(str(sub.get("const", "")))
        if len(enum) > _LONG_ENUM and words > _MAX_LONG_ENUM_TEXT:
            raise _NotStrict
    if (
        properties > _MAX_PROPERTIES
        or values > _MAX_ENUM
        or text > _MAX_TEXT
        or _levels(schema) > _MAX_LEVELS
    ):
        raise _NotStrict


def _levels(schema: dict[str, Any]) -> int:
    deepest = max((_levels(sub) for _, sub in subschemas(schema)), default=0)
    return deepest + ("properties" in schema)
