"""What ``enginehost databus`` sees and says, with raw DDS peers that are at fault in every way."""

from __future__ import annotations

import asyncio
import json
import math
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from enginehost.databus.capability import capability_of
from enginehost.databus.config import DatabusConfig
from enginehost.databus.identity import Identity
from enginehost.databus.keys import new_key, written
from enginehost.databus.matching import DURABILITIES, Endpoint, Policies, mismatches, partitions_meet
from enginehost.databus.offer_faults import faults_of
from enginehost.databus.offers import understand
from enginehost.databus.port import Capability
from enginehost.databus.sight import Clock, Offer, Program, Sight
from enginehost.databus.signing import sign_capability
from enginehost.databus.signing_setup import Signing
from enginehost.databus.survey import Survey, judged, survey
from enginehost.databus.survey_events import happenings, judgements
from enginehost.databus.survey_findings import findings_of, skew_words
from enginehost.databus.trust import KeyEntry, trust_key
from enginehost.signature import FunctionSignature

pytest.importorskip("cyclonedds")
from cyclonedds.builtin import (
    BuiltinDataReader,
    BuiltinTopicDcpsPublication,
    BuiltinTopicDcpsSubscription,
)
from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import IdlStruct, annotations, make_idl_struct
from cyclonedds.idl.types import bounded_str, int32, int64
from cyclonedds.pub import DataWriter, Publisher
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader, Subscriber
from cyclonedds.topic import Topic
from cyclonedds.util import duration

from enginehost.databus.cyclone import survey as looking_on
from enginehost.databus.cyclone.announced import endpoint_of
from enginehost.databus.cyclone.domain import enter_domain, leave_domain
from enginehost.databus.cyclone.qos import CAPABILITY_READER
from enginehost.databus.cyclone.survey import Observer
from enginehost.databus.cyclone.wire import idl_type
from enginehost.databus.types import (
    FUNCTION_CAPABILITY,
    FUNCTION_EXECUTION_REPLY,
    FUNCTION_EXECUTION_REQUEST,
)

GOOD = Capability(
    function_id="6f1a5f0e-6c1c-5d8c-9a53-0d3a4f1f6e11",
    name="add",
    description="Add.",
    provider_id="a-host",
    parameter_schema='{"type":"object"}',
    capabilities='["math"]',
    performance_metrics="{}",
    security_requirements="{}",
    classification="{}",
    last_seen=1,
    service_name="shop",
)
OFFERS = Qos(
    Policy.Reliability.Reliable(0),
    Policy.Durability.TransientLocal,
    Policy.History.KeepLast(1),
    Policy.Liveliness.Automatic(duration(seconds=2)),
    Policy.DataRepresentation(use_cdrv0_representation=True),
)
CALLS = Qos(
    Policy.Reliability.Reliable(0),
    Policy.History.KeepAll,
    Policy.DataRepresentation(use_cdrv0_representation=True),
)
UNBOUNDED = replace(
    FUNCTION_CAPABILITY,
    members=tuple(one if one.key else replace(one, bound=0) for one in FUNCTION_CAPABILITY.members),
)
UNBOUNDED_KEY = replace(
    FUNCTION_CAPABILITY, members=tuple(replace(one, bound=0) for one in FUNCTION_CAPABILITY.members)
)


