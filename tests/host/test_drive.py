"""Which of several things that end a call decides what its caller gets."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
import uvloop
from hypothesis import example, given, settings
from hypothesis import strategies as st

from enginehost.drive import Wait, as_coroutine, drive
from enginehost.errors import CallCancelled, CallTimeout, OutcomeUnknown


class VirtualClock(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to the next timer when nothing else is to do."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        ready, scheduled = self._ready, self._scheduled  # type: ignore[attr-defined]
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)._scheduled = False
            self._timer_cancelled_count -= 1  # type: ignore[attr-defined]
        if not ready and scheduled:
            self.now = max(self.now, scheduled[0].when())
        super()._run_once()  # type: ignore[misc]


async def timed(
    work: Coroutine[Any, Any, Any], deadline: float, waits: set[Wait] | None = None, name: str = "f"
) -> Any:
    """``work`` as the call path runs it."""
    coroutine = as_coroutine(work)
    try:
        pending = coroutine.send(None)
    except StopIteration as done:
        return done.value
    return await drive(coroutine, pending, name, deadline, deadline, set() if waits is None else waits)


async def plainly(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def in_a_scope(seconds: float) -> None:
    with anyio.CancelScope():
        await anyio.sleep(seconds)


async def in_a_shield(seconds: float) -> None:
    with anyio.CancelScope(shield=True):
        await asyncio.sleep(seconds)


async def under_a_timeout(seconds: float) -> None:
    async with asyncio.timeout(100_000):
        await asyncio.sleep(seconds)


async def in_a_task_group(seconds: float) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(seconds))


async def in_an_anyio_group(seconds: float) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep, seconds)


async def on_a_future(seconds: float) -> None:
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(seconds, lambda: future.done() or future.set_result(None))
    await future


async def after_an_own_timeout(seconds: float) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.sleep(100_000)


WAYS = (plainly, in_a_scope, in_a_shield, under_a_timeout, in_a_task_group, in_an_anyio_group, on_a_future)


@dataclass(frozen=True)
class Part:
    """A wait of the function: how long (tens of seconds), how, and whether it swallows a cancellation."""

    length: int
    way: Callable[[float], Awaitable[None]]
    swallows: bool


@dataclass(frozen=True)
class Play:
    """What a function does and what happens to it meanwhile. Times never coincide unless asked."""

    parts: tuple[Part, ...]
    end: str
    cleanup: int
    dirty: bool
    deadline: int
    outside: int | None
    stop: int | None

    async def function(self) -> str:
        try:
            for part in self.parts:
                try:
                    await part.way(part.length * 10)
                except asyncio.CancelledError:
                    if not part.swallows:
                        raise
            if self.end == "raises":
                raise ValueError("own")
            if self.end == "cancels":
                raise asyncio.CancelledError
        finally:
            if self.cleanup:
                await asyncio.sleep(self.cleanup * 10)
            if self.dirty:
                raise KeyError("in cleanup")
        return "result"

    def expected(self) -> tuple[Any, int]:
        """What must come out, and the task's cancellation count afterwards."""
        hits = sorted(
            (at, what)
            for at, what in ((self.deadline, "timeout"), (self.outside, "outside"), (self.stop, "stop"))
            if at is not None
        )
        clock, felt = 0, list[str]()

        def wait(seconds: int) -> bool:
            """Whether the wait was cancelled."""
            nonlocal clock
            if seconds and hits and hits[0][0] < clock + seconds:
                at, what = hits.pop(0)
                clock = at
                felt.append(what)
                return True
            clock += seconds
            return False

        ending = self.end
        for part in self.parts:
            if wait(part.length * 10) and not part.swallows:
                ending = "cancels"
                break
        if wait(self.cleanup * 10):
            ending = "cancels"
        elif self.dirty:
            ending = "dirty"
        return _outcome(ending, felt), int("outside" in felt)


def _outcome(ending: str, felt: list[str]) -> Any:
    if ending == "returns":
        return "result"
    if "outside" not in felt and felt:
        return {"timeout": CallTimeout, "stop": OutcomeUnknown}[felt[0]]
    if ending == "cancels":
        return asyncio.CancelledError if "outside" in felt else CallCancelled
    return {"raises": ValueError, "dirty": KeyError}[ending]


async def played(play: Play) -> tuple[Any, int]:
    """What came out in a task of its own, and its cancellation count."""
    waits: set[Wait] = set()
    found: list[Any] = []

    async def caller() -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            found.append(await timed(play.function(), play.deadline, waits))
        except BaseException as error:  # noqa: BLE001 - whatever comes out is looked at
            found.append(type(error))
        found.append(task.cancelling())
        assert not waits
        while task.cancelling():
            task.uncancel()
        await asyncio.sleep(0)  # a cancellation that is still on its way would come out here
        found.append("clean")

    loop = asyncio.get_running_loop()
    task = loop.create_task(caller())
    timers: list[asyncio.TimerHandle] = []
    if play.outside is not None:
        timers.append(loop.call_at(play.outside, lambda: found or task.cancel()))
    if play.stop is not None:
        timers.append(loop.call_at(play.stop, lambda: [wait.stop() for wait in waits]))
    await asyncio.wait({task})
    for timer in timers:
        timer.cancel()
    await task
    outcome, cancelling, clean = found
    assert clean == "clean"
    return outcome, cancelling


