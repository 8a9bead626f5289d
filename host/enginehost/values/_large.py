"""Large values: work on them beside the event loop, and without the garbage collector."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from enginehost.collector import uncollected

if TYPE_CHECKING:
    import asyncio

_T = TypeVar("_T")

LARGE = 64 * 1024
"""Bytes of JSON from which on a value is large: to hand it to a thread costs little beside reading it."""

_AT_ONCE = 2
"""Large values that are worked on at once: more would only take turns at the one interpreter."""

_places: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


async def aside(work: Callable[..., _T], *given: Any) -> _T:
    """``work(*given)`` on a thread, without the garbage collector, while the event loop serves others.

    At most two run at once for one loop. One that is cancelled is not waited for, and runs on.
    """
    import asyncio  # a worker has no use for it

    loop = asyncio.get_running_loop()
    place = _places.get(loop)
    if place is None:
        place = _places[loop] = asyncio.Semaphore(_AT_ONCE)
    async with place:
        return await loop.run_in_executor(None, _run, work, *given)


def _run(work: Callable[..., _T], *given: Any) -> _T:
    with uncollected():
        return work(*given)
