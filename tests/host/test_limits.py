"""What a caller can rely on while limits hold calls back."""

from __future__ import annotations

import asyncio
from collections import deque
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.errors import Overloaded
from enginehost.limits import Gate, TokenBucket

STEPS = st.lists(
    st.tuples(st.sampled_from(("enter", "enter", "leave", "cancel", "close", "turn")), st.integers(0, 9)),
    max_size=60,
)


class Model:
    """The gate as anybody would draw it: holders, and a queue before them."""

    def __init__(self, width: int, queue_limit: int | None) -> None:
        self.width, self.queue_limit = width, queue_limit
        self.inside: list[int] = []
        self.queue: deque[int] = deque()

    def enter(self, who: int) -> bool:
        if len(self.inside) < self.width:
            self.inside.append(who)
        elif self.queue_limit is not None and len(self.queue) >= self.queue_limit:
            return False
        else:
            self.queue.append(who)
        return True

    def leave(self, who: int) -> None:
        self.inside.remove(who)
        if self.queue:
            self.inside.append(self.queue.popleft())


async def _enter(gate: Gate, order: list[int], who: int) -> None:
    if not gate.enter_now():
        await gate.enter("f")
    order.append(who)


async def _settle() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


async def _play(width: int, queue_limit: int | None, steps: list[tuple[str, int]]) -> None:
    gate, model, order = Gate(width, queue_limit), Model(width, queue_limit), list[int]()
    tasks: dict[int, asyncio.Task[None]] = {}
    for who, (step, pick) in enumerate(steps):
        if step == "enter":
            allowed = model.enter(who)
            tasks[who] = asyncio.create_task(_enter(gate, order, who))
            await _settle()
            assert (not tasks[who].done() or tasks[who].exception() is None) is allowed
        elif step == "leave" and model.inside:
            model.leave(model.inside[pick % len(model.inside)])
            gate.leave()
        elif step == "cancel" and model.queue:
            chosen = model.queue[pick % len(model.queue)]
            model.queue.remove(chosen)
            tasks[chosen].cancel()
        await _settle()
        assert (gate.active, gate.waiting) == (len(model.inside), len(model.queue))
    entered = [who for who in order if who in tasks]
    assert set(model.inside) <= set(entered)
    while model.inside:
        model.leave(model.inside[0])
        gate.leave()
        await _settle()
    assert (gate.active, gate.waiting) == (0, 0)
    assert order == sorted(order)  # first come, first served
    await asyncio.gather(*tasks.values(), return_exceptions=True)


@given(width=st.integers(1, 3), queue_limit=st.none() | st.integers(0, 3), steps=STEPS)
@settings(max_examples=80, deadline=None)
def test_a_gate_never_lets_more_in_serves_in_order_and_loses_no_place(
    width: int, queue_limit: int | None, steps: list[tuple[str, int]]
) -> None:
    asyncio.run(_play(width, queue_limit, steps))


@given(
    actions=st.lists(st.sampled_from(("leave", "cancel", "close", "none")), min_size=1, max_size=8),
    waiting=st.integers(1, 5),
)
@settings(max_examples=80, deadline=None)
def test_whatever_ends_a_wait_at_the_moment_its_place_comes_the_place_is_not_lost(
    actions: list[str], waiting: int
) -> None:
    """The place is given and the waiter cancelled or closed in one step of the loop, in either order."""

    async def play() -> None:
        gate = Gate(1, None)
        assert gate.enter_now()
        tasks = [asyncio.create_task(gate.enter("f")) for _ in range(waiting)]
        left = gate.enter("f")
        await asyncio.sleep(0)
        left.send(None)
        given_back = False
        for number, action in enumerate(actions):
            if action == "leave" and not given_back:
                gate.leave()
                given_back = True
            elif action == "cancel":
                tasks[number % waiting].cancel()
            elif action == "close":
                left.close()
        left.close()
        await asyncio.gather(*tasks, return_exceptions=True) if given_back and waiting == 1 else None
        await _settle()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        holders = sum(not task.cancelled() for task in tasks) + (not given_back)
        assert (gate.active, gate.waiting) == (holders, 0)
        for _ in range(holders):
            gate.leave()
        assert gate.active == 0
        assert gate.enter_now()

    asyncio.run(play())


@given(
    rate=st.integers(1, 50),
    burst=st.integers(-1, 5),
    gaps=st.lists(st.integers(0, 40), max_size=60),
)
@settings(max_examples=150, deadline=None)
def test_a_bucket_gives_what_arithmetic_says(rate: int, burst: int, gaps: list[int]) -> None:
    bucket = TokenBucket(rate, burst)
    most = Fraction(max(1, burst))
    level, now = most, Fraction(1000)
    for gap in gaps:
        now += Fraction(gap, 16)  # exact in binary, so that both agree to the last token
        level = min(most, level + Fraction(gap, 16) * rate)
        if level >= 1:
            bucket.take("f", float(now))
            level -= 1
            continue
        with pytest.raises(Overloaded) as caught:
            bucket.take("f", float(now))
        assert caught.value.retry_after == pytest.approx(float((1 - level) / rate))


@given(rate=st.floats(0.001, 10_000), burst=st.integers(1, 100))
@settings(max_examples=100, deadline=None)
def test_who_comes_back_when_told_is_served(rate: float, burst: int) -> None:
    bucket, now = TokenBucket(rate, burst), 5.0
    for _ in range(burst):
        bucket.take("f", now)
    with pytest.raises(Overloaded) as caught:
        bucket.take("f", now)
    bucket.take("f", now + caught.value.retry_after * 1.000001 + 1e-6)


async def test_a_full_queue_refuses_and_says_so() -> None:
    gate = Gate(1, 0)
    assert gate.enter_now()
    with pytest.raises(Overloaded, match="its queue is full"):
        await gate.enter("f")


def test_a_clock_that_stands_still_gives_no_tokens() -> None:
    bucket = TokenBucket(1.0, 1)
    outcomes: list[Any] = []
    for _ in range(3):
        try:
            bucket.take("f", 7.0)
            outcomes.append("taken")
        except Overloaded:
            outcomes.append("refused")
    assert outcomes == ["taken", "refused", "refused"]