class Raw:
    """Raw peers of this process, on the domain of the test."""

    def __init__(self, domain: int) -> None:
        self.config = DatabusConfig(domain=domain)
        enter_domain(self.config)
        self._participants: list[DomainParticipant] = []
        self._kept: list[Any] = []
        self.participant = self.join()

    def join(self) -> DomainParticipant:
        self._participants.append(DomainParticipant(self.config.domain))
        return self._participants[-1]

    def write(self, name: str, kind: Any, qos: Qos, *, partition: str = "", whose: Any = None) -> Any:
        whose = whose or self.participant
        topic = Topic(whose, name, kind)
        publisher = Publisher(whose, qos=Qos(Policy.Partition((partition,)))) if partition else whose
        writer = DataWriter(publisher, topic, qos)
        self._kept += [topic, publisher, writer]
        return writer

    def read(self, name: str, kind: Any, qos: Qos, *, partition: str = "", whose: Any = None) -> Any:
        whose = whose or self.participant
        topic = Topic(whose, name, kind)
        subscriber = Subscriber(whose, qos=Qos(Policy.Partition((partition,)))) if partition else whose
        reader = DataReader(subscriber, topic, qos)
        self._kept += [topic, subscriber, reader]
        return reader

    def offer(
        self, *capabilities: Capability, whose: Any = None, ahead: float = 0.0, kind: Any = UNBOUNDED
    ) -> Any:
        kind = idl_type(kind)
        writer = self.write("FunctionCapability", kind, OFFERS, whose=whose)
        for one in capabilities:
            values = {member.name: getattr(one, member.name) for member in FUNCTION_CAPABILITY.members}
            writer.write(kind(**values), timestamp=int((time.time() + ahead) * 1e9))
        return writer

    def answer(self, whose: Any = None) -> None:
        self.read("FunctionExecutionRequest", idl_type(FUNCTION_EXECUTION_REQUEST), CALLS, whose=whose)
        self.write("FunctionExecutionReply", idl_type(FUNCTION_EXECUTION_REPLY), CALLS, whose=whose)

    def close(self) -> None:
        for one in (*self._kept, *self._participants):
            one.__del__()
        leave_domain(self.config.domain)


@pytest.fixture
def raw(dds_domain: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Raw]:
    monkeypatch.setattr(looking_on, "QUIET_SECONDS", 0.02)  # peers in this process are seen at once
    peers = Raw(dds_domain)
    yield peers
    peers.close()


async def looked(raw: Raw, seconds: float = 0.05) -> Survey:
    found = await survey(raw.config, seconds)
    json.dumps(found.to_json(), allow_nan=False)
    return found


def findings(found: Survey, code: str) -> list[str]:
    return [one.message for one in found.findings if one.code == code]


async def test_a_provider_that_is_well_is_shown_as_callable_and_nothing_is_wrong(raw: Raw) -> None:
    raw.offer(GOOD)
    raw.answer()
    found = await looked(raw)
    assert found.findings == ()
    assert found.ok
    (member,) = found.members
    assert (member.kind, member.services, member.functions) == ("other", ("shop",), 1)
    assert (member.takes_requests, member.writes_replies, member.program.vendor) == (
        True,
        True,
        "Cyclone DDS",
    )
    assert member.program.pid > 0
    assert member.program.lease == raw.config.lease
    (function,) = found.capabilities
    assert (function.callable, function.why_not, function.schema_shortened) == (True, "", False)
    assert function.age < 30
    assert [(one.name, one.writers, one.readers, one.known) for one in found.topics] == [
        ("FunctionCapability", 1, 0, True),
        ("FunctionExecutionReply", 1, 0, True),
        ("FunctionExecutionRequest", 0, 1, True),
    ]


async def test_nobody_on_the_domain_is_told_with_likely_reasons(dds_domain: int) -> None:
    found = await survey(DatabusConfig(domain=dds_domain), 0.1)
    (finding,) = found.findings
    assert finding.code == "nobody"
    assert "--domain" in finding.hint
    assert "--bus-interface" in finding.hint
    assert found.ok


async def test_a_function_whose_provider_reads_no_requests_is_not_callable(raw: Raw) -> None:
    raw.offer(GOOD)
    found = await looked(raw)
    assert found.capabilities[0].why_not == "offers functions but reads no FunctionExecutionRequest"
    assert len(findings(found, "not-callable")) == 1
    assert not found.ok


MALFORMED = {
    "its parameter_schema is no JSON": replace(GOOD, parameter_schema="{nonsense"),
    "its parameter_schema is no JSON Schema": replace(GOOD, parameter_schema='{"type": 7}'),
    "is no UUID": replace(GOOD, function_id="not an id"),
    "its function_id is empty": replace(GOOD, function_id=""),
    "its name has 3,000 bytes, over 256": replace(GOOD, name="x" * 3_000),
    "its description has 9,000 bytes, over 2,048": replace(GOOD, description="é" * 4_500),
    "is no name that can be called": replace(GOOD, name="\x1b[2J"),
    "its classification are no JSON": replace(GOOD, classification="{"),
}


