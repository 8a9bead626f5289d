"""What a function takes: each parameter with its schema, and its place in the request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from enginehost_engines.openapi.documents import Located
from enginehost_engines.openapi.faults import Found
from enginehost_engines.openapi.names import free_name, parameter_name
from enginehost_engines.rest.placement import Place, default_place

Schema = dict[str, Any]

OPEN_NAMES = ("additionalProperties", "patternProperties")


@dataclass(slots=True)
class Input:
    """One parameter. ``wire`` is its name in the request."""

    name: str
    wire: str
    place: Place
    schema: Any
    required: bool
    hidden: str = ""
    """The name of the secret that fills it in, so that no caller sees it."""

    def placement(self, method: str) -> str:
        """Its entry in ``PARAMETER_PLACEMENT``; empty where it goes there by itself."""
        if self.place is Place.PATH or self.place is Place.RAW:
            return "raw" if self.place is Place.RAW else ""
        if self.place is Place.BODY and self.wire != self.name:
            return "body:/" + self.wire.replace("~", "~0").replace("/", "~1")
        if self.wire == self.name:
            return "" if self.place is default_place(method) else str(self.place)
        return f"{self.place}:{self.wire}"


@dataclass(slots=True)
class Inputs:
    """All parameters of an operation, and what the request is besides them."""

    method: str
    url: str
    query_style: str = "exploded"
    content_type: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    is_open: Any = None
    """``additionalProperties`` of a body whose members are parameters."""
    items: list[Input] = field(default_factory=list)
    references: dict[str, None] = field(default_factory=dict)
    notes: list[Found] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)

    def add(self, wire: str, place: Place, schema: Any, *, required: bool, name: str = "") -> Input:
        """One more parameter, under a name that is free."""
        taken = self.taken
        wanted = parameter_name(name or wire)
        if wanted.casefold() in taken:
            wanted = f"{wanted}_{place}"[:64]
        free = free_name(wanted, taken)
        taken.add(free.casefold())
        made = Input(free, wire, place, schema, required)
        self.items.append(made)
        return made

    def note(self, node: Located, message: str) -> None:
        """Remember what is not expressed."""
        self.notes.append(node.found(message))

    def schema(self, definitions: Schema) -> Schema:
        """The schema of all parameters."""
        schema: Schema = {"type": "object", "properties": {one.name: one.schema for one in self.items}}
        if required := [one.name for one in self.items if one.required]:
            schema["required"] = required
        if self.is_open is not None:
            schema["additionalProperties"] = self.is_open
        if definitions:
            schema["$defs"] = definitions
        return schema

    def placements(self) -> dict[str, str]:
        """``PARAMETER_PLACEMENT``, without what goes where it does by itself."""
        found = {one.name: one.placement(self.method) for one in self.items}
        return {name: place for name, place in found.items() if place}


def kind_of(schema: Any) -> str:
    """``array``, ``object`` or ``scalar``: how values of a schema are written into a query."""
    if not isinstance(schema, dict):
        return "scalar"
    members = cast("Schema", schema)
    declared = members.get("type")
    types: Iterable[Any] = cast("list[Any]", declared) if isinstance(declared, list) else [declared]
    types = [word for word in types if word != "null"]
    if "array" in types or (declared is None and "items" in members):
        return "array"
    if "object" in types or (declared is None and "properties" in members):
        return "object"
    return "scalar"


def described(schema: Any, description: str, *, deprecated: bool = False) -> Any:
    """The schema with what the parameter itself says."""
    if not isinstance(schema, dict):
        schema = {} if schema is not False else {"not": {}}
    result: Schema = dict(cast("Schema", schema))
    if description:
        result["description"] = description
    if deprecated:
        result["deprecated"] = True
    return result


def as_text(schema: Any, how: str) -> Schema:
    """The schema of a text that stands for the values of another schema."""
    description = schema.get("description", "") if isinstance(schema, dict) else ""
    return {"type": "string", "description": f"{description} ({how})".strip()}
