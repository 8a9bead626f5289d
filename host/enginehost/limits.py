"""What holds calls back: a rate, and a number at once with a queue before it.

Both live on the host's event loop and need no lock.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

from enginehost.call import Waited
from enginehost.errors import Overloaded


def number_of_calls(number: int) -> str:
    """``1 call``, ``2 calls``."""
    return f"{number} call" if number == 1 else f"{number} calls"


class TokenBucket:
    """``rate`` calls a second on average, ``burst`` at once."""

    __slots__ = ("_burst", "_level", "_rate", "_then")

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = float(max(1, burst))
        self._level = self._burst
        self._then = float("-inf")

    def take(self, name: str, now: float) -> None:
        """Take one token at ``now`` (monotonic seconds), or raise :class:`Overloaded` with when to return."""
        self._level = min(self._burst, self._level + (now - self._then) * self._rate)
        self._then = now
        if self._level < 1.0:
            raise Overloaded(
                f"{name} has reached its rate limit", retry_after=(1.0 - self._level) / self._rate
            )
        self._level -= 1.0


class Gate:
    """At most ``width`` holders at once; ``queue_limit`` more may wait, first come first served."""

    __slots__ = ("_active", "_queue_limit", "_waiters", "_width")

    def __init__(self, width: int, queue_limit: int | None) -> None:
        self._width = width
        self._queue_limit = queue_limit
        self._active = 0
        self._waiters: deque[asyncio.Future[None]] = deque()

    def enter_now(self) -> bool:
        """Take a place if one is free and nobody waits."""
        if self._active >= self._width or self._waiters:
            return False
        self._active += 1
        return True

    async def enter(self, name: str) -> None:
        """Wait for a place. Raises :class:`Overloaded` when the queue is full."""
        if self._queue_limit is not None and len(self._waiters) >= self._queue_limit:
            raise Overloaded(f"{name} runs {number_of_calls(self._width)} at once and its queue is full")
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except BaseException as error:  # cancelled, or closed while it waited: the place must not go with it
            if isinstance(error, asyncio.CancelledError):
                error.args = (Waited(f"it waited for its turn ({number_of_calls(self._width)} at once)"),)
            if waiter.done() and not waiter.cancelled():
                self.leave()
            else:
                waiter.cancel()
                with suppress(ValueError):  # `leave` may have dropped the cancelled waiter already
                    self._waiters.remove(waiter)
            raise

    def leave(self) -> None:
        """Give the place back; the longest waiter gets it."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._active -= 1

    @property
    def active(self) -> int:
        """Holders now."""
        return self._active

    @property
    def waiting(self) -> int:
        """Callers in the queue now."""
        return len(self._waiters)
