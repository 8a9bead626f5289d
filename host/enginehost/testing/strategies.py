"""Hypothesis strategies: signatures of every shape, and arguments that fit them.

Needs the ``hypothesis`` package, which is imported here and nowhere else::

    @given(st.data(), strategies.signatures())
    def test_mapping(data, signature):
        arguments = data.draw(strategies.arguments(signature))
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from enginehost.signature import Annotations, FunctionSignature

SAFE_INTEGER = 2**53 - 1
"""The greatest integer that a double holds exactly, as does every one below it."""

_PATTERNS = {"^[a-z]{2,4}$": "abc", "^[0-9]+-[0-9]+$": "12-7"}
_FORMATS = {
    "date": "2026-11-30",
    "date-time": "2026-11-30T09:38:00Z",
    "email": "a@example.org",
    "uuid": "6f1b0d3c-1d5e-4f3a-9a54-0e3a1f7d2b11",
    "uri": "https://example.org/x",
}
_DEPTH = 3

names = st.one_of(
    st.from_regex(r"[a-z][a-z0-9_]{0,11}", fullmatch=True),
    st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12),
)
"""Names of parameters: mostly plain, some with any character."""

function_names = st.one_of(
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,40}", fullmatch=True),
    st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=150),
)
"""Names of functions: mostly plain, some with any character, some too long for a face."""

descriptions = st.one_of(
    st.just(""),
    st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=40).map(str.strip),
)
"""Prose of one line."""


def json_values(*, max_leaves: int = 8) -> st.SearchStrategy[Any]:
    """Any JSON value whose numbers a double holds."""
    scalars = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-SAFE_INTEGER, SAFE_INTEGER),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(exclude_categories=("Cs",)), max_size=12),
    )
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
        max_leaves=max_leaves,
    )


@st.composite
def _strings(draw: st.DrawFn) -> dict[str, Any]:
    extra: dict[str, Any] = draw(
        st.sampled_from(
            (
                {},
                {"minLength": 1, "maxLength": 8},
                *({"pattern": pattern} for pattern in _PATTERNS),
                *({"format": name} for name in _FORMATS),
                {"enum": ["one", "zwei", "três"]},
                {"const": "fixed"},
            )
        )
    )
    return {"type": "string", **extra}


@st.composite
def _numbers(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(("integer", "number")))
    extra: dict[str, Any] = draw(
        st.sampled_from(
            ({}, {"minimum": -3}, {"maximum": 12}, {"minimum": 0, "exclusiveMaximum": 100}, {"enum": [1, 2]})
        )
    )
    return {"type": kind, **extra}


def _described(schemas: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    def merge(schema: dict[str, Any], description: str, title: str | None) -> dict[str, Any]:
        said = {"title": title} if title else {}
        return schema | said | ({"description": description} if description else {})

    return st.builds(merge, schemas, descriptions, st.none() | st.just("A title"))


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if "enum" in schema or "const" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    return {**schema, "type": [schema["type"], "null"]}


_SCALARS = st.one_of(_strings(), _numbers(), st.just({"type": "boolean"}))
_LEAVES = st.one_of(
    _SCALARS,
    _SCALARS.map(_nullable),
    st.sampled_from(({"$ref": "#/$defs/Node"}, {"$ref": "#/$defs/Level"}, {"type": ["string", "integer"]})),
    st.sampled_from(({"enum": ["a", 1, None, True]}, {}, {"type": "object"}, {"type": "array"})),
)


@st.composite
def _objects(draw: st.DrawFn, inner: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    properties = draw(st.dictionaries(names, _described(inner), max_size=3))
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    required = [name for name in properties if draw(st.booleans())]
    if required:
        schema["required"] = required
    more = draw(st.sampled_from((None, None, False, True, {"type": "integer"})))
    return schema if more is None else {**schema, "additionalProperties": more}


@st.composite
def _arrays(draw: st.DrawFn, inner: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    limits = ({}, {"minItems": 1}, {"maxItems": 2}, {"uniqueItems": True})
    extra: dict[str, Any] = draw(st.sampled_from(limits))
    if draw(st.integers(0, 5)) == 0:
        return {"type": "array", "prefixItems": [draw(inner), draw(inner)], "items": False, "minItems": 2}
    return {"type": "array", "items": draw(inner), **extra}


def _unions(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.lists(inner, min_size=1, max_size=3).map(lambda branches: {"anyOf": branches})


def schemas() -> st.SearchStrategy[dict[str, Any]]:
    """Schemas of a parameter. They may refer to ``Node`` (recursive) and ``Level`` in ``$defs``."""
    return st.recursive(
        _LEAVES, lambda inner: st.one_of(_objects(inner), _arrays(inner), _unions(inner)), max_leaves=5
    )


DEFINITIONS: Mapping[str, Any] = {
    "Node": {
        "type": "object",
        "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/Node"}},
        "required": ["value"],
        "additionalProperties": False,
    },
    "Level": {"type": "string", "enum": ["low", "high"]},
}
"""What the schemas refer to."""


@st.composite
def _parameters(draw: st.DrawFn, compositions: bool) -> dict[str, Any]:
    least = draw(st.integers(0, 3))
    properties = draw(st.dictionaries(names, _described(schemas()), min_size=least, max_size=4))
    parameters: dict[str, Any] = {"type": "object", "properties": properties}
    required = [name for name in properties if draw(st.booleans())]
    if required:
        parameters["required"] = required
    if "#/$defs/" in str(properties):
        parameters["$defs"] = dict(DEFINITIONS)
    more = draw(st.sampled_from((None, None, None, False, False, True, {"type": "string"})))
    if more is not None:
        parameters["additionalProperties"] = more
    if compositions and len(properties) > 1 and draw(st.booleans()):
        first, second = list(properties)[:2]
        parameters |= draw(
            st.sampled_from(
                (
                    {"anyOf": [{"required": [first]}, {"required": [second]}]},
                    {"not": {"required": [first, second]}},
                    {"dependentRequired": {first: [second]}},
                    {"allOf": [{"properties": {first: {"type": ["string", "integer", "null"]}}}]},
                )
            )
        )
    return parameters


_ANNOTATIONS = st.builds(
    Annotations,
    title=st.none() | st.just("A title"),
    read_only=st.none() | st.booleans(),
    destructive=st.none() | st.booleans(),
    idempotent=st.none() | st.booleans(),
    open_world=st.none() | st.booleans(),
)


def _with_definitions(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "$defs": dict(DEFINITIONS)} if "#/$defs/" in str(schema) else schema


def signatures(*, compositions: bool = True) -> st.SearchStrategy[FunctionSignature]:
    """Signatures: nested objects, arrays, tuples, unions, enums, references, names in any script.

    ``compositions``: also ``anyOf``, ``not``, ``allOf`` and ``dependentRequired`` over the parameters.
    """
    return st.builds(
        FunctionSignature,
        name=function_names,
        description=descriptions,
        parameters=_parameters(compositions),
        result=st.none() | schemas().map(_with_definitions),
        annotations=_ANNOTATIONS,
        streaming=st.booleans(),
        tags=st.lists(st.from_regex(r"[a-z]{1,8}", fullmatch=True), max_size=3, unique=True).map(tuple),
    )


def arguments(signature: FunctionSignature) -> st.SearchStrategy[dict[str, Any]]:
    """Arguments that fit ``signature`` (one of :func:`signatures`)."""
    parameters = signature.parameters
    return instances(parameters).filter(lambda value: _fits(parameters, value))


def _fits(schema: Mapping[str, Any], value: Any) -> bool:
    import jsonschema_rs

    return jsonschema_rs.is_valid(dict(schema), value)


def instances(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Values that ``schema`` (of :func:`schemas`, with its ``$defs``) allows."""
    return _instances(schema, schema.get("$defs") or {}, 0)


