"""How a result travels on a face that takes only text, or only objects; and back.

A face that takes only objects gets a result as it is where its schema says *object*, and
``{"result": …}`` where it says anything else or nothing: the signature alone decides, so that the way
back is certain. A streaming function answers with the list of its items.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from enginehost.errors import InvalidRequest
from enginehost.signature import FunctionSignature
from enginehost.specs._schema import follow, plain, rewrite

WRAPPED = "x-fastmcp-wrap-result"
_KEY = "result"
_HERE = f"#/properties/{_KEY}"


def result_schema(signature: FunctionSignature) -> dict[str, Any] | None:
    """The schema of what a collected call answers."""
    if signature.result is None:
        return None
    schema: dict[str, Any] = plain(signature.result)
    return {"type": "array", "items": _moved(schema, "#", "#/items")} if signature.streaming else schema


def is_object(schema: Mapping[str, Any] | None) -> bool:
    """Whether a schema (or what it refers to) declares an object and nothing else."""
    return schema is not None and dict(follow(schema, schema) or {}).get("type") == "object"


def wrapped_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """An object schema for results of ``schema``; one that is none stands under ``result``."""
    if is_object(schema):
        return schema if "$ref" not in schema else dict(follow(schema, schema))
    inner = _moved(schema, "#", _HERE)
    return {"type": "object", "properties": {_KEY: inner}, "required": [_KEY], WRAPPED: True}


def unwrapped_schema(schema: Any) -> dict[str, Any]:
    """The inverse of :func:`wrapped_schema`."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(schema, Mapping) or not schema.get(WRAPPED) or not isinstance(properties, Mapping):
        return plain(schema)
    return _moved(properties.get(_KEY, {}), _HERE, "#")


def _moved(schema: Any, old: str, new: str) -> Any:
    """``schema`` with its local references starting at ``new`` where they started at ``old``."""

    def move(sub: dict[str, Any]) -> dict[str, Any]:
        reference = sub.get("$ref")
        if isinstance(reference, str) and (reference == old or reference.startswith(f"{old}/")):
            sub["$ref"] = new + reference[len(old) :]
        return sub

    return rewrite(schema, move)


def to_object(signature: FunctionSignature, value: Any) -> Any:
    """The result as a JSON object."""
    return value if is_object(result_schema(signature)) else {_KEY: value}


def from_object(signature: FunctionSignature, packed: Any) -> Any:
    """The inverse of :func:`to_object`."""
    if is_object(result_schema(signature)):
        return packed
    return _only(packed, _KEY)


def to_response(signature: FunctionSignature, value: Any) -> Any:
    """Gemini's ``functionResponse.response``: the result under ``output``."""
    return {"output": value}


def from_response(signature: FunctionSignature, packed: Any) -> Any:
    """The inverse of :func:`to_response`."""
    return _only(packed, "output")


def to_converse(signature: FunctionSignature, value: Any) -> Any:
    """The ``content`` of a Converse ``toolResult``: one ``json`` block, which has to be an object."""
    return [{"json": to_object(signature, value)}]


def from_converse(signature: FunctionSignature, packed: Any) -> Any:
    """The inverse of :func:`to_converse`."""
    if not isinstance(packed, list) or len(packed) != 1:
        raise InvalidRequest("a tool result must have exactly one block")
    return from_object(signature, _only(packed[0], "json"))


def _only(packed: Any, key: str) -> Any:
    if not isinstance(packed, Mapping) or key not in packed:
        raise InvalidRequest(f"a tool result must be a JSON object with {key!r}", detail={"key": key})
    return packed[key]


def to_json_text(signature: FunctionSignature, value: Any) -> str:
    """The result as JSON text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def from_json_text(signature: FunctionSignature, packed: Any) -> Any:
    """The inverse of :func:`to_json_text`."""
    try:
        return json.loads(packed)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest("a result must be JSON text") from error


def to_text(signature: FunctionSignature, value: Any) -> str:
    """The result as text for a model: a string as it is, unless it reads as JSON; the rest as JSON."""
    if isinstance(value, str) and not _reads_as_json(value):
        return value
    return to_json_text(signature, value)


def from_text(signature: FunctionSignature, packed: Any) -> Any:
    """The inverse of :func:`to_text`."""
    if not isinstance(packed, str):
        raise InvalidRequest("a tool result must be text")
    try:
        return json.loads(packed)
    except (ValueError, RecursionError):
        return packed


def _reads_as_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
