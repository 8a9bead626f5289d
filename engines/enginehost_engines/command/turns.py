"""How many programs run at once, whatever the number of calls."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from enginehost.engine import Waited

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, asyncio.Semaphore]] = WeakKeyDictionary()


def turns(most: int) -> asyncio.Semaphore:
    """What every program of the running event loop holds while it runs."""
    return _turns.setdefault(asyncio.get_running_loop(), {}).setdefault(most, asyncio.Semaphore(most))


async def take(semaphore: asyncio.Semaphore, most: int) -> None:
    """Wait for a turn; who is cancelled meanwhile says for what it waited."""
    try:
        await semaphore.acquire()
    except asyncio.CancelledError as error:
        error.args = (Waited(f"it waited for other programs to end (max_programs = {most})"),)
        raise
