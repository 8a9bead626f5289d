"""Our types as Cyclone's, and the few calls of its C library that must not hold the GIL.

A ``DataWriter.write`` of the Python layer holds the GIL while it waits for a slow reader; these do
not. The C functions take the serialised bytes in the container that the wheel's own layer uses.
"""

from __future__ import annotations

import ctypes as ct
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from cyclonedds.core import DDSException
from cyclonedds.idl import IdlStruct, annotations, make_idl_struct, types
from cyclonedds.idl._support import Buffer
from cyclonedds.internal import DDS
from cyclonedds.pub import DataWriter

from enginehost.databus.types import Kind, Member, Struct


def idl_type(struct: Struct) -> type[IdlStruct]:
    """``struct`` as a class of Cyclone's."""
    keys: dict[str, dict[str, Any]] = {m.name: {"key": True} for m in struct.members if m.key}
    fields = {member.name: _field(member) for member in struct.members}
    made = make_idl_struct(struct.name, struct.name, fields, field_annotations=keys)
    return annotations.appendable(made)


def _field(member: Member) -> Any:
    if member.kind is Kind.STRING:
        return types.bounded_str[member.bound] if member.bound else str
    return types.int32 if member.kind is Kind.INT32 else types.int64


def serialized(sample: IdlStruct) -> bytes:
    """The sample as XCDR1 with its encapsulation header, padded to four bytes."""
    return _padded(sample.serialize(use_version_2=False))


def serialized_key(sample: IdlStruct) -> bytes:
    """The sample's key, likewise."""
    return _padded(sample.serialize_key(use_version_2=False))


def deserialized(kind: Any, data: bytes, text: Sequence[str]) -> Any:
    """A sample of ``kind``, also where strings are no UTF-8: their bytes stay, as PEP 383 escapes them.

    Raises :class:`UnicodeError` where one of the members ``text`` is among them, and whatever the library
    raises for what is malformed.
    """
    try:
        return kind.deserialize(data)
    except UnicodeDecodeError:
        sample = kind.deserialize(_Escaping(data, align_offset=_HEADER_BYTES))
        for member in text:
            getattr(sample, member).encode()
        return sample


class _Escaped(bytes):
    def decode(self, encoding: str = "utf-8", errors: str = "surrogateescape") -> str:
        return super().decode(encoding, errors)


class _Escaping(Buffer):
    """Bytes of a sample from which the library reads strings of any bytes."""

    def read_bytes(self, length: int) -> bytes:
        return _Escaped(super().read_bytes(length))


def _padded(data: bytes) -> bytes:
    return data.ljust((len(data) + 3) & ~3, b"\0")


_HEADER_BYTES = 4
"""The encapsulation header, from behind which members are aligned."""


class Outcome(IntEnum):
    """What became of a write."""

    DONE = 0
    FULL = DDSException.DDS_RETCODE_TIMEOUT
    """Readers have not yet acknowledged as much as may be outstanding."""


class _Container(ct.Structure):
    _fields_ = (("usample", ct.c_void_p), ("usample_size", ct.c_size_t))


def _function(name: str, *arguments: Any) -> Any:
    return ct.CFUNCTYPE(ct.c_int32, ct.c_int32, *arguments)((name, DDS._dll_handle))


_write = _function("dds_write", ct.c_void_p)
_dispose = _function("dds_dispose", ct.c_void_p)
_wait_for_acks = _function("dds_wait_for_acks", ct.c_int64)


def write(writer: DataWriter[Any], data: bytes) -> Outcome:
    """Write a serialised sample; waits for readers at most the writer's ``max_blocking_time``."""
    return _sent(_write, writer, data)


def dispose(writer: DataWriter[Any], data: bytes) -> Outcome:
    """Dispose the instance of a serialised key."""
    return _sent(_dispose, writer, data)


def wait_for_acks(writer: DataWriter[Any], seconds: float) -> bool:
    """Whether all readers had everything within ``seconds``."""
    return _wait_for_acks(writer._ref, int(seconds * 1e9)) == 0


def _sent(function: Any, writer: DataWriter[Any], data: bytes) -> Outcome:
    container = _Container(ct.cast(ct.c_char_p(data), ct.c_void_p), len(data))
    code = int(function(writer._ref, ct.byref(container)))
    if code in (Outcome.DONE, Outcome.FULL):
        return Outcome(code)
    raise DDSException(code, "while writing")
