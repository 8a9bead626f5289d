"""Type hints as JSON Schema: read from the source, nothing is run.

What a caller sends for a hint and what a function answers for it have the JSON form of
:mod:`enginehost.values`. A hint that says nothing to us is ``{}``: anything.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from enginehost_engines.python_classes import ClassSchemas, Member, choice
from enginehost_engines.python_neighbours import Neighbour
from enginehost_engines.python_source import PythonSource

Schema = dict[str, Any]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_HOMES = _words(
    "builtins typing typing_extensions types collections collections.abc datetime decimal "
    "uuid pathlib numbers annotated_types pydantic annotated_doc"
)
"""Modules whose names mean here what they mean there."""

_TEXT: Schema = {"type": "string"}
_NUMBER_OR_TEXT: Schema = {"type": ["number", "string"]}
_SIMPLE: Mapping[str, Schema] = {
    **dict.fromkeys(("str", "Text", "AnyStr", "LiteralString"), _TEXT),
    **{word: {"type": "integer"} for word in ("int", "Integral")},
    **{word: {"type": "number"} for word in ("float", "Number", "Real")},
    "bool": {"type": "boolean"},
    **{word: {"type": "null"} for word in ("None", "NoneType")},
    **{word: {} for word in ("Any", "object", "Hashable")},
}
_CONVERTED: Mapping[str, Schema] = {
    # JSON Schema's formats would refuse what Python has without an offset, and parts of a second in a span
    "datetime": {"type": "string", "examples": ["2026-01-31T12:30:00Z"]},
    "date": {"type": "string", "format": "date"},
    "time": {"type": "string", "examples": ["12:30:00"]},
    "timedelta": {"type": "string", "examples": ["P1DT2H30M"]},
    "Decimal": _NUMBER_OR_TEXT,
    "UUID": {"type": "string", "format": "uuid"},
    **dict.fromkeys(("Path", "PurePath", "PosixPath", "PurePosixPath", "WindowsPath"), _TEXT),
}
_BYTES = ("bytes", "bytearray", "memoryview", "ByteString")
_LISTS = _words("list List Sequence MutableSequence Iterable Collection Iterator AsyncIterable AsyncIterator")
_SETS = _words("set Set frozenset FrozenSet AbstractSet MutableSet")
_DICTS = _words("dict Dict Mapping MutableMapping OrderedDict defaultdict DefaultDict Counter")
_WRAPPERS = _words("Required NotRequired ReadOnly Final InitVar Awaitable Coroutine")
_STREAMS = _words("Iterator Iterable Generator AsyncIterator AsyncIterable AsyncGenerator")
_LIMITS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
    "description": "description",
    "title": "title",
}
_CALLS = {
    "Ge": "ge",
    "Gt": "gt",
    "Le": "le",
    "Lt": "lt",
    "MultipleOf": "multiple_of",
    "MinLen": "min_length",
    "MaxLen": "max_length",
    "Doc": "description",
    "doc": "description",
}
"""Calls in ``Annotated`` whose one argument says what ``Field`` says by a name."""


class Hints:
    """The hints of one file.

    ``neighbours`` are modules beside it, whose own classes count too. ``result``: in what functions answer,
    where bytes have another form than callers send.
    ``converts`` is set by a hint whose values are no JSON: a worker has to make them.
    ``definitions`` are the schemas of classes that contain themselves.
    """

    def __init__(
        self, source: PythonSource, *, result: bool = False, neighbours: Iterable[Neighbour] = ()
    ) -> None:
        self._source = source
        self._result = result
        self._others = {one.module: Hints(one.source, result=result) for one in neighbours}
        self._classes = ClassSchemas(source.classes, self.dotted, self.schema, self.field, given=not result)
        self._aliases: list[str] = []
        self.converts = False

    @property
    def definitions(self) -> Mapping[str, Schema]:
        """Schemas that others refer to as ``#/$defs/…``."""
        found = dict(self._classes.definitions)
        for other in self._others.values():
            found = {**other.definitions, **found}
        return found

    def schema(self, hint: ast.expr | None) -> Schema:
        """The schema of a hint."""
        if hint is None:
            return {}
        if isinstance(hint, ast.Constant):
            return self._of_constant(hint.value)
        if isinstance(hint, ast.BinOp) and isinstance(hint.op, ast.BitOr):
            return any_of([self.schema(hint.left), self.schema(hint.right)])
        if isinstance(hint, ast.Subscript):
            inner = hint.slice
            arguments = list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]
            return self._generic(self.dotted(hint.value), arguments)
        return self._named(self.dotted(hint))

    def text(self, words: str) -> Schema:
        """The schema of a type as a docstring writes it."""
        return self.schema(_Homes().visit(_parsed(_as_hint(words))))

    def item(self, hint: ast.expr | None) -> Schema:
        """The schema of what a stream with this return hint yields."""
        if isinstance(hint, ast.Constant) and isinstance(hint.value, str):
            hint = _parsed(hint.value)
        if isinstance(hint, ast.Subscript) and self.dotted(hint.value).rpartition(".")[2] in _STREAMS:
            inner = hint.slice
            return self.schema(inner.elts[0] if isinstance(inner, ast.Tuple) and inner.elts else inner)
        return {}

    def field(self, value: ast.expr | None) -> Schema:
        """What a default written as pydantic's ``Field(…)`` says of its parameter."""
        return self._metadata(value) if isinstance(value, ast.Call) else {}

    def unpacked(self, hint: ast.expr | None) -> Schema | None:
        """The object that ``**rest: Unpack[…]`` takes apart."""
        if isinstance(hint, ast.Subscript) and self.dotted(hint.value).rpartition(".")[2] == "Unpack":
            return self.schema(hint.slice)
        return None

    def member(self, node: ast.expr) -> Member | None:
        """The value of ``Colour.RED``, an enum's of this file."""
        if not isinstance(node, ast.Attribute):
            return None
        home, _, name = self.dotted(node.value).rpartition(".")
        of = self._others.get(home, self) if home else self
        return of.own_member(name, node.attr)

    def own_member(self, name: str, member: str) -> Member:
        """The value of a member of the file's own enum."""
        return self._classes.member(name, member)

    def dotted(self, node: ast.expr) -> str:
        """The whole name behind a name; empty for what is none."""
        if isinstance(node, ast.Name):
            return self._source.imports.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            before = self.dotted(node.value)
            return f"{before}.{node.attr}" if before else ""
        return ""

    def _of_constant(self, value: Any) -> Schema:
        if value is None:
            return {"type": "null"}
        return self.schema(_parsed(value)) if isinstance(value, str) else {}

    def _named(self, name: str) -> Schema:
        home, _, word = name.rpartition(".")
        if not home and (found := self.own(word)) is not None:
            return found
        if home and home not in _HOMES:
            self.converts = True  # a class of another module, which the worker knows
            other = self._others.get(home)
            return (other.own(word) if other is not None else None) or {}
        if word in _SIMPLE:
            return dict(_SIMPLE[word])
        if word in _CONVERTED or word in _BYTES:
            return self._converted(word)
        return self._generic(word, []) if word else {}

    def own(self, word: str) -> Schema | None:
        """What the file itself calls so."""
        if word in self._source.classes:
            self.converts = True
            return self._classes.schema(word)
        if word not in self._source.values or word in self._aliases:
            return None
        self._aliases.append(word)
        found = self._alias(self._source.values[word])
        self._aliases.pop()
        return found

    def _alias(self, value: ast.expr) -> Schema:
        if not isinstance(value, ast.Call):
            return self.schema(value)
        if self.dotted(value.func).rpartition(".")[2] == "NewType" and len(value.args) == 2:
            return self.schema(value.args[1])
        bound = next((word.value for word in value.keywords if word.arg == "bound"), None)
        if bound is None:
            self.converts = True
        return self.schema(bound)

    def _converted(self, word: str) -> Schema:
        self.converts = True
        if word not in _BYTES:
            return dict(_CONVERTED[word])
        encoded: Schema = {"type": "string", "contentEncoding": "base64"}
        if not self._result:
            return encoded  # a host takes bytes themselves for it too, and `$bytes` makes them
        return {"type": "object", "properties": {"$bytes": encoded}, "required": ["$bytes"]}

    def _generic(self, name: str, arguments: Sequence[ast.expr]) -> Schema:
        home, _, word = name.rpartition(".")
        if home and home not in _HOMES:
            self.converts = True
            return {}
        if word in ("Optional", "Union"):
            options = [self.schema(argument) for argument in arguments]
            return any_of([*options, {"type": "null"}] if word == "Optional" else options)
        if word == "Literal":
            return choice(self._literals(arguments))
        if word == "Annotated" and arguments:
            return self._annotated(arguments)
        if word in _LISTS:
            self.converts = True  # from Python numpy's arrays fit too, and come as what the hint says
            return _with_items("array", self.schema(arguments[0]) if arguments else {})
        if word in _SETS or word in ("deque", "Deque"):
            self.converts = True
            unique = {"uniqueItems": True} if word in _SETS else {}
            return {**_with_items("array", self.schema(arguments[0]) if arguments else {}), **unique}
        if word in ("tuple", "Tuple"):
            return self._tuple(arguments)
        if word in _DICTS:
            return self._dict(word, arguments)
        if word in _WRAPPERS and arguments:
            return self.schema(arguments[-1])
        if word not in _SIMPLE:
            self.converts = True
        return {}

    def _tuple(self, arguments: Sequence[ast.expr]) -> Schema:
        self.converts = True
        last = arguments[-1] if arguments else None
        if isinstance(last, ast.Constant) and last.value is Ellipsis:
            return _with_items("array", self.schema(arguments[0]))
        if not arguments:
            return {"type": "array"}
        parts, count = [self.schema(argument) for argument in arguments], len(arguments)
        return {"type": "array", "prefixItems": parts, "minItems": count, "maxItems": count}

    def _dict(self, word: str, arguments: Sequence[ast.expr]) -> Schema:
        values = arguments[-1] if len(arguments) == 2 else None
        keys = self.schema(arguments[0]) if values is not None else _TEXT
        self.converts |= keys != _TEXT or word not in ("dict", "Dict", "Mapping", "MutableMapping")
        found = self.schema(values)
        return {"type": "object", **({"additionalProperties": found} if found else {})}

    def _annotated(self, arguments: Sequence[ast.expr]) -> Schema:
        found = self.schema(arguments[0])
        for told in arguments[1:]:
            found = {**found, **self._metadata(told, found)}
        return found

    def _metadata(self, told: ast.expr, of: Mapping[str, Any] | None = None) -> Schema:
        """What one part of ``Annotated`` says: a text, ``Field(…)``, ``Ge(0)``."""
        if isinstance(told, ast.Constant) and isinstance(told.value, str):
            return {"description": told.value}
        if not isinstance(told, ast.Call):
            return {}
        word = self.dotted(told.func).rpartition(".")[2]
        said = {word.arg: _constant(word.value) for word in told.keywords if word.arg}
        if word in _CALLS and told.args:
            said = {_CALLS[word]: _constant(told.args[0])}
        elif word not in ("Field", "Interval", "Len", "StringConstraints"):
            return {}
        return _limits(said, of or {})

    def _literals(self, arguments: Iterable[ast.expr]) -> list[Member]:
        found: list[Member] = []
        for argument in arguments:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str | int | None):
                found.append(argument.value)
            elif (value := self.member(argument)) is not None:
                self.converts = True
                found.append(value)
            elif (number := _constant(argument)) is not None and isinstance(number, int):
                found.append(number)
        return found


