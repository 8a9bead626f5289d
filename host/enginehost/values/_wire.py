"""The dialect between host and worker: JSON with tags, every built-in type comes back as itself.

A tag is an object with one key that starts with ``$``; an object of the caller's that looks so gets
one more ``$``. (Not pickle, not marshal: reading either runs what the other side chose.)
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import date, datetime, time, timedelta
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from enginehost.collector import uncollected
from enginehost.values import _text
from enginehost.values._arrays import is_array, layout
from enginehost.values._convert import SCALARS, Conversion, Survey, has_key, is_finite, survey
from enginehost.values._large import LARGE
from enginehost.values._text import MalformedJson

if TYPE_CHECKING:
    Part = tuple[bytes | bytearray | memoryview, bool]
    """A large part of a value, and whether whoever gets it may change it."""

APART_BYTES = LARGE
"""From which length on bytes and arrays travel beside the text."""


class Parted(bytes):
    """Text of the wire that refers to ``parts`` beside it."""

    parts: Sequence[Part]

    def __new__(cls, text: bytes | memoryview, parts: Sequence[Part]) -> Parted:
        made = super().__new__(cls, text)
        made.parts = parts
        return made

    @property
    def size(self) -> int:
        """Bytes of the text and all parts."""
        return len(self) + sum(len(part) for part, _ in self.parts)


def pack(value: Any, *, apart: bool = False) -> bytes:
    """``value`` for the wire; with ``apart``, a :class:`Parted` where parts are large.

    Raises :class:`NotJson`.
    """
    if _text.native_dumps is not None and _is_simple(value):
        try:
            return _text.native_dumps(value)
        except TypeError:
            pass  # a long integer, or a lone surrogate
    elif _text.native_dumps is not None and (found := survey(value)) is not Survey.ODD:
        try:
            data = _text.native_dumps(value)
        except TypeError:
            pass  # the walk below says what and where
        else:
            exact = found is Survey.PLAIN or b"null" not in data or is_finite(value)
            if exact and not (_has_tag(data) and has_key(value, _is_tag)):
                return data
    walk = _ToWire(apart)
    text = _text.dumps(walk.convert(value))
    return Parted(text, walk.parts) if walk.parts else text


_FEW = 16


def _is_simple(value: Any) -> bool:
    """Whether a value is a scalar, or a small dict of scalars, that is written as it stands.

    Most are; this tells it in a fraction of the time of :func:`survey`, and is no verdict on others.
    """
    kind = type(value)
    if kind is not dict:
        return value - value == 0.0 if kind is float else kind in SCALARS
    if len(value) > _FEW:
        return False
    for key, item in value.items():
        kind = type(item)
        if kind is float:
            if item - item != 0.0:  # NaN, an infinity
                return False
        elif kind not in SCALARS:
            return False
        if type(key) is not str or key[:1] == "$":
            return False
    return True


def unpack(data: bytes | bytearray | memoryview) -> Any:
    """The inverse of :func:`pack`. Raises :class:`MalformedJson`."""
    if type(data) is bytes and len(data) < LARGE and b"$" not in data:
        return _text.loads(data, long_integers=False)
    text = data if type(data) is bytes else bytes(data)
    parts = data.parts if isinstance(data, Parted) else ()
    if len(text) < LARGE:
        return _unpack(text, parts)
    with uncollected():
        return _unpack(text, parts)


def _unpack(data: bytes, parts: Sequence[Part]) -> Any:
    value = _text.loads(data, long_integers=False)
    return _FromWire(parts).restore(value) if _has_tag(data) and has_key(value, _is_tag) else value


def _has_tag(data: bytes) -> bool:
    return b"$" in data and b'"$' in data  # one byte is found far faster than two


def _is_tag(key: str) -> bool:
    return key.startswith("$")


class _FromWire:
    """One walk back. (The parser has bounded the depth.)"""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts

    def restore(self, plain: Any) -> Any:
        """What the plain value stands for. Raises :class:`MalformedJson`."""
        if isinstance(plain, list):
            return [self.restore(item) for item in plain]
        if not isinstance(plain, dict):
            return plain
        if len(plain) == 1:
            ((key, item),) = plain.items()
            if key.startswith("$$"):
                return {key[1:]: self.restore(item)}
            if key.startswith("$"):
                return self._from_tag(key, item)
        return {key: self.restore(item) for key, item in plain.items()}

    def data(self, item: Any) -> bytes | bytearray | memoryview:
        """Bytes: base64 text, or the number of a part."""
        if not isinstance(item, int):
            return b64decode(item, validate=True)
        if item < 0:
            raise ValueError("the number of a part is not below 0")
        return self._parts[item][0]

    def _from_tag(self, tag: str, item: Any) -> Any:
        try:
            return _TAGS[tag](self, item)
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            raise MalformedJson(f"the wire has no {tag} like this") from error


def _array(walk: _FromWire, item: Any) -> Any:
    from enginehost.values._arrays import rebuilt

    dtype, shape, data = item
    found = walk.data(data)
    return rebuilt(dtype, shape, bytearray(found) if isinstance(found, bytes) else found)


def _decimal(text: str) -> Any:
    from decimal import Decimal

    return Decimal(text)


def _uuid(text: str) -> Any:
    from uuid import UUID

    return UUID(text)


def _changeable(found: bytes | bytearray | memoryview) -> bytearray:
    return found if isinstance(found, bytearray) else bytearray(found)


_TAGS: Mapping[str, Callable[[_FromWire, Any], Any]] = {
    "$array": _array,
    "$bytes": lambda walk, item: bytes(walk.data(item)),
    "$bytearray": lambda walk, item: _changeable(walk.data(item)),
    "$date": lambda walk, text: date.fromisoformat(text),
    "$datetime": lambda walk, text: datetime.fromisoformat(text),
    "$decimal": lambda walk, text: _decimal(text),
    "$float": lambda walk, text: float(text),
    "$frozenset": lambda walk, items: frozenset(walk.restore(items)),
    "$int": lambda walk, digits: int(digits, 16),
    "$map": lambda walk, pairs: {walk.restore(key): walk.restore(item) for key, item in pairs},
    "$path": lambda walk, text: Path(text),
    "$set": lambda walk, items: set(walk.restore(items)),
    "$time": lambda walk, text: time.fromisoformat(text),
    "$timedelta": lambda walk, parts: timedelta(*parts),
    "$tuple": lambda walk, items: tuple(walk.restore(items)),
    "$uuid": lambda walk, text: _uuid(text),
}


class _ToWire(Conversion):
    def __init__(self, apart: bool) -> None:
        super().__init__()
        self._apart = apart
        self.parts: list[Part] = []

    def integer(self, value: int) -> Any:
        return value if -(2**63) <= value < 2**63 else {"$int": hex(value)}

    def number(self, value: float) -> Any:
        return value if math.isfinite(value) else {"$float": str(value)}

    def decimal(self, value: Any) -> Any:
        return {"$decimal": str(value)}

    def binary(self, value: bytes | bytearray | memoryview) -> Any:
        tag = "$bytearray" if isinstance(value, bytearray) else "$bytes"
        return {tag: self._data(value, isinstance(value, bytearray))}

    def foreign(self, value: Any) -> Any:
        """Arrays as they lie in memory."""
        if not is_array(value):
            return super().foreign(value)
        dtype, shape, data = layout(value)
        return {"$array": [dtype, shape, self._data(data, True)]}

    def _data(self, value: bytes | bytearray | memoryview, changeable: bool) -> Any:
        view = memoryview(value)
        if not self._apart or view.nbytes < APART_BYTES or not view.c_contiguous:
            return b64encode(value).decode("ascii")
        self.parts.append((view if view.ndim == 1 and view.format == "B" else view.cast("B"), changeable))
        return len(self.parts) - 1

    def moment(self, value: date | time) -> Any:
        tag = "$datetime" if isinstance(value, datetime) else "$date" if isinstance(value, date) else "$time"
        return {tag: value.isoformat()}

    def span(self, value: timedelta) -> Any:
        return {"$timedelta": [value.days, value.seconds, value.microseconds]}

    def identifier(self, value: Any) -> Any:
        return {"$uuid": str(value)}

    def path(self, value: PurePath) -> Any:
        return {"$path": self.text(str(value))}

    def fixed(self, value: tuple[Any, ...]) -> Any:
        return {"$tuple": self.sequence(value)}

    def members(self, value: Set[Any]) -> Any:
        return {"$frozenset" if isinstance(value, frozenset) else "$set": self.sequence(list(value))}

    def mapping(self, value: Mapping[Any, Any]) -> Any:
        if all(isinstance(key, str) for key in value):
            entries = self.entries(value, lambda key: self.text(str.__str__(key)))
            if len(entries) == 1:
                ((key, item),) = entries.items()
                if key.startswith("$"):
                    return {f"${key}": item}
            return entries
        return {"$map": self._pairs(value)}

    def _pairs(self, value: Mapping[Any, Any]) -> Any:
        self.enter(value)
        pairs = self.sequence([[key, item] for key, item in value.items()])
        self.leave(value)
        return pairs
