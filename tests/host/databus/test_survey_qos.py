"""A survey of the bus tells where policies and partitions are apart, and judges them as the library does."""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from enginehost.databus.identity import Identity
from enginehost.databus.matching import DURABILITIES, Endpoint, Policies, mismatches, partitions_meet

pytest.importorskip("cyclonedds")
from cyclonedds.builtin import (
    BuiltinDataReader,
    BuiltinTopicDcpsPublication,
    BuiltinTopicDcpsSubscription,
)
from cyclonedds.pub import DataWriter, Publisher
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader, Subscriber
from cyclonedds.topic import Topic
from cyclonedds.util import duration

from enginehost.databus.cyclone.announced import endpoint_of
from enginehost.databus.cyclone.survey import Observer
from enginehost.databus.cyclone.wire import idl_type
from enginehost.databus.types import (
    FUNCTION_EXECUTION_REPLY,
    FUNCTION_EXECUTION_REQUEST,
)

from .raw_peers import CALLS, Raw, findings, looked, mostly

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


def test_durabilities_and_infinite_times_compare_as_dds_says() -> None:
    weak, strong = Policies(durability=DURABILITIES[0]), Policies(durability=DURABILITIES[3])
    ends = [
        Endpoint("k", "p", "t", "t", writes=True, keyed=False, policies=policies)
        for policies in (weak, strong)
    ]
    assert [one.policy for one in mismatches(ends[0], ends[1])] == ["durability"]
    assert mismatches(ends[1], ends[0]) == ()
    assert Policies().lease == math.inf
