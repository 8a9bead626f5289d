"""A server's tools as signatures. Servers are strangers: nothing that one says can break the catalog.

What cannot be offered (a schema that is none, a name that is none, sizes beyond reason) is left out with a
reason for the log; what is only too long is shortened.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, cast

from enginehost.signature import Annotations, FunctionSignature, JsonSchema

MOST_TOOLS = 5000
LONGEST_NAME = 256
LONGEST_DESCRIPTION = 16 * 1024
LONGEST_TITLE = 256
MOST_SCHEMA_BYTES = 256 * 1024
MOST_BYTES = 32 * 2**20
"""All schemas and descriptions of one server together."""
DEEPEST = 64

_PLAIN_VALUES = frozenset({"default", "const", "enum", "examples"})
_NEWEST = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as a server tells it; texts and schemas are as they came."""

    name: str
    description: str = ""
    input_schema: Any = None
    output_schema: Any = None
    title: str | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool that is offered: its own name, and its signature under the name it has here."""

    tool: str
    signature: FunctionSignature


@dataclass(frozen=True, slots=True)
class Selection:
    """Which tools are offered, and under which names. An empty ``include`` takes all."""

    prefix: str = ""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    def takes(self, name: str) -> bool:
        """Whether a tool of this name is offered."""
        included = not self.include or any(fnmatchcase(name, pattern) for pattern in self.include)
        return included and not any(fnmatchcase(name, pattern) for pattern in self.exclude)


def offers(tools: Iterable[Tool], selection: Selection) -> tuple[list[Offer], list[str]]:
    """The tools that can be offered, sorted by name, and what is to be said of the others."""
    found: dict[str, Offer] = {}
    remarks: list[str] = []
    left = MOST_BYTES
    for tool in tools:
        if not selection.takes(tool.name):
            continue
        if len(found) >= MOST_TOOLS or left <= 0:
            remarks.append(f"it has more tools than can be offered; {len(found)} are")
            break
        try:
            offer, size = _offer(tool, selection, found, remarks)
        except _Unfit as unfit:
            remarks.append(f"the tool {tool.name[:80]!r} is left out: {unfit}")
            continue
        left -= size
        found[tool.name] = offer
    return [found[name] for name in sorted(found)], remarks


class _Unfit(ValueError):
    """Why a tool cannot be offered."""


def _offer(
    tool: Tool, selection: Selection, found: Mapping[str, Offer], remarks: list[str]
) -> tuple[Offer, int]:
    name = selection.prefix + tool.name
    if not tool.name or len(name) > LONGEST_NAME or not name.isprintable():
        raise _Unfit(f"a name has 1 to {LONGEST_NAME} printable characters")
    if tool.name in found:
        raise _Unfit("the server has another one of this name")
    parameters, size = _usable(tool.input_schema, "input")
    result: JsonSchema | None = None
    if tool.output_schema is not None:
        try:
            result, more = _usable(tool.output_schema, "output")
            size += more
        except _Unfit as unfit:
            remarks.append(f"results of the tool {tool.name[:80]!r} are not checked: {unfit}")
    description = _shortened(tool.description, LONGEST_DESCRIPTION)
    signature = FunctionSignature(
        name=name,
        description=description or _shortened(tool.title or "", LONGEST_TITLE),
        parameters=_object(parameters),
        result=result,
        annotations=Annotations(
            title=_shortened(tool.title, LONGEST_TITLE) if tool.title else None,
            read_only=tool.read_only,
            destructive=tool.destructive,
            idempotent=tool.idempotent,
            open_world=tool.open_world,
        ),
        tags=selection.tags,
    )
    return Offer(tool.name, signature), size + len(description)


def _shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _usable(schema: Any, which: str) -> tuple[dict[str, Any], int]:
    """The schema in the words of JSON Schema 2020-12, compiled once for proof, and its size."""
    if not isinstance(schema, dict):
        raise _Unfit(f"its {which} schema is no object")
    if not _is_shallow(schema):
        raise _Unfit(f"its {which} schema is nested more than {DEEPEST} deep")
    try:
        size = len(json.dumps(schema, allow_nan=False))
    except ValueError as error:
        raise _Unfit(f"its {which} schema is no JSON") from error
    if size > MOST_SCHEMA_BYTES:
        raise _Unfit(f"its {which} schema has {size} bytes, more than {MOST_SCHEMA_BYTES}")
    modern = _modern(cast("dict[str, Any]", schema))
    if fault := _fault(modern):
        raise _Unfit(f"its {which} schema is none that can be checked: {fault}")
    return modern, size


def _is_shallow(schema: Any) -> bool:
    level: list[Any] = [schema]
    for _ in range(DEEPEST):
        level = [part for one in level for part in _parts(one)]
        if not level:
            return True
    return False


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[Any, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, list) else ()


def _modern(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema of an older draft (zod and others write draft 7) as one of 2020-12."""
    dialect = schema.get("$schema")
    schema = {key: value for key, value in schema.items() if key != "$schema"}
    if isinstance(dialect, str) and dialect.rstrip("#") != _NEWEST:
        return cast("dict[str, Any]", _without_tuples(schema))
    return schema


def _without_tuples(value: Any) -> Any:
    """``items`` as a list was what ``prefixItems`` is, and ``additionalItems`` what ``items`` is then."""
    if isinstance(value, list):
        return [_without_tuples(one) for one in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    members = cast("dict[str, Any]", value).items()
    made = {key: one if key in _PLAIN_VALUES else _without_tuples(one) for key, one in members}
    if isinstance(made.get("items"), list):
        made["prefixItems"] = made.pop("items")
        if "additionalItems" in made:
            made["items"] = made.pop("additionalItems")
    return made


def _fault(schema: Mapping[str, Any]) -> str:
    from jsonschema_rs import Draft202012Validator

    for reference in _references(schema):
        if not reference.startswith("#"):
            return f"the reference {reference[:80]!r} leads out of it"
    try:
        Draft202012Validator(dict(schema), validate_formats=True, offline=True)
    except ValueError as error:
        return " ".join(str(error).partition("\n")[0].split())[:200]
    return ""


def _references(schema: Any) -> Iterator[str]:
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            members = cast("dict[Any, Any]", part)
            yield from (
                members[word] for word in ("$ref", "$dynamicRef") if isinstance(members.get(word), str)
            )
        waiting.extend(_parts(part))


def _object(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a call's arguments, which are always an object.

    The host refuses arguments that nobody declared. A schema that names none at all (``{"type": "object"}``)
    means that everything goes, so it says so. A default that its own schema refuses is taken out: the host
    fills defaults in.
    """
    if schema.setdefault("type", "object") != "object":
        raise _Unfit("its input schema is not of the type object")
    if "properties" not in schema:
        schema.setdefault("additionalProperties", True)
    properties = cast("dict[str, Any]", schema.setdefault("properties", {}))
    definitions = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    schema["properties"] = {name: _with_fitting_default(one, definitions) for name, one in properties.items()}
    return schema


def _with_fitting_default(schema: Any, definitions: Mapping[str, Any]) -> Any:
    if not isinstance(schema, dict) or "default" not in schema:
        return schema
    from jsonschema_rs import Draft202012Validator

    own = cast("dict[str, Any]", schema)
    try:
        fits = Draft202012Validator({**definitions, **own}, validate_formats=True, offline=True).is_valid(
            own["default"]
        )
    except ValueError:
        fits = False
    return own if fits else {key: value for key, value in own.items() if key != "default"}
