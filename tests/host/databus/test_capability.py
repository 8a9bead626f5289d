"""A function's advertisement, derived from its signature and fitted to the type."""

from __future__ import annotations

import json
import math
from bisect import bisect_left

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.databus.capability import capability_of, shorten
from enginehost.databus.identity import Identity
from enginehost.databus.keys import new_key
from enginehost.databus.measured import PERCENTILES, measured
from enginehost.databus.signing import sign_capability
from enginehost.databus.struct import Kind
from enginehost.databus.types import FUNCTION_CAPABILITY
from enginehost.record import BUCKETS, Stats
from enginehost.signature import Annotations, FunctionSignature

IDENTITY = Identity(None)
KEY = new_key()


def capability(**signature):
    signature.setdefault("name", "add")
    return capability_of(FunctionSignature(**signature), IDENTITY, "calculator", 7, public=False)


def object_with(count: int) -> dict[str, object]:
    properties = {f"p{n}": {"type": "string", "description": "é" * 20} for n in range(count)}
    return {"type": "object", "properties": properties}


WILD = st.text(max_size=400)  # lone surrogates and NUL among it
SIGNATURES = st.builds(
    FunctionSignature,
    name=st.text(min_size=1, max_size=300),
    description=st.one_of(WILD, st.just("é" * 3_000)),
    parameters=st.one_of(
        st.integers(0, 300).map(object_with),
        st.dictionaries(WILD, st.just({"type": "integer"}), max_size=3).map(
            lambda p: {"type": "object", "properties": p}
        ),
    ),
    tags=st.lists(st.one_of(WILD, st.just("x" * 1_500)), max_size=5).map(tuple),
    annotations=st.builds(
        Annotations,
        title=st.one_of(st.none(), WILD, st.just("\x01" * 900)),
        read_only=st.none() | st.booleans(),
    ),
    streaming=st.booleans(),
)


@settings(max_examples=60, deadline=None)
@given(SIGNATURES)
def test_every_capability_fits_its_type_and_holds_json(signature):
    stats = Stats()
    stats.add("ok", 2.0)
    made = capability_of(signature, IDENTITY, "s", 7, public=True, stats=stats)
    assert len(sign_capability(made, KEY).classification.encode()) <= FUNCTION_CAPABILITY.bound(
        "classification"
    )
    for member in FUNCTION_CAPABILITY.members:
        value = getattr(made, member.name)
        if member.kind is Kind.STRING:
            assert "\0" not in value
            assert len(value.encode()) <= member.bound
    assert json.loads(made.parameter_schema)["type"] == "object"
    assert isinstance(json.loads(made.capabilities), list)
    for member in ("performance_metrics", "security_requirements", "classification"):
        assert isinstance(json.loads(getattr(made, member)), dict)


def test_a_description_that_does_not_fit_is_cut_with_a_warning(caplog):
    made = capability(description="é" * 3_000)
    assert made.description == "é" * 1_022 + "…"
    assert "add: its description has 6000 bytes, the databus carries 2048" in caplog.text


def test_a_schema_that_does_not_fit_is_an_open_object_with_a_comment(caplog):
    made = capability(parameters=object_with(300))
    schema = json.loads(made.parameter_schema)
    assert schema.keys() == {"type", "$comment"}
    assert "parameter_schema" in caplog.text


def test_of_tags_as_many_stay_as_fit(caplog):
    made = capability(tags=("math", "x" * 1_500, "y" * 1_500))
    assert json.loads(made.capabilities) == ["math", "x" * 1_500]
    assert "capabilities" in caplog.text


def test_replicas_have_one_schema_hash_and_other_ids():
    def hash_of(made):
        return json.loads(made.classification)["schema"]

    here = capability(parameters=object_with(2))
    there = capability_of(
        FunctionSignature("add", parameters=object_with(2)), Identity(None), "calculator", 9, public=False
    )
    assert here.function_id != there.function_id
    assert hash_of(here) == hash_of(there) != hash_of(capability(parameters=object_with(3)))


def test_functions_that_answer_otherwise_are_no_replicas():
    shapes = {
        json.loads(capability(**other).classification)["schema"]
        for other in (
            {},
            {"result": {"type": "integer"}},
            {"result": {"type": "string"}},
            {"streaming": True},
        )
    }
    assert len(shapes) == 4


def test_what_the_signature_says_of_a_call_is_told():
    made = capability(
        annotations=Annotations(title="Add", idempotent=True, destructive=False), streaming=True
    )
    said = json.loads(made.classification)
    assert said["streaming"] is True
    assert said["annotations"] == {"title": "Add", "idempotent": True, "destructive": False}
    assert json.loads(capability().classification).keys() == {"incarnation", "schema"}


def test_security_says_whether_a_signature_is_needed():
    public = capability_of(FunctionSignature("f"), IDENTITY, "s", 7, public=True)
    assert json.loads(public.security_requirements) == {"level": "public"}
    assert json.loads(capability().security_requirements) == {
        "level": "authenticated",
        "signature": "ed25519",
    }


def test_before_the_first_call_nothing_is_said_of_performance():
    assert json.loads(capability().performance_metrics) == {}
    assert measured(Stats()) == {}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 60), min_size=1, max_size=50))
def test_performance_is_what_was_measured_as_far_as_the_histogram_tells(durations):
    stats = Stats()
    for number, seconds in enumerate(durations):
        stats.add("timeout" if number % 3 else "ok", seconds)
    told = measured(stats)
    latency = told["latency_ms"]
    assert told["calls"] == len(durations)
    assert told["errors"] == len(durations) - (len(durations) + 2) // 3
    assert latency["mean"] == pytest.approx(sum(durations) / len(durations) * 1e3, abs=0.001)
    for name, share in PERCENTILES:
        exact = sorted(durations)[max(0, math.ceil(share * len(durations)) - 1)]
        bar = bisect_left(BUCKETS, exact)
        low, high = (0.0, *BUCKETS, BUCKETS[-1])[bar], (*BUCKETS, BUCKETS[-1])[bar]
        assert low * 1e3 <= latency[name] + 0.001
        assert latency[name] <= high * 1e3 + 0.001


def test_the_incarnation_is_told():
    assert json.loads(capability().classification)["incarnation"] == IDENTITY.incarnation


@pytest.mark.parametrize("bound", [3, 10, 100])
@given(st.text(max_size=150))
@settings(max_examples=50, deadline=None)
def test_shortened_text_is_a_start_of_the_text(bound, text):
    short = shorten(text, bound)
    clean = text.replace("\0", "\ufffd").encode(errors="replace").decode()
    assert len(short.encode()) <= bound
    assert short == clean or (short.endswith("…") and clean.startswith(short[:-1]))
