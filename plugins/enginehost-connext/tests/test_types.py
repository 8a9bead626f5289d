"""Types and samples are on the wire as Cyclone has them, byte by byte."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

dds = pytest.importorskip("rti.connextdds", reason="rti.connext is not installed")
pytest.importorskip("cyclonedds", reason="cyclonedds is not installed")

from cyclonedds.idl import annotations, make_idl_struct, types  # noqa: E402
from enginehost_connext.structs import decoded, dynamic_type, members_of, sample_of  # noqa: E402

from enginehost.databus import TOPICS, Enumeration, Kind, Member, Struct, types_of  # noqa: E402

STRUCTS = {struct.name: struct for struct in types_of()}


@cache
def cyclone(struct: Struct, nested: bool = False) -> Any:
    """The type as Cyclone's; one inside another has to be final there, which is the same in plain CDR."""
    made = make_idl_struct(
        struct.name,
        struct.name,
        {member.name: cyclone_kind(member) for member in struct.members},
        field_annotations={member.name: {"key": True} for member in struct.members if member.key},
    )
    return annotations.final(made) if nested else annotations.appendable(made)


def cyclone_kind(member: Member) -> Any:
    if isinstance(member.of, Struct):
        return cyclone(member.of, nested=True)
    if member.kind is Kind.STRING:
        return types.bounded_str[member.bound] if member.bound else str
    return {Kind.BOOL: bool, Kind.INT64: types.int64}.get(member.kind, types.int32)


def cyclone_sample(struct: Struct, values: dict[str, Any], nested: bool = False) -> Any:
    made = {
        member.name: cyclone_sample(member.of, values[member.name], nested=True)
        if isinstance(member.of, Struct)
        else values[member.name]
        for member in struct.members
    }
    return cyclone(struct, nested)(**made)


def cyclone_bytes(struct: Struct, values: dict[str, Any]) -> bytes:
    return cyclone_sample(struct, values).serialize(use_version_2=False)


def values_of(struct: Struct) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({member.name: value_of(member) for member in struct.members})


def value_of(member: Member) -> st.SearchStrategy[Any]:
    match member.of:
        case Struct():
            return values_of(member.of)
        case Enumeration():
            return st.integers(0, len(member.of.enumerators) - 1)
        case None:
            pass
    if member.kind is Kind.STRING:
        most = min(member.bound or 60, 60) // 4  # in characters of at most four bytes
        alphabet = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
        return st.text(alphabet, max_size=most)
    if member.kind is Kind.BOOL:
        return st.booleans()
    bits = 63 if member.kind is Kind.INT64 else 31
    return st.integers(-(2**bits), 2**bits - 1)


VECTORS = [
    ("GenesisRPCRequest", ("r1", "hi", "c1", "", "", ""),
     "00010000030000007231000003000000686900000300000063310000010000000000000001000000000000000100000000"),
    ("GenesisRPCReply", ("r1", "ok", 0, "c1", "01", "", ""),
     "000100000300000072310000030000006f6b0000000000000300000063310000030000003031000001000000000000000100000000"),
    ("GraphTopology", ("n1", 1, 5, "x", "y", "z", "{}"),
     "00010000030000006e3100000100000000000000050000000000000002000000780000000200000079000000020000007a000000"
     "030000007b7d00"),
    ("GenesisAdvertisement", ("ab", 1, "", "", "", "", 7, "{}"),
     "00010000030000006162000001000000010000000000000001000000000000000100000000000000010000000000000000000000"
     "0700000000000000030000007b7d00"),
    ("InterfaceAgentRequest", ("hi", "c1"), "00010000030000006869000003000000633100"),
    ("FunctionRequest", ("call_1", "function", {"name": "add", "arguments": "{}"}),
     "000100000700000063616c6c5f3100000900000066756e6374696f6e000000000400000061646400030000007b7d00"),
    ("FunctionReply", ("3", True, ""), "0001000002000000330001000100000000"),
]  # fmt: skip


