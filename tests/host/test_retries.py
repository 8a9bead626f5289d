"""What could not be opened is tried again, later and later."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from enginehost import retries
from enginehost.retries import Retries

PATH = Path("a.smss")


async def test_each_time_it_waits_twice_as_long_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    loop = asyncio.get_running_loop()
    call_later = loop.call_later

    def at_once(seconds: float, *args: object) -> asyncio.TimerHandle:
        waited.append(seconds)
        return call_later(0, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "call_later", at_once)
    tried = asyncio.Queue[Path]()
    them = Retries(tried.put_nowait)
    for _ in range(10):
        them.later(PATH)
        assert await tried.get() == PATH
    assert waited[:3] == [retries.FIRST_SECONDS, 2 * retries.FIRST_SECONDS, 4 * retries.FIRST_SECONDS]
    assert waited[-1] == retries.LAST_SECONDS
    them.forget(PATH)
    them.later(PATH)
    assert waited[-1] == retries.FIRST_SECONDS
    them.close()


async def test_what_works_meanwhile_or_is_gone_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    timers: list[asyncio.TimerHandle] = []
    loop = asyncio.get_running_loop()
    call_later = loop.call_later

    def kept(seconds: float, *args: object) -> asyncio.TimerHandle:
        timers.append(call_later(seconds, *args))  # type: ignore[arg-type]
        return timers[-1]

    monkeypatch.setattr(loop, "call_later", kept)
    them = Retries(pytest.fail)
    for stop in (them.forget, them.stop, lambda _: them.close()):
        them.later(PATH)
        stop(PATH)
    assert [timer.cancelled() for timer in timers] == [True] * 3