async def test_each_malformed_capability_is_named_with_what_is_wrong(raw: Raw) -> None:
    for number, capability in enumerate(MALFORMED.values()):
        wanted = capability.function_id == GOOD.function_id
        fresh = f"6f1a5f0e-6c1c-5d8c-9a53-0d3a4f1f6e{number:02}" if wanted else capability.function_id
        raw.offer(replace(capability, function_id=fresh))
    raw.answer()
    said = findings(await looked(raw), "malformed-capability")
    assert [fault for fault in MALFORMED if not any(fault in one for one in said)] == []
    assert len(said) == len(MALFORMED)
    assert all(one.isprintable() and len(one) < 600 for one in said)


async def test_two_programs_with_one_host_id_are_told(raw: Raw) -> None:
    for _ in range(2):
        whose = raw.join()
        raw.offer(GOOD, whose=whose)
        raw.answer(whose)
    said = findings(await looked(raw), "same-host-id")
    assert len(said) == 1
    assert "'a-host'" in said[0]


@pytest.mark.parametrize(("ahead", "told"), [(3600.0, ["3,600 s ahead"]), (0.0, [])])
async def test_a_clock_that_is_an_hour_ahead_is_told(raw: Raw, ahead: float, told: list[str]) -> None:
    raw.offer(GOOD, ahead=ahead)
    raw.answer()
    found = await looked(raw)
    said = findings(found, "clock-skew")
    assert [one.partition(" is ")[2].replace("3,599", "3,600") for one in said] == told
    assert found.capabilities[0].age < 30


def test_skew_is_said_as_one_says_it() -> None:
    said = [skew_words(ahead) for ahead in (3600.4, -3600.4, 0.05, -2.54)]
    assert said == ["3,600 s ahead", "3,600 s behind", "in step", "2.5 s behind"]


async def test_a_clock_behind_is_told_where_a_host_made_a_writer_for_us() -> None:
    program = Program("0110" + "0" * 28, pid=7)
    sight = Sight(programs=(program,), clocks=(Clock(program.key, -3600.0, exact=True),))
    said = [one.message for one in findings_of(DatabusConfig(), sight, Signing())]
    assert said == ["the clock of process 7 is 3,600 s behind"]


RELIABLE = Policy.Reliability.Reliable(0)
PAIRS: dict[str, tuple[tuple[Any, ...], tuple[Any, ...], str]] = {
    "reliability": ((Policy.Reliability.BestEffort,), (RELIABLE,), "offers best effort"),
    "durability": ((Policy.Durability.Volatile,), (Policy.Durability.TransientLocal,), "transient local"),
    "liveliness": (
        (Policy.Liveliness.Automatic(duration(infinite=True)),),
        (Policy.Liveliness.Automatic(duration(seconds=2)),),
        "automatic liveliness with a lease of 2 s; the writer of",
    ),
    "deadline": (
        (Policy.Deadline(duration(infinite=True)),),
        (Policy.Deadline(duration(seconds=1)),),
        "a deadline of 1 s",
    ),
    "latency budget": (
        (Policy.LatencyBudget(duration(seconds=1)),),
        (Policy.LatencyBudget(0),),
        "a latency budget of 0 s",
    ),
    "ownership": ((Policy.Ownership.Exclusive,), (Policy.Ownership.Shared,), "shared ownership"),
    "destination order": (
        (Policy.DestinationOrder.ByReceptionTimestamp,),
        (Policy.DestinationOrder.BySourceTimestamp,),
        "order by source time",
    ),
    "presentation": (
        (),
        (Policy.PresentationAccessScope.Topic(coherent_access=False, ordered_access=True),),
        "topic access, ordered",
    ),
    "data representation": (
        (Policy.DataRepresentation(use_xcdrv2_representation=True),),
        (Policy.DataRepresentation(use_cdrv0_representation=True),),
        "asks for XCDR1",
    ),
    "partition": ((), (), "partition 'there'"),
}


