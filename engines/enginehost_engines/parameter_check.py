"""Whether a Python function takes what its smss file declares: read from the source, nothing is run."""

from __future__ import annotations

from collections.abc import Iterator

from enginehost.engine import EngineContext
from enginehost_engines.python_source import Parameters

_FREE = ("$ref", "allOf", "anyOf", "oneOf", "patternProperties")
"""Schemas that may ask for parameters elsewhere than under ``properties``."""


def mismatches(name: str, takes: Parameters, context: EngineContext) -> Iterator[tuple[str, str]]:
    """What does not fit, as message and hint."""
    schema = context.signature.parameters if context.signature else {}
    declared = [*schema.get("properties", {}), *context.bind]
    for parameter in declared:
        if parameter not in takes.names and not takes.further and parameter not in takes.positional:
            yield f"{name}() takes no parameter {parameter!r}", _taken(takes)
    if any(word in schema for word in _FREE):
        return
    always = {*schema.get("required", ()), *context.bind}
    defaults = {
        key for key, sub in schema.get("properties", {}).items() if isinstance(sub, dict) and "default" in sub
    }
    for parameter in takes.required:
        if parameter in takes.positional:
            message = f"{name}() takes {parameter!r} by position only, and arguments are given by name"
            yield message, f"take away the / in the parameters of {name}"
        elif parameter not in declared:
            yield (
                f"{name}() requires {parameter!r}, which is not declared",
                "declare it, or give it a default",
            )
        elif parameter not in always and parameter not in defaults:
            message = f"{name}() requires {parameter!r}, which callers may leave out"
            yield message, "put it into FUNCTION_REQUIRED_PARAMETERS, or give it a default"


def _taken(takes: Parameters) -> str:
    return f"it takes {', '.join(takes.names)}" if takes.names else "it takes none"
