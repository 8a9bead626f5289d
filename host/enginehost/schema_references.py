"""Where the references of a JSON Schema lead, and whether the compiled check may follow them.

Only references inside the schema count (``#``, ``#/…``, ``#anchor``): a file with others is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

MOST_AT_ONCE = 1000
"""Schemas that one value may have to fit, each counted as often as ways lead to it."""

LEAVES = frozenset(
    {
        *("type", "enum", "const", "format", "pattern", "minLength", "maxLength", "multipleOf", "minimum"),
        *("maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems", "uniqueItems"),
        *("minProperties", "maxProperties", "required", "dependentRequired"),
    }
)
"""Keywords that ask for something and hold no schema."""
_IN_PLACE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas"})
_DEFINITIONS = frozenset({"$defs", "definitions"})
_LOOKS_AROUND = frozenset(
    {"additionalProperties", "unevaluatedProperties", "patternProperties", "if", "then", "else"}
)
"""Keywords that ask for something in view of those beside them."""
_NO_SCHEMAS = LEAVES | {"default", "examples", "$defs", "definitions"}


def refers(schema: Any) -> bool:
    """Whether a schema refers to another, as far as a glance tells."""
    told = repr(schema)
    return "$ref" in told or "$dynamicRef" in told


def has_ids(root: Mapping[str, Any]) -> bool:
    """Whether parts of the schema have an ``$id``: then what a reference means depends on where it stands."""
    return "$id" in repr({keyword: wanted for keyword, wanted in root.items() if keyword != "$id"})


def steps_of(reference: str) -> tuple[str, ...]:
    """The way that ``#/…`` goes through the schema; of an anchor only its name."""
    if not reference.startswith("#/"):
        return (reference.removeprefix("#"),)
    steps = reference.removeprefix("#/").split("/")
    return tuple(unquote(step).replace("~1", "/").replace("~0", "~") for step in steps)


def referred(root: Mapping[str, Any], reference: str) -> Any:
    """The schema that a reference means; what leads nowhere asks for nothing."""
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        return _anchored(root, reference.removeprefix("#"))
    found: Any = root
    for step in steps_of(reference):
        if isinstance(found, list):
            found = found[int(step)] if step.isdigit() and int(step) < len(found) else {}
        else:
            found = found.get(step, {}) if isinstance(found, Mapping) else {}
    return found


def resolved(schema: Any, root: Mapping[str, Any]) -> Any:
    """The schema, or what it refers to, with what stands beside the reference."""
    seen: set[str] = set()
    while isinstance(schema, Mapping) and isinstance(reference := schema.get("$ref"), str):
        if reference in seen:
            return {}
        seen.add(reference)
        found = referred(root, reference)
        beside = {keyword: wanted for keyword, wanted in schema.items() if keyword != "$ref"}
        schema = {**found, **beside} if isinstance(found, Mapping) else found
    return schema


