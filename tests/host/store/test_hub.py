"""How a subscriber waits: one timer over many waits."""

from __future__ import annotations

import asyncio
import time

from enginehost.llm.message import user
from enginehost.store.batch import Change
from enginehost.store.hub import Hub
from enginehost.store.port import Position


async def test_a_wait_ends_when_something_comes_or_its_time_is_over_whatever_waits_were_before() -> None:
    hub = Hub()
    one = hub.join("s")
    one.behind = False
    change = Change("s", Position(), Position(1), user("x"))
    for _ in range(3):  # a timer of 30 s runs on
        waiting = asyncio.ensure_future(one.wait(30.0))
        await asyncio.sleep(0)
        hub.deliver([change])
        assert await waiting
        one.changes.clear()
    begin = time.monotonic()
    assert not await one.wait(0.2)  # a shorter wait is not held up by it
    assert not await one.wait(0.3)  # nor a longer one cut short by that
    assert 0.45 < time.monotonic() - begin < 5.0
    hub.leave(one)
    assert not hub
