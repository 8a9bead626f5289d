"""A survey of the bus tells where types are apart, and judges them as the library does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from enginehost.databus.matching import mismatches

pytest.importorskip("cyclonedds")
from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import IdlStruct, annotations, make_idl_struct
from cyclonedds.idl.types import bounded_str, int32, int64
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

from enginehost.databus.cyclone.qos import CAPABILITY_READER
from enginehost.databus.cyclone.survey import Observer
from enginehost.databus.cyclone.wire import idl_type
from enginehost.databus.types import (
    FUNCTION_CAPABILITY,
    FUNCTION_EXECUTION_REPLY,
    FUNCTION_EXECUTION_REQUEST,
)

from .raw_peers import CALLS, GOOD, OFFERS, Raw, findings, looked, mostly

UNBOUNDED_KEY = replace(
    FUNCTION_CAPABILITY, members=tuple(replace(one, bound=0) for one in FUNCTION_CAPABILITY.members)
)

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


def assert_judged_as_by_the_library(raw: Raw, kinds: Sequence[type[IdlStruct]]) -> None:
    """A writer of the first kind and a reader of the second match if we say so, and only then."""
    with ExitStack() as stack:
        whose = [DomainParticipant(raw.config.domain) for _ in kinds]
        topics = [Topic(who, "T", kind) for who, kind in zip(whose, kinds, strict=True)]
        writer, reader = DataWriter(whose[0], topics[0], CALLS), DataReader(whose[1], topics[1], CALLS)
        for entity in (*whose, *topics, writer, reader):
            stack.callback(entity.__del__)
        looking = stack.enter_context(Observer(raw.config))
        looking.look()
        ends = {end.writes: end for end in looking.seen().endpoints if end.topic == "T"}
        matched = bool(writer.get_matched_subscriptions())
        assert (mismatches(ends[True], ends[False]) == ()) is matched, ends


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
    assert_judged_as_by_the_library(raw, made)


KEYS = st.sampled_from([str, bounded_str[8], bounded_str[16], int32])


@given(KEYS, KEYS)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_our_judgement_of_two_keys_is_that_of_the_library(raw: Raw, one: Any, other: Any) -> None:
    made = [
        annotations.appendable(make_idl_struct("T", "T", {"a": kind}, field_annotations=KEY))
        for kind in (one, other)
    ]
    assert_judged_as_by_the_library(raw, made)


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
