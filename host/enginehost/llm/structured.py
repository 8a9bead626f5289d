"""Structured output: how it is asked for, and how it comes back, where a provider has more than one way."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

import orjson

_REFUSED = frozenset(
    {
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "maxItems",
        "uniqueItems",
        "minProperties",
        "maxProperties",
    }
)
"""Keywords that structured output does not take; they are told to the model in the description."""

_MAPS = ("properties", "$defs", "definitions")
_LISTS = ("anyOf", "allOf", "oneOf", "prefixItems")


@dataclass(frozen=True, slots=True)
class Structured:
    """How an answer of a schema comes back.

    ``tool`` is the tool that is called with it; empty: it is the text. ``wrapped``: it is under ``answer``.
    """

    tool: str = ""
    wrapped: bool = False


ABOUT_ANSWER_TOOL = "Give the answer with this."
"""What a model is told of the tool that :func:`answer_tool` makes."""


def answer_tool(schema: Mapping[str, Any], taken: Collection[str]) -> tuple[Structured, dict[str, Any]]:
    """A tool with which a model gives its answer: its name (none of the ``taken``), and its parameters."""
    name = "answer"
    while name in taken:
        name += "_"
    shown, wrapped = tool_schema(schema)
    return Structured(name, wrapped), shown


def closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema as structured output of Claude's takes it: closed objects, and bounds told in words.

    The answer is checked against the schema itself by whoever asked.
    """
    found = dict(schema)
    told = [f"{name}: {orjson.dumps(found.pop(name)).decode()}" for name in sorted(_REFUSED & found.keys())]
    if told:
        found["description"] = " ".join(filter(None, [found.get("description", ""), f"({', '.join(told)})"]))
    if found.get("type") == "object" or "properties" in found:
        found["additionalProperties"] = False
    for name in _MAPS:
        if isinstance(found.get(name), Mapping):
            inner = cast("Mapping[str, Any]", found[name])
            found[name] = {key: _closed(one) for key, one in inner.items()}
    for name in _LISTS:
        if isinstance(found.get(name), list):
            found[name] = [_closed(one) for one in found[name]]
    if "items" in found:
        found["items"] = _closed(found["items"])
    return found


def _closed(schema: Any) -> Any:
    return closed(cast("Mapping[str, Any]", schema)) if isinstance(schema, Mapping) else schema


def tool_schema(schema: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """A schema as the parameters of a tool, which are an object: any other stands under ``answer``.

    The second is whether it does (:attr:`Structured.wrapped`).
    """
    if schema.get("type") == "object":
        return dict(schema), False
    inner = {name: one for name, one in schema.items() if name not in ("$defs", "$schema")}
    shown: dict[str, Any] = {"type": "object", "properties": {"answer": inner}, "required": ["answer"]}
    if "$defs" in schema:
        shown["$defs"] = schema["$defs"]
    return shown, True