@pytest.mark.parametrize("policy", PAIRS)
async def test_a_mismatch_of_each_policy_is_named_in_words_with_both_programs(raw: Raw, policy: str) -> None:
    offered, asked, words = PAIRS[policy]
    kind = idl_type(FUNCTION_EXECUTION_REPLY)
    base_w, base_r = Qos(RELIABLE), Qos(RELIABLE)
    scope = "PresentationAccessScope"
    for_group = tuple(one for one in asked if one.__scope__ == scope)
    places = {"partition": ("here", "there")}.get(policy, ("", ""))
    other = raw.join()
    writer = raw.write("ChainEvent", kind, Qos(*offered, base=base_w), partition=places[0])
    if for_group:
        subscriber = Subscriber(other, qos=Qos(*for_group))
        reader = DataReader(subscriber, Topic(other, "ChainEvent", kind), base_r)
    else:
        reader = raw.read("ChainEvent", kind, Qos(*asked, base=base_r), partition=places[1], whose=other)
    assert writer.get_matched_subscriptions() == []
    found = await looked(raw)
    said = [one for one in found.findings if one.code == "qos-mismatch"]
    assert len(said) == 1, said
    assert f"'ChainEvent' ({policy})" in said[0].message
    assert words in said[0].message
    assert "never match" in said[0].message
    assert said[0].message.count("process ") == 2
    assert said[0].hint
    del reader


KEY = {"a": {"key": True, "must_understand": True}}


def fields(**kinds: Any) -> type[IdlStruct]:
    return annotations.appendable(make_idl_struct("FunctionCapability", "FunctionCapability", kinds))


def other_name() -> type[IdlStruct]:
    return annotations.appendable(make_idl_struct("Other", "Other", {"a": int32}))


TYPES: dict[str, tuple[Callable[[], Any], str]] = {
    "without a key": (lambda: fields(function_id=str, name=str), "a type with a key"),
    "of another name": (other_name, "a type with a key"),
    "with another member": (
        lambda: annotations.appendable(
            make_idl_struct(
                "FunctionCapability",
                "FunctionCapability",
                {"function_id": bounded_str[128], "name": int32},
                field_annotations={"function_id": {"key": True}},
            )
        ),
        "asks for string 'name' as member 2",
    ),
}


@pytest.mark.parametrize("made", TYPES)
async def test_another_type_under_the_same_topic_name_is_told(raw: Raw, made: str) -> None:
    kind, words = TYPES[made]
    raw.write("FunctionCapability", kind(), OFFERS)
    said = findings(await looked(raw), "type-mismatch")
    assert any(words in one for one in said), said


def mostly(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    """So that about half of all pairs match."""
    return st.sampled_from([usual] * 3 * len(others) + list(others))


FOR_EVER = duration(infinite=True)
TIMES = mostly(FOR_EVER, duration(milliseconds=500), duration(seconds=2))


@st.composite
def any_qos(draw: Any) -> Qos:
    liveliness, ways, order = Policy.Liveliness, Policy.DataRepresentation, Policy.DestinationOrder
    kind = draw(mostly(liveliness.Automatic, liveliness.ManualByParticipant, liveliness.ManualByTopic))
    return Qos(
        draw(mostly(RELIABLE, Policy.Reliability.BestEffort)),
        draw(mostly(Policy.Durability.TransientLocal, Policy.Durability.Volatile)),
        Policy.Deadline(draw(TIMES)),
        Policy.LatencyBudget(draw(mostly(0, duration(seconds=1)))),
        draw(mostly(Policy.Ownership.Shared, Policy.Ownership.Exclusive)),
        draw(mostly(order.ByReceptionTimestamp, order.BySourceTimestamp)),
        kind(draw(TIMES)),
        draw(mostly(ways(use_cdrv0_representation=True), ways(use_xcdrv2_representation=True))),
    )


@st.composite
def any_group(draw: Any) -> Qos:
    access = Policy.PresentationAccessScope
    names = mostly("", "a", "ab", "a*", "?", "b")
    return Qos(
        Policy.Partition(tuple(draw(st.lists(names, min_size=1, max_size=2, unique=True)))),
        draw(mostly(access.Instance, access.Topic))(
            coherent_access=draw(mostly(False, True)), ordered_access=draw(mostly(False, True))
        ),
    )


@given(any_qos(), any_qos(), any_group(), any_group())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_our_judgement_of_two_endpoints_is_that_of_the_library(
    raw: Raw, offered: Qos, asked: Qos, here: Qos, there: Qos
) -> None:
    whose = raw.join()
    with ExitStack() as stack:
        topic = Topic(whose, "Pair", idl_type(FUNCTION_EXECUTION_REPLY))
        publisher, subscriber = Publisher(whose, qos=here), Subscriber(whose, qos=there)
        writer, reader = DataWriter(publisher, topic, offered), DataReader(subscriber, topic, asked)
        for entity in (topic, publisher, subscriber, writer, reader):
            stack.callback(entity.__del__)
        ours, theirs = (
            announced(whose, builtin, writes=writes, guid=entity.guid)
            for entity, builtin, writes in (
                (writer, BuiltinTopicDcpsPublication, True),
                (reader, BuiltinTopicDcpsSubscription, False),
            )
        )
        matched = bool(writer.get_matched_subscriptions())
        assert (mismatches(ours, theirs) == ()) is matched, mismatches(ours, theirs)


MEMBERS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c"]), mostly(str, int32, int64, bounded_str[8])),
    min_size=1,
    max_size=3,
    unique_by=lambda member: member[0],
)


