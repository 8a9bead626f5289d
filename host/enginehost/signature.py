"""The one description of a function, from which every face is derived."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
    describes. Bound parameters (``FUNCTION_BIND``) are already taken out.
    """

    name: str
    description: str = ""
    parameters: JsonSchema = field(default_factory=lambda: NO_PARAMETERS)
    result: JsonSchema | None = None
    annotations: Annotations = field(default_factory=Annotations)
    streaming: bool = False
    tags: tuple[str, ...] = ()

    @property
    def properties(self) -> Mapping[str, Any]:
        """The schema of each parameter by name, in declared order."""
        properties = self.parameters.get("properties")
        return properties if isinstance(properties, Mapping) else {}

    @property
    def required(self) -> tuple[str, ...]:
        """The names a caller must give."""
        return tuple(self.parameters.get("required") or ())
