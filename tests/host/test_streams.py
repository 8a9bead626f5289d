"""What holds of streams when those who make them, take them or stop the host misbehave."""

from __future__ import annotations

import asyncio
import io
import json
import signal
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from enginehost import Call, EngineContext, Function, Host, HostSettings, Limits
from enginehost.catalog import EngineRecord
from enginehost.engine import AbstractFunctionEngine, current_call, run_mode
from enginehost.errors import (
    CallTimeout,
    EngineUnavailable,
    ExecutionFailed,
    InvalidArguments,
    OutcomeUnknown,
    Overloaded,
    TooLarge,
)
from enginehost.signature import FunctionSignature

ANY = {"type": "object", "additionalProperties": True}


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


class Several(AbstractFunctionEngine):
    """An engine of given functions."""

    def __init__(self, functions: list[Function]) -> None:
        super().__init__(EngineContext("test"))
        self._functions = functions

    def functions(self) -> list[Function]:
        return self._functions


@asynccontextmanager
async def serving(*runs: Callable[..., Any], limits: Limits | None = None) -> AsyncIterator[Host]:
    """A host with a function for each of ``runs``, named as it is."""
    functions = [
        Function(
            FunctionSignature(run.__name__, "", ANY, streaming=run_mode(run).streams),
            run,
            run_mode(run),
            limits=limits or Limits(),
        )
        for run in runs
    ]
    host = Host(None, None, settings=HostSettings())
    await host.start()
    await host.add_engine(EngineRecord("test", "Test"), Several(functions))
    try:
        yield host
    finally:
        await host.stop(drain=0.0)
        assert host.in_flight == 0


async def endless(arguments: dict[str, Any], call: Call) -> AsyncGenerator[int, None]:
    number = 0
    while True:
        yield number
        number += 1


async def patient(arguments: dict[str, Any], call: Call) -> AsyncGenerator[int, None]:
    yield 0
    await asyncio.sleep(60)
    yield 1


async def test_a_consumer_slower_than_the_deadline_is_told_so_at_its_next_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [1000.0]
    monkeypatch.setattr("enginehost.streams.monotonic", lambda: clock[0])
    async with serving(endless, limits=Limits(timeout=20)) as host:
        stream = host.stream("endless")
        assert await anext(stream) == 0
        clock[0] += 19
        assert await anext(stream) == 1
        clock[0] += 2
        with pytest.raises(CallTimeout, match="within 20 s"):
            await anext(stream)


async def test_a_stream_that_is_cancelled_while_it_waits_for_its_turn_leaves_no_trace() -> None:
    async with serving(patient, limits=Limits(max_concurrency=1)) as host:
        first = host.stream("patient")
        assert await anext(first) == 0
        second = host.stream("patient")
        waiting = asyncio.ensure_future(anext(second))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await first.aclose()
        third = host.stream("patient")
        assert await anext(third) == 0
        await third.aclose()


async def test_a_step_that_is_cancelled_ends_the_stream_and_frees_its_place() -> None:
    cleaned: list[bool] = []

    async def careful(arguments: dict[str, Any], call: Call) -> AsyncGenerator[int, None]:
        try:
            yield 0
            await asyncio.sleep(60)
        finally:
            cleaned.append(current_call() is call)

    async with serving(careful, limits=Limits(max_concurrency=1, queue_limit=0)) as host:
        stream = host.stream("careful")
        await anext(stream)
        step = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="running"):
            await stream.aclose()
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        assert cleaned == [True]
        again = host.stream("careful")
        assert await anext(again) == 0
        await again.aclose()
        assert cleaned == [True, True]


async def test_a_generator_that_goes_on_after_it_was_closed_is_logged_and_nothing_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def stubborn(arguments: dict[str, Any], call: Call) -> AsyncGenerator[int, None]:
        try:
            yield 1
        finally:
            yield 2

    def stubborn_sync(arguments: dict[str, Any], call: Call) -> Generator[int, None, None]:
        try:
            yield 1
        finally:
            yield 2

    async def dirty(arguments: dict[str, Any], call: Call) -> AsyncGenerator[int, None]:
        try:
            yield 1
        finally:
            raise KeyError("in cleanup")

    async with serving(stubborn, stubborn_sync, dirty) as host:
        for name in ("stubborn", "stubborn_sync", "dirty"):
            stream = host.stream(name)
            assert await anext(stream) == 1
            await stream.aclose()
            assert f"{name} failed while its stream was closed" in caplog.text


