"""Our types as Cyclone's, and the few calls of its C library that must not hold the GIL.

A ``DataWriter.write`` of the Python layer holds the GIL while it waits for a slow reader; these do
not. The C functions take the serialised bytes in the container that the wheel's own layer uses.
"""

from __future__ import annotations

import ctypes as ct
from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from typing import Any

from cyclonedds._clayer import ddspy_write
from cyclonedds.core import DDSException
from cyclonedds.idl import IdlStruct, annotations, make_idl_enum, make_idl_struct, types
from cyclonedds.internal import DDS
from cyclonedds.pub import DataWriter

from enginehost.databus.struct import Enumeration, Kind, Member, Struct


@cache
def idl_type(struct: Struct) -> type[IdlStruct]:
    """``struct`` as a class of Cyclone's. Its enumerations take plain numbers too."""
    return annotations.appendable(_made(struct))


def _made(struct: Struct) -> type[IdlStruct]:
    keys: dict[str, dict[str, Any]] = {m.name: dict(_KEY) for m in struct.members if m.key}
    fields = {member.name: _field(member) for member in struct.members}
    return make_idl_struct(struct.name, struct.name, fields, field_annotations=keys)


def _field(member: Member) -> Any:
    if member.kind is Kind.STRING:
        return types.bounded_str[member.bound] if member.bound else str
    if isinstance(member.of, Enumeration):
        return _enumeration(member.of)
    if isinstance(member.of, Struct):
        return _nested(member.of)
    return _PLAIN[member.kind]


_KEY = {"key": True, "must_understand": True}
"""A key must be understood (XTypes); compilers of IDL say so of themselves, this Python layer does not."""

_PLAIN = {Kind.INT32: types.int32, Kind.INT64: types.int64, Kind.BOOL: bool}


@cache
def _enumeration(enumeration: Enumeration) -> Any:
    values = {name: value for value, name in enumerate(enumeration.enumerators)}
    return annotations.appendable(make_idl_enum(enumeration.name, enumeration.name, values))


@cache
def _nested(struct: Struct) -> type[IdlStruct]:
    """A struct inside another: Cyclone's XCDR1 cannot do with appendable ones. The bytes are the same."""
    return annotations.final(_made(struct))


def serialized(sample: IdlStruct) -> bytes:
    """The sample as XCDR1 with its encapsulation header, padded to four bytes."""
    return _padded(sample.serialize(use_version_2=False))


def serialized_key(sample: IdlStruct) -> bytes:
    """The sample's key, likewise."""
    return _padded(sample.serialize_key(use_version_2=False))


def sample_of(struct: Struct, values: Mapping[str, Any]) -> IdlStruct:
    """A sample from members by name; those that are left out are empty. Enumerators are numbers or names."""
    return idl_type(struct)(*(_value(member, values.get(member.name)) for member in struct.members))


def _value(member: Member, value: Any) -> Any:
    if isinstance(member.of, Struct):
        given = value or {}
        return _nested(member.of)(*(_value(inner, given.get(inner.name)) for inner in member.of.members))
    if isinstance(member.of, Enumeration):
        number = member.of.enumerators.index(value) if isinstance(value, str) else value or 0
        return _enumeration(member.of)(number)
    return _EMPTY[member.kind] if value is None else value


_EMPTY: dict[Kind, Any] = {Kind.STRING: "", Kind.INT32: 0, Kind.INT64: 0, Kind.BOOL: False}


def _padded(data: bytes) -> bytes:
    return data.ljust((len(data) + 3) & ~3, b"\0")


class Outcome(IntEnum):
    """What became of a write."""

    DONE = 0
    FULL = DDSException.DDS_RETCODE_TIMEOUT
    """Readers have not yet acknowledged as much as may be outstanding."""


class _Container(ct.Structure):
    _fields_ = (("usample", ct.c_void_p), ("usample_size", ct.c_size_t))


def c_function(name: str, *arguments: Any) -> Any:
    """A function of the C library on an entity, which lets go of the GIL; it answers a return code."""
    return ct.CFUNCTYPE(ct.c_int32, ct.c_int32, *arguments)((name, DDS._dll_handle))


_write = c_function("dds_write", ct.c_void_p)
_dispose = c_function("dds_dispose", ct.c_void_p)
_unregister = c_function("dds_unregister_instance", ct.c_void_p)
_wait_for_acks = c_function("dds_wait_for_acks", ct.c_int64)


def write(writer: DataWriter[Any], data: bytes) -> Outcome:
    """Write a serialised sample; waits for readers at most the writer's ``max_blocking_time``."""
    return _sent(_write, writer, data)


def dispose(writer: DataWriter[Any], data: bytes) -> Outcome:
    """Dispose the instance of a serialised key."""
    return _sent(_dispose, writer, data)


def write_now(writer: DataWriter[Any], data: bytes) -> Outcome:
    """Likewise, for small samples of a writer that never waits: cheaper, and holds the GIL meanwhile."""
    return _outcome(ddspy_write(writer._ref, data))


def unregister(writer: DataWriter[Any], data: bytes) -> Outcome:
    """Say that the instance of a serialised key is not written by this writer any more."""
    return _sent(_unregister, writer, data)


def wait_for_acks(writer: DataWriter[Any], seconds: float) -> bool:
    """Whether all readers had everything within ``seconds``."""
    return _wait_for_acks(writer._ref, int(seconds * 1e9)) == 0


def _sent(function: Any, writer: DataWriter[Any], data: bytes) -> Outcome:
    container = _Container(ct.cast(ct.c_char_p(data), ct.c_void_p), len(data))
    return _outcome(int(function(writer._ref, ct.byref(container))))


def _outcome(code: int) -> Outcome:
    if code == 0:
        return Outcome.DONE
    if code == Outcome.FULL:
        return Outcome.FULL
    raise DDSException(code, "while writing")
