"""Our own reading and writing of samples, against the library's."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("cyclonedds")

from enginehost.databus.cyclone.cdr import Codec
from enginehost.databus.cyclone.wire import idl_type, serialized, serialized_key
from enginehost.databus.struct import Kind, Struct
from enginehost.databus.types import (
    FUNCTION_CAPABILITY,
    FUNCTION_EXECUTION_REPLY,
    FUNCTION_EXECUTION_REQUEST,
)

TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=12)
VALUES = {
    Kind.STRING: TEXT,
    Kind.INT32: st.integers(-(2**31), 2**31 - 1),
    Kind.INT64: st.integers(-(2**63), 2**63 - 1),
}
STRUCTS = (FUNCTION_CAPABILITY, FUNCTION_EXECUTION_REQUEST, FUNCTION_EXECUTION_REPLY)
RAW = ("parameters", "metadata", "result")


def samples(kind: Struct) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(st.just(kind), *(VALUES[member.kind] for member in kind.members))


def as_read(kind: Struct, values: tuple[Any, ...]) -> list[Any]:
    return [v.encode() if m.name in RAW else v for m, v in zip(kind.members, values, strict=True)]


@settings(max_examples=150, deadline=None)
@given(st.one_of(*map(samples, STRUCTS)))
def test_bytes_are_the_librarys_and_all_its_forms_are_read(sample: tuple[Any, ...]) -> None:
    kind, *values = sample
    codec = Codec(kind, RAW)
    wanted = as_read(kind, tuple(values))
    theirs = idl_type(kind)(*values)
    assert codec.encode(values) == codec.encode(wanted) == serialized(theirs)
    assert codec.decode(serialized(theirs)) == wanted
    assert codec.decode(theirs.serialize(use_version_2=True)) == wanted
    assert codec.decode(big_endian(kind, values)) == wanted
    if kind.keyed:
        assert codec.encode_key(values[0]) == serialized_key(theirs)
        assert codec.decode_key(serialized_key(theirs)) == values[0]


def big_endian(kind: Struct, values: list[Any]) -> bytes:
    data = b""
    for member, value in zip(kind.members, values, strict=True):
        if member.kind is Kind.STRING:
            text = value.encode() + b"\0"
            data += bytes(-len(data) % 4) + struct.pack(">I", len(text)) + text
        else:
            code, size = ("i", 4) if member.kind is Kind.INT32 else ("q", 8)
            data += bytes(-len(data) % size) + struct.pack(f">{code}", value)
    return b"\0\0\0\0" + data


SAMPLE = Codec(FUNCTION_EXECUTION_REPLY, RAW).encode(["id", "f", b"{}", 0, "", 7, b"{}"])


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from((b"\0\0", b"\0\1", b"\0\6", b"\0\7", b"\0\x08", b"\0\x09", b"\0\x03")))
def test_what_is_malformed_is_a_value_error_and_nothing_else(data: st.DataObject, form: bytes) -> None:
    body = bytearray(SAMPLE[4:])
    for _ in range(data.draw(st.integers(0, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    mangled = form + b"\0\0" + bytes(body[: data.draw(st.integers(0, len(body)))])
    try:
        assert len(Codec(FUNCTION_EXECUTION_REPLY, RAW).decode(mangled)) == 7
        Codec(FUNCTION_CAPABILITY).decode_key(mangled)
    except ValueError:
        pass


@pytest.mark.parametrize("length", range(len(SAMPLE) - 1))
def test_a_sample_that_ends_too_early_is_malformed(length: int) -> None:
    with pytest.raises(ValueError, match="sample"):
        Codec(FUNCTION_EXECUTION_REPLY, RAW).decode(SAMPLE[:length])


def test_ids_are_text_and_parameters_are_any_bytes() -> None:
    codec = Codec(FUNCTION_EXECUTION_REQUEST, RAW)
    sample: list[Any] = ["id", "f", b"\xff\xfe", 1, b"\xff"]
    assert codec.decode(codec.encode(sample)) == sample
    with pytest.raises(UnicodeDecodeError):
        codec.decode(codec.encode([b"\xff", *sample[1:]]))


def test_members_that_an_earlier_version_of_a_type_lacks_are_empty() -> None:
    earlier = Struct("FunctionExecutionRequest", FUNCTION_EXECUTION_REQUEST.members[:2])
    data = idl_type(earlier)("id", "f").serialize(use_version_2=True)
    assert Codec(FUNCTION_EXECUTION_REQUEST, RAW).decode(data) == ["id", "f", b"", 0, b""]


def test_a_number_that_does_not_fit_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        Codec(FUNCTION_EXECUTION_REPLY, RAW).encode(["id", "f", b"", 2**31, "", 7, b""])