async def test_a_cleanup_that_hangs_holds_its_caller_only_so_long(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("enginehost.streams.CLOSE_SECONDS", 0.02)

    async def hangs(arguments: dict[str, Any], call: Call) -> AsyncGenerator[int, None]:
        try:
            yield 1
        finally:
            await asyncio.sleep(60)

    async with serving(hangs) as host:
        stream = host.stream("hangs")
        await anext(stream)
        async with asyncio.timeout(30):
            await stream.aclose()
    assert "failed while its stream was closed" in caplog.text


async def test_a_sync_generator_that_hangs_is_answered_at_its_deadline_and_closed_when_it_ends() -> None:
    release, closed = threading.Event(), threading.Event()

    def hangs(arguments: dict[str, Any], call: Call) -> Generator[int, None, None]:
        try:
            yield 1
            release.wait(10)
            yield 2
        finally:
            closed.set()

    async with serving(hangs, limits=Limits(timeout=0.5)) as host:
        stream = host.stream("hangs")
        assert await anext(stream) == 1
        with pytest.raises(CallTimeout):
            await anext(stream)
        assert not closed.is_set()
        release.set()
        assert await asyncio.to_thread(closed.wait, 5)


async def test_a_sync_generator_is_closed_on_a_thread_where_it_may_wait() -> None:
    threads: list[threading.Thread] = []

    def slow(arguments: dict[str, Any], call: Call) -> Generator[int, None, None]:
        try:
            yield 1
        finally:
            threads.append(threading.current_thread())

    async with serving(slow) as host:
        stream = host.stream("slow")
        await anext(stream)
        await stream.aclose()
    assert threads != []
    assert threading.current_thread() not in threads


async def test_streams_that_run_or_rest_when_the_host_stops_end_with_a_clear_error() -> None:
    async with serving(endless, patient) as host:
        resting, running = host.stream("endless"), host.stream("patient")
        assert [await anext(resting), await anext(running)] == [0, 0]
        step = asyncio.ensure_future(anext(running))
        await asyncio.sleep(0)
        stopping = asyncio.create_task(host.stop(drain=0.0))
        with pytest.raises(OutcomeUnknown):
            await step
        with pytest.raises(OutcomeUnknown, match="the host stopped"):
            await anext(resting)
        await stopping


async def test_a_stream_that_its_reader_leaves_open_does_not_hold_up_the_stop_and_is_recorded() -> None:
    log = io.StringIO()
    closed = asyncio.Event()

    async def numbers(arguments: dict[str, Any], call: Call) -> AsyncGenerator[int, None]:
        try:
            async for number in endless(arguments, call):
                yield number
        finally:
            closed.set()

    host = Host(None, None, settings=HostSettings(drain_seconds=600), log=log)
    async with host:
        signature = FunctionSignature("numbers", streaming=True)
        function = Function(signature, numbers, run_mode(numbers))
        await host.add_engine(EngineRecord("test", "Test"), Several([function]))
        stream = host.stream("numbers")
        assert await anext(stream) == 0
    assert closed.is_set()
    assert host.in_flight == 0
    with pytest.raises(OutcomeUnknown):
        await anext(stream)
    (line,) = map(json.loads, log.getvalue().splitlines())
    assert (line["function"], line["outcome"]) == ("numbers", "outcome_unknown")


async def test_a_stream_that_somebody_else_reads_may_be_read_on_while_the_host_drains() -> None:
    read, left = asyncio.Event(), asyncio.Event()

    async def reads(stream: AsyncGenerator[int, None]) -> list[int]:
        items = [await anext(stream)]
        read.set()
        await left.wait()
        items += [await anext(stream), await anext(stream)]
        await stream.aclose()
        return items

    async with serving(endless) as host:
        reader = asyncio.ensure_future(reads(host.stream("endless")))
        await read.wait()
        stopping = asyncio.ensure_future(host.stop(drain=60))
        await asyncio.sleep(0)
        left.set()
        assert await reader == [0, 1, 2]
        await stopping


async def test_a_stream_that_is_held_beyond_the_drain_time_is_ended() -> None:
    read, left = asyncio.Event(), asyncio.Event()

    async def reads(stream: AsyncGenerator[int, None]) -> None:
        await anext(stream)
        read.set()
        await left.wait()
        await anext(stream)

    async with serving(endless) as host:
        reader = asyncio.ensure_future(reads(host.stream("endless")))
        await read.wait()
        await host.stop(drain=0.05)
        assert host.in_flight == 0
        left.set()
        with pytest.raises(OutcomeUnknown):
            await reader


async def test_an_endless_stream_that_never_waits_is_collected_within_its_deadline_and_size() -> None:
    async def wide(arguments: dict[str, Any], call: Call) -> AsyncGenerator[str, None]:
        while True:
            yield "x" * 1000

    async with serving(endless, limits=Limits(timeout=0.05)) as host:
        turns = 0
        call = asyncio.ensure_future(host.call("endless"))
        while not call.done():
            await asyncio.sleep(0)
            turns += 1
        with pytest.raises(CallTimeout):
            await call
        assert turns > 2
    async with serving(wide, limits=Limits(max_result_bytes=50_000)) as host:
        with pytest.raises(TooLarge, match="50000"):
            await host.call("wide")


async def test_a_stream_that_never_waits_lets_others_have_their_turn() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with serving(endless) as host:
        task = asyncio.create_task(other())
        async with aclosing(host.stream("endless")) as items:
            async for number in items:
                if number == 1000:
                    break
        task.cancel()
    assert 1000 // 16 <= turns < 1000


async def test_a_stream_takes_only_an_object() -> None:
    async with serving(endless) as host:
        odd: Any
        for odd in ([], [1], "", "x", 0, False):
            with pytest.raises(InvalidArguments, match="must be an object"):
                await anext(host.stream("endless", odd))
        stream = host.stream("endless", None)
        assert await anext(stream) == 0
        await stream.aclose()


async def test_a_timeout_that_is_no_number_changes_nothing() -> None:
    async def left(arguments: dict[str, Any], call: Call) -> float | None:
        return call.remaining

    async with serving(left, endless, limits=Limits(timeout=500)) as host:
        assert 400 < await host.call("left", timeout=float("nan")) <= 500
        stream = host.stream("endless", timeout=float("nan"))
        assert await anext(stream) == 0
        await stream.aclose()
        for none in (0, -1, float("-inf")):
            with pytest.raises(CallTimeout):
                await host.call("left", timeout=none)
            with pytest.raises(CallTimeout):
                await anext(host.stream("endless", timeout=none))


@pytest.fixture
def own_handler() -> Iterator[None]:
    """A handler of Ctrl+C such as a host's: with Python's own, an interrupt may be anybody's."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
async def test_an_exit_of_a_function_is_a_failure_of_the_function(
    kind: type[BaseException], own_handler: None
) -> None:
    async def leaves(arguments: dict[str, Any], call: Call) -> None:
        raise kind

    def leaves_sync(arguments: dict[str, Any], call: Call) -> None:
        raise kind

    async def group(arguments: dict[str, Any], call: Call) -> None:
        raise BaseExceptionGroup("several", [kind()])

    async def streams(arguments: dict[str, Any], call: Call) -> AsyncGenerator[int, None]:
        yield 1
        raise kind

    async with serving(leaves, leaves_sync, group, streams) as host:
        for name in ("leaves", "leaves_sync", "group", "streams"):
            with pytest.raises(ExecutionFailed):
                await host.call(name)


async def test_a_sync_function_that_stops_an_iteration_does_not_hang_its_caller() -> None:
    def stops(arguments: dict[str, Any], call: Call) -> None:
        raise StopIteration

    async def stops_async(arguments: dict[str, Any], call: Call) -> None:
        raise StopIteration

    async with serving(stops, stops_async, limits=Limits(timeout=10)) as host:
        for name in ("stops", "stops_async"):
            with pytest.raises(ExecutionFailed, match="StopIteration"):
                await host.call(name)


async def test_a_nested_call_of_a_running_call_is_served_while_the_host_drains() -> None:
    entered, go = asyncio.Event(), asyncio.Event()

    async def inner(arguments: dict[str, Any], call: Call) -> str:
        return "inner"

    async with serving(inner) as host:

        async def outer(arguments: dict[str, Any], call: Call) -> Any:
            entered.set()
            await go.wait()
            return await host.call("inner"), [item async for item in host.stream("inner")]

        signature = FunctionSignature("outer", "", ANY)
        await host.add_engine(EngineRecord("o", "Test"), Several([Function(signature, outer)]))
        running = asyncio.create_task(host.call("outer"))
        await entered.wait()
        stopping = asyncio.create_task(host.stop(drain=5.0))
        await asyncio.sleep(0)
        with pytest.raises(EngineUnavailable, match="stopping"):
            await host.call("inner")
        go.set()
        assert await running == ("inner", ["inner"])
        await stopping


async def test_a_nested_call_after_its_callers_deadline_is_not_begun() -> None:
    begun: list[int] = []

    async def inner(arguments: dict[str, Any], call: Call) -> None:
        begun.append(1)

    async with serving(inner) as host:

        async def outer(arguments: dict[str, Any], call: Call) -> None:
            try:
                await asyncio.sleep(60)
            finally:
                with pytest.raises(CallTimeout):
                    await host.call("inner")

        signature = FunctionSignature("outer", "", ANY)
        await host.add_engine(
            EngineRecord("o", "Test"), Several([Function(signature, outer, limits=Limits(timeout=0.02))])
        )
        with pytest.raises(CallTimeout):
            await host.call("outer")
    assert begun == []


async def test_a_place_is_kept_by_a_hung_thread_until_it_ends() -> None:
    release = threading.Event()

    def hangs(arguments: dict[str, Any], call: Call) -> None:
        release.wait(10)

    async with serving(hangs, limits=Limits(max_concurrency=1, queue_limit=0)) as host:
        with pytest.raises(CallTimeout):
            await host.call("hangs", timeout=0.03)
        with pytest.raises(Overloaded):
            await host.call("hangs")
        release.set()
        async with asyncio.timeout(30):
            while True:
                try:
                    await host.call("hangs")
                except Overloaded:
                    await asyncio.sleep(0.001)
                else:
                    break
