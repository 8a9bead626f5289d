"""The bytes of our own flat types, without the library's classes: strings stay bytes where we want them so.

Written is XCDR version 1, little endian (encapsulation ``00 01``). Read is also what peers write whose
library has other defaults: big endian, and version 2, plain or delimited (``@appendable``).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from struct import Struct as Layout
from struct import error as LayoutError  # noqa: N812 - the module has it in small letters
from typing import Any

from enginehost.databus.struct import Kind, Struct

_HEADER = b"\0\1\0\0"
_BODY = len(_HEADER)
"""Where members begin; from there they are aligned."""

_PADDING = tuple(bytes(count) for count in range(8))
_LENGTH = Layout("<I").pack
_SIZES = {"i": 4, "q": 8}
_CODES = {Kind.STRING: "", Kind.INT32: "i", Kind.INT64: "q", Kind.ENUM: "i"}
"""By kind, the layout of a number; empty for a text."""
_WRITE = {code: Layout(f"<{code}").pack for code in _SIZES}


@dataclass(frozen=True, slots=True)
class _Form:
    """How one kind of encapsulation is read; ``widest`` is the largest alignment."""

    length: Any
    numbers: dict[str, tuple[Any, int, int]]
    delimited: bool


def _form(order: str, widest: int, *, delimited: bool = False) -> _Form:
    numbers = {
        code: (Layout(order + code).unpack_from, size, min(size, widest) - 1) for code, size in _SIZES.items()
    }
    return _Form(Layout(order + "I").unpack_from, numbers, delimited)


_FORMS = {
    b"\0\0": _form(">", 8),
    b"\0\1": _form("<", 8),
    b"\0\6": _form(">", 4),
    b"\0\7": _form("<", 4),
    b"\0\x08": _form(">", 4, delimited=True),
    b"\0\x09": _form("<", 4, delimited=True),
}


class Codec:
    """Reads and writes samples of one flat struct as a list of its members.

    Members named in ``raw`` are bytes (of UTF-8, as a rule: nobody looks); other strings are text.
    """

    def __init__(self, struct: Struct, raw: Collection[str] = ()) -> None:
        self._members = [(_CODES[member.kind], member.name in raw) for member in struct.members]
        self._blank = [b"" if raw else 0 if code else "" for code, raw in self._members]

    def encode(self, values: Sequence[Any]) -> bytes:
        """The sample, padded to four bytes. Raises :class:`ValueError` for what cannot be written."""
        parts = [_HEADER]
        at = 0
        try:
            for (code, _), value in zip(self._members, values, strict=True):
                if code:
                    data = _WRITE[code](value)
                    padding = -at & (len(data) - 1)
                    parts += (_PADDING[padding], data)
                    at += padding + len(data)
                else:
                    data = value.encode() if isinstance(value, str) else value
                    padding = -at & 3
                    parts += (_PADDING[padding], _LENGTH(len(data) + 1), data, b"\0")
                    at += padding + len(data) + 5
        except LayoutError as failure:
            raise ValueError(f"a number does not fit its member: {failure}") from failure
        parts.append(_PADDING[-at & 3])
        return b"".join(parts)

    def encode_key(self, key: str) -> bytes:
        """The key of an instance whose first member is its only key."""
        data = key.encode()
        return b"".join((_HEADER, _LENGTH(len(data) + 1), data, b"\0", _PADDING[-(len(data) + 1) & 3]))

    def decode(self, data: bytes) -> list[Any]:
        """The members. Raises :class:`ValueError` where the bytes are no sample of the type."""
        form = _form_of(data)
        try:
            return self._members_of(form, data)
        except LayoutError as failure:
            raise ValueError("a sample ends too early") from failure

    def decode_key(self, data: bytes) -> str:
        """The first member, the only key, from the bytes of a key. Raises :class:`ValueError`."""
        form = _form_of(data)
        try:
            return _text(form, data, _BODY + 4 * form.delimited, len(data))[0].decode()
        except LayoutError as failure:
            raise ValueError("a key ends too early") from failure

    def _members_of(self, form: _Form, data: bytes) -> list[Any]:
        at, end = _BODY, len(data)
        if form.delimited:
            at += 4
            if (stop := at + form.length(data, _BODY)[0]) > end:
                raise ValueError("a sample is shorter than it says")
            end = stop
        values: list[Any] = []
        for code, raw in self._members:
            if form.delimited and at >= end:  # written by an earlier version of the type
                return values + self._blank[len(values) :]
            if code:
                value, at = _number(form, code, data, at, end)
                values.append(value)
            else:
                value, at = _text(form, data, at, end)
                values.append(value if raw else value.decode())
        return values


def _form_of(data: bytes) -> _Form:
    form = _FORMS.get(data[:2])
    if form is None or len(data) < _BODY:
        raise ValueError("a sample has an encapsulation that its type cannot have")
    return form


def _text(form: _Form, data: bytes, at: int, end: int) -> tuple[bytes, int]:
    start = ((at + 3) & ~3) + 4
    stop = start + form.length(data, start - 4)[0]
    if stop > end or start > end:
        raise ValueError("a string is longer than its sample")
    if stop == start:  # some write an empty string without its NUL
        return b"", stop
    if data[stop - 1]:
        raise ValueError("a string does not end with NUL")
    return data[start : stop - 1], stop


def _number(form: _Form, code: str, data: bytes, at: int, end: int) -> tuple[int, int]:
    read, size, mask = form.numbers[code]
    at += -(at - _BODY) & mask
    if at + size > end:
        raise ValueError("a sample ends too early")
    return read(data, at)[0], at + size
