"""So many lines of a server's in the log, and no more: what it says is a stranger's."""

from __future__ import annotations

import logging
import time

MOST_LINES, PER_SECONDS = 200, 10.0
"""How many lines are logged in a time; the others are counted."""


class Allowance:
    """Logs what fits, and how much did not."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._since, self._lines, self._dropped = time.monotonic(), 0, 0

    def tell(self, level: int, text: str) -> None:
        """Log a line, if it fits."""
        now = time.monotonic()
        if now - self._since >= PER_SECONDS:
            if self._dropped:
                self._log.info("%d further lines of the server are not shown", self._dropped)
            self._since, self._lines, self._dropped = now, 0, 0
        self._lines += 1
        if self._lines <= MOST_LINES:
            self._log.log(level, "%s", text)
        else:
            self._dropped += 1
