"""Every event fits the bounds of its type."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.caller import Caller
from enginehost.databus.components import READY, Component
from enginehost.databus.lifecycle_events import Transition, lifecycle_values
from enginehost.databus.log_events import log_values
from enginehost.databus.struct import Struct
from enginehost.databus.types import (
    CHAIN_EVENT,
    COMPONENT_LIFECYCLE_EVENT,
    LOG_MESSAGE,
)

from .monitored import CHAIN, running

TEXTS = st.text(st.characters() | st.sampled_from("ä€😀\0\ud800"), max_size=60).map(lambda text: text * 200)


def fits(values: Mapping[str, Any], struct: Struct) -> None:
    for member in struct.members:
        if isinstance(values[member.name], str):
            assert "\0" not in values[member.name]
            assert len(values[member.name].encode()) <= (member.bound or 10**9), member.name


@settings(max_examples=60, deadline=None)
@given(TEXTS, TEXTS, st.lists(TEXTS, max_size=3))
def test_every_text_is_within_its_bound_in_bytes(text: str, other: str, tags: list[str]) -> None:
    record = logging.LogRecord(text, 30, f"/x/{other}", 3, text, None, None, func=other)
    record.threadName = text
    fits(log_values(record, "h", "s", str), LOG_MESSAGE)
    about = {"name": "n", "tags": [tag.encode(errors="replace").decode() for tag in tags]}
    step = Transition(Component("c", "FUNCTION", "n", READY, about), READY, "STATE_CHANGE", text, 1)
    fits(lifecycle_values(step, "h", str), COMPONENT_LIFECYCLE_EVENT)


async def test_a_caller_with_a_long_name_is_told_within_the_bound() -> None:
    async with running(CHAIN) as on:
        await on.start()
        await on.host.call("add", caller=Caller("ä" * 1_000))
        await on.monitor.until(lambda: on.monitor.ended)
    for event in on.told(CHAIN):
        fits(event, CHAIN_EVENT)
        assert event["source_id"].startswith("ä" * 60)