def plays(apart: bool) -> st.SearchStrategy[Play]:
    def moment(offset: int) -> st.SearchStrategy[int]:
        return st.integers(0, 8).map(lambda tens: tens * 10 + (offset if apart else 0))

    return st.builds(
        Play,
        st.lists(
            st.builds(Part, st.integers(1, 4), st.sampled_from(WAYS), st.booleans()), min_size=1, max_size=3
        ).map(tuple),
        st.sampled_from(("returns", "raises", "cancels")),
        st.integers(0, 2),
        st.booleans(),
        moment(3),
        st.none() | moment(5),
        st.none() | moment(7),
    )


@pytest.fixture(scope="module")
def virtual() -> Any:
    with asyncio.Runner(loop_factory=VirtualClock) as runner:
        yield runner


def on(runner: asyncio.Runner, play: Play) -> tuple[Any, int]:
    loop = runner.get_loop()
    assert isinstance(loop, VirtualClock)
    loop.now = 0.0
    return runner.run(played(play))


@given(play=plays(apart=True))
@settings(max_examples=250, deadline=None)
def test_what_ends_a_call_decides_what_its_caller_gets(virtual: asyncio.Runner, play: Play) -> None:
    assert on(virtual, play) == play.expected()


@given(play=plays(apart=False))
@settings(max_examples=150, deadline=None)
def test_at_one_moment_any_of_them_may_win_and_none_leaves_a_trace(
    virtual: asyncio.Runner, play: Play
) -> None:
    outcome, cancelling = on(virtual, play)
    allowed = {"result", ValueError, KeyError, CallTimeout, CallCancelled}
    allowed |= {asyncio.CancelledError} if play.outside is not None else set()
    allowed |= {OutcomeUnknown} if play.stop is not None else set()
    assert outcome in allowed
    assert cancelling <= int(play.outside is not None)


@given(inner=st.integers(1, 40), outer=st.integers(1, 40), work=st.integers(1, 40), levels=st.integers(1, 3))
@settings(max_examples=100, deadline=None)
@example(inner=5, outer=5, work=9, levels=3)
def test_of_nested_calls_the_one_whose_deadline_passed_times_out(
    virtual: asyncio.Runner, inner: int, outer: int, work: int, levels: int
) -> None:
    async def nested(level: int) -> str:
        if level == 0:
            await asyncio.sleep(work)
            return "result"
        deadline = inner if level == 1 else outer
        return await timed(nested(level - 1), deadline, name=f"level {level}")

    async def caller() -> Any:
        task = asyncio.current_task()
        assert task is not None
        try:
            return await nested(levels)
        except CallTimeout as error:
            return error.message
        finally:
            assert task.cancelling() == 0

    loop = virtual.get_loop()
    loop.now = 0.0  # type: ignore[attr-defined]
    found = virtual.run(caller())
    limits = {1: inner} if levels == 1 else {1: inner, levels: outer}
    first = min(limits.values())
    if work < first:
        assert found == "result"
    elif work > first:
        assert found in {f"level {n} did not answer within {t} s" for n, t in limits.items() if t == first}


# Once more on both loops, with the real clock.


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def runner(request: pytest.FixtureRequest) -> Any:
    factory = uvloop.new_event_loop if request.param else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        yield runner


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_deadline_interrupts_whatever_the_function_waits_in(runner: asyncio.Runner, way: Any) -> None:
    async def caller() -> None:
        with pytest.raises(CallTimeout):
            await timed(way(60), asyncio.get_running_loop().time() + 0.01)
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
        await asyncio.sleep(0)

    runner.run(caller())


def test_a_timeout_of_the_function_is_its_own(runner: asyncio.Runner) -> None:
    async def caller() -> None:
        await timed(after_an_own_timeout(0.01), asyncio.get_running_loop().time() + 30)
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(0.01):
                await timed(plainly(60), asyncio.get_running_loop().time() + 30)
        assert not isinstance(caught.value, CallTimeout)
        with anyio.move_on_after(0.01) as scope:
            await timed(plainly(60), asyncio.get_running_loop().time() + 30)
        assert scope.cancelled_caught
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]

    runner.run(caller())


def test_a_sibling_that_fails_cancels_the_call_as_any_task(runner: asyncio.Runner) -> None:
    async def fails() -> None:
        await asyncio.sleep(0.005)
        raise LookupError

    async def together() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())
            await timed(plainly(60), asyncio.get_running_loop().time() + 30)

    async def caller() -> None:
        with pytest.raises(ExceptionGroup) as caught:
            await together()
        assert [type(error) for error in caught.value.exceptions] == [LookupError]
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]

    runner.run(caller())


def test_a_call_in_the_cleanup_of_a_cancelled_task_has_a_deadline_of_its_own(runner: asyncio.Runner) -> None:
    found: list[Any] = []

    async def caller() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            try:
                found.append(await timed(plainly(0.001), asyncio.get_running_loop().time() + 30))
                await timed(plainly(60), asyncio.get_running_loop().time() + 0.01)
            except CallTimeout:
                found.append("timed out")

    async def main() -> None:
        task = asyncio.create_task(caller())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

    runner.run(main())
    assert found == [None, "timed out"]


def test_a_function_that_outlived_its_deadline_ends_when_the_host_stops(runner: asyncio.Runner) -> None:
    waits: set[Wait] = set()

    async def stubborn() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            asyncio.get_running_loop().call_soon(lambda: [wait.stop() for wait in waits])
            await asyncio.sleep(60)

    async def caller() -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(CallTimeout):
            await timed(stubborn(), loop.time() + 0.01, waits)
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]

    runner.run(caller())


def test_a_closed_call_closes_its_function() -> None:
    closed: list[bool] = []

    async def function() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            closed.append(True)

    async def main() -> None:
        call = timed(function(), asyncio.get_running_loop().time() + 60)
        call.send(None)
        call.close()

    asyncio.run(main())
    assert closed == [True]
