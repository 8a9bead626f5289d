"""The dialect between host and worker: JSON with tags, every built-in type comes back as itself.

A tag is an object with one key that starts with ``$``; an object of the caller's that looks so gets
one more ``$``. (Not pickle, not marshal: reading either runs what the other side chose.)
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Set
from datetime import date, datetime, time, timedelta
from pathlib import Path, PurePath
from typing import Any

from enginehost.collector import uncollected
from enginehost.values import _text
from enginehost.values._convert import Conversion, Survey, has_key, is_finite, survey
from enginehost.values._large import LARGE
from enginehost.values._text import MalformedJson


def pack(value: Any) -> bytes:
    """``value`` for the wire. Raises :class:`NotJson`."""
    if _text.native_dumps is not None and (found := survey(value)) is not Survey.ODD:
        try:
            data = _text.native_dumps(value)
        except TypeError:
            pass  # the walk below says what and where
        else:
            exact = found is Survey.PLAIN or b"null" not in data or is_finite(value)
            if exact and not (_has_tag(data) and has_key(value, _is_tag)):
                return data
    return _text.dumps(_ToWire().convert(value))


def unpack(data: bytes | bytearray | memoryview) -> Any:
    """The inverse of :func:`pack`. Raises :class:`MalformedJson`."""
    data = bytes(data)
    if len(data) < LARGE:
        return _unpack(data)
    with uncollected():
        return _unpack(data)


def _unpack(data: bytes) -> Any:
    value = _text.loads(data, long_integers=False)
    return _restore(value) if _has_tag(data) and has_key(value, _is_tag) else value


def _has_tag(data: bytes) -> bool:
    return b"$" in data and b'"$' in data  # one byte is found far faster than two


def _is_tag(key: str) -> bool:
    return key.startswith("$")


def _restore(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_restore(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    if len(plain) == 1:
        ((key, item),) = plain.items()
        if key.startswith("$$"):
            return {key[1:]: _restore(item)}
        if key.startswith("$"):
            return _from_tag(key, item)
    return {key: _restore(item) for key, item in plain.items()}


def _from_tag(tag: str, item: Any) -> Any:
    try:
        return _TAGS[tag](item)
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise MalformedJson(f"the wire has no {tag} like this") from error


def _decimal(text: str) -> Any:
    from decimal import Decimal

    return Decimal(text)


def _uuid(text: str) -> Any:
    from uuid import UUID

    return UUID(text)


_TAGS: Mapping[str, Callable[[Any], Any]] = {
    "$bytes": lambda item: b64decode(item, validate=True),
    "$bytearray": lambda item: bytearray(b64decode(item, validate=True)),
    "$date": date.fromisoformat,
    "$datetime": datetime.fromisoformat,
    "$decimal": _decimal,
    "$float": float,
    "$frozenset": lambda items: frozenset(_restore(items)),
    "$int": lambda digits: int(digits, 16),
    "$map": lambda pairs: {_restore(key): _restore(item) for key, item in pairs},
    "$path": Path,
    "$set": lambda items: set(_restore(items)),
    "$time": time.fromisoformat,
    "$timedelta": lambda parts: timedelta(*parts),
    "$tuple": lambda items: tuple(_restore(items)),
    "$uuid": _uuid,
}


class _ToWire(Conversion):
    def integer(self, value: int) -> Any:
        return value if -(2**63) <= value < 2**63 else {"$int": hex(value)}

    def number(self, value: float) -> Any:
        return value if math.isfinite(value) else {"$float": str(value)}

    def decimal(self, value: Any) -> Any:
        return {"$decimal": str(value)}

    def binary(self, value: bytes | bytearray | memoryview) -> Any:
        tag = "$bytearray" if isinstance(value, bytearray) else "$bytes"
        return {tag: b64encode(value).decode("ascii")}

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
