"""What a running function tells its caller: progress, which only grows, and words for the log."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import Any

from enginehost.call import LOG_LEVELS
from enginehost.serve.mcp.peer import Notify
from enginehost.serve.mcp.wire import notification
from enginehost.values import NotJson

MOST_UNTOLD = 256
"""Messages that wait for a slow client; of further ones the oldest are left out."""


class Teller:
    """Tells one client what one call says, in order, until :meth:`end`. May be called on any thread."""

    def __init__(self, notify: Notify, token: str | int | None, level: str) -> None:
        self._notify, self._token, self._level = notify, token, level
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._untold: deque[bytes] = deque(maxlen=MOST_UNTOLD)
        self._task: asyncio.Task[None] | None = None
        self._last: float | None = None
        self._over = False

    def __call__(self, told: dict[str, Any]) -> None:
        """Tell what :meth:`enginehost.engine.Call.progress` and ``log`` give."""
        if threading.get_ident() == self._thread:
            self._take(told)
        else:
            self._loop.call_soon_threadsafe(self._take, told)

    async def end(self) -> None:
        """Tell what waits; from then on nothing more is told."""
        self._over = True
        if self._task is not None:
            await self._task

    def drop(self) -> None:
        """Tell nothing more, not even what waits."""
        self._over = True
        self._untold.clear()
        if self._task is not None:
            self._task.cancel()

    def _take(self, told: dict[str, Any]) -> None:
        if self._over:
            return
        try:
            message = self._progress(told) if "progress" in told else self._words(told)
        except NotJson:  # it has no JSON form, so nobody can be told
            return
        if message is None:
            return
        self._untold.append(message)
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._send())

    async def _send(self) -> None:
        while self._untold:
            await self._notify(self._untold.popleft())

    def _progress(self, told: dict[str, Any]) -> bytes | None:
        done = told["progress"]
        if self._token is None or not isinstance(done, int | float) or isinstance(done, bool):
            return None
        if self._last is not None and done <= self._last:
            return None
        self._last = done
        return notification("notifications/progress", {"progressToken": self._token, **told})

    def _words(self, told: dict[str, Any]) -> bytes | None:
        if not self._level or told.get("level") not in LOG_LEVELS:
            return None
        if LOG_LEVELS.index(told["level"]) < LOG_LEVELS.index(self._level):
            return None
        return notification("notifications/message", told)
