"""A JSON Schema that somebody wrote into a file: is it one that a call can be checked against?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from enginehost.type_words import type_schema

_ONE = ("items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames")
_LISTS = ("prefixItems", "anyOf", "oneOf", "allOf")
_MAPS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_JSON_TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})
_MAX_MESSAGE = 200

TYPE_HINT = "write string, integer, number, boolean, array, object, date, List<String>, …"
"""What to write where a type is not known."""

KEYWORDS: frozenset[str] = frozenset(
    {
        *_ONE,
        *_LISTS,
        *_MAPS,
        *_REFERENCES,
        *(
            "$id",
            "$schema",
            "$anchor",
            "$dynamicAnchor",
            "$comment",
            "title",
            "description",
            "default",
            "examples",
        ),
        *("type", "enum", "const", "deprecated", "readOnly", "writeOnly", "format", "pattern", "minLength"),
        *(
            "maxLength",
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
            "minItems",
        ),
        *("maxItems", "uniqueItems", "minContains", "maxContains", "unevaluatedItems", "minProperties"),
        *("maxProperties", "required", "dependentRequired", "unevaluatedProperties", "contentEncoding"),
        *("contentMediaType", "contentSchema"),
    }
)
"""The keywords of JSON Schema 2020-12."""


def with_json_types(schema: Mapping[str, Any], unknown: list[str]) -> dict[str, Any]:
    """The schema with the type words of people (``String``, ``List<int>``) replaced, at any depth.

    A word that means nothing goes to ``unknown`` and allows everything.
    """
    result = dict(schema)
    declared = result.get("type")
    if isinstance(declared, str) and declared not in _JSON_TYPES:
        del result["type"]
        meant = type_schema(declared) if declared.strip() else {}
        if meant is None:
            unknown.append(declared)
        result = {**(meant or {}), **result}
    for keyword in _ONE:
        if keyword in result:
            result[keyword] = _subschema(result[keyword], unknown)
    for keyword in _LISTS:
        if isinstance(result.get(keyword), list):
            result[keyword] = [_subschema(sub, unknown) for sub in result[keyword]]
    for keyword in _MAPS:
        if isinstance(result.get(keyword), dict):
            result[keyword] = {name: _subschema(sub, unknown) for name, sub in result[keyword].items()}
    return result


def _subschema(schema: Any, unknown: list[str]) -> Any:
    if isinstance(schema, str):
        schema = {"type": schema}
    return with_json_types(cast("dict[str, Any]", schema), unknown) if isinstance(schema, dict) else schema


def schema_fault(schema: Mapping[str, Any]) -> str | None:
    """Why the schema is no usable JSON Schema 2020-12; ``None`` when it is.

    A reference that leaves the schema is a fault: no check of a call may need the network.
    """
    for reference in _references(schema):
        if not (isinstance(reference, str) and reference.startswith("#")):
            return f"the reference {str(reference)[:80]!r} leads out of the schema; only '#/…' is allowed"
    dialect = schema.get("$schema")
    if isinstance(dialect, str) and dialect.rstrip("#") != "https://json-schema.org/draft/2020-12/schema":
        return f"the schema's dialect is {dialect[:80]!r}; only JSON Schema 2020-12 is read"
    from jsonschema_rs import Draft202012Validator

    try:
        Draft202012Validator(dict(schema), offline=True)
    except ValueError as error:
        place = "/".join(str(part) for part in getattr(error, "instance_path", ()))
        reason = str(getattr(error, "message", error))[:_MAX_MESSAGE]
        return f"at {place}: {reason}" if place else reason
    return None


def default_fits(schema: Mapping[str, Any]) -> bool:
    """Whether a parameter's schema takes its own default. One that refers elsewhere is believed."""
    from jsonschema_rs import Draft202012Validator

    try:
        return Draft202012Validator(dict(schema), validate_formats=True, offline=True).is_valid(
            schema["default"]
        )
    except ValueError:
        return True


def _references(schema: Any) -> Iterator[Any]:
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            yield from (part[word] for word in _REFERENCES if isinstance(part.get(word), str))
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(cast("list[Any]", part))
