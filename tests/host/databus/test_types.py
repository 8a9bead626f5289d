"""The bytes on the wire, and our own values beside them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.databus.config import DatabusConfig
from enginehost.databus.port import Capability, ExecutionReply, ExecutionRequest
from enginehost.databus.struct import Enumeration, Kind, Member, Struct
from enginehost.databus.types import (
    DISCOVERY,
    FUNCTION_CAPABILITY,
    FUNCTION_EXECUTION_REPLY,
    FUNCTION_EXECUTION_REQUEST,
    FUNCTION_REPLY,
    FUNCTION_REQUEST,
    GENESIS_ADVERTISEMENT,
    GENESIS_RPC_REPLY,
    GENESIS_RPC_REQUEST,
    GRAPH_TOPOLOGY,
    INTERFACE_AGENT_REQUEST,
    TOPICS,
    types_of,
)

pytest.importorskip("cyclonedds")

from cyclonedds.core import InstanceState, ReadCondition, SampleState, ViewState, WaitSet
from cyclonedds.domain import DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

from enginehost.databus.cyclone.domain import enter_domain, leave_domain
from enginehost.databus.cyclone.wire import idl_type, serialized, serialized_key

GOLDEN: list[tuple[Struct, tuple[Any, ...], str]] = [  # what RTI Connext 7.7 writes for Genesis's types
    (
        GENESIS_RPC_REQUEST,
        ("r1", "hi", "c1", "", "", ""),
        "00010000030000007231000003000000686900000300000063310000010000000000000001000000000000000100000000",
    ),
    (
        GENESIS_RPC_REPLY,
        ("r1", "ok", 0, "c1", "01", "", ""),
        "000100000300000072310000030000006f6b0000000000000300000063310000030000003031000001000000000000000100000000",
    ),
    (
        GRAPH_TOPOLOGY,
        ("n1", 1, 5, "x", "y", "z", "{}"),
        "00010000030000006e3100000100000000000000050000000000000002000000780000000200000079000000020000007a000000"
        "030000007b7d00",
    ),
    (
        GENESIS_ADVERTISEMENT,
        ("ab", 1, "", "", "", "", 7, "{}"),
        "000100000300000061620000010000000100000000000000010000000000000001000000000000000100000000000000"
        "000000000700000000000000030000007b7d00",
    ),
    (INTERFACE_AGENT_REQUEST, ("hi", "c1"), "00010000030000006869000003000000633100"),
    (
        FUNCTION_REQUEST,
        ("call_1", "function", ("add", "{}")),
        "000100000700000063616c6c5f3100000900000066756e6374696f6e000000000400000061646400030000007b7d00",
    ),
    (FUNCTION_REPLY, ("3", True, ""), "0001000002000000330001000100000000"),
]

KEYS = {
    "FunctionCapability": ["function_id"],
    "AgentCapability": ["agent_id"],
    "genesis_agent_registration_announce": ["instance_id"],
    "LLMFunctionSchema": ["function_id"],
    "ComponentLifecycleEvent": ["component_id"],
    "ChainEvent": ["chain_id"],
    "MonitoringEvent": ["event_id"],
    "LivelinessUpdate": ["component_id"],
    "GenesisGraphNode": ["node_id"],
    "GenesisGraphEdge": ["source_id", "target_id", "edge_type"],
    "GenesisAdvertisement": ["advertisement_id"],
    "GraphTopology": ["element_id"],
}
"""All types whose topics have instances."""

ALL = pytest.mark.parametrize("struct", types_of(), ids=lambda struct: struct.name)


def made(struct: Struct, values: tuple[Any, ...]) -> Any:
    """A sample of Cyclone's; enumerations are numbers, structs inside are tuples."""
    members = zip(struct.members, values, strict=True)
    kind: Any = idl_type(struct)
    return kind(*(made(m.of, value) if isinstance(m.of, Struct) else value for m, value in members))


def values_in(struct: Struct, sample: Any) -> tuple[Any, ...]:
    """The inverse of :func:`made`."""
    return tuple(_value_in(member, getattr(sample, member.name)) for member in struct.members)


def _value_in(member: Member, value: Any) -> Any:
    if isinstance(member.of, Struct):
        return values_in(member.of, value)
    return value.value if isinstance(member.of, Enumeration) else value


def values_of(struct: Struct) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(*map(_values_of, struct.members))


