"""How many programs run at once, whatever the number of calls."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

MOST = 64
"""Programs of one event loop at once, where the setting ``max_workers`` does not say."""

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, asyncio.Semaphore]] = WeakKeyDictionary()


def turns(most: int | None) -> asyncio.Semaphore:
    """What every program of the running event loop holds while it runs."""
    of_loop = _turns.setdefault(asyncio.get_running_loop(), {})
    number = most or MOST
    return of_loop.setdefault(number, asyncio.Semaphore(number))


async def take(semaphore: asyncio.Semaphore, most: int | None) -> None:
    """Wait for a turn; who is cancelled meanwhile says for what it waited."""
    try:
        await semaphore.acquire()
    except asyncio.CancelledError as error:
        error.args = (f"it waited for other programs to end (max_workers = {most or MOST})",)
        raise
