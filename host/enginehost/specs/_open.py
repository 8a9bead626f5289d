"""Open formats: JSON Schema, MCP tools, and the capability of the Genesis databus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from enginehost.signature import Annotations, FunctionSignature
from enginehost.specs._kind import SpecKind, member
from enginehost.specs._results import (
    from_json_text,
    from_object,
    result_schema,
    to_json_text,
    to_object,
    unwrapped_schema,
    wrapped_schema,
)
from enginehost.specs._schema import in_order, plain

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_HINTS = (
    ("read_only", "readOnlyHint"),
    ("destructive", "destructiveHint"),
    ("idempotent", "idempotentHint"),
    ("open_world", "openWorldHint"),
)
_OPENED_ELSEWHERE = frozenset(
    (
        "$ref",
        "allOf",
        "anyOf",
        "oneOf",
        "if",
        "dependentSchemas",
        "patternProperties",
        "unevaluatedProperties",
    )
)


def _json_schema(signature: FunctionSignature, name: str) -> dict[str, Any]:
    """The schema of the arguments; ``title`` and ``description`` are the function's."""
    schema = in_order(plain(signature.parameters))
    head = {"$schema": schema.pop("$schema", _DIALECT), "title": name}
    if signature.description:
        head["description"] = signature.description
    return {**head, **{key: value for key, value in schema.items() if key not in head}}


def _read_json_schema(spec: Mapping[str, Any]) -> FunctionSignature:
    schema = {key: value for key, value in spec.items() if key not in ("title", "description")}
    if schema.get("$schema") == _DIALECT:
        del schema["$schema"]
    return FunctionSignature(
        name=member(spec, "title", str),
        description=member(spec, "description", str, ""),
        parameters=in_order(plain(schema)),
    )


def _mcp(signature: FunctionSignature, name: str) -> dict[str, Any]:
    """A Tool of MCP 2025-11-25, which later versions take as well.

    ``outputSchema`` has to be that of an object there, so that any other result stands in an object
    under ``result``; FastMCP's marker says so, and clients that know it unwrap.
    """
    tool: dict[str, Any] = {"name": name}
    if signature.annotations.title:
        tool["title"] = signature.annotations.title
    if signature.description:
        tool["description"] = signature.description
    tool["inputSchema"] = in_order(plain(signature.parameters))
    output = result_schema(signature)
    if output is not None:
        tool["outputSchema"] = wrapped_schema(output)
    annotations = _annotations(signature.annotations)
    if annotations:
        tool["annotations"] = annotations
    return tool


def _annotations(said: Annotations) -> dict[str, Any]:
    hints = {hint: getattr(said, field) for field, hint in _HINTS}
    return {key: value for key, value in ({"title": said.title} | hints).items() if value is not None}


def _read_mcp(spec: Mapping[str, Any]) -> FunctionSignature:
    hints = member(spec, "annotations", Mapping, {})
    output = member(spec, "outputSchema", Mapping, {})
    return FunctionSignature(
        name=member(spec, "name", str),
        description=member(spec, "description", str, ""),
        parameters=in_order(plain(member(spec, "inputSchema", Mapping))),
        result=unwrapped_schema(output) if output else None,
        annotations=Annotations(
            title=member(spec, "title", str, "") or member(hints, "title", str, "") or None,
            **{field: value for field, hint in _HINTS if isinstance(value := hints.get(hint), bool)},
        ),
    )


def _genesis(signature: FunctionSignature, name: str) -> dict[str, Any]:
    """The describing members of a ``FunctionCapability``, as JSON values (the bus carries them as text).

    Genesis closes every schema; so do we. A schema that opens itself (``additionalProperties``,
    ``patternProperties``, compositions) stays open. Genesis also says one latency and one security level
    of every function: only a running host measures the one, and only a policy decides the other.
    """
    schema = in_order(plain(signature.parameters))
    if not _OPENED_ELSEWHERE & schema.keys():
        schema.setdefault("additionalProperties", False)
    return {
        "name": name,
        "description": signature.description,
        "parameter_schema": schema,
        "capabilities": list(signature.tags),
        "performance_metrics": {},
        "security_requirements": {},
        "classification": _classification(signature),
    }


def _classification(signature: FunctionSignature) -> dict[str, Any]:
    said = signature.annotations
    hints = {field: getattr(said, field) for field in ("title", *(field for field, _ in _HINTS))}
    annotations = {field: value for field, value in hints.items() if value is not None}
    return ({"streaming": True} if signature.streaming else {}) | (
        {"annotations": annotations} if annotations else {}
    )


def _read_genesis(spec: Mapping[str, Any]) -> FunctionSignature:
    tags = member(spec, "capabilities", list, [])
    said = member(spec, "classification", Mapping, {})
    hints = member(said, "annotations", Mapping, {})
    return FunctionSignature(
        name=member(spec, "name", str),
        description=member(spec, "description", str, ""),
        parameters=in_order(plain(member(spec, "parameter_schema", Mapping, {}))),
        annotations=Annotations(
            title=member(hints, "title", str, "") or None,
            **{field: value for field, _ in _HINTS if isinstance(value := hints.get(field), bool)},
        ),
        streaming=said.get("streaming") is True,
        tags=tuple(tag for tag in tags if isinstance(tag, str)),
    )


JSON_SCHEMA = SpecKind(_json_schema, _read_json_schema)
MCP = SpecKind(_mcp, _read_mcp, to_object, from_object)
GENESIS = SpecKind(_genesis, _read_genesis, to_json_text, from_json_text, text_arguments=True)
