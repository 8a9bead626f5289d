"""The walk over a value that both dialects share: what each type becomes, and where it stops."""

from __future__ import annotations

import math
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from datetime import date, datetime, time, timedelta
from enum import Enum, IntEnum
from itertools import chain
from pathlib import PurePath
from typing import Any, NoReturn

from enginehost.errors import ResultInvalid
from enginehost.values._foreign import UNKNOWN, unwrap

MAX_DEPTH = 128
"""Levels of nesting that always pass; deeper values may be refused."""

TOO_MANY_DIGITS = "an integer with this many digits cannot be written"


class NotJson(ResultInvalid, ValueError):
    """A value that cannot be written as JSON: why (``reason``); ``pointer`` (RFC 6901) leads to it."""

    def __init__(self, message: str, pointer: str = "") -> None:
        where = f" (at {pointer})" if pointer else ""
        ResultInvalid.__init__(self, f"{message}{where}", detail={"pointer": pointer})
        self.reason = message
        self.pointer = pointer


_TEXT = frozenset({str})
SCALARS = frozenset({type(None), bool, int, float, str})
_PLAIN = SCALARS | {list, dict}
_PIECE = 1000
_FEW = 64
"""Items up to which a step from one to the next is faster than what :func:`pieces` prepares."""


class Survey(IntEnum):
    """What :func:`survey` found."""

    ODD = 0
    """Something that needs conversion."""
    PLAIN = 1
    """None, bool, int, str, list, and dict with str keys only: written as it stands."""
    FLOATS = 2
    """The same and floats, which :func:`is_finite` has to look at."""


def survey(value: Any, depth: int = MAX_DEPTH) -> Survey:
    """What a value is built of. (Text is not looked into: the writer refuses lone surrogates.)"""
    kind = type(value)
    if kind is dict:
        if not _TEXT.issuperset(map(type, value)):
            return Survey.ODD
        items = value.values()
    elif kind is list:
        items = value
    else:
        return Survey.FLOATS if kind is float else Survey.PLAIN if kind in SCALARS else Survey.ODD
    kinds = set(map(type, items))
    if depth == 0 or not kinds <= _PLAIN:
        return Survey.ODD
    found = Survey.FLOATS if float in kinds else Survey.PLAIN
    if kinds <= SCALARS:
        return found
    if len(items) > _FEW:
        return _survey_of_many(value, depth)
    for item in items:
        if type(item) is dict or type(item) is list:
            inside = survey(item, depth - 1)
            if inside is Survey.ODD:
                return inside
            found = max(found, inside)
    return found


def _survey_of_many(value: Any, most_depth: int) -> Survey:
    found = Survey.PLAIN
    for depth, piece in pieces(value):
        kinds = set(map(type, piece))
        if not kinds <= _PLAIN or (depth >= most_depth and not kinds <= SCALARS):
            return Survey.ODD
        if dict in kinds and not _TEXT.issuperset(map(type, keys(piece))):
            return Survey.ODD
        if float in kinds:
            found = Survey.FLOATS
    return found


def pieces(value: Any) -> Iterator[tuple[int, Sequence[Any]]]:
    """``value`` and all that is inside its lists and dicts, as ``(depth, values)``.

    Each step is one that the interpreter does for many values at once: a walk from value to value takes ten
    times as long. Pieces are small, so that a processor still has at hand what the step before touched.
    """
    waiting: list[tuple[int, Sequence[Any]]] = [(0, (value,))]
    while waiting:
        depth, piece = waiting.pop()
        yield depth, piece
        inside = list(chain.from_iterable(item for item in piece if type(item) is list))
        inside += chain.from_iterable(item.values() for item in piece if type(item) is dict)
        waiting += [(depth + 1, inside[start : start + _PIECE]) for start in range(0, len(inside), _PIECE)]


def keys(piece: Sequence[Any]) -> Iterator[Any]:
    """The keys of the dicts in a piece."""
    return chain.from_iterable(item for item in piece if type(item) is dict)


def has_key(plain: Any, like: Callable[[str], bool]) -> bool:
    """Whether a plain value holds a dict with a key that is ``like`` what is looked for."""
    return any(any(map(like, set(keys(piece)))) for _, piece in pieces(plain))


def is_finite(plain: Any) -> bool:
    """Whether a plain value holds neither NaN nor an infinity."""
    if isinstance(plain, float):
        return math.isfinite(plain)
    if not isinstance(plain, (dict, list)):
        return True
    if len(plain) > _FEW:
        return all(
            all(map(math.isfinite, [item for item in piece if type(item) is float]))
            for _, piece in pieces(plain)
        )
    return all(is_finite(item) for item in (plain.values() if isinstance(plain, dict) else plain))


