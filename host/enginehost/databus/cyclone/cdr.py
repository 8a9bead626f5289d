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
_NUMBERS = {Kind.INT32: ("i", 4, 0), Kind.INT64: ("q", 8, 0)}
_WRITE = {kind: Layout(f"<{code}").pack for kind, (code, _, _) in _NUMBERS.items()}


@dataclass(frozen=True, slots=True)
class _Form:
    """How one kind of encapsulation is read; ``widest`` is the largest alignment."""

    length: Any
    numbers: dict[Kind, tuple[Any, int, int]]
    delimited: bool


def _form(order: str, widest: int, *, delimited: bool = False) -> _Form:
    numbers = {
        kind: (Layout(order + code).unpack_from, size, min(size, widest) - 1)
        for kind, (code, size, _) in _NUMBERS.items()
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
        self._members = [(member.kind, member.name in raw) for member in struct.members]
        self._blank = [b"" if raw else "" if kind is Kind.STRING else 0 for kind, raw in self._members]

    def encode(self, values: Sequence[Any]) -> bytes:
        """The sample, padded to four bytes. Raises :class:`ValueError` for what cannot be written."""
        parts = [_HEADER]
        at = 0
        try:
            for (kind, _), value in zip(self._members, values, strict=True):
                at = (
                    _put_text(parts, at, value)
                    if kind is Kind.STRING
                    else _put_number(parts, at, kind, value)
                )
        except LayoutError as failure:
            raise ValueError(f"a number does not fit its member: {failure}") from failure
        parts.append(_PADDING[-at & 3])
        return b"".join(parts)

    def encode_key(self, key: str) -> bytes:
        """The key of an instance whose first member is its only key."""
        parts = [_HEADER]
        at = _put_text(parts, 0, key)
        parts.append(_PADDING[-at & 3])
        return b"".join(parts)

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
        for kind, raw in self._members:
            if form.delimited and at >= end:  # written by an earlier version of the type
                return values + self._blank[len(values) :]
            if kind is Kind.STRING:
                value, at = _text(form, data, at, end)
                values.append(value if raw else value.decode())
            else:
                value, at = _number(form, kind, data, at, end)
                values.append(value)
        return values


def _form_of(data: bytes) -> _Form:
    form = _FORMS.get(data[:2])
    if form is None or len(data) < _BODY:
        raise ValueError("a sample has an encapsulation that its type cannot have")
    return form


def _put_text(parts: list[bytes], at: int, value: str | bytes) -> int:
    text = value.encode() if isinstance(value, str) else value
    padding = -at & 3
    parts += (_PADDING[padding], _LENGTH(len(text) + 1), text, b"\0")
    return at + padding + len(text) + 5


def _put_number(parts: list[bytes], at: int, kind: Kind, value: int) -> int:
    data = _WRITE[kind](value)
    padding = -at & (len(data) - 1)
    parts += (_PADDING[padding], data)
    return at + padding + len(data)


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


def _number(form: _Form, kind: Kind, data: bytes, at: int, end: int) -> tuple[int, int]:
    read, size, mask = form.numbers[kind]
    at += -(at - _BODY) & mask
    if at + size > end:
        raise ValueError("a sample ends too early")
    return read(data, at)[0], at + size
