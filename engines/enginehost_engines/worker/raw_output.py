"""What reaches the log of all that workers print: a bounded part."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

LOGGED_BYTES = 1024 * 1024
"""What one worker may write to the log within a second; the rest of that second is left out."""

READ_BYTES = 8 * 1024 * 1024
"""What is read of one worker's raw output within a second; who writes faster waits."""

Say = Callable[[str], None]
"""Logs one warning."""


class LogBudget:
    """How much one worker may still log in this second; ``say`` tells once that it was too much."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._since = 0.0
        self._used = 0
        self._is_over = False

    def allows(self, size: int) -> bool:
        """Whether so many more bytes go into the log."""
        now = time.monotonic()
        if now - self._since >= 1:
            if self._used <= LOGGED_BYTES:
                self._is_over = False
            self._since, self._used = now, 0
        self._used += size
        if self._used <= LOGGED_BYTES:
            return True
        if not self._is_over:
            self._is_over = True
            self._say(f"it prints more than {LOGGED_BYTES // 1024} KiB a second: the rest is left out")
        return False


class RawOutput(asyncio.Protocol):
    """Reads what is written past Python's streams (C libraries, child processes, last words).

    ``over`` hears that nothing more will be read.
    """

    def __init__(self, log: Callable[[str], None], over: Callable[[], None]) -> None:
        self._log = log
        self._over = over
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._since = 0.0
        self._read = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The pipe is open."""
        self._transport = cast("asyncio.ReadTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Log it, and let the writer wait where it is much."""
        self._log(data.decode("utf-8", "replace"))
        now = self._loop.time()
        if now - self._since >= 1:
            self._since, self._read = now, 0
        self._read += len(data)
        if self._read > READ_BYTES:
            self._transport.pause_reading()
            self._loop.call_later(self._since + 1 - now, self._resume)

    def connection_lost(self, exc: Exception | None) -> None:
        """The pipe is closed."""
        self._over()

    def _resume(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()
