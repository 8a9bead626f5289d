"""Schemas of OpenAPI 3.0 and 3.1 as JSON Schema 2020-12, each with only the definitions that it needs.

What is referred to becomes a definition of its own (``#/$defs/Name``), so that schemas which contain
themselves stay what they are; what is small and refers to nothing is put in its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from json import dumps
from typing import Any, cast

from enginehost_engines.openapi.documents import Documents, Located
from enginehost_engines.openapi.faults import Found, Pointer, Unmappable
from enginehost_engines.openapi.keywords import (
    COPIED,
    LATER,
    LISTS,
    MAPS,
    NOT_READ,
    ONE,
    TYPES,
    is_pattern,
    shortened,
)

MOST_DEFINITIONS = 16_000
"""Characters of the definitions of one schema; those that are farthest away are left open."""

_SMALL = 300
_DEEPEST = 32
_MOST_NESTED = 4
"""References followed at once; a chain of thousands is followed one by one, by :meth:`Schemas.bundle`."""
_MOST_NOTES = 20
_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_REF = "#/$defs/"

Schema = dict[str, Any]


class Direction(Enum):
    """Whose values a schema describes: ``readOnly`` members are not sent, ``writeOnly`` ones do not come."""

    REQUEST = "request"
    RESPONSE = "response"


@dataclass(slots=True)
class Definition:
    """A converted schema with the names of the definitions it refers to."""

    schema: Any
    references: dict[str, None] = field(default_factory=dict)
    notes: list[Found] = field(default_factory=list)
    size: int = 0

    def note(self, node: Located, message: str) -> None:
        """Remember what is lost here."""
        if len(self.notes) < _MOST_NOTES:
            self.notes.append(node.found(message))


class Schemas:
    """Converts schemas of the documents, each place once."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._names: dict[tuple[str, Pointer], str] = {}
        self._taken: set[str] = set()
        self._places: dict[str, Located] = {}
        self._made: dict[tuple[Direction, str], Definition | None] = {}
        self._nesting = 0

    def convert(self, node: Located, direction: Direction) -> Definition:
        """The schema at ``node``; what it refers to stays where it is until :meth:`bundle`."""
        made = Definition({})
        made.schema = self._schema(node, direction, made, 0)
        return made

    def resolved(self, node: Located, direction: Direction) -> Definition:
        """Like :meth:`convert`, but a schema that is a reference is what it refers to."""
        made = self.convert(node, direction)
        for _ in range(_DEEPEST):
            schema = made.schema
            if not isinstance(schema, dict) or not str(schema.get("$ref", "")).startswith(_REF):
                break
            target = self._definition(schema["$ref"].removeprefix(_REF), direction)
            if target is None or not isinstance(target.schema, dict):
                break
            beside = {key: item for key, item in cast("Schema", schema).items() if key != "$ref"}
            if beside.keys() & target.schema.keys() - {"title", "description"}:
                break
            notes = [*made.notes, *target.notes]
            made = Definition({**target.schema, **beside}, dict(target.references), notes)
        return made

    def opened(self, schema: Any, direction: Direction) -> Definition | None:
        """A converted schema, or what it refers to; ``None`` where it is no object of keywords."""
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if reference is None:
            return Definition(schema) if isinstance(schema, dict) else None
        made = self._definition(str(reference).removeprefix(_REF), direction)
        return made if made is not None and len(cast("Schema", schema)) == 1 else None

    def bundle(
        self, references: Iterable[str], direction: Direction, notes: list[Found], at: Located
    ) -> Schema:
        """The definitions behind ``references``, near ones first, as far as there is room."""
        definitions: Schema = {}
        waiting, size = list(dict.fromkeys(references)), 0
        known = set(waiting)
        left: list[str] = []
        for name in waiting:
            made = self._definition(name, direction)
            if made is None:
                raise AssertionError("a definition is asked for while it is made")
            size += made.size
            if size > MOST_DEFINITIONS:
                size -= made.size
                left.append(name)
                definitions[name] = _opened(made.schema)
                continue
            definitions[name] = made.schema
            notes += made.notes
            waiting += [other for other in made.references if other not in known]
            known.update(made.references)
        if left:
            shown = ", ".join(left[:5]) + (", …" if len(left) > 5 else "")
            message = f"schemas beyond {MOST_DEFINITIONS} characters are left open: {shown}"
            notes.append(at.found(message))
        return definitions

    def name_of(self, node: Located) -> str:
        """The name under which the schema at a place is a definition."""
        place = node.document, node.pointer
        name = self._names.get(place)
        if name is None:
            last = node.pointer[-1] if node.pointer else node.document.rpartition("/")[2].partition(".")[0]
            wanted = _NAME.sub("_", last)[:64].strip("_") or "schema"
            name, number = wanted, 1
            while name in self._taken:
                number += 1
                name = f"{wanted}_{number}"
            self._taken.add(name)
            self._names[place] = name
            self._places[name] = node
        return name

    def _schema(self, node: Located, direction: Direction, out: Definition, depth: int) -> Any:
        value = node.value
        if isinstance(value, bool):
            return value
        if not isinstance(value, dict):
            out.note(node, "this is no schema; anything is allowed")
            return {}
        if depth > _DEEPEST:
            out.note(node, f"schemas deeper than {_DEEPEST} levels are left open")
            return {}
        schema: Schema = {}
        if isinstance(value.get("$ref"), str):
            schema.update(self._reference(node, direction, out))
        self._copy(node, schema, out)
        self._add_schemas(node, schema, direction, out, depth + 1)
        self._drop_members(node, schema, direction)
        _older_forms(value, schema)
        return _ordered(schema)

    def _reference(self, node: Located, direction: Direction, out: Definition) -> Schema:
        try:
            target = self._documents.target(node, node.value["$ref"])
        except Unmappable as error:
            out.note(node, f"{error.found.message}; anything is allowed")
            return {}
        name = self.name_of(target)
        deep = self._nesting > _MOST_NESTED and (direction, name) not in self._made
        made = None if deep else self._definition(name, direction)
        if made is not None and made.size <= _SMALL and not made.references and isinstance(made.schema, dict):
            out.notes += made.notes
            return dict(cast("Schema", made.schema))
        out.references[name] = None
        return {"$ref": _REF + name}

    def _definition(self, name: str, direction: Direction) -> Definition | None:
        """A definition, made at its first use; ``None`` while it is being made: it contains itself."""
        key = direction, name
        if key not in self._made:
            self._made[key] = None
            self._nesting += 1
            made = self.convert(self._places[name], direction)
            self._nesting -= 1
            if fault := fault_of(
                {**made.schema, "$defs": made.references} if isinstance(made.schema, dict) else {}
            ):
                node = self._places[name]
                made = Definition(
                    {}, notes=[node.found(f"the schema is not usable, anything is allowed: {fault}")]
                )
            made.size = len(dumps(made.schema, ensure_ascii=False, default=str))
            self._made[key] = made
        return self._made[key]

    def _copy(self, node: Located, schema: Schema, out: Definition) -> None:
        value = cast("Schema", node.value)
        for keyword in value:
            fits = COPIED.get(keyword)
            if fits is not None:
                item = value[keyword]
                if fits(item):
                    schema[keyword] = shortened(item) if keyword == "description" else item
                elif not _is_older_form(keyword, item):
                    out.note(node.child(keyword), f"{keyword} is not usable as it is, and left out")
            elif keyword in NOT_READ:
                out.note(node.child(keyword), f"{keyword} is not read; anything is allowed there")
        _copy_type(node, schema, out)
        if "example" in value and "examples" not in schema:
            schema["examples"] = [value["example"]]

    def _add_schemas(
        self, node: Located, schema: Schema, direction: Direction, out: Definition, depth: int
    ) -> None:
        value = cast("Schema", node.value)
        for keyword in (*ONE, *LATER):
            if isinstance(value.get(keyword), dict | bool):
                schema[keyword] = self._schema(node.child(keyword), direction, out, depth)
        for keyword in LISTS:
            if isinstance(value.get(keyword), list) and value[keyword]:
                items = list(node.child(keyword).entries())
                schema[keyword] = [self._schema(item, direction, out, depth) for item in items]
                if keyword in ("oneOf", "anyOf"):
                    self._discriminate(node, items, schema[keyword])
        for keyword in MAPS:
            if isinstance(value.get(keyword), dict):
                members = node.child(keyword).items()
                schema[keyword] = {
                    name: self._schema(item, direction, out, depth)
                    for name, item in members
                    if keyword != "patternProperties" or is_pattern(name)
                }

    def _discriminate(self, node: Located, items: list[Located], made: list[Any]) -> None:
        """Let each choice hold for the names that a discriminator gives it, so that only one fits."""
        discriminator = node.child("discriminator")
        name = discriminator.text("propertyName")
        if not name:
            return
        mapping = {word: str(meant.value) for word, meant in discriminator.child("mapping").items()}
        for number, item in enumerate(items):
            reference = item.value.get("$ref") if isinstance(item.value, dict) else None
            if not isinstance(reference, str) or not isinstance(made[number], dict):
                continue
            own = reference.rpartition("/")[2]
            words = [word for word, meant in mapping.items() if meant in (reference, own)] or [own]
            rule = {"properties": {name: {"enum": words}}, "required": [name]}
            made[number] = {"allOf": [made[number], rule]}

    def _drop_members(self, node: Located, schema: Schema, direction: Direction) -> None:
        """Take out what this side never sends; what is not there cannot be required."""
        properties = schema.get("properties")
        if not isinstance(properties, dict):
            return
        mark = "readOnly" if direction is Direction.REQUEST else "writeOnly"
        gone = {name for name, member in node.child("properties").items() if self._has(member, mark)}
        if not gone:
            return
        schema["properties"] = {
            name: member for name, member in cast("Schema", properties).items() if name not in gone
        }
        if "required" in schema:
            schema["required"] = [name for name in schema["required"] if name not in gone]

    def _has(self, node: Located, mark: str) -> bool:
        try:
            value = self._documents.follow(node).value
        except Unmappable:
            return False
        here = node.value if isinstance(node.value, dict) else {}
        return here.get(mark) is True or (isinstance(value, dict) and value.get(mark) is True)


