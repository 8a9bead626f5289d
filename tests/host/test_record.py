"""What is written down of calls, whatever happens to those who write."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.errors import EngineHostError, ExecutionFailed, InvalidArguments, InvalidRequest
from enginehost.json_arguments import read_object
from enginehost.record import BUCKETS, RawRecord, Recorder, Stats, call_record, cause_text, keep_places
from enginehost.validation import pointer


def raw(number: int, function: str = "f") -> tuple[Any, ...]:
    return (1e9, function, "e", "s", "t", "python", number, 1, 0, "ok", 0.001, None, None, None, "")


class Kept:
    """A sink that remembers, and may be held or made to fail."""

    def __init__(self) -> None:
        self.spans: list[int] = []
        self.open = threading.Event()
        self.open.set()
        self.entered = threading.Event()
        self.failures = 0

    def __call__(self, records: Sequence[RawRecord]) -> None:
        self.entered.set()
        assert self.open.wait(10)
        if self.failures:
            self.failures -= 1
            raise ValueError("not today")
        self.spans += [record.span for record in records]


def test_an_audit_is_complete_and_in_order_though_its_queue_is_full() -> None:
    kept = Kept()
    recorder = Recorder([kept], lossless=True, capacity=7)
    recorder.start()
    for number in range(5000):
        recorder.put(raw(number))
    recorder.stop()
    assert kept.spans == list(range(5000))
    assert recorder.dropped == 0


def test_without_an_audit_a_full_queue_drops_and_counts_and_never_waits() -> None:
    kept = Kept()
    recorder = Recorder([kept], lossless=False, capacity=10)
    recorder.start()
    kept.open.clear()
    recorder.put(raw(0))
    assert kept.entered.wait(10)
    for number in range(1, 31):
        recorder.put(raw(number))
    kept.open.set()
    recorder.stop()
    assert kept.spans == list(range(11))
    assert recorder.dropped == 20


def test_a_sink_that_fails_hurts_no_other_and_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    broken, kept = Kept(), Kept()
    broken.failures = 3
    recorder = Recorder([broken, kept], lossless=True)
    for number in range(6):
        recorder.put(raw(number))
        recorder.flush()
    assert kept.spans == list(range(6))
    assert broken.spans == [3, 4, 5]
    messages = [record.getMessage() for record in caplog.records]
    assert messages == [
        "call records cannot be written: not today",
        "call records are written again; 3 of them were lost",
    ]
    assert recorder.dropped == 3


def test_a_sink_that_exits_does_not_end_the_writer() -> None:
    kept = Kept()

    def exits(records: Sequence[RawRecord]) -> None:
        raise SystemExit(3)

    recorder = Recorder([exits, kept], lossless=False)
    recorder.start()
    recorder.put(raw(1))
    recorder.stop()
    assert kept.spans == [1]


def test_a_record_that_comes_after_the_end_is_counted_and_said(caplog: pytest.LogCaptureFixture) -> None:
    kept = Kept()
    recorder = Recorder([kept], lossless=True)
    recorder.start()
    recorder.stop()
    with caplog.at_level(logging.WARNING):
        recorder.put(raw(1, "late"))
    assert recorder.dropped == 1
    assert "late" in caplog.text


def test_a_recorder_that_never_started_still_writes_when_stopped() -> None:
    kept = Kept()
    recorder = Recorder([kept], lossless=True)
    recorder.put(raw(1))
    recorder.stop()
    assert kept.spans == [1]


@given(seconds=st.lists(st.floats(0, 100), max_size=40))
@settings(max_examples=60, deadline=None)
def test_each_call_is_counted_in_the_first_bucket_it_fits(seconds: list[float]) -> None:
    stats = Stats()
    for each in seconds:
        stats.add("ok", each)
    for place, bound in enumerate(BUCKETS):
        assert sum(stats.buckets[: place + 1]) == sum(each <= bound for each in seconds)
    assert stats.calls == len(seconds) == stats.outcomes.get("ok", 0)


def test_a_record_keeps_the_end_of_a_long_cause_and_nothing_else_of_the_error() -> None:
    try:
        try:
            raise ValueError("x" * 20_000 + "the end")
        except ValueError as error:
            raise ExecutionFailed("f failed") from error
    except ExecutionFailed as error:
        text = cause_text(error)
        record = call_record(RawRecord._make((*raw(1)[:11], error, None, None, "")))
    assert len(text) == 8000
    assert text.endswith("the end\n")
    assert record.error == "f failed"


def test_how_the_host_ends_a_call_is_no_cause():
    for cause in (asyncio.CancelledError(), EngineHostError("the host's own")):
        error = EngineHostError("it took too long")
        error.__cause__ = cause
        assert cause_text(error) == ""
    error = EngineHostError("it broke")
    error.__cause__ = RuntimeError("why")
    assert "RuntimeError: why" in cause_text(error)


def test_what_a_caller_sent_wrong_leaves_no_traceback() -> None:
    for body in (b"{", b"\xff", b'{"a": NaN}'):
        with pytest.raises(InvalidRequest) as refused:
            read_object(body)
        assert cause_text(refused.value) == ""
    failed = ExecutionFailed("f failed")
    failed.__cause__ = ValueError("a function's own")
    assert "a function's own" in cause_text(failed)


NAMES = st.sampled_from(["name", "a/b", "a~b", "0", "7777", "secret", ""])
VALUES = st.recursive(
    st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=10,
)


@given(
    arguments=st.dictionaries(NAMES, VALUES, max_size=3),
    path=st.lists(NAMES | st.integers(0, 3), max_size=5),
    declared=st.sets(NAMES),
)
@settings(max_examples=200, deadline=None)
def test_a_record_says_where_arguments_do_not_fit_in_declared_names_alone(
    arguments: dict[str, Any], path: list[Any], declared: set[str]
) -> None:
    error = InvalidArguments("no", errors=[{"pointer": pointer(path), "message": "no"}])
    keep_places(error, arguments, declared)
    place = error.recorded.removeprefix("the arguments do not fit at ")
    value: Any = arguments
    steps = [] if place == "the top" else place.split("/")[1:]
    assert len(steps) == len(path)
    for step, key in zip(steps, path, strict=True):
        known = str(key) in declared or (isinstance(value, list) and str(key).isdecimal())
        assert step == (pointer([key])[1:] if known else "*")
        if isinstance(value, list):
            value = value[int(key)] if str(key).isdecimal() and int(key) < len(value) else None
        else:
            value = value.get(str(key)) if isinstance(value, dict) else None
