"""Whether a Python function takes what its smss file declares: read from the source, nothing is run."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from enginehost.signature import JsonSchema
from enginehost_engines.python_source import Parameters

_FREE = ("$ref", "allOf", "anyOf", "oneOf", "patternProperties")
"""Schemas that may ask for parameters elsewhere than under ``properties``."""


def mismatches(
    name: str, takes: Parameters, script: str, schema: JsonSchema, bind: Collection[str]
) -> Iterator[tuple[str, str]]:
    """What of a function does not fit a declared schema and what the host fills in, as message and hint."""
    properties: dict[str, Any] = schema.get("properties", {})
    declared = [*properties, *bind]
    for parameter in declared:
        if parameter not in takes.names and not takes.further and parameter not in takes.positional:
            yield f"{name}() takes no parameter {parameter!r}", _taken(takes, script)
    if any(word in schema for word in _FREE):
        return
    always = {*schema.get("required", ()), *bind}
    defaults = {key for key, sub in properties.items() if isinstance(sub, dict) and "default" in sub}
    for parameter in takes.required:
        if parameter not in declared:
            hint = f"declare it, or give it a default ({script}, {takes.place})"
            yield f"{name}() requires {parameter!r}, which is not declared", hint
        elif parameter not in always and parameter not in defaults:
            message = f"{name}() requires {parameter!r}, which callers may leave out"
            yield (
                message,
                f"put it into FUNCTION_REQUIRED_PARAMETERS, or give it a default ({script}, {takes.place})",
            )


def _taken(takes: Parameters, script: str) -> str:
    """Where the function stands, and what it takes."""
    return f"{script}, {takes.place}: it takes {', '.join((*takes.positional, *takes.names)) or 'none'}"
