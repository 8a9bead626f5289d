"""Makes an ``int`` of ``2.0`` and ``1e1`` where a JSON Schema says ``integer``.

JSON Schema counts every number without a fraction as an integer, however it is written; Python's ``range``
takes no float. What the schema says of a value is what each of its parts says that the value fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from enginehost.schema_keywords import EACH
from enginehost.schema_references import refers
from enginehost.schema_walk import Budget, TooMuch, Walk
from enginehost.signature import JsonSchema

_PLAIN = frozenset({int, str, bool, type(None)})
"""Types of values in which there is nothing to be done."""
_IN_PLACE = ("$ref", "$dynamicRef", "allOf", "if", "dependentSchemas")
_MANY = 1000
"""Parts of one value that are looked at in a hurry."""
_IN_A_HURRY = 500, 0.002
_WITH_TIME = 5_000_000, 2.0


class WholeNumbers:
    """The places at which one schema says ``integer``."""

    __slots__ = ("_concerned", "_schema")

    def __init__(self, schema: JsonSchema) -> None:
        self._schema = schema
        self._concerned: dict[int, bool] = {}

    def leaves(self, arguments: Mapping[str, Any]) -> bool:
        """Whether :meth:`made` changes nothing, as far as a glance tells."""
        return _PLAIN.issuperset(map(type, arguments.values()))

    def made(self, arguments: dict[str, Any], *, hurry: bool = False) -> dict[str, Any]:
        """The arguments, which fit the schema, with an ``int`` at each such place. What was given stays.

        In a ``hurry`` :class:`~enginehost.schema_walk.TooMuch` is raised where that takes more than about two
        milliseconds.
        """
        if self.leaves(arguments):
            return arguments
        if hurry and len(arguments) > _MANY:
            raise TooMuch
        try:
            return _Making(self._schema, self._concerned, hurry).of([self._schema], arguments)
        except RecursionError:
            if hurry:
                raise TooMuch from None
            return arguments


def whole_numbers(schema: JsonSchema) -> WholeNumbers | None:
    """``None`` for a schema that says ``integer`` nowhere."""
    return WholeNumbers(schema) if "integer" in repr(schema) else None


class _Making:
    """One value on its way."""

    def __init__(self, root: JsonSchema, concerned: dict[int, bool], hurry: bool) -> None:
        self._concerned = concerned
        self._hurry = hurry
        self._walk = Walk(root, Budget(*_IN_A_HURRY if hurry else _WITH_TIME))

    def of(self, schemas: Iterable[Any], value: Any) -> Any:
        """A part of the value, of which ``schemas`` speak: itself where nothing in it changes."""
        if type(value) in _PLAIN:
            return value
        if isinstance(value, float):
            whole = value.is_integer() and any(map(_says_integer, self._in_place(schemas, value)))
            return int(value) if whole else value
        if not isinstance(value, dict | list):
            return value
        known = list(self._in_place(schemas, cast("Any", value)))
        if self._hurry and len(cast("Any", value)) > _MANY:
            raise TooMuch
        if isinstance(value, dict):
            return self._object(known, cast("dict[str, Any]", value))
        return self._list(known, cast("list[Any]", value))

    def _object(self, schemas: Sequence[Mapping[str, Any]], value: dict[str, Any]) -> dict[str, Any]:
        others = [(schema, frozenset(self._unevaluated(schema, "Properties", value))) for schema in schemas]
        made: dict[str, Any] = {}
        for name, child in value.items():
            if type(child) in _PLAIN:
                continue
            subs = [sub for schema, rest in others for sub in self._of_name(schema, name, rest)]
            if subs and (new := self.of(subs, child)) is not child:
                made[name] = new
        return {**value, **made} if made else value

    def _of_name(self, schema: Mapping[str, Any], name: str, unevaluated: Iterable[Any]) -> list[Any]:
        """What a schema says of the property ``name``."""
        properties: Mapping[str, Any] = schema.get("properties") or {}
        patterns: Mapping[str, Any] = schema.get("patternProperties") or {}
        found = [properties[name]] if name in properties else []
        found += [sub for pattern, sub in patterns.items() if self._walk.matches(pattern, name)]
        if not found and "additionalProperties" in schema:
            found = [schema["additionalProperties"]]
        if name in unevaluated:
            found.append(schema["unevaluatedProperties"])
        return list(filter(self._is_concerned, found))

    def _list(self, schemas: Sequence[Mapping[str, Any]], value: list[Any]) -> list[Any]:
        firsts = max((len(schema.get("prefixItems") or ()) for schema in schemas), default=0)
        unevaluated = [(one, frozenset(self._unevaluated(one, "Items", value))) for one in schemas]
        by_place = firsts or any(rest for _, rest in unevaluated)
        same = [sub for schema in schemas for sub in self._of_index(schema, firsts, ())]
        made: list[Any] | None = None
        for index, child in enumerate(value) if same or by_place else ():
            if type(child) in _PLAIN:
                continue
            subs = (
                [sub for schema, rest in unevaluated for sub in self._of_index(schema, index, rest)]
                if by_place
                else same
            )
            if subs and (new := self.of(subs, child)) is not child:
                made = made or value.copy()
                made[index] = new
        return value if made is None else made

    def _of_index(self, schema: Mapping[str, Any], index: int, unevaluated: Iterable[Any]) -> Iterator[Any]:
        """What a schema says of the item at ``index``."""
        firsts: Sequence[Any] = schema.get("prefixItems") or ()
        found = (
            [firsts[index]] if index < len(firsts) else [schema[key] for key in ("items",) if key in schema]
        )
        if index in unevaluated:
            found.append(schema["unevaluatedItems"])
        return filter(self._is_concerned, found)

    def _unevaluated(self, schema: Mapping[str, Any], kind: str, value: Any) -> list[Any]:
        if not self._is_concerned(schema.get(f"unevaluated{kind}")):
            return []
        try:
            return self._walk.unevaluated(value, schema)
        except TooMuch:
            if self._hurry:
                raise
            return []

    def _is_concerned(self, schema: Any) -> bool:
        """Whether a schema may say ``integer`` of anything."""
        if not isinstance(schema, Mapping):
            return False
        key = id(cast("Any", schema))
        if key not in self._concerned:
            self._concerned[key] = "integer" in repr(schema) or refers(schema)
        return self._concerned[key]

    def _in_place(self, schemas: Iterable[Any], value: Any) -> Iterator[Mapping[str, Any]]:
        """The ``schemas``, and those in them that speak of the same value, as far as it fits them."""
        seen: set[int] = set()
        waiting = list(schemas)
        while waiting:
            schema = waiting.pop()
            if not isinstance(schema, Mapping) or id(cast("Any", schema)) in seen:
                continue
            schema = cast("Mapping[str, Any]", schema)
            seen.add(id(schema))
            yield schema
            try:
                waiting += filter(self._is_concerned, self._inner(schema, value))
            except TooMuch:
                if self._hurry:
                    raise

    def _inner(self, schema: Mapping[str, Any], value: Any) -> Iterator[Any]:
        for keyword, wanted in schema.items():
            if keyword in _IN_PLACE:
                yield from (sub for sub, _, _, _ in EACH[keyword](self._walk, wanted, value, schema))
            if keyword in ("anyOf", "oneOf"):
                yield from (sub for sub in wanted if self._walk.fit(sub, value))
            if keyword == "if" and self._walk.fit(wanted, value):
                yield wanted


def _says_integer(schema: Mapping[str, Any]) -> bool:
    kinds: Any = schema.get("type")
    return kinds == "integer" or (isinstance(kinds, list) and "integer" in kinds and "number" not in kinds)
