"""JSON text: orjson where it is installed, else the standard library, with the same answers."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from enginehost.errors import InvalidRequest

_orjson: Any
try:
    import orjson as _orjson
except ImportError:
    _orjson = None


class MalformedJson(InvalidRequest, ValueError):
    """The bytes are not JSON (RFC 8259, UTF-8), or hold what no Python value can be."""


native_dumps: Callable[[Any], bytes] | None = None
"""Writes what orjson knows natively and refuses all else (``TypeError``); ``None`` without orjson.

Subclasses, dataclasses and dates are refused too, so that one place decides their form. What it
does wrong for us and callers must look after: NaN becomes ``null``, a tuple becomes an array.
"""

if _orjson is not None:
    _OPTIONS = (
        _orjson.OPT_PASSTHROUGH_SUBCLASS
        | _orjson.OPT_PASSTHROUGH_DATACLASS
        | _orjson.OPT_PASSTHROUGH_DATETIME
    )

    def _native_dumps(value: Any, /) -> bytes:
        return _orjson.dumps(value, None, _OPTIONS)

    native_dumps = _native_dumps

_encode = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")
).encode

_DIGITS = bytes(0x30 if 0x30 <= byte <= 0x39 else byte for byte in range(256))
_LONG = b"0" * 19
"""The shortest number that may not fit 64 bits, after :data:`_DIGITS` made all digits alike."""


def dumps(plain: Any) -> bytes:
    """Write what holds only None, bool, int, finite float, valid str, list, and dict with str keys."""
    if _orjson is not None:
        try:
            return _orjson.dumps(plain)
        except TypeError:  # an integer beyond 64 bits, or nested deeper than orjson goes
            pass
    return _encode(plain).encode()


def written(whole: int) -> Any:
    """An integer beyond 64 bits, which orjson refuses, as text that it takes over; for :func:`dumps` alone.

    The standard library would write all of them in one go, and let nobody else have the interpreter. Raises
    ``ValueError`` where it is too long.
    """
    text = str(whole)
    return whole if _orjson is None else _orjson.Fragment(text.encode())


def loads(data: bytes | bytearray | memoryview, *, long_integers: bool = True) -> Any:
    """Read JSON text. Raises :class:`MalformedJson`; integers keep every digit.

    Without ``long_integers`` the text is known to have none beyond 64 bits.
    """
    if _orjson is None:
        return _loads_slowly(bytes(data))
    try:
        value = _orjson.loads(data)
    except ValueError as error:
        if long_integers and _is_long(data):  # orjson takes one of 309 digits for an infinite double
            return _loads_slowly(bytes(data))
        raise _malformed(bytes(data), error) from error
    # orjson makes floats of integers beyond 64 bits
    return _loads_slowly(bytes(data)) if long_integers and _is_long(data) else value


def _is_long(data: bytes | bytearray | memoryview) -> bool:
    return len(data) >= len(_LONG) and _LONG in bytes(data).translate(_DIGITS)


def _loads_slowly(data: bytes) -> Any:
    try:
        text = data.decode()
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite, parse_int=_whole)
        if "\\u" in text:
            _refuse_surrogates(value)
    except (ValueError, RecursionError) as error:
        raise _malformed(data, error) from error
    return value


def _malformed(data: bytes, error: Exception) -> MalformedJson:
    try:
        data.decode()
    except UnicodeDecodeError as fault:
        byte = f"byte {fault.start + 1} (0x{data[fault.start]:02x})"
        return MalformedJson(f"not JSON: {byte} is not UTF-8")
    return MalformedJson(f"not JSON: {error}")


def _whole(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:  # Python bounds the time that this takes
        most = sys.get_int_max_str_digits()
        count = len(digits.removeprefix("-"))
        raise ValueError(f"an integer has {count} digits, and may have {most}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number is infinity when read as a double")
    return number


def _refuse_surrogates(value: Any) -> None:
    if isinstance(value, str):
        value.encode()  # UnicodeEncodeError is a ValueError
    elif isinstance(value, list):
        for item in value:
            _refuse_surrogates(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            key.encode()
            _refuse_surrogates(item)
