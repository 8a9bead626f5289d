"""Noticing that this process stood still: stopped, or its machine asleep.

Meanwhile others took it for gone: their readers hold what it had written as disposed until it is written
anew. A clock that goes on while the machine sleeps tells, where the system has one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

log = logging.getLogger("enginehost.databus")

BEAT = 0.25
"""Seconds between two looks at the clock."""

GAP = 1.0
"""Seconds by which a look may be late before this counts as a pause: half of what readers wait (2 s)."""


def clock() -> float:
    """Seconds that pass also while the machine sleeps, and that nobody sets back."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boottime is None else time.clock_gettime(boottime)


class Pulse:
    """Calls ``beat`` every quarter of a second, and ``paused`` after a gap, until it is closed."""

    def __init__(
        self,
        beat: Callable[[], None],
        paused: Callable[[], Awaitable[None]],
        now: Callable[[], float] = clock,
    ) -> None:
        self._beat = beat
        self._paused = paused
        self._now = now
        self._task = asyncio.get_running_loop().create_task(self._run(), name="databus-pulse")

    async def close(self) -> None:
        """Stop."""
        self._task.cancel()
        await asyncio.wait((self._task,))

    async def _run(self) -> None:
        seen = self._now()
        while True:
            await asyncio.sleep(BEAT)
            gap, seen = self._now() - seen, self._now()
            try:
                if gap > BEAT + GAP:
                    log.info("this host stood still for %.1f s; the databus hears of all functions anew", gap)
                    await self._paused()
                self._beat()
            except Exception:  # one beat that fails must not be the last
                log.exception("the databus's look at the clock failed")
