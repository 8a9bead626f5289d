"""The bytes on the wire, and our own values beside them."""

from __future__ import annotations

from dataclasses import astuple, fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.databus.port import Capability, ExecutionReply, ExecutionRequest
from enginehost.databus.types import (
    FUNCTION_CAPABILITY,
    FUNCTION_EXECUTION_REPLY,
    FUNCTION_EXECUTION_REQUEST,
    Kind,
    Struct,
    int32,
    int64,
    key,
    text,
)

pytest.importorskip("cyclonedds")

from enginehost.databus.cyclone.wire import idl_type, serialized, serialized_key

GOLDEN = [  # what RTI Connext 7.7 writes for Genesis's types
    (
        Struct("GenesisRPCRequest", tuple(text(f"m{n}") for n in range(6))),
        ("r1", "hi", "c1", "", "", ""),
        "00010000030000007231000003000000686900000300000063310000010000000000000001000000000000000100000000",
    ),
    (
        Struct(
            "GenesisRPCReply", (text("a"), text("b"), int32("c"), text("d"), text("e"), text("f"), text("g"))
        ),
        ("r1", "ok", 0, "c1", "01", "", ""),
        "000100000300000072310000030000006f6b0000000000000300000063310000030000003031000001000000000000000100000000",
    ),
    (
        Struct(
            "GraphTopology",
            (key("id", 128), int32("kind"), int64("at"), text("d"), text("e"), text("f"), text("g")),
        ),
        ("n1", 1, 5, "x", "y", "z", "{}"),
        "00010000030000006e3100000100000000000000050000000000000002000000780000000200000079000000020000007a000000"
        "030000007b7d00",
    ),
    (
        Struct(
            "GenesisAdvertisement",
            (
                key("id", 128),
                int32("kind"),
                *(text(f"m{n}") for n in range(4)),
                int64("last_seen"),
                text("payload"),
            ),
        ),
        ("ab", 1, "", "", "", "", 7, "{}"),
        "000100000300000061620000010000000100000000000000010000000000000001000000000000000100000000000000"
        "000000000700000000000000030000007b7d00",
    ),
    (
        Struct("InterfaceAgentRequest", (text("message", 8192), text("conversation_id", 128))),
        ("hi", "c1"),
        "00010000030000006869000003000000633100",
    ),
]


@pytest.mark.parametrize(("struct", "values", "expected"), GOLDEN, ids=lambda part: getattr(part, "name", ""))
def test_bytes_are_those_of_connext(struct, values, expected):
    wanted = bytes.fromhex(expected)
    written = serialized(idl_type(struct)(*values))
    assert written[: len(wanted)] == wanted
    assert written[len(wanted) :] == bytes(-len(wanted) % 4)


@pytest.mark.parametrize(
    ("struct", "value"),
    [
        (FUNCTION_CAPABILITY, Capability),
        (FUNCTION_EXECUTION_REQUEST, ExecutionRequest),
        (FUNCTION_EXECUTION_REPLY, ExecutionReply),
    ],
)
def test_our_values_have_the_members_of_the_type_in_order(struct, value):
    members = [member.name for member in struct.members]
    assert [field.name for field in fields(value)][: len(members)] == members


def test_only_a_capability_has_a_key():
    structs = (FUNCTION_CAPABILITY, FUNCTION_EXECUTION_REQUEST, FUNCTION_EXECUTION_REPLY)
    keys = [[member.name for member in struct.members if member.key] for struct in structs]
    assert keys == [["function_id"], [], []]


TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=30)
REPLY = idl_type(FUNCTION_EXECUTION_REPLY)
CAPABILITY = idl_type(FUNCTION_CAPABILITY)


@settings(max_examples=50, deadline=None)
@given(st.builds(ExecutionReply, TEXT, TEXT, TEXT, st.integers(0, 99), TEXT, st.integers(0, 2**62), TEXT))
def test_a_sample_comes_back_unchanged(reply):
    sample = REPLY.deserialize(serialized(REPLY(*astuple(reply))))
    assert ExecutionReply(*(getattr(sample, field.name) for field in fields(reply))) == reply


def test_a_key_is_the_function_id():
    members = ["" if member.kind is Kind.STRING else 0 for member in FUNCTION_CAPABILITY.members[1:]]
    sample = CAPABILITY.deserialize_key(serialized_key(CAPABILITY("é-1", *members)))
    assert sample.function_id == "é-1"
