"""The one description of a function, from which every face is derived."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from enginehost.schema_references import opened

JsonSchema = Mapping[str, Any]
"""A JSON Schema 2020-12 document, as plain dicts and lists."""

UNREAD = "\0"
"""Stands for a name, or for further tags, that could not be read. A policy allows nothing for it."""

NO_PARAMETERS: JsonSchema = {"type": "object", "properties": {}}
"""The schema of a function that takes nothing."""


@dataclass(frozen=True, slots=True)
class Annotations:
    """Hints about what a call does, with MCP's meaning; ``None`` is *not said*.

    MCP 2025-11-25, ``ToolAnnotations``: ``read_only`` changes nothing; ``destructive`` may delete or
    overwrite; ``idempotent`` repeating changes nothing more; ``open_world`` touches outside systems.
    """

    title: str | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """Name, purpose and types of a function.

    ``parameters`` is always an object schema: ``{"type": "object", "properties": …}`` with
    ``required`` and further keywords as given. ``result`` is the schema of the result, ``None`` when
    unknown. ``streaming`` functions answer with a sequence of items, each of which ``result``
    describes. Bound parameters (``FUNCTION_BIND``) are already taken out. ``mcp`` says what it is for clients
    of MCP: empty a tool, ``prompt`` a prompt, else the URI (or URI template) of a resource, after which its
    media type may stand.
    """

    name: str
    description: str = ""
    parameters: JsonSchema = field(default_factory=lambda: NO_PARAMETERS)
    result: JsonSchema | None = None
    annotations: Annotations = field(default_factory=Annotations)
    streaming: bool = False
    tags: tuple[str, ...] = ()
    mcp: str = ""

    @property
    def properties(self) -> Mapping[str, Any]:
        """The schema of each parameter by name, in declared order."""
        properties = self.parameters.get("properties")
        return properties if isinstance(properties, Mapping) else {}

    @property
    def required(self) -> tuple[str, ...]:
        """The names a caller must give."""
        return tuple(self.parameters.get("required") or ())


def without_parameters(schema: JsonSchema, names: Collection[str]) -> dict[str, Any]:
    """The object schema for callers of a function whose parameters ``names`` the host fills in itself.

    No rule of it speaks of them any more, also none behind a ``$ref``. What depends on their values, which
    callers do not know, is asked of nobody: a ``not``, an ``if`` with its ``then`` and ``else``; and where
    they tell the branches of a ``oneOf`` apart, several branches may fit.
    """
    return _silent(names, opened(schema)) if names else dict(schema)


def _silent(names: Collection[str], schema: JsonSchema) -> dict[str, Any]:
    kept = {keyword: _without(names, keyword, wanted) for keyword, wanted in schema.items()}
    if kept.get("required") == [] != schema.get("required"):
        del kept["required"]
    if kept.get("not") != schema.get("not"):
        del kept["not"]
    if kept.get("if") != schema.get("if"):
        kept = {keyword: wanted for keyword, wanted in kept.items() if keyword not in ("if", "then", "else")}
    if kept.get("oneOf") != schema.get("oneOf"):
        branches = {"anyOf": kept.pop("oneOf")}
        kept |= {"allOf": [*kept.get("allOf", ()), branches]} if "anyOf" in kept else branches
    return kept


def _without(names: Collection[str], keyword: str, wanted: Any) -> Any:
    """What ``keyword`` says when it does not speak of ``names``; what is no schema stays as it is."""
    match keyword, wanted:
        case "required", list():
            return [name for name in wanted if not (isinstance(name, str) and name in names)]
        case "allOf" | "anyOf" | "oneOf", list():
            return [_without(names, "then", branch) for branch in wanted]
        case "not" | "if" | "then" | "else", Mapping():
            return _silent(names, wanted)
        case "properties" | "default", Mapping():
            return {name: value for name, value in wanted.items() if name not in names}
        case "dependentRequired", Mapping():
            return {n: _without(names, "required", more) for n, more in wanted.items() if n not in names}
        case "dependentSchemas", Mapping():
            return {n: _without(names, "then", more) for n, more in wanted.items() if n not in names}
        case "propertyNames", {"enum": listed}:
            return {**wanted, "enum": _without(names, "required", listed)}
        case "examples", list():
            return [_without(names, "default", example) for example in wanted]
        case _:
            return wanted