def opened(root: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with what applies to the value itself in place of references to it, one way for each.

    Definitions that nothing refers to any more are left out. What refers to itself asks for nothing more,
    and of more than :data:`MOST_AT_ONCE` references the rest stays.
    """
    left = [MOST_AT_ONCE]
    return _used(dict(_opened(root, root, frozenset({"#"}), left)))


def _opened(schema: Any, root: Mapping[str, Any], way: frozenset[str], left: list[int]) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    made: dict[str, Any] = {}
    for keyword, wanted in schema.items():
        if keyword == "dependentSchemas" and isinstance(wanted, Mapping):
            made[keyword] = {name: _opened(one, root, way, left) for name, one in wanted.items()}
        elif keyword in _IN_PLACE and isinstance(wanted, list):
            made[keyword] = [_opened(one, root, way, left) for one in wanted]
        else:
            made[keyword] = _opened(wanted, root, way, left) if keyword in _IN_PLACE else wanted
    reference = made.get("$ref")
    if not isinstance(reference, str) or not left[0]:
        return made
    left[0] -= 1
    del made["$ref"]
    found = {} if reference in way else _opened(referred(root, reference), root, way | {reference}, left)
    return _together(made, found)


def _together(beside: dict[str, Any], found: Any) -> dict[str, Any]:
    """What stood beside a reference, and what it means: one schema where neither changes the other."""
    apart = {**beside, "allOf": [*beside.get("allOf", ()), found]}
    if not isinstance(found, Mapping) or _LOOKS_AROUND & (beside.keys() | found.keys()):
        return apart
    shared = (beside.keys() & found.keys()) - {"properties"}
    mine, theirs = beside.get("properties", {}), found.get("properties", {})
    if any(beside[keyword] != found[keyword] for keyword in shared) or mine.keys() & theirs.keys():
        return apart
    return {**beside, **found, **({"properties": {**mine, **theirs}} if mine or theirs else {})}


def _used(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without the definitions that no reference leads to."""
    waiting: list[Any] = [{name: part for name, part in schema.items() if name not in _DEFINITIONS}]
    seen = set[str]()
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, Mapping):
            if "$dynamicRef" in part:
                return schema
            reference = part.get("$ref")
            if isinstance(reference, str) and reference not in seen:
                seen.add(reference)
                waiting.append(referred(schema, reference))
            waiting += part.values()
    if any(not reference.startswith("#/") for reference in seen):
        return schema
    used = {steps_of(reference)[:2] for reference in seen}
    for place in _DEFINITIONS & schema.keys():
        kept = {name: part for name, part in schema[place].items() if (place, name) in used}
        schema = {**schema, place: kept} if kept else {k: part for k, part in schema.items() if k != place}
    return schema


def _anchored(root: Any, name: str) -> Any:
    waiting = [root]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            if name in (part.get("$anchor"), part.get("$dynamicAnchor")):
                return part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return {}


def is_endless(root: Mapping[str, Any]) -> bool:
    """Whether the compiled verdict may take a time that doubles with each level of the value or the schema.

    Measured with jsonschema-rs 0.61: it remembers its verdicts on lists and objects, but not while it looks
    for what is unevaluated; and it fails on some dynamic references.
    """
    if not refers(root) or has_ids(root):
        return False
    try:
        shape = _Shape(root)
    except RecursionError:
        return True
    told = repr(root)
    return shape.most > MOST_AT_ONCE or (shape.recursive and ("unevaluated" in told or "$dynamicRef" in told))


class _Shape:
    """How the parts of a schema hang together: whether in a ring, and how many judge one value at most."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.recursive = False
        self.most = 0
        self._root = root
        self._counts: dict[int, int | None] = {}
        self._count(root)

    def _count(self, schema: Any) -> int:
        if not isinstance(schema, Mapping):
            return 0
        if id(schema) in self._counts:
            known = self._counts[id(schema)]
            self.recursive |= known is None
            return known or 0
        self._counts[id(schema)] = None
        count = 1
        for keyword, wanted in schema.items():
            if keyword in ("$ref", "$dynamicRef"):
                count += self._count(referred(self._root, wanted))
            elif keyword not in _NO_SCHEMAS:
                inside = sum(map(self._count, _subschemas(keyword, wanted)))
                count += inside if keyword in _IN_PLACE else 0
        self._counts[id(schema)] = count
        self.most = max(self.most, count)
        return count


def _subschemas(keyword: str, wanted: Any) -> Iterable[Any]:
    if isinstance(wanted, list):
        return wanted
    return wanted.values() if keyword in _NAMED and isinstance(wanted, Mapping) else (wanted,)


def property_names(schema: Any) -> frozenset[str]:
    """The names of the properties that a schema, or a schema in it, declares."""
    names: set[str] = set()
    waiting = [schema]
    while waiting:
        found = waiting.pop()
        if isinstance(found, Mapping):
            if isinstance(declared := found.get("properties"), Mapping):
                names.update(map(str, declared))
            waiting += found.values()
        elif isinstance(found, list | tuple):
            waiting += found
    return frozenset(names)
