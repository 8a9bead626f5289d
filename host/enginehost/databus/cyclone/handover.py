"""Waking a task on the spot, rather than in the next turn of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any, Self


class Handover:
    """What one task awaits over and over; :meth:`wake`, called outside any task, lets it run at once.

    To a task this is a future: it says that it blocks, takes the task's way of waking it, and has a result.
    """

    _asyncio_future_blocking = False

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._wake: Callable[[], Any] | None = None
        self._cancelled = False

    @property
    def waiting(self) -> bool:
        """Whether the task waits here."""
        return self._wake is not None

    def wake(self) -> None:
        """Run the task, if it waits here, until it waits again."""
        wake, self._wake = self._wake, None
        if wake is not None:
            wake()

    def __await__(self) -> Generator[Self]:
        self._asyncio_future_blocking = True
        yield self

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The task's event loop."""
        return self._loop

    def add_done_callback(self, wake: Callable[[Any], Any], *, context: Context) -> None:
        """The task gives its way of waking it."""
        self._wake = lambda: context.run(wake, self)

    def result(self) -> None:
        """The task asks what it has waited for."""
        if self._cancelled:
            raise asyncio.CancelledError

    def cancel(self, msg: Any = None) -> bool:
        """The task is cancelled while it waits."""
        self._cancelled = True
        self._loop.call_soon(self.wake)
        return True
