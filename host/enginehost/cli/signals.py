"""What signals do to ``enginehost run`` once its event loop runs."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread
from typing import Any

from enginehost.call import Call, current_call

_SAME_SIGNAL_SECONDS = 1.0
"""A signal so soon after the first is the same one: wrappers send it to the process and to its group."""


class Signals:
    """Calls ``stop`` at the first SIGTERM or SIGINT, ``kill`` at another one, and ``hang_up`` at SIGHUP.

    ``kill`` is given the call that the main thread was busy with when the signal came, if any. They run on a
    thread of their own: a Python handler interrupts code that may hold any lock, and the event loop may be
    held up by what is to be stopped.
    """

    def __init__(
        self,
        stop: Callable[[int], None],
        kill: Callable[[int, Call | None], None],
        hang_up: Callable[[], None],
    ) -> None:
        self._stop = stop
        self._kill = kill
        self._hang_up = hang_up
        self._received = SimpleQueue[tuple[int, float, Call | None]]()

    @contextmanager
    def handled(self) -> Generator[None]:
        """Handle them meanwhile. On the main thread only."""
        before: dict[int, Any] = {
            number: signal.signal(number, self._receive)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        }
        Thread(target=self._follow, name="enginehost-signals", daemon=True).start()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler or signal.SIG_DFL)

    def _receive(self, number: int, _: object) -> None:
        self._received.put((number, time.monotonic(), current_call()))

    def _follow(self) -> None:
        stopped_at = None
        while True:
            number, at, busy = self._received.get()
            if number == signal.SIGHUP:
                self._hang_up()
            elif stopped_at is None:
                stopped_at = at
                self._stop(number)
            elif at - stopped_at >= _SAME_SIGNAL_SECONDS:
                self._kill(number, busy)
