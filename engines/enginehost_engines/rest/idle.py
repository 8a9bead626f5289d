"""Closes connections that nobody uses any more; the pool itself looks at them at its next request only."""

from __future__ import annotations

import asyncio

import httpcore2

_LATER = 0.05
"""Seconds after the time at which the pool counts a connection as expired."""


class IdleConnections:
    """Those of one pool, which expire after ``seconds``. It looks only while there are some."""

    def __init__(self, pool: httpcore2.AsyncConnectionPool, seconds: float) -> None:
        self._pool = pool
        self._seconds = seconds + _LATER
        self._timer: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None

    def there_may_be_some(self) -> None:
        """An answer was read."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._due)

    def _due(self) -> None:
        self._timer = None
        self._closing = asyncio.create_task(self._close_expired())

    async def _close_expired(self) -> None:
        for connection in self._pool.connections:
            if connection.is_idle() and connection.has_expired():
                await connection.aclose()
        if any(not connection.is_closed() for connection in self._pool.connections):
            self.there_may_be_some()

    async def stop(self) -> None:
        """Look no more."""
        closing, self._closing = self._closing, None
        if closing is not None:
            await asyncio.wait([closing])
        if self._timer is not None:
            self._timer.cancel()