class Conversion:
    """One walk. Subclasses give the form of each rich type by overriding the methods named after it."""

    def __init__(self) -> None:
        self._path: list[str] = []
        self._open: set[int] = set()

    def refuse(self, message: str) -> NoReturn:
        """Stop, with a pointer to where the walk is."""
        steps = (step.replace("~", "~0").replace("/", "~1") for step in self._path)
        raise NotJson(message, "".join(f"/{step}" for step in steps))

    def convert(self, value: Any) -> Any:
        """``value`` as None, bool, int, float, str, list and dict."""
        exact = _EXACT.get(type(value))
        if exact is not None:
            return exact(self, value)
        return self._by_kind(value)

    # scalars

    def text(self, value: str) -> Any:
        """Text, if UTF-8 can carry it."""
        try:
            value.encode()
        except UnicodeEncodeError:
            self.refuse("text with a lone surrogate is no Unicode text")
        return value

    def integer(self, value: int) -> Any:
        """An integer; beyond Python's limit for turning digits into text it is refused."""
        if -(2**63) <= value < 2**64:
            return value
        try:
            return self.long(value)
        except ValueError:
            return self.refuse(TOO_MANY_DIGITS)

    def long(self, value: int) -> Any:
        """An integer beyond 64 bits; ``ValueError`` where it is too long to be written."""
        str(value)
        return value

    def number(self, value: float) -> Any:
        """A float."""
        raise NotImplementedError

    def decimal(self, value: Any) -> Any:
        """A ``decimal.Decimal``."""
        return str(value)

    def binary(self, value: bytes | bytearray | memoryview) -> Any:
        """Bytes."""
        return {"$bytes": b64encode(value).decode("ascii")}

    def moment(self, value: date | time) -> Any:
        """A date, a time of day, or both."""
        return value.isoformat()

    def span(self, value: timedelta) -> Any:
        """A ``timedelta``."""
        raise NotImplementedError

    def identifier(self, value: Any) -> Any:
        """A ``uuid.UUID``."""
        return str(value)

    def path(self, value: PurePath) -> Any:
        """A file path."""
        return self.text(str(value))

    # containers

    def sequence(self, value: Iterable[Any]) -> Any:
        """A list."""
        self.enter(value)
        items: list[Any] = []
        for index, item in enumerate(value):
            self._path.append(str(index))
            items.append(self.convert(item))
            self._path.pop()
        self.leave(value)
        return items

    def fixed(self, value: tuple[Any, ...]) -> Any:
        """A tuple without field names."""
        return self.sequence(value)

    def members(self, value: Set[Any]) -> Any:
        """A set or frozenset."""
        raise NotImplementedError

    def mapping(self, value: Mapping[Any, Any]) -> Any:
        """A dict."""
        raise NotImplementedError

    def record(self, value: Mapping[str, Any]) -> Any:
        """Fields by name, made from a dataclass and its like."""
        return self.mapping(value)

    def entries(self, value: Mapping[Any, Any], name: Callable[[Any], str]) -> dict[str, Any]:
        """The entries of a mapping with keys made by ``name``."""
        self.enter(value)
        entries: dict[str, Any] = {}
        for key, item in value.items():
            text = name(key)
            if text in entries:
                self.refuse(f"two keys become the text {text!r}")
            self._path.append(text)
            entries[text] = self.convert(item)
            self._path.pop()
        self.leave(value)
        return entries

    def enter(self, value: Any) -> None:
        """Go into a container: refused where the walk is inside it already, or too deep."""
        if id(value) in self._open:
            self.refuse("the value contains itself")
        if len(self._path) >= MAX_DEPTH:
            self.refuse(f"more than {MAX_DEPTH} levels of nesting")
        self._open.add(id(value))

    def leave(self, value: Any) -> None:
        """Come out of a container."""
        self._open.discard(id(value))

    # types that are found by what they are kinds of

    def _by_kind(self, value: Any) -> Any:
        if isinstance(value, Enum):
            return self.convert(value.value)
        return self.foreign(value)

    def foreign(self, value: Any) -> Any:
        """What a library made, or a class of the author's."""
        simpler = unwrap(value)
        if simpler is not UNKNOWN:
            return self._nested(value, simpler)
        for kind, name in _KINDS:
            if isinstance(value, kind):
                return getattr(self, name)(_base(kind, value))
        return self._by_module(value)

    def _nested(self, value: Any, simpler: Any) -> Any:
        """Convert what an object was unwrapped to; the object itself counts for cycles."""
        if isinstance(simpler, (list, dict)):
            self.enter(value)
            converted = self.record(simpler) if isinstance(simpler, dict) else self.sequence(simpler)
            self.leave(value)
            return converted
        return self.convert(simpler)

    def _by_module(self, value: Any) -> Any:
        for module, kind, name in (("decimal", "Decimal", "decimal"), ("uuid", "UUID", "identifier")):
            loaded = sys.modules.get(module)
            if loaded is not None and isinstance(value, getattr(loaded, kind)):
                return getattr(self, name)(value)
        return self.refuse(f"a value of type {type(value).__name__} has no JSON form")


_EXACT: Mapping[type, Callable[[Conversion, Any], Any]] = {
    type(None): lambda walk, value: value,
    bool: lambda walk, value: value,
    str: lambda walk, value: walk.text(value),
    int: lambda walk, value: walk.integer(value),
    float: lambda walk, value: walk.number(value),
    list: lambda walk, value: walk.sequence(value),
    dict: lambda walk, value: walk.mapping(value),
    tuple: lambda walk, value: walk.fixed(value),
}
"""The commonest types, found without asking what kind they are."""


def _base(kind: type, value: Any) -> Any:
    """``value`` without its subclass, where a subclass may behave otherwise than its base."""
    if kind is str:
        return str.__str__(value)
    if kind is int:
        return int.__index__(value)
    return float.__float__(value) if kind is float else value


_KINDS: tuple[tuple[type, str], ...] = (
    (str, "text"),
    (int, "integer"),
    (float, "number"),
    (datetime, "moment"),
    (date, "moment"),
    (time, "moment"),
    (timedelta, "span"),
    (bytes, "binary"),
    (bytearray, "binary"),
    (memoryview, "binary"),
    (PurePath, "path"),
    (tuple, "fixed"),
    (Sequence, "sequence"),
    (Set, "members"),
    (Mapping, "mapping"),
)
