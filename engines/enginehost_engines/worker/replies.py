"""One call or one stream on its way: what is sent, and what comes back."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from enginehost.engine import current_call
from enginehost.errors import OutcomeUnknown, TooLarge
from enginehost.values import LARGE, MalformedJson, Parted, aside, unpack
from enginehost_engines.worker.failures import failure
from enginehost_engines.worker.wire import CREDIT, CREDIT_PAYLOAD, END, ITEMS, MOST_WINDOW, RESULT, WINDOW

if TYPE_CHECKING:
    from enginehost_engines.worker.lanes import Lane

_MOST_AHEAD = 1024 * 1024
"""Bytes of items to which a window may grow."""


class Reply:
    """Takes frames as they come for a call of the function ``name``.

    ``left``: nobody waits for it any more. ``lane`` is where it was sent, ``call_id`` as what.
    """

    __slots__ = ("_timer", "call", "call_id", "kind", "lane", "left", "log", "name", "payload")

    def __init__(self, log: logging.Logger, name: str, kind: int = 0, payload: bytes = b"") -> None:
        self.log = log
        self.name = name
        self.kind = kind
        self.payload = payload
        self.call_id = 0
        self.call = current_call()
        """The host's: what is printed meanwhile stands in the log with its ids."""
        self.left = False
        self.lane: Lane | None = None
        self._timer: asyncio.TimerHandle | None = None

    def received(self, kind: int, payload: bytes) -> bool:
        """Take a frame; whether it was the last one."""
        raise NotImplementedError

    def died(self, error: Exception) -> None:
        """No more frames will come."""
        raise NotImplementedError

    def not_begun(self) -> None:
        """Its worker has ended before it came to this call."""
        if self.lane is not None:
            self.lane.again(self)

    def unreadable(self) -> OutcomeUnknown:
        """What its worker sent is not what workers send: the worker ends."""
        if self.lane is not None:
            self.lane.worker.kill("killed, since what it sent is not what workers send")
        return OutcomeUnknown(f"{self.name}: what its worker process answered cannot be read")

    def force_after(self, timer: asyncio.TimerHandle) -> None:
        """What ends the worker, unless it answers before."""
        self.stop_timer()
        self._timer = timer

    def stop_timer(self) -> None:
        """The worker has answered: nothing needs to be forced."""
        if self._timer is not None:
            self._timer.cancel()

    def _over(self) -> None:
        if self.lane is not None:
            self.lane.over(self)


class CallReply(Reply):
    """One result; ``answer`` is that of the worker."""

    __slots__ = ("answer",)

    def __init__(self, log: logging.Logger, name: str, kind: int = 0, payload: bytes = b"") -> None:
        self.log = log  # not by the base class: this is made for each call
        self.name = name
        self.kind = kind
        self.payload = payload
        self.call_id = 0
        self.call = current_call()
        self.left = False
        self.lane = None
        self._timer = None
        self.answer: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()

    def received(self, kind: int, payload: bytes) -> bool:
        """RESULT or ERROR."""
        if not self.answer.done():
            self.answer.set_result((kind, payload))
        self._over()
        return True

    def died(self, error: Exception) -> None:
        """Raise ``error`` where the result is awaited."""
        if not self.answer.done():
            self.answer.set_exception(error)
        self._over()

    async def result(self) -> Any:
        """Wait for the result. Raises what the function raised."""
        return await self.value(*await self.answer)

    async def value(self, kind: int, payload: bytes) -> Any:
        """What an answer holds. Raises what the function raised."""
        if kind == RESULT:
            return unpack(payload) if len(payload) < LARGE else await _large(payload)
        raise _failure(payload, self.name)


class StreamReply(Reply):
    """Items, so many ahead of the reader as its window is wide.

    The window grows while the reader waits for small items; one that lingers keeps the function waiting.
    """

    __slots__ = ("_come", "_ended", "_error", "_items", "_size", "_taken", "_wake", "_window")

    def __init__(self, log: logging.Logger, name: str, kind: int = 0, payload: bytes = b"") -> None:
        super().__init__(log, name, kind, payload)
        self._come: deque[bytes] = deque()
        self._items: deque[Any] = deque()
        self._size = 0
        """Bytes of the largest item that has come."""
        self._taken = 0
        self._window = WINDOW
        self._ended = False
        self._error: Exception | None = None
        self._wake: asyncio.Future[None] | None = None

    def received(self, kind: int, payload: bytes) -> bool:
        """ITEMS, END or ERROR."""
        if kind == ITEMS:
            self._come.append(payload)
            self._notify()
            return False
        self._finish(None if kind == END else _failure(payload, self.name))
        return True

    def died(self, error: Exception) -> None:
        """Raise ``error`` after the items that have come."""
        self._finish(error)

    async def next(self) -> Any:
        """The next item. Raises ``StopAsyncIteration`` at the end, or what the function raised."""
        if not self._items:
            await self._refill()
        item = self._items.popleft()
        self._taken += 1
        if self._taken >= self._window // 2:
            self._ask()
        return item

    async def _refill(self) -> None:
        """Take the next piece. Raises ``StopAsyncIteration`` at the end, or what the function raised."""
        while not self._come:
            if self._ended:
                raise self._error or StopAsyncIteration
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
        piece = self._come.popleft()
        try:
            items: list[Any] = unpack(piece) if len(piece) < LARGE else await _large(piece)
            self._items.extend(items)
            size = piece.size if isinstance(piece, Parted) else len(piece)
            self._size = max(self._size, size // len(items))
        except (MalformedJson, TypeError, ArithmeticError):
            raise self.unreadable() from None

    def _ask(self) -> None:
        """Ask for as many as were taken, and for more where none is left and items are small."""
        more, wider = self._taken, 2 * self._window
        if not self._items and not self._come and wider <= MOST_WINDOW and wider * self._size <= _MOST_AHEAD:
            more += self._window
            self._window = wider
        self._taken = 0
        if self.lane is not None and not self._ended:
            self.lane.worker.say(CREDIT, self.call_id, CREDIT_PAYLOAD.pack(more))

    def _finish(self, error: Exception | None) -> None:
        self._ended, self._error = True, error
        self._notify()
        self._over()

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


def _failure(payload: bytes, name: str) -> Exception:
    error = failure(payload, name)
    if isinstance(error, TooLarge):
        return TooLarge(f"the result of {name}", **error.detail)
    return error


async def _large(payload: bytes) -> Any:
    """A value that takes a while to read; so will what else is done with it."""
    call = current_call()
    if call is not None:
        call.large = True
    return await aside(unpack, payload)
