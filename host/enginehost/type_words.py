"""What people write as a type (``String``, ``dict[str, int]``, ``Optional[date]``) as JSON Schema.

Case does not matter, nor do package names (``java.lang.String``, ``typing.List``). ``Object`` means
anything where it is the item of something else (``Map<String,Object>``), an object where it stands alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

MAX_LENGTH = 200
"""Longest text of a type; what is longer is unknown."""

_STRING = {"type": "string"}
_INTEGER = {"type": "integer"}
_NUMBER = {"type": "number"}
_ARRAY = {"type": "array"}
_SET = {"type": "array", "uniqueItems": True}
_OBJECT = {"type": "object"}

_SCHEMAS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("string str text char character charsequence varchar clob file path filepath password", _STRING),
    ("integer int long short byte bigint biginteger int8 int16 int32 int64 serial bigserial", _INTEGER),
    ("number double float decimal bigdecimal numeric real float32 float64 money", _NUMBER),
    ("boolean bool bit", {"type": "boolean"}),
    ("date localdate", {"type": "string", "format": "date"}),
    (
        "datetime date-time date_time timestamp localdatetime zoneddatetime offsetdatetime instant",
        {"type": "string", "format": "date-time"},
    ),
    ("time localtime", {"type": "string", "format": "time"}),
    ("duration timedelta", {"type": "string", "format": "duration"}),
    ("uuid", {"type": "string", "format": "uuid"}),
    ("uri url", {"type": "string", "format": "uri"}),
    ("email", {"type": "string", "format": "email"}),
    ("bytes bytearray binary blob", {"type": "string", "contentEncoding": "base64"}),
    ("null none nonetype void", {"type": "null"}),
    ("any", {}),
)
_ARRAYS = "array list arraylist linkedlist collection sequence iterable iterator tuple vector stream"
_SETS = "set frozenset hashset linkedhashset treeset"
_OBJECTS = "object dict map hashmap linkedhashmap treemap mapping mutablemapping json jsonobject record"

_WORDS: Mapping[str, dict[str, Any]] = {
    **{word: schema for words, schema in _SCHEMAS for word in words.split()},
    **dict.fromkeys(_ARRAYS.split(), _ARRAY),
    **dict.fromkeys(_SETS.split(), _SET),
    **dict.fromkeys(_OBJECTS.split(), _OBJECT),
}
_TOKEN = re.compile(r"\s*(?:([A-Za-z_][\w.-]*)|(\[\s*\]|[<>\[\],|?]))")
_CLOSING = {"<": ">", "[": "]"}


@lru_cache(maxsize=2048)
def type_schema(text: str) -> Mapping[str, Any] | None:
    """The JSON Schema of a type's text; ``None`` when the text means nothing to us. Do not change it."""
    plain = _WORDS.get(text)
    if plain is not None:
        return plain
    if len(text) > MAX_LENGTH:
        return None
    try:
        reader = _Reader(text)
        schema = reader.union(top=True)
        return schema if reader.at_end else None
    except _UnknownType:
        return None


class _UnknownType(Exception):
    """The text is no type that we know."""


class _Reader:
    """Reads the grammar of types.

    ``union := one ('|' one)*``, ``one := word args? ('[]' | '?')*``, ``args := '<' union (',' union)* '>'``.
    """

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        at = 0
        text = text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise _UnknownType
            self._tokens.append(
                match[1].rpartition(".")[2].lower() if match[1] else match[2].replace(" ", "")
            )
            at = match.end()
        self._next = 0

    @property
    def at_end(self) -> bool:
        return self._next == len(self._tokens)

    def _peek(self) -> str:
        return "" if self.at_end else self._tokens[self._next]

    def _take(self, *tokens: str) -> bool:
        if self._peek() not in tokens or self.at_end:
            return False
        self._next += 1
        return True

    def union(self, *, top: bool = False) -> Mapping[str, Any]:
        options = [self._one(top)]
        while self._take("|"):
            options.append(self._one(top))
        return _any_of(options)

    def _one(self, top: bool) -> Mapping[str, Any]:
        word = self._peek()
        if not word:
            raise _UnknownType
        self._next += 1
        opening = self._peek()
        arguments = self._arguments(_CLOSING[opening]) if opening in _CLOSING else []
        schema = _generic(word, arguments) if arguments else _simple(word, top)
        while suffix := self._peek():
            if self._take("[]"):
                schema = _items(_ARRAY, {} if schema is _OBJECT and word == "object" else schema)
            elif suffix == "?" and self._take("?"):
                schema = _any_of([schema, {"type": "null"}])
            else:
                break
        return schema

    def _arguments(self, closing: str) -> list[Mapping[str, Any]]:
        self._next += 1
        arguments = [self.union()]
        while self._take(","):
            arguments.append(self.union())
        if not self._take(closing):
            raise _UnknownType
        return arguments


def _simple(word: str, top: bool) -> Mapping[str, Any]:
    schema = _WORDS.get(word)
    if word == "?":
        return {}
    if schema is None:
        raise _UnknownType
    return {} if word == "object" and not top else schema


def _generic(word: str, arguments: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    if word == "optional":
        return _any_of([*arguments, {"type": "null"}])
    if word == "union":
        return _any_of(arguments)
    base = _WORDS.get(word)
    if base is None or base.get("type") not in ("array", "object"):
        raise _UnknownType
    if base["type"] == "object":
        values = arguments[-1]
        return {**base, "additionalProperties": dict(values)} if values else base
    if word == "tuple" and len(arguments) > 1:
        count = len(arguments)
        return {**base, "prefixItems": [dict(a) for a in arguments], "minItems": count, "maxItems": count}
    return _items(base, arguments[0])


def _items(base: Mapping[str, Any], item: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**base, "items": dict(item)} if item else base


def _any_of(options: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    if len(options) == 1:
        return options[0]
    if not all(options):
        return {}
    flat = [inner for option in options for inner in option.get("anyOf", [option])]
    distinct = [option for index, option in enumerate(flat) if option not in flat[:index]]
    if len(distinct) == 1:
        return distinct[0]
    if all(option.keys() == {"type"} for option in distinct):
        return {"type": [option["type"] for option in distinct]}
    if len(distinct) == 2 and {"type": "null"} in distinct:
        other = next(option for option in distinct if option != {"type": "null"})
        if isinstance(other.get("type"), str):
            return {**other, "type": [other["type"], "null"]}
    return {"anyOf": [dict(option) for option in distinct]}
