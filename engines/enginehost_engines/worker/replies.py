"""What comes back for one call or one stream."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from enginehost.engine import current_call
from enginehost.values import LARGE, aside, unpack
from enginehost_engines.worker.failures import failure
from enginehost_engines.worker.wire import END, ITEM, RESULT, WINDOW


class Reply:
    """Takes frames as they come for a call of the function ``name``.

    ``abandoned`` is the timer of a reply nobody waits for any more.
    """

    __slots__ = ("abandoned", "log", "name")

    def __init__(self, log: logging.Logger, name: str) -> None:
        self.log = log
        self.name = name
        self.abandoned: asyncio.TimerHandle | None = None

    def received(self, kind: int, payload: bytes) -> bool:
        """Take a frame; whether it was the last one."""
        raise NotImplementedError

    def died(self, error: Exception) -> None:
        """No more frames will come."""
        raise NotImplementedError

    def stop_timer(self) -> None:
        """The worker has answered: nothing needs to be forced."""
        if self.abandoned is not None:
            self.abandoned.cancel()


class CallReply(Reply):
    """One result."""

    __slots__ = ("_future",)

    def __init__(self, log: logging.Logger, name: str) -> None:
        super().__init__(log, name)
        self._future: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()

    def received(self, kind: int, payload: bytes) -> bool:
        """RESULT or ERROR."""
        if not self._future.done():
            self._future.set_result((kind, payload))
        return True

    def died(self, error: Exception) -> None:
        """Raise ``error`` where the result is awaited."""
        if not self._future.done():
            self._future.set_exception(error)

    async def result(self) -> Any:
        """Wait for the result. Raises what the function raised."""
        kind, payload = await self._future
        if kind == RESULT:
            return unpack(payload) if len(payload) < LARGE else await _large(payload)
        raise failure(payload, self.name)


class StreamReply(Reply):
    """Items, at most :data:`WINDOW` ahead of the reader.

    ``credit`` tells the worker how many were taken; ``on_over`` hears once that no more will come.
    """

    __slots__ = ("_error", "_items", "_on_over", "_over", "_taken", "_wake", "credit")

    def __init__(self, log: logging.Logger, name: str, on_over: Callable[[], None]) -> None:
        super().__init__(log, name)
        self._on_over = on_over
        self._over = False
        self.credit: Callable[[int], None] | None = None
        self._items: deque[bytes] = deque()
        self._taken = 0
        self._error: Exception | None = None
        self._wake: asyncio.Future[None] | None = None

    def received(self, kind: int, payload: bytes) -> bool:
        """ITEM, END or ERROR."""
        if kind == ITEM:
            self._items.append(payload)
            self._notify()
            return False
        self._finish(None if kind == END else failure(payload, self.name))
        return True

    def died(self, error: Exception) -> None:
        """Raise ``error`` after the items that have come."""
        self._finish(error)

    async def next(self) -> Any:
        """The next item. Raises ``StopAsyncIteration`` at the end, or what the function raised."""
        while not self._items:
            if self._over:
                raise self._error or StopAsyncIteration
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
        item = self._items.popleft()
        self._taken += 1
        if self._taken >= WINDOW // 2 and self.credit is not None:
            self.credit(self._taken)
            self._taken = 0
        return unpack(item) if len(item) < LARGE else await _large(item)

    def _finish(self, error: Exception | None) -> None:
        self._over, self._error = True, error
        self._notify()
        self._on_over()

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


async def _large(payload: bytes) -> Any:
    """A value that takes a while to read; so will what else is done with it."""
    call = current_call()
    if call is not None:
        call.large = True
    return await aside(unpack, payload)
