"""Items of a stream on their way: all, in order, no more than are allowed, whatever the function does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.databus.streams import Credit, Unreachable, give_items
from enginehost.engine import Call

STEPS = st.lists(st.sampled_from(["ready", "turn", "wait"]), max_size=40)


class Taker:
    """A requester that takes items, each reply at once, after a turn, or after a while."""

    def __init__(self, speed: str, allows: int | None) -> None:
        self.got: list[int] = []
        self.sizes: list[int] = []
        self.credit = Credit(allows) if allows else None
        self.most = allows or 0
        self._speed = speed

    async def give(self, items: Sequence[bytes]) -> bool:
        if self._speed != "ready":
            await asyncio.sleep(0 if self._speed == "turn" else 0.0001)
        self.got += map(int, items)
        self.sizes.append(len(items))
        return True

    def allow(self, more: int) -> None:
        assert self.credit is not None
        assert len(self.got) <= self.most
        self.most += more
        self.credit.add(more, 1000)


async def numbers(steps: Sequence[str], fails: bool) -> AsyncGenerator[bytes, None]:
    for number, step in enumerate(steps):
        if step == "turn":
            await asyncio.sleep(0)
        elif step == "wait":
            async with asyncio.timeout(10):
                await asyncio.sleep(0.0001)
        yield str(number).encode()
    if fails:
        raise ValueError("no luck")


@settings(max_examples=60, deadline=None)
@given(
    STEPS,
    st.booleans(),
    st.sampled_from(["ready", "turn", "wait"]),
    st.sampled_from([1, 3, 64]),
    st.integers(0, 5),
)
def test_all_items_come_once_in_order_and_none_that_is_not_allowed(
    steps: list[str], fails: bool, speed: str, most: int, allows: int
) -> None:
    async def run() -> Taker:
        taker = Taker(speed, allows)
        giving = asyncio.create_task(
            give_items(numbers(steps, fails), taker.give, Call("f"), taker.credit, most)
        )
        async with asyncio.timeout(20):
            while allows and not giving.done():
                if taker.credit is not None and not taker.credit.left:
                    taker.allow(allows)
                await asyncio.sleep(0)
            if fails:
                with pytest.raises(ValueError, match="no luck"):
                    await giving
            else:
                await giving
        return taker

    taker = asyncio.run(run())
    assert taker.got == list(range(len(steps)))
    assert all(size <= most for size in taker.sizes)


@pytest.mark.parametrize("most", [1, 64])
async def test_who_takes_nothing_any_more_ends_the_stream_and_the_function_is_closed(most: int) -> None:
    closed: list[str] = []

    async def endless() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                await asyncio.sleep(0.0001)
                yield b"1"
        finally:
            closed.append("closed")

    async def refuse(items: Sequence[bytes]) -> bool:
        return False

    async with asyncio.timeout(10):
        with pytest.raises(Unreachable):
            await give_items(endless(), refuse, Call("f"), None, most)
    assert closed == ["closed"]


@pytest.mark.parametrize("when", ["the function waits", "the requester waits"])
async def test_a_cancelled_stream_closes_its_function_and_sends_no_more(when: str) -> None:
    waits, closed, sent = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def items() -> AsyncGenerator[bytes, None]:
        try:
            yield b"1"
            await asyncio.Event().wait()
        finally:
            closed.set()

    async def give(items: Sequence[bytes]) -> bool:
        waits.set()
        if when == "the requester waits":
            await asyncio.Event().wait()
        sent.set()
        return True

    before = asyncio.all_tasks()
    giving: asyncio.Task[Any] = asyncio.create_task(give_items(items(), give, Call("f"), None, 64))
    async with asyncio.timeout(10):
        await (waits if when == "the requester waits" else sent).wait()
        giving.cancel()
        await asyncio.wait((giving,))
        await closed.wait()
    assert giving.cancelled()
    assert asyncio.all_tasks() == before
