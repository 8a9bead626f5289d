"""What the keywords of JSON Schema 2020-12 that hold schemas ask of a value.

Each takes the walk that it belongs to, what the keyword says, the value, and the schema in which it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from enginehost.schema_walk import Walk

Path = tuple[str | int, ...]
Part = tuple[Any, Any, Path, Path]
"""A schema, a value that has to fit it, and the ways to the value and to the schema from where one stands."""

# Keywords whose every part has to fit


def _referred_to(walk: Walk, wanted: Any, value: Any, schema: Any) -> Iterator[Part]:
    yield walk.target(wanted), value, (), ()


def _all_of(walk: Walk, wanted: Any, value: Any, schema: Any) -> Iterator[Part]:
    return ((sub, value, (), ("allOf", index)) for index, sub in enumerate(wanted))


def _then_or_else(walk: Walk, wanted: Any, value: Any, schema: Any) -> Iterator[Part]:
    branch = "then" if walk.fit(wanted, value) else "else"
    if branch in schema:
        yield schema[branch], value, (), (branch,)


def _dependent(walk: Walk, wanted: Any, value: Any, schema: Any) -> Iterator[Part]:
    if isinstance(value, dict):
        yield from (
            (sub, value, (), ("dependentSchemas", name)) for name, sub in wanted.items() if name in value
        )


def _properties(walk: Walk, wanted: Any, value: Any, schema: Any) -> Iterator[Part]:
    if isinstance(value, dict):
        for name, sub in wanted.items():
            if name in value:
                yield sub, value[name], (name,), ("properties", name)


def _pattern_properties(walk: Walk, wanted: Any, value: Any, schema: Any) -> Iterator[Part]:
    for pattern, sub in wanted.items() if isinstance(value, dict) else ():
        named = ((name, child) for name, child in value.items() if walk.matches(pattern, name))
        for name, child in walk.suspects(sub, named):
            yield sub, child, (name,), ("patternProperties", pattern)


def _other_properties(walk: Walk, wanted: Any, value: Any, schema: Any) -> Iterator[Part]:
    if isinstance(value, dict) and wanted is not False:
        others = ((name, value[name]) for name in walk.others(value, schema))
        for name, child in walk.suspects(wanted, others):
            yield wanted, child, (name,), ("additionalProperties",)


def _property_names(walk: Walk, wanted: Any, value: Any, schema: Any) -> Iterator[Part]:
    if isinstance(value, dict):
        for name, _ in walk.suspects(wanted, ((name, name) for name in value)):
            yield wanted, name, (), ("propertyNames",)


def _prefix_items(walk: Walk, wanted: Any, value: Any, schema: Any) -> Iterator[Part]:
    if isinstance(value, list):
        for index, (sub, child) in enumerate(zip(wanted, value, strict=False)):
            yield sub, child, (index,), ("prefixItems", index)


def _items(walk: Walk, wanted: Any, value: Any, schema: Any) -> Iterator[Part]:
    if isinstance(value, list):
        rest = islice(enumerate(value), len(schema.get("prefixItems") or ()), None)
        for index, child in walk.suspects(wanted, rest):
            yield wanted, child, (index,), ("items",)


def _unevaluated(kind: type, keyword: str) -> Callable[[Walk, Any, Any, Any], Iterator[Part]]:
    def each(walk: Walk, wanted: Any, value: Any, schema: Any) -> Iterator[Part]:
        if isinstance(value, kind) and wanted is not False:
            for key in walk.unevaluated(value, schema):
                yield wanted, value[key], (key,), (keyword,)

    return each


EACH: Mapping[str, Callable[[Walk, Any, Any, Any], Iterator[Part]]] = {
    "$ref": _referred_to,
    "$dynamicRef": _referred_to,
    "allOf": _all_of,
    "if": _then_or_else,
    "dependentSchemas": _dependent,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _other_properties,
    "propertyNames": _property_names,
    "prefixItems": _prefix_items,
    "items": _items,
    "unevaluatedProperties": _unevaluated(dict, "unevaluatedProperties"),
    "unevaluatedItems": _unevaluated(list, "unevaluatedItems"),
}


# Keywords that hold or do not


def _any_of(walk: Walk, wanted: Any, value: Any, schema: Any) -> bool:
    for sub in wanted:  # noqa: SIM110 - `any` would cost two more frames of the stack
        if walk.fit(sub, value):
            return True
    return False


def _one_of(walk: Walk, wanted: Any, value: Any, schema: Any) -> bool:
    count = 0
    for sub in wanted:
        count += walk.fit(sub, value)
        if count > 1:
            return False
    return count == 1


def _not(walk: Walk, wanted: Any, value: Any, schema: Any) -> bool:
    return not walk.fit(wanted, value)


def _contains(walk: Walk, wanted: Any, value: Any, schema: Any) -> bool:
    if not isinstance(value, list):
        return True
    least, most = schema.get("minContains", 1), schema.get("maxContains", len(value))
    count = 0
    for child in value:
        count += walk.fit(wanted, child)
    return least <= count <= most


def _no_others(walk: Walk, wanted: Any, value: Any, schema: Any) -> bool:
    return (
        wanted is not False
        or not isinstance(value, dict)
        or not any(True for _ in walk.others(value, schema))
    )


def _all_evaluated(kind: type) -> Callable[[Walk, Any, Any, Any], bool]:
    def hold(walk: Walk, wanted: Any, value: Any, schema: Any) -> bool:
        return wanted is not False or not isinstance(value, kind) or not walk.unevaluated(value, schema)

    return hold


WHOLE: Mapping[str, Callable[[Walk, Any, Any, Any], bool]] = {
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "contains": _contains,
    "additionalProperties": _no_others,
    "unevaluatedProperties": _all_evaluated(dict),
    "unevaluatedItems": _all_evaluated(list),
}


# What a schema looks at, for ``unevaluatedProperties`` and ``unevaluatedItems``


def looked_at(walk: Walk, schema: Mapping[str, Any], value: Any) -> Iterator[Any]:
    """Names and indexes that the schema's own keywords look at."""
    if isinstance(value, dict):
        yield from (name for name in schema.get("properties") or () if name in value)
        for pattern in schema.get("patternProperties") or ():
            yield from (name for name in value if walk.matches(pattern, name))
        if "additionalProperties" in schema:
            yield from walk.others(value, schema)
    elif isinstance(value, list):
        yield from range(len(value) if "items" in schema else len(schema.get("prefixItems") or ()))
        if "contains" in schema:
            yield from (index for index, child in enumerate(value) if walk.fit(schema["contains"], child))


def beside(walk: Walk, schema: Mapping[str, Any], value: Any) -> Iterator[Any]:
    """The schemas that look at the same value, as far as it fits them."""
    for keyword, wanted in schema.items():
        if keyword in ("anyOf", "oneOf"):
            yield from (sub for sub in wanted if walk.fit(sub, value))
        elif keyword in ("allOf", "dependentSchemas", "$ref", "$dynamicRef", "if"):
            if keyword == "if" and walk.fit(wanted, value):
                yield wanted
            parts = EACH[keyword](walk, wanted, value, schema)
            yield from (sub for sub, _, _, _ in parts if walk.fit(sub, value))