def _values_of(member: Member) -> st.SearchStrategy[Any]:
    if isinstance(member.of, Struct):
        return values_of(member.of)
    if isinstance(member.of, Enumeration):
        return st.integers(0, len(member.of.enumerators) - 1)
    if member.kind is Kind.STRING:
        most = min(40, (member.bound or math.inf) // 4)  # a character has four bytes at most
        return st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=int(most))
    if member.kind is Kind.BOOL:
        return st.booleans()
    bits = 31 if member.kind is Kind.INT32 else 63
    return st.integers(-(2**bits), 2**bits - 1)


@pytest.mark.parametrize(("struct", "values", "expected"), GOLDEN, ids=lambda part: getattr(part, "name", ""))
def test_bytes_are_those_of_connext(struct: Struct, values: tuple[Any, ...], expected: str) -> None:
    wanted = bytes.fromhex(expected)
    written = serialized(made(struct, values))
    assert written[: len(wanted)] == wanted
    assert written[len(wanted) :] == bytes(-len(wanted) % 4)


@ALL
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_a_sample_comes_back_unchanged(struct: Struct, data: st.DataObject) -> None:
    values = data.draw(values_of(struct))
    kind: Any = idl_type(struct)
    assert values_in(struct, kind.deserialize(serialized(made(struct, values)))) == values


@ALL
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_a_type_has_the_key_that_genesis_gave_it(struct: Struct, data: st.DataObject) -> None:
    kind: Any = idl_type(struct)
    names = [member.name for member in struct.members if member.key]
    assert names == KEYS.get(struct.name, [])
    assert struct.keyed is not kind.__idl__.keyless
    if names:
        sample = made(struct, data.draw(values_of(struct)))
        key = kind.deserialize_key(serialized_key(sample))
        assert [getattr(key, name) for name in names] == [getattr(sample, name) for name in names]


@pytest.mark.parametrize(
    ("struct", "value"),
    [
        (FUNCTION_CAPABILITY, Capability),
        (FUNCTION_EXECUTION_REQUEST, ExecutionRequest),
        (FUNCTION_EXECUTION_REPLY, ExecutionReply),
    ],
    ids=lambda part: getattr(part, "name", ""),
)
def test_our_values_have_the_members_of_the_type_in_order(struct: Struct, value: Any) -> None:
    members = [member.name for member in struct.members]
    assert [field.name for field in fields(value)][: len(members)] == members


def test_the_eras_share_nothing_but_the_log() -> None:
    assert {one.name for one in types_of(1)} & {one.name for one in types_of(2)} == {"LogMessage"}
    assert [topic.name for topic in TOPICS.values() if len(topic.eras) > 1] == ["GenesisLogs"]
    assert Counter(topic.struct.name for topic in TOPICS.values()).most_common(1)[0][1] == 1


def test_what_is_discovered_matches_the_readers_of_genesis() -> None:
    """They ask for durable samples, and for a sign of life every two seconds."""
    found = {topic.name for topic in TOPICS.values() if topic.profile is DISCOVERY}
    assert {"FunctionCapability", "AgentCapability", "GenesisRegistration"} < found
    assert DISCOVERY.durable
    assert 0 < DISCOVERY.lease <= 2


@contextmanager
def joined(domain: int) -> Iterator[DomainParticipant]:
    config = DatabusConfig(domain=domain)
    enter_domain(config)
    participant = DomainParticipant(domain)
    try:
        yield participant
    finally:
        participant.__del__()
        leave_domain(domain)


def test_every_type_crosses_the_bus(dds_domain: int) -> None:
    xcdr1 = Policy.DataRepresentation(use_cdrv0_representation=True)
    qos = Qos(Policy.Reliability.Reliable(duration(seconds=10)), Policy.Durability.TransientLocal, xcdr1)
    with joined(dds_domain) as participant:
        for struct in types_of():
            topic: Topic[Any] = Topic(participant, f"all/{struct.name}", idl_type(struct))
            writer, reader = DataWriter(participant, topic, qos), DataReader(participant, topic, qos)
            waitset = WaitSet(participant)
            any_state = SampleState.Any | ViewState.Any | InstanceState.Any
            waitset.attach(ReadCondition(reader, any_state))
            sent = made(struct, tuple(map(_plain, struct.members)))
            writer.write(sent)
            assert waitset.wait(duration(seconds=10)), struct.name
            (received,) = reader.take(2)
            assert values_in(struct, received) == tuple(map(_plain, struct.members))
            for entity in (waitset, reader, writer, topic):
                entity.__del__()


def _plain(member: Member) -> Any:
    """Some value other than the default."""
    if isinstance(member.of, Struct):
        return tuple(map(_plain, member.of.members))
    return {Kind.STRING: "é", Kind.BOOL: True}.get(member.kind, 1)
