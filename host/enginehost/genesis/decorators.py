"""Genesis's decorators, with and without parentheses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from enginehost.agents.typed_schemas import Schemas
from enginehost.agents.typed_tools import Mark, marked

_REQUEST_INFO = ("request_info",)
"""The first era's functions have a parameter of this name; it is none of the caller's."""


def genesis_tool(
    method: Any = None,
    /,
    description: str | None = None,
    operation_type: str | None = None,
    schema_format: str | None = None,
) -> Any:
    """Make a method a tool: :func:`enginehost.tool` under Genesis's name.

    ``operation_type`` becomes a tag. ``schema_format`` has no effect: every format is made of one schema.
    """
    if isinstance(method, str):  # the description, by position
        method, description = None, method
    return _decorated(method, _mark(description, operation_type))


def genesis_function(
    method: Any = None,
    /,
    *,
    description: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    model: type[BaseModel] | None = None,
    operation_type: str | None = None,
    common_patterns: Mapping[str, Any] | None = None,
) -> Any:
    """Make a method a function of a service: :func:`enginehost.tool` under Genesis's name.

    ``parameters`` is a JSON Schema in place of that of the hints, or ``model`` a pydantic model that has it.
    ``operation_type`` becomes a tag; ``common_patterns`` has no effect.
    """
    if model is not None:
        parameters = model.model_json_schema(schema_generator=Schemas)
    return _decorated(method, _mark(description, operation_type, parameters))


def _mark(
    description: str | None, operation_type: str | None, parameters: Mapping[str, Any] | None = None
) -> Mark:
    tags = (operation_type,) if operation_type else ()
    return Mark(description=description or "", tags=tags, parameters=parameters, hidden=_REQUEST_INFO)


def _decorated(method: Any, mark: Mark) -> Any:
    return marked(mark) if method is None else marked(mark)(method)