def connext_bytes(struct: Struct, values: dict[str, Any]) -> bytes:
    return bytes(sample_of(struct, values).to_cdr_buffer())


def as_texts(struct: Struct, members: dict[str, Any]) -> dict[str, Any]:
    def plain(member: Member, value: Any) -> Any:
        if isinstance(member.of, Struct):
            return as_texts(member.of, value)
        return value.decode() if isinstance(value, bytes) else value

    return {member.name: plain(member, members[member.name]) for member in struct.members}


@pytest.mark.parametrize(("name", "values", "vector"), VECTORS, ids=[name for name, _, _ in VECTORS])
def test_samples_are_those_that_genesis_writes(name: str, values: tuple[Any, ...], vector: str) -> None:
    struct = STRUCTS[name]
    members = dict(zip((member.name for member in struct.members), values, strict=True))
    assert connext_bytes(struct, members).hex() == vector
    assert cyclone_bytes(struct, members).hex() == vector
    assert as_texts(struct, decoded(struct, bytes.fromhex(vector))) == members


@pytest.mark.parametrize("name", STRUCTS)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_every_sample_is_cyclone_s_byte_by_byte(name: str, data: st.DataObject) -> None:
    struct = STRUCTS[name]
    values = data.draw(values_of(struct))
    sample = sample_of(struct, values)
    assert bytes(sample.to_cdr_buffer()) == cyclone_bytes(struct, values)  # type: ignore[arg-type]
    assert as_texts(struct, members_of(struct, sample)) == values


@pytest.mark.parametrize("name", STRUCTS)
def test_types_have_the_names_keys_bounds_and_extensibility_of_the_tables(name: str) -> None:
    struct = STRUCTS[name]
    made = dynamic_type(struct)
    assert made.name == struct.name
    assert made.extensibility_kind == dds.ExtensibilityKind.EXTENSIBLE
    assert [(m.name, m.id, m.is_key) for m in made.members()] == [
        (m.name, number, m.key) for number, m in enumerate(struct.members)
    ]
    bounds = {m.name: m.type.bounds for m in made.members() if is_text(m)}
    assert bounds == {m.name: m.bound or 2**31 - 1 for m in struct.members if m.kind is Kind.STRING}


def is_text(member: Any) -> bool:
    return member.type.kind == dds.TypeKind.STRING_TYPE


@pytest.mark.parametrize("name", STRUCTS)
def test_types_are_keyed_where_cyclone_s_are(name: str) -> None:
    assert dynamic_type(STRUCTS[name]).is_keyed() is not cyclone(STRUCTS[name]).__idl__.keyless


def test_enumerators_may_be_named() -> None:
    struct = TOPICS["rti/connext/genesis/monitoring/Event"].struct
    assert connext_bytes(struct, {"kind": "LIFECYCLE"}) == connext_bytes(struct, {"kind": 1})


@pytest.mark.parametrize("text", ["é" * 65, "x" * 129, "a\0b", "\udc80", b"\xff"])
def test_a_text_that_would_be_cut_off_or_dropped_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"function_id|surrogate|utf-8"):
        sample_of(STRUCTS["FunctionCapability"], {"function_id": text})


def test_texts_of_peers_come_as_their_bytes_also_where_they_are_no_utf_8() -> None:
    struct = STRUCTS["FunctionExecutionRequest"]
    data = bytearray(connext_bytes(struct, {"request_id": "r1", "parameters": "??"}))
    at = data.index(b"??")
    data[at : at + 2] = b"\xff\xfe"
    sample = dds.DynamicData(dynamic_type(struct))
    sample.from_cdr_buffer(dds.Uint8Seq(bytes(data)))
    assert members_of(struct, sample)["parameters"] == b"\xff\xfe"


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(sorted(STRUCTS)), st.binary(max_size=80), st.sampled_from([b"\0\1\0\0", b"\0\0\0\0", b""])
)
def test_malformed_bytes_are_a_value_error(name: str, data: bytes, header: bytes) -> None:
    with suppress(ValueError):
        decoded(STRUCTS[name], header + data)
