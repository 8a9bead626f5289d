"""The dialect of the faces: JSON as other languages expect it."""

from __future__ import annotations

import math
from base64 import b64decode
from collections.abc import Mapping, Set
from datetime import date, time, timedelta
from enum import Enum
from typing import Any

from enginehost.collector import uncollected
from enginehost.values import _text
from enginehost.values._convert import TOO_MANY_DIGITS, Conversion, Survey, has_key, is_finite, survey
from enginehost.values._large import LARGE
from enginehost.values._text import MalformedJson


def encode(value: Any, *, allow_nan: bool = False) -> bytes:
    """``value`` as JSON text in UTF-8, in the face dialect (see :mod:`enginehost.values`).

    ``allow_nan`` writes NaN and infinities as ``null``. Raises :class:`NotJson`.
    """
    if _text.native_dumps is not None:
        try:
            data = _text.native_dumps(value)
        except TypeError:
            return _text.dumps(_ToText(allow_nan).convert(value))
        # the writer makes null of NaN, and knows no markers: look closer where that may have happened
        if not (b"$" in data and b'bytes":' in data) and (b"null" not in data or _has_no_nan(value)):
            return data
    return _text.dumps(_ToText(allow_nan).convert(value))


def write(document: Any) -> bytes:
    """JSON text of what is no value but tells of values: a schema, a list of tools, a description.

    As :func:`encode`, but a property that is named ``$bytes`` is no marker, and is not escaped.
    """
    if _text.native_dumps is not None:
        try:
            data = _text.native_dumps(document)
        except TypeError:
            return _text.dumps(_ToDocument(False).convert(document))
        if b"null" not in data or _has_no_nan(document):
            return data
    return _text.dumps(_ToDocument(False).convert(document))


def read(data: bytes | bytearray | memoryview) -> Any:
    """The inverse of :func:`write`: JSON text as it stands there. Raises :class:`MalformedJson`."""
    with uncollected():
        return _text.loads(data)


def to_json(value: Any, *, allow_nan: bool = False) -> Any:
    """``value`` as None, bool, int, float, str, list and dict, in the face dialect.

    ``allow_nan`` as in :func:`encode`. Raises :class:`NotJson`.
    """
    return _ToFace(allow_nan).convert(value)


def decode(data: bytes | bytearray | memoryview) -> Any:
    """The value that JSON text stands for: plain JSON, with ``{"$bytes": …}`` made bytes.

    Raises :class:`MalformedJson`.
    """
    if len(data) < LARGE:
        return _decode(data)
    with uncollected():
        return _decode(data)


def _decode(data: bytes | bytearray | memoryview) -> Any:
    value = _text.loads(data)
    raw = bytes(data)
    # one byte is looked for first: far faster, and most texts have neither
    marked = (b"$" in raw and b'bytes"' in raw) or (b"\\" in raw and b"\\u" in raw)
    return from_json(value) if marked and has_key(value, _is_marker) else value


def from_json(plain: Any) -> Any:
    """The inverse of :func:`to_json` on what JSON can carry. Raises :class:`MalformedJson`."""
    if isinstance(plain, list):
        return [from_json(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    if len(plain) == 1:
        ((key, item),) = plain.items()
        if key == "$bytes":
            return _bytes(item)
        if _is_marker(key):
            return {key[1:]: from_json(item)}
    return {key: from_json(item) for key, item in plain.items()}


def _has_no_nan(value: Any) -> bool:
    found = survey(value)
    return found is Survey.PLAIN or (found is Survey.FLOATS and is_finite(value))


def _is_marker(key: str) -> bool:
    return key.startswith("$") and key.lstrip("$") == "bytes"


def _bytes(item: Any) -> bytes:
    try:
        return b64decode(item, validate=True)
    except (TypeError, ValueError) as error:
        raise MalformedJson("$bytes must be base64 text (RFC 4648)") from error


class _ToFace(Conversion):
    def __init__(self, allow_nan: bool) -> None:
        super().__init__()
        self._allow_nan = allow_nan

    def number(self, value: float) -> Any:
        return value if math.isfinite(value) else self._no_number(value)

    def decimal(self, value: Any) -> Any:
        return str(value) if value.is_finite() else self._no_number(value)

    def _no_number(self, value: Any) -> None:
        if not self._allow_nan:
            self.refuse(f"{value} is no JSON number")

    def span(self, value: timedelta) -> Any:
        sign, value = ("-", -value) if value < timedelta(0) else ("", value)
        seconds = f"{value.seconds}.{value.microseconds:06}".rstrip("0").rstrip(".")
        if value.seconds == 0 and value.microseconds == 0:
            return f"{sign}P{value.days}D"
        return f"{sign}P{f'{value.days}D' if value.days else ''}T{seconds}S"

    def members(self, value: Set[Any]) -> Any:
        try:
            return self.sequence(sorted(value))
        except TypeError:
            return self.sequence(list(value))

    def mapping(self, value: Mapping[Any, Any]) -> Any:
        if len(value) == 1:
            ((key, item),) = value.items()
            if isinstance(key, str) and _is_marker(key):
                value = {f"${key}": item}
        return self.entries(value, self._key)

    def _digits(self, whole: int) -> str:
        try:
            return str(whole)
        except ValueError:
            return self.refuse(TOO_MANY_DIGITS)

    def _key(self, key: Any) -> str:
        if isinstance(key, Enum):
            return self._key(key.value)
        if isinstance(key, str):
            return self.text(str.__str__(key))
        if key is None or isinstance(key, bool):
            return {None: "null", True: "true", False: "false"}[key]
        if isinstance(key, int):
            return self._digits(int.__index__(key))
        if isinstance(key, float) and math.isfinite(key):
            return repr(float(key))
        if isinstance(key, (date, time)):
            return key.isoformat()
        if type(key).__name__ == "UUID":
            return str(key)
        if type(key).__name__ == "Decimal" and (text := self.decimal(key)):
            return text
        return self.refuse(f"a key of type {type(key).__name__} has no text")


class _ToText(_ToFace):
    def long(self, value: int) -> Any:
        return _text.written(value)


class _ToDocument(_ToText):
    def mapping(self, value: Mapping[Any, Any]) -> Any:
        return self.entries(value, self._key)
