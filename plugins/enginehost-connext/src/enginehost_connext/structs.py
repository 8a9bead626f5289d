"""The types of the databus as Connext's, and samples of them.

Types are made when they are needed, from the tables that all transports share. A sample is written by
its members and read from its plain CDR: texts come from peers, who choose the bytes, and Connext gives
texts only where they are UTF-8.
"""

from __future__ import annotations

import struct as packing
from collections.abc import Mapping
from functools import cache
from typing import Any

import rti.connextdds as dds

from enginehost.databus import Enumeration, Kind, Member, Struct

UNBOUNDED = 2**31 - 1
"""Connext's bound of a string that has none."""


@cache
def dynamic_type(struct: Struct) -> dds.StructType:
    """``struct`` as Connext's: extensible, with member ids from 0 on, under its bare name."""
    made = dds.StructType(struct.name)  # extensible
    for number, member in enumerate(struct.members):
        made.add_member(dds.Member(member.name, _type(member), id=number, is_key=member.key))
    return made


def _type(member: Member) -> dds.DynamicType:
    match member.of:
        case Struct():
            return dynamic_type(member.of)
        case Enumeration():
            return _enum_type(member.of)
        case None:
            return (
                dds.StringType(member.bound or UNBOUNDED)
                if member.kind is Kind.STRING
                else _PLAIN[member.kind]
            )


@cache
def _enum_type(enumeration: Enumeration) -> dds.EnumType:
    made = dds.EnumType(enumeration.name)
    for value, name in enumerate(enumeration.enumerators):
        made.add_member(dds.EnumMember(name, value))
    return made


_PLAIN: dict[Kind, dds.DynamicType] = {
    Kind.INT32: dds.Int32Type(),
    Kind.INT64: dds.Int64Type(),
    Kind.BOOL: dds.BoolType(),
}


def sample_of(struct: Struct, values: Mapping[str, Any]) -> dds.DynamicData:
    """A sample with ``values`` by member; texts may be bytes, enumerators names or numbers.

    Members that are left out are empty. Raises :class:`ValueError` for a text that is longer than its bound
    (in bytes), has a NUL or is no UTF-8: Connext would write a line to standard error, or cut it off.
    """
    made = dds.DynamicData(dynamic_type(struct))
    for member in struct.members:
        if member.name in values:
            made[member.name] = _given(member, values[member.name])
    return made


def _given(member: Member, value: Any) -> Any:
    match member.of:
        case Struct():
            return sample_of(member.of, value)
        case Enumeration():
            return member.of.enumerators.index(value) if isinstance(value, str) else value
        case None:
            return _text(member, value) if member.kind is Kind.STRING else value


def _text(member: Member, value: str | bytes) -> str:
    data = value if isinstance(value, bytes) else value.encode()
    if member.bound and len(data) > member.bound:
        raise ValueError(f"{member.name} has {len(data)} bytes; at most {member.bound} are allowed")
    if b"\0" in data:
        raise ValueError(f"{member.name} has a NUL")
    return value if isinstance(value, str) else value.decode()


def members_of(struct: Struct, sample: dds.DynamicData) -> dict[str, Any]:
    """The members of a sample by name: texts as bytes, enumerators as numbers."""
    buffer: Any = sample.to_cdr_buffer()  # bytes, whatever the stubs call it
    return decoded(struct, bytes(buffer))


def decoded(struct: Struct, data: bytes) -> dict[str, Any]:
    """Likewise of plain CDR (XCDR 1) with its encapsulation header. Raises :class:`ValueError`."""
    order = {b"\0\1": "<", b"\0\0": ">"}.get(data[:2])
    if order is None:
        raise ValueError("this is not plain CDR")
    try:
        return _Reader(data[4:], order).struct(struct)
    except (packing.error, IndexError) as failure:
        raise ValueError("the sample is cut short") from failure


class _Reader:
    """Reads members one after the other, each aligned to its size."""

    def __init__(self, data: bytes, order: str) -> None:
        self._data = data
        self._order = order
        self._at = 0

    def struct(self, struct: Struct) -> dict[str, Any]:
        return {member.name: self._member(member) for member in struct.members}

    def _member(self, member: Member) -> Any:
        if isinstance(member.of, Struct):
            return self.struct(member.of)
        if member.kind is Kind.STRING:
            return self._string()
        letter, size = _LAYOUT[member.kind]
        return self._number(letter, size)

    def _number(self, letter: str, size: int) -> Any:
        self._at = (self._at + size - 1) & -size
        (value,) = packing.unpack_from(self._order + letter, self._data, self._at)
        self._at += size
        return value

    def _string(self) -> bytes:
        length = self._number("I", 4)
        end = self._at + length
        if not length or end > len(self._data) or self._data[end - 1]:
            raise ValueError("a text has no end")
        text, self._at = self._data[self._at : end - 1], end
        return text


_LAYOUT = {Kind.INT32: ("i", 4), Kind.INT64: ("q", 8), Kind.BOOL: ("?", 1), Kind.ENUM: ("i", 4)}