def _copy_type(node: Located, schema: Schema, out: Definition) -> None:
    declared = node.value.get("type")
    if declared is None:
        return
    words = cast("list[Any]", declared) if isinstance(declared, list) else [declared]
    known = [word for word in words if isinstance(word, str) and word in TYPES]
    if "file" in words:
        schema |= {"type": "string", "format": "binary"}
    elif known:
        schema["type"] = known[0] if len(known) == 1 else list(dict.fromkeys(known))
    if len(known) < len(words) and words not in (["any"], ["file"]):
        out.note(node.child("type"), "the type is not one of JSON Schema; anything is allowed")


def _is_older_form(keyword: str, item: Any) -> bool:
    """Whether OpenAPI 3.0, or its users, write this; :func:`_older_forms` reads it."""
    return keyword.startswith("exclusive") and isinstance(item, bool)


def _older_forms(value: Schema, schema: Schema) -> None:
    """What OpenAPI 3.0 says otherwise: exclusive bounds as flags, and ``nullable``."""
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if value.get(exclusive) is True and bound in schema:
            schema[exclusive] = schema.pop(bound)
    if value.get("nullable") is not True:
        return
    declared = schema.get("type")
    if isinstance(declared, str) and not schema.keys() & {"$ref", "allOf", "anyOf", "oneOf", "const"}:
        schema["type"] = [declared, "null"]
        if "enum" in schema and None not in schema["enum"]:
            schema["enum"] = [*schema["enum"], None]
    elif schema.keys() - {"title", "description", "examples", "default"} and declared != "null":
        kept = {key: schema.pop(key) for key in ("title", "description", "default") if key in schema}
        inner = dict(schema)
        schema.clear()
        schema |= {**kept, "anyOf": [inner, {"type": "null"}]}


def _ordered(schema: Schema) -> Schema:
    """What people look for first stands first."""
    first = {key: schema[key] for key in ("type", "description") if key in schema}
    return {**first, **schema} if first else schema


def _opened(schema: Any) -> Schema:
    """What stays of a definition for which there is no room."""
    kept = ("type", "title")
    return {key: schema[key] for key in kept if key in schema} if isinstance(schema, dict) else {}


def fault_of(schema: Schema) -> str:
    """Why calls cannot be checked against a schema; ``""`` where they can. Its definitions are sound."""
    from jsonschema_rs import Draft202012Validator

    if "$defs" in schema:
        schema = {**schema, "$defs": dict.fromkeys(schema["$defs"], True)}
    try:
        Draft202012Validator(schema, offline=True)
    except ValueError as error:
        return str(getattr(error, "message", error)).partition("\n")[0][:200]
    return ""


__all__ = ["Definition", "Direction", "Schemas", "fault_of"]
