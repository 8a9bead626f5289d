"""What is read of a request, whatever a peer wrote."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.databus.metadata import (
    CANCEL,
    CREDIT,
    GO,
    MOST_CREDIT,
    STATUS,
    UNKNOWN_CONTROL,
    RequestMetadata,
    is_incarnation,
    partition_of,
)
from enginehost.trace_context import TraceContext

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
TOLD = ["timeout", "traceparent", "tracestate", "incarnation", "from", "caller", "reply_partition"]
ASKED = ["ack", "hold", "stream", "credit", "batch", "control", "seq", "key"]
NAMES = st.sampled_from(TOLD + ASKED)


@settings(max_examples=100, deadline=None)
@given(st.text() | JSON.map(json.dumps) | st.dictionaries(NAMES, JSON).map(json.dumps))
def test_no_metadata_is_an_error(text):
    read = RequestMetadata.read(text.encode(errors="replace"))
    assert read.timeout is None or 0 < read.timeout < 1e9
    assert 0 <= read.trace.trace < 2**128
    assert 0 <= read.trace.parent < 2**64
    assert isinstance(read.incarnation, str)
    assert read.reply_partition == "" or is_incarnation(read.reply_partition.removeprefix("eh."))
    assert 0 <= read.credit <= MOST_CREDIT
    assert read.control in ("", CANCEL, CREDIT, GO, STATUS, UNKNOWN_CONTROL)


@pytest.mark.parametrize("timeout", [0, -1, "5", True, 1e9, None, []])
def test_a_timeout_that_is_no_positive_number_of_seconds_is_not_said(timeout):
    assert RequestMetadata.read(json.dumps({"timeout": timeout}).encode()).timeout is None


def test_what_is_said_is_read():
    said = {
        "timeout": 2,
        "traceparent": f"00-{'0' * 31}5-{'0' * 15}6-00",
        "tracestate": "a=b",
        "incarnation": "i",
        "from": "0" * 32,
        "caller": "alice",
        "reply_partition": partition_of("0" * 32),
        "ack": True,
        "hold": True,
        "stream": True,
        "credit": 64,
        "batch": True,
    }
    trace = TraceContext(5, 6, sampled=False, state="a=b")
    assert RequestMetadata.read(json.dumps(said).encode()) == RequestMetadata(
        2.0,
        trace,
        "i",
        "0" * 32,
        "alice",
        partition_of("0" * 32),
        ack=True,
        hold=True,
        stream=True,
        credit=64,
        batch=True,
    )


@pytest.mark.parametrize("partition", ["*", "eh.*", "eh." + "?" * 32, "eh." + "0" * 33, "other", 7, None])
def test_a_partition_that_is_none_of_ours_is_not_said(partition):
    said = json.dumps({"reply_partition": partition}).encode()
    assert RequestMetadata.read(said).reply_partition == ""
