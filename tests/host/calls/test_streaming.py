"""Streams through the call path."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from enginehost import Call, Limits

from .conftest import NUMBERS, add, count, function, serving


async def test_a_stream_gives_items_as_they_come_and_a_call_collects_them() -> None:
    async with serving(function(count)) as host:
        assert [item async for item in host.stream("f", {"to": 3})] == [0, 1, 2]
        assert await host.call("f", {"to": 3}) == [0, 1, 2]


async def test_streaming_a_plain_function_gives_its_one_result() -> None:
    async with serving(function(add, "add", NUMBERS)) as host:
        assert [item async for item in host.stream("add", {"a": 1})] == [2]


async def test_leaving_a_stream_early_closes_the_generator_and_frees_its_place() -> None:
    closed: list[bool] = []

    async def endless(arguments: dict[str, Any], call: Call) -> AsyncGenerator[int, None]:
        try:
            while True:
                yield 1
        finally:
            closed.append(True)

    def endless_sync(arguments: dict[str, Any], call: Call) -> Any:
        try:
            while True:
                yield 1
        finally:
            closed.append(True)

    limits = Limits(max_concurrency=1, queue_limit=0)
    async with serving(
        function(endless, "a", limits=limits), function(endless_sync, "s", limits=limits)
    ) as host:
        for name in ("a", "s", "a", "s"):
            stream = host.stream(name)
            assert await anext(stream) == 1
            await stream.aclose()
        assert host.in_flight == 0
    assert closed == [True] * 4