@given(MEMBERS, MEMBERS, mostly(True, False), mostly(True, False), st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_our_judgement_of_two_types_is_that_of_the_library(
    raw: Raw, one: Any, other: Any, open_one: bool, open_other: bool, prefix: bool
) -> None:
    if prefix:
        other = one[: len(other)]
    made = [
        (annotations.appendable if is_open else annotations.final)(make_idl_struct("T", "T", dict(members)))
        for members, is_open in ((one, open_one), (other, open_other))
    ]
    with ExitStack() as stack:
        whose = [DomainParticipant(raw.config.domain) for _ in made]
        topics = [Topic(who, "T", kind) for who, kind in zip(whose, made, strict=True)]
        writer, reader = DataWriter(whose[0], topics[0], CALLS), DataReader(whose[1], topics[1], CALLS)
        for entity in (*whose, *topics, writer, reader):
            stack.callback(entity.__del__)
        looking = stack.enter_context(Observer(raw.config))
        looking.look()
        ends = {end.writes: end for end in looking.seen().endpoints if end.topic == "T"}
        matched = bool(writer.get_matched_subscriptions())
        assert (mismatches(ends[True], ends[False]) == ()) is matched, ends


KEYS = st.sampled_from([str, bounded_str[8], bounded_str[16], int32])


@given(KEYS, KEYS)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_our_judgement_of_two_keys_is_that_of_the_library(raw: Raw, one: Any, other: Any) -> None:
    made = [
        annotations.appendable(make_idl_struct("T", "T", {"a": kind}, field_annotations=KEY))
        for kind in (one, other)
    ]
    with ExitStack() as stack:
        whose = [DomainParticipant(raw.config.domain) for _ in made]
        topics = [Topic(who, "T", kind) for who, kind in zip(whose, made, strict=True)]
        writer, reader = DataWriter(whose[0], topics[0], CALLS), DataReader(whose[1], topics[1], CALLS)
        for entity in (*whose, *topics, writer, reader):
            stack.callback(entity.__del__)
        looking = stack.enter_context(Observer(raw.config))
        looking.look()
        ends = {end.writes: end for end in looking.seen().endpoints if end.topic == "T"}
        matched = bool(writer.get_matched_subscriptions())
        assert (mismatches(ends[True], ends[False]) == ()) is matched, ends


async def test_functions_whose_key_has_no_bound_are_not_callable_and_that_is_told_once(raw: Raw) -> None:
    raw.offer(GOOD, kind=UNBOUNDED_KEY)
    raw.answer()
    watching = raw.join()  # as a host's reader
    raw.read("FunctionCapability", idl_type(FUNCTION_CAPABILITY), CAPABILITY_READER, whose=watching)
    found = await looked(raw)
    (finding,) = found.findings
    assert finding.code == "type-mismatch"
    assert "asks for @key string<128> 'function_id' as member 1" in finding.message
    assert "offers @key string 'function_id': they never match" in finding.message
    (function,) = found.capabilities
    assert function.why_not == "its endpoint of capabilities does not match those of hosts: type"


async def test_a_type_of_requests_that_is_apart_is_told_once(raw: Raw) -> None:
    kind = make_idl_struct("FunctionExecutionRequest", "FunctionExecutionRequest", {"request_id": int32})
    raw.offer(GOOD)
    raw.read("FunctionExecutionRequest", annotations.appendable(kind), CALLS)
    raw.write("FunctionExecutionReply", idl_type(FUNCTION_EXECUTION_REPLY), CALLS)
    caller = raw.join()
    raw.answer(caller)
    raw.write("FunctionExecutionRequest", idl_type(FUNCTION_EXECUTION_REQUEST), CALLS, whose=caller)
    found = await looked(raw)
    assert [one.code for one in found.findings] == ["type-mismatch"]
    assert found.capabilities[0].why_not == "its endpoint of requests does not match those of hosts: type"


USELESS = {
    "is not the one that its provider and name make": replace(
        GOOD,
        provider_id="6f1a5f0e-6c1c-5d8c-9a53-0d3a4f1f6e12",
        classification=json.dumps({"incarnation": "0" * 32}),
    ),
    "it is no schema of an object": replace(GOOD, parameter_schema='{"type":"string"}'),
    "characters that cannot be shown": replace(GOOD, service_name="shop\n"),
}


async def test_what_hosts_judge_of_no_use_is_not_callable_and_told_in_their_words(raw: Raw) -> None:
    for number, one in enumerate(USELESS.values()):
        raw.offer(replace(one, function_id=f"6f1a5f0e-6c1c-5d8c-9a53-0d3a4f1f6e{number:02}"))
    raw.answer()
    found = await looked(raw)
    said = findings(found, "malformed-capability")
    assert [words for words in USELESS if not any(words in one for one in said)] == []
    assert sorted(one.why_not for one in found.capabilities) == sorted(
        understand(one.offer.capability).fault for one in found.capabilities
    )
    assert not any(one.callable for one in found.capabilities)
    assert not found.ok


async def test_requests_in_a_partition_where_nobody_reads_are_doubtful(raw: Raw) -> None:
    kind = idl_type(FUNCTION_EXECUTION_REQUEST)
    identity = Identity(None)
    own = f"eh.{identity.incarnation}"
    host = raw.join()
    topic = Topic(host, "FunctionExecutionRequest", kind)
    subscriber = Subscriber(host, qos=Qos(Policy.Partition(("", own))))
    reader = DataReader(subscriber, topic, CALLS)
    for partition in ("", own, "plant", f"eh.{'0' * 32}"):
        raw.write("FunctionExecutionRequest", kind, CALLS, partition=partition)
    with Observer(raw.config):  # whoever looks writes none
        found = await looked(raw)
    said = findings(found, "unread-requests")
    assert [one.partition("partition ")[2].partition(",")[0] for one in sorted(said)] == [
        f"'eh.{'0' * 32}'",
        "'plant'",
    ]
    assert found.ok
    for entity in (reader, subscriber, topic):
        entity.__del__()


async def test_a_copy_of_a_hosts_capability_makes_no_host(raw: Raw) -> None:
    identity = Identity(None)
    copied = capability_of(FunctionSignature("sum"), identity, "calc", 1, public=True)
    raw.offer(GOOD, copied)
    raw.answer()
    host = raw.join()
    raw.offer(copied, whose=host)
    raw.read(
        "FunctionExecutionRequest",
        idl_type(FUNCTION_EXECUTION_REQUEST),
        CALLS,
        partition=f"eh.{identity.incarnation}",
        whose=host,
    )
    raw.write("FunctionExecutionReply", idl_type(FUNCTION_EXECUTION_REPLY), CALLS, whose=host)
    found = await looked(raw)
    assert [(one.kind, one.incarnation) for one in found.members] == [
        ("enginehost", identity.incarnation),
        ("other", ""),
    ]
    callable_by = {(one.offer.program, one.offer.capability.name): one.callable for one in found.capabilities}
    copier = found.members[1].program.key
    assert [callable_by[copier, "sum"], list(callable_by.values()).count(True)] == [False, 2]


async def test_capabilities_with_fewer_members_are_read_as_hosts_read_them(raw: Raw) -> None:
    kind: Any = annotations.appendable(
        make_idl_struct(
            "FunctionCapability",
            "FunctionCapability",
            {"function_id": bounded_str[128], "name": str, "description": str, "provider_id": str},
            field_annotations={"function_id": {"key": True, "must_understand": True}},
        )
    )
    sample = kind(function_id=GOOD.function_id, name="add", description="", provider_id="a-host")
    wide = Qos(Policy.DataRepresentation(use_xcdrv2_representation=True), base=OFFERS)
    raw.write("FunctionCapability", kind, wide).write(sample)
    raw.answer()
    found = await looked(raw)
    assert found.findings == ()
    assert [(one.offer.capability.name, one.callable) for one in found.capabilities] == [("add", True)]
    raw.write("FunctionCapability", kind, OFFERS, whose=raw.join()).write(sample)
    (said,) = findings(await looked(raw), "malformed-sample")
    assert "has 4 of 11 members: written as XCDR1" in said


async def test_a_service_that_two_trusted_keys_sign_is_told(raw: Raw, tmp_path: Path) -> None:
    trusted = tmp_path / "trusted.yaml"
    keys = {"plant-a": new_key(), "plant-b": new_key()}
    for name, key in keys.items():
        trust_key(trusted, KeyEntry(name=name, key=written(key.public)))
        raw.offer(sign_capability(replace(GOOD, function_id=str(uuid.uuid4())), key), whose=raw.join())
    found = await survey(replace(raw.config, trust_file=trusted), 0.05)
    (said,) = findings(found, "service-of-two-keys")
    assert "'shop'" in said
    assert "'plant-a'" in said
    assert "'plant-b'" in said
    assert findings(await looked(raw), "service-of-two-keys") == []
    trusted.write_text(trusted.read_text() + "  services: [stock]\n")  # of plant-b
    found = await survey(replace(raw.config, trust_file=trusted), 0.05)
    assert findings(found, "service-of-two-keys") == []
    (said,) = findings(found, "service-of-another-key")
    assert "the service 'shop' with the key of 'plant-b'" in said


def announced(whose: Any, builtin: Any, *, writes: bool, guid: Any) -> Endpoint:
    reader = BuiltinDataReader(whose, builtin)
    try:
        found = next(one for one in reader.take(500) if getattr(one, "key", None) == guid)
    finally:
        reader.__del__()
    return endpoint_of(found, writes=writes)


def test_partitions_meet_by_name_or_by_pattern() -> None:
    assert partitions_meet(("",), ())
    assert partitions_meet(("", "eh.*"), ("eh.12",))
    assert not partitions_meet(("plant",), ("",))
    assert not partitions_meet(("a*",), ("a*",))


async def test_samples_that_cannot_be_read_are_counted_and_take_no_other_with_them(raw: Raw) -> None:
    kind: Any = idl_type(UNBOUNDED)
    from enginehost.databus.cyclone.wire import serialized, write

    writer = raw.offer(GOOD)
    sample = kind(**{one.name: getattr(GOOD, one.name) for one in FUNCTION_CAPABILITY.members})
    sample.function_id, sample.name = "other", "latin"
    write(writer, serialized(sample).replace(b"latin", b"l\xe4tin"))
    raw.answer()
    found = await looked(raw)
    assert [one.offer.capability.name for one in found.capabilities] == ["add"]
    assert len(findings(found, "malformed-sample")) == 1


async def test_a_full_domain_is_told(dds_domain: int) -> None:
    with ExitStack() as stack:
        for index in range(112):
            taken = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            try:
                taken.bind(("0.0.0.0", 7410 + 250 * dds_domain + 2 * index))
            except OSError:
                continue  # it is taken as it is
        found = await survey(DatabusConfig(domain=dds_domain), 0.1)
    assert [one.code for one in found.findings] == ["domain-full"]
    assert not found.ok


CHILD = """
import sys, time
from enginehost.databus.cyclone.domain import enter_domain
from enginehost.databus.config import DatabusConfig
sys.path.insert(0, sys.argv[2])
import peer
from cyclonedds.pub import DataWriter
enter_domain(DatabusConfig(domain=int(sys.argv[1]), lease=10.0))
participant = peer.DomainParticipant(int(sys.argv[1]))
kind = peer.FunctionCapability
writer = DataWriter(participant, peer.Topic(participant, "FunctionCapability", kind), peer.DISCOVERY)
writer.write(kind(function_id="6f1a5f0e-6c1c-5d8c-9a53-0d3a4f1f6e11", name="add"))
print("written", flush=True)
sys.stdin.read()
"""


async def test_a_provider_that_hangs_is_told_and_seen_again_when_it_goes_on(dds_domain: int) -> None:
    folder = str(__file__).rpartition("/")[0]
    config = DatabusConfig(domain=dds_domain)
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(dds_domain), folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        try:
            assert child.stdout is not None
            await asyncio.to_thread(child.stdout.readline)
            with Observer(config) as looking:

                def until(state: list[bool]) -> Survey:
                    end = time.monotonic() + 20
                    while True:
                        looking.look()
                        sight = looking.seen()
                        if [one.lost for one in sight.offers] == state:
                            return judged(config, sight, Signing(), findings_of(config, sight, Signing()))
                        assert time.monotonic() < end, sight.offers

                there = until([False])
                child.send_signal(signal.SIGSTOP)
                lost = until([True])
                assert len(findings(lost, "silent")) == 1
                assert lost.capabilities[0].why_not == "its provider is not heard of any more"
                child.send_signal(signal.SIGCONT)
                back = until([False])
                assert child.stdin is not None
                child.stdin.close()
                gone = until([])
        finally:
            child.kill()
    assert [one.event for one in happenings(there, lost)] == ["function-lost"]
    assert [one.event for one in happenings(lost, back)] == ["function-back"]
    assert [one.event for one in judgements(lost, back) if one.about["code"] == "silent"] == ["finding-over"]
    assert "function-gone" in [one.event for one in happenings(back, gone)]


TEXT = st.text(max_size=40) | st.sampled_from(["{}", "[" * 2_000, '{"type":7}', "\0", "a" * 9_000])


@given(st.builds(Capability, *(TEXT,) * 9, st.integers(-(2**63), 2**63 - 1), TEXT), st.booleans())
@settings(max_examples=100, deadline=None)
def test_no_capability_upsets_the_judgement(capability: Capability, lost: bool) -> None:
    program = Program("0101" + "0" * 28)
    sight = Sight(
        programs=(program,),
        endpoints=(
            Endpoint(
                "w", program.key, "FunctionCapability", "x", writes=True, keyed=True, policies=Policies()
            ),
        ),
        offers=(Offer(capability, program.key, 0.0, 1.0, lost=lost),),
    )
    found = judged(DatabusConfig(), sight, Signing(), findings_of(DatabusConfig(), sight, Signing()))
    json.dumps(found.to_json(), allow_nan=False)
    assert all(one.isprintable() for one in faults_of(capability))


def test_durabilities_and_infinite_times_compare_as_dds_says() -> None:
    weak, strong = Policies(durability=DURABILITIES[0]), Policies(durability=DURABILITIES[3])
    ends = [
        Endpoint("k", "p", "t", "t", writes=True, keyed=False, policies=policies)
        for policies in (weak, strong)
    ]
    assert [one.policy for one in mismatches(ends[0], ends[1])] == ["durability"]
    assert mismatches(ends[1], ends[0]) == ()
    assert Policies().lease == math.inf


async def test_a_bad_trust_file_is_told_with_its_line(dds_domain: int, tmp_path: Path) -> None:
    trusted = tmp_path / "trusted.yaml"
    trusted.write_text("keys: [{name: a, key: nonsense}]\n")
    found = await survey(DatabusConfig(domain=dds_domain, trust_file=trusted), 0.1)
    (said,) = findings(found, "keys")
    assert "trusted.yaml:1:" in said
    assert not found.ok


async def test_what_the_settings_name_and_is_not_there_is_told(raw: Raw, tmp_path: Path) -> None:
    config = replace(raw.config, trust_file=tmp_path / "none.yaml")
    sight = Sight(programs=(Program("0110" + "0" * 28),), lost_peers=("nope.invalid",))
    said = findings_of(config, sight, Signing())
    assert [one.code for one in said] == ["lost-peers", "keys"]
    assert "nope.invalid" in said[0].message


async def test_a_missing_library_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "enginehost.databus.cyclone.survey", None)
    found = await survey(DatabusConfig(), 0.1)
    assert [(one.code, one.hint) for one in found.findings] == [("no-dds-library", "pip install cyclonedds")]
