"""The observer of slow calls."""

from __future__ import annotations

import logging

import pytest
from enginehost_template import slow_calls

from enginehost import CallRecord


@pytest.mark.parametrize(("milliseconds", "lines"), [(4999.0, 0), (5001.0, 1)])
def test_only_a_slow_call_is_logged(
    caplog: pytest.LogCaptureFixture, milliseconds: float, lines: int
) -> None:
    record = CallRecord("", "add", "e", "ada", "", "http", "", "", "", "ok", milliseconds)
    with caplog.at_level(logging.WARNING):
        slow_calls.observe_call(record)
    assert [entry.getMessage() for entry in caplog.records] == ["add took 5.0 s for ada"] * lines