class _Homes(ast.NodeTransformer):
    """Takes ``datetime.date`` for what everybody means by it, whatever the script calls ``datetime``."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """One name instead of a name and its attribute."""
        text = ast.unparse(node)
        return ast.Name(text, ast.Load()) if text.rpartition(".")[0] in _HOMES else node


def type_expression(words: str) -> str:
    """A type as a docstring writes it, as Python reads hints; empty where it is no names put together."""
    text = _as_hint(words)
    tree = _parsed(text)
    return text if all(isinstance(node, _OF_TYPES) for node in ast.walk(tree)) else ""


_OF_TYPES = (
    ast.Name, ast.Attribute, ast.Subscript, ast.BinOp, ast.BitOr, ast.Tuple, ast.List, ast.Constant, ast.Load,
)  # fmt: skip


def _as_hint(words: str) -> str:
    words = re.sub(r",?\s*(optional|default\b.*)$", "", words.strip(), flags=re.IGNORECASE)
    if choices := re.fullmatch(r"\{(.*)\}", words):
        words = f"Literal[{choices[1]}]"
    return words.replace(" or ", " | ")


def any_of(options: Sequence[Schema]) -> Schema:
    """The schema of a union."""
    if not all(options):
        return {}
    flat = [inner for option in options for inner in _parts(option)]
    distinct = [option for at, option in enumerate(flat) if option not in flat[:at]]
    if len(distinct) == 1:
        return distinct[0]
    if all(option.keys() == {"type"} and isinstance(option["type"], str) for option in distinct):
        return {"type": [option["type"] for option in distinct]}
    null: Schema = {"type": "null"}
    if len(distinct) == 2 and null in distinct:
        (other,) = (option for option in distinct if option != null)
        if "enum" in other:
            return {**other, "enum": [*other["enum"], None], **_or_null(other)}
        if isinstance(other.get("type"), str):
            return {**other, **_or_null(other)}
    return {"anyOf": distinct}


def _parts(option: Schema) -> list[Schema]:
    if option.keys() == {"anyOf"}:
        return option["anyOf"]
    if option.keys() == {"type"} and isinstance(option["type"], list):
        return [{"type": word} for word in option["type"]]
    return [option]


def _or_null(schema: Schema) -> Schema:
    word = schema.get("type")
    return {"type": [word, "null"]} if isinstance(word, str) else {}


def _with_items(word: str, items: Schema) -> Schema:
    return {"type": word, "items": items} if items else {"type": word}


def _limits(said: Mapping[str, Any], of: Mapping[str, Any]) -> Schema:
    found: Schema = {}
    for word, value in said.items():
        if word in ("min_length", "max_length") and isinstance(value, int):
            ends = {"array": "Items", "object": "Properties"}.get(str(of.get("type")), "Length")
            found[word[:3] + ends] = value
        elif (word in ("description", "title") and isinstance(value, str)) or (
            word == "pattern" and isinstance(value, str) and _is_pattern(value)
        ):
            found[word] = value
        elif word in _LIMITS and isinstance(value, int | float) and not isinstance(value, bool):
            found[_LIMITS[word]] = value
    return found


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def _constant(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return ast.Name("Any", ast.Load())
