"""How a call ends: deadlines, cancellation, what a function raises, the end of the host."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest

from enginehost import Call, Caller, Limits
from enginehost.catalog import EngineRecord
from enginehost.errors import (
    CallCancelled,
    CallTimeout,
    EngineUnavailable,
    ExecutionFailed,
    OutcomeUnknown,
)

from .conftest import Several, function, serving


async def test_a_call_that_suspends_is_answered_at_its_deadline() -> None:
    cleaned = asyncio.Event()

    async def slow(arguments: dict[str, Any], call: Call) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.set()

    async with serving(function(slow, limits=Limits(timeout=0.05))) as host:
        with pytest.raises(CallTimeout):
            await host.call("f")
        assert cleaned.is_set()  # of the 60 s that it sleeps
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


async def test_a_caller_can_shorten_the_deadline_and_not_lengthen_it() -> None:
    async def left(arguments: dict[str, Any], call: Call) -> float | None:
        return call.remaining

    async with serving(function(left, limits=Limits(timeout=500))) as host:
        assert (await host.call("f", timeout=100)) <= 100
        assert 400 < (await host.call("f", timeout=10_000)) <= 500


async def test_a_nested_call_inherits_deadline_chain_and_caller() -> None:
    async def inner(arguments: dict[str, Any], call: Call) -> Any:
        return call.deadline, call.chain_id, call.parent, call.caller.subject

    async with serving() as host:

        async def outer(arguments: dict[str, Any], call: Call) -> Any:
            return (call.deadline, call.chain_id, call.span, call.caller.subject), await host.call("inner")

        functions = [function(outer, "outer", limits=Limits(timeout=3)), function(inner, "inner")]
        await host.add_engine(EngineRecord("more", "Test"), Several(functions))
        above, below = await host.call("outer", caller=Caller("alice"))
    assert above == below


async def test_a_sync_function_that_hangs_is_answered_at_its_deadline() -> None:
    release, ended = threading.Event(), threading.Event()

    def hang(arguments: dict[str, Any], call: Call) -> None:
        release.wait(10)
        ended.set()

    async with serving(function(hang, limits=Limits(timeout=0.05))) as host:
        with pytest.raises(CallTimeout):
            await host.call("f")
        assert not ended.is_set()
        release.set()


async def test_an_outside_cancellation_reaches_the_function_and_stays_a_cancellation() -> None:
    entered, cleaned = asyncio.Event(), asyncio.Event()

    async def slow(arguments: dict[str, Any], call: Call) -> None:
        entered.set()
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.set()

    async with serving(function(slow)) as host:
        task = asyncio.create_task(host.call("f"))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cleaned.is_set()
        assert host.in_flight == 0


async def test_a_function_that_cancels_itself_does_not_cancel_its_caller() -> None:
    async def odd(arguments: dict[str, Any], call: Call) -> None:
        if arguments["wait"]:
            await asyncio.sleep(0)
        raise asyncio.CancelledError

    async with serving(function(odd)) as host:
        for wait in (False, True):
            with pytest.raises(CallCancelled):
                await host.call("f", {"wait": wait})


async def test_what_a_function_raises_becomes_execution_failed_with_its_cause() -> None:
    async def fails(arguments: dict[str, Any], call: Call) -> None:
        raise ValueError("no such city")

    async with serving(function(fails)) as host:
        with pytest.raises(ExecutionFailed, match="ValueError: no such city") as caught:
            await host.call("f")
    assert isinstance(caught.value.__cause__, ValueError)
    assert caught.value.detail == {"type": "ValueError"}


async def test_a_stream_that_stalls_ends_at_its_deadline() -> None:
    async def stalls(arguments: dict[str, Any], call: Call) -> AsyncGenerator[int, None]:
        yield 1
        await asyncio.sleep(60)

    async with serving(function(stalls, limits=Limits(timeout=0.05))) as host:
        stream = host.stream("f")
        assert await anext(stream) == 1
        with pytest.raises(CallTimeout):
            await anext(stream)


async def test_every_call_in_flight_at_a_stop_is_answered_or_refused() -> None:
    begun, release, never = asyncio.Semaphore(0), asyncio.Event(), asyncio.Event()

    async def work(arguments: dict[str, Any], call: Call) -> str:
        begun.release()
        await (release if arguments["ends"] else never).wait()
        return "done"

    async with serving(function(work)) as host:
        tasks = [asyncio.create_task(host.call("f", {"ends": n % 2 == 1})) for n in range(1000)]
        for _ in tasks:
            await begun.acquire()
        patient = asyncio.create_task(host.stop(drain=60))
        while host.accepting:
            await asyncio.sleep(0)
        with pytest.raises(EngineUnavailable):
            await host.call("f", {"ends": True})
        release.set()
        assert await asyncio.gather(*tasks[1::2]) == ["done"] * 500
        patient.cancel()
        await host.stop(drain=0.0)
        ended = await asyncio.gather(*tasks[0::2], return_exceptions=True)
    assert {type(error) for error in ended} == {OutcomeUnknown}


async def test_a_call_that_had_not_begun_when_the_host_stopped_may_be_repeated() -> None:
    async def slow(arguments: dict[str, Any], call: Call) -> None:
        await asyncio.sleep(60)

    async with serving(function(slow, limits=Limits(max_concurrency=1))) as host:
        running, waiting = (asyncio.create_task(host.call("f", {})) for _ in range(2))
        await asyncio.sleep(0)
        await host.stop(drain=0.0)
        with pytest.raises(OutcomeUnknown, match="before the call ended"):
            await running
        with pytest.raises(EngineUnavailable, match="before the call began: it waited for its turn"):
            await waiting


async def test_a_timeout_says_whose_limit_passed() -> None:
    async def sleep(arguments: dict[str, Any], call: Call) -> None:
        await asyncio.sleep(60)

    async def items(arguments: dict[str, Any], call: Call) -> AsyncIterator[int]:
        await asyncio.sleep(60)
        yield 1

    async def outer(arguments: dict[str, Any], call: Call) -> Any:
        return await host.call("free")

    limits = Limits(timeout=0.05)
    async with serving(
        function(sleep, "own", limits=limits),
        function(sleep, "free"),
        function(items, "items", limits=limits),
        function(items, "free_items"),
        function(outer, "outer", limits=limits),
        default_timeout=0.2,
    ) as host:
        for name, timeout, limit in (
            ("own", None, "its TIMEOUT_SECONDS"),
            ("own", 0.01, "the caller's timeout"),
            ("free", None, "the host's default_timeout"),
            ("free", 0.01, "the caller's timeout"),
            ("free", 0, "the caller's timeout"),
            ("items", None, "its TIMEOUT_SECONDS"),
            ("free_items", None, "the host's default_timeout"),
            ("free_items", 0.01, "the caller's timeout"),
        ):
            with pytest.raises(
                CallTimeout, match=rf"^{name} did not answer within [\d.]+ s \({limit}\)$"
            ) as late:
                await host.call(name, timeout=timeout)
            assert late.value.detail["limit"] == limit
        with pytest.raises(CallTimeout) as late:
            await host.call("outer")
        assert (late.value.name, late.value.detail["limit"]) in {
            ("outer", "its TIMEOUT_SECONDS"),
            ("free", "what is left of the call that makes it"),
        }


async def test_what_a_library_says_at_a_cancellation_is_told_to_nobody() -> None:
    async def scoped(arguments: dict[str, Any], call: Call) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise asyncio.CancelledError("Cancelled via cancel scope 7f1c3019ac00") from None

    async with serving(function(scoped)) as host:
        with pytest.raises(CallTimeout, match=r"^f did not answer within 0\.02 s \(the caller's timeout\)$"):
            await host.call("f", timeout=0.02)
        running = asyncio.create_task(host.call("f"))
        await asyncio.sleep(0)
        await host.stop(drain=0.0)
        with pytest.raises(OutcomeUnknown, match="before the call ended"):
            await running
