"""Trying again, later and later, what could not be opened: the reason may be over without any edit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

FIRST_SECONDS, LAST_SECONDS = 2.0, 300.0
"""How long until the first repetition; twice as long each time, up to the second."""


class Retries:
    """Calls ``again`` with a path when its time has come. Lives on the event loop."""

    def __init__(self, again: Callable[[Path], None]) -> None:
        self._again = again
        self._timers: dict[Path, asyncio.TimerHandle] = {}
        self._seconds: dict[Path, float] = {}

    def later(self, path: Path) -> None:
        """It failed (again)."""
        self.stop(path)
        seconds = self._seconds.get(path, FIRST_SECONDS)
        self._seconds[path] = min(seconds * 2, LAST_SECONDS)
        self._timers[path] = asyncio.get_running_loop().call_later(seconds, self._due, path)

    def stop(self, path: Path) -> None:
        """It is being tried now."""
        if timer := self._timers.pop(path, None):
            timer.cancel()

    def forget(self, path: Path) -> None:
        """It works, or is gone."""
        self.stop(path)
        self._seconds.pop(path, None)

    def close(self) -> None:
        """Try nothing any more."""
        for path in tuple(self._timers):
            self.forget(path)

    def _due(self, path: Path) -> None:
        del self._timers[path]
        self._again(path)
