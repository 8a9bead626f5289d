"""What holds calls back: places, a queue, a rate."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from enginehost import Call, Limits
from enginehost.errors import (
    Overloaded,
)

from .conftest import NUMBERS, add, function, serving


async def test_no_more_calls_run_at_once_than_allowed_and_a_full_queue_refuses() -> None:
    running: list[int] = [0, 0]
    release = asyncio.Event()

    async def busy(arguments: dict[str, Any], call: Call) -> int:
        running[0] += 1
        running[1] = max(running)
        await release.wait()
        running[0] -= 1
        return arguments["n"]

    async with serving(function(busy, limits=Limits(max_concurrency=2, queue_limit=3))) as host:
        tasks = [asyncio.create_task(host.call("f", {"n": n})) for n in range(6)]
        while not any(task.done() for task in tasks):
            await asyncio.sleep(0)
        release.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    assert results[:5] == [0, 1, 2, 3, 4]
    assert isinstance(results[5], Overloaded)
    assert running == [0, 2]


async def test_a_waiting_caller_that_leaves_gives_its_place_away() -> None:
    release = asyncio.Event()

    async def busy(arguments: dict[str, Any], call: Call) -> int:
        await release.wait()
        return arguments["n"]

    async with serving(function(busy, limits=Limits(max_concurrency=1))) as host:
        first, second, third = (asyncio.create_task(host.call("f", {"n": n})) for n in range(3))
        await asyncio.sleep(0)  # each task runs until it waits
        second.cancel()
        release.set()
        assert await first == 0
        assert await third == 2
        assert second.cancelled()


async def test_the_rate_limit_says_when_to_come_back() -> None:
    async with serving(function(add, "add", NUMBERS, limits=Limits(rate=2.0, burst=2))) as host:
        for _ in range(2):
            await host.call("add", {"a": 1})
        with pytest.raises(Overloaded) as caught:
            await host.call("add", {"a": 1})
    assert 0 < caught.value.retry_after <= 0.5