def _instances(schema: Any, definitions: Mapping[str, Any], depth: int) -> st.SearchStrategy[Any]:
    if "$ref" in schema:
        return _instances(definitions[schema["$ref"].rpartition("/")[2]], definitions, depth + 1)
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema and "properties" not in schema:
        return st.one_of([_instances(branch, definitions, depth) for branch in schema["anyOf"]])
    declared = schema.get("type")
    if declared is None:
        return json_values(max_leaves=3)
    kinds = [declared] if isinstance(declared, str) else declared
    return st.one_of([_of_type(kind, schema, definitions, depth) for kind in kinds])


def _of_type(
    kind: str, schema: Mapping[str, Any], definitions: Mapping[str, Any], depth: int
) -> st.SearchStrategy[Any]:
    if kind == "string":
        return _texts(schema)
    if kind in ("integer", "number"):
        return _quantities(kind, schema)
    if kind == "boolean":
        return st.booleans()
    if kind == "null":
        return st.none()
    if kind == "array":
        return _lists(schema, definitions, depth)
    return _records(schema, definitions, depth)


def _texts(schema: Mapping[str, Any]) -> st.SearchStrategy[str]:
    if "pattern" in schema:
        return st.just(_PATTERNS[schema["pattern"]])
    if "format" in schema:
        return st.just(_FORMATS[schema["format"]])
    letters = st.characters(exclude_categories=("Cs",))
    return st.text(letters, min_size=schema.get("minLength", 0), max_size=schema.get("maxLength", 12))


def _quantities(kind: str, schema: Mapping[str, Any]) -> st.SearchStrategy[int | float]:
    low = schema.get("minimum", -SAFE_INTEGER)
    high = schema.get("maximum", schema.get("exclusiveMaximum", SAFE_INTEGER + 1) - 1)
    whole = st.integers(low, high)
    return whole if kind == "integer" else whole | st.floats(low, high, allow_nan=False)


def _lists(
    schema: Mapping[str, Any], definitions: Mapping[str, Any], depth: int
) -> st.SearchStrategy[list[Any]]:
    if "prefixItems" in schema:
        return st.tuples(*(_instances(sub, definitions, depth + 1) for sub in schema["prefixItems"])).map(
            list
        )
    most = min(schema.get("maxItems", 3), 3 if depth < _DEPTH else schema.get("minItems", 0))
    items = _instances(schema.get("items", {}), definitions, depth + 1)
    unique_by = _json_text if schema.get("uniqueItems") else None
    return st.lists(items, min_size=schema.get("minItems", 0), max_size=most, unique_by=unique_by)


def _json_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


@st.composite
def _records(
    draw: st.DrawFn, schema: Mapping[str, Any], definitions: Mapping[str, Any], depth: int
) -> dict[str, Any]:
    required = schema.get("required", ())
    record: dict[str, Any] = {}
    for name, sub in (schema.get("properties") or {}).items():
        if name in required or (depth < _DEPTH and draw(st.booleans())):
            record[name] = draw(_instances(sub, definitions, depth + 1))
    return record
