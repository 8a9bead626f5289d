"""A circuit breaker: a service that fails again and again is left alone for a while.

Those who call one origin with the same rules share its breaker. It is *closed* (requests pass), *open*
(all are refused at once) or *half open* (one may try; its outcome decides).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from enginehost.errors import EngineUnavailable


class Circuit(StrEnum):
    """The states of a breaker."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(slots=True)
class Breaker:
    """Counts failures in a row. ``most`` of them open it for ``seconds``; 0: it never opens."""

    host: str
    most: int
    seconds: float
    clock: Callable[[], float] = time.monotonic
    failures: int = 0
    """Failures in a row: whoever hears an answer sets it to 0."""
    reason: str = ""
    _until: float = field(default=0.0, repr=False)
    _trying: bool = field(default=False, repr=False)

    @property
    def state(self) -> Circuit:
        """The state now."""
        if not self.most or self.failures < self.most:
            return Circuit.CLOSED
        return Circuit.HALF_OPEN if self._trying or self.clock() >= self._until else Circuit.OPEN

    @property
    def trouble(self) -> str:
        """What people should know; empty while requests pass."""
        state = self.state
        if state is Circuit.CLOSED:
            return ""
        told = f"{self.host} failed {self.failures} times in a row, the last time because: {self.reason}"
        if state is Circuit.HALF_OPEN:
            return f"{told}; " + ("a call tries it now" if self._trying else "the next call tries it again")
        return f"{told}; calls are refused for {self._left:.1f} s more"

    @property
    def _left(self) -> float:
        return max(0.0, self._until - self.clock())

    def enter(self) -> bool:
        """Let a request pass; :class:`EngineUnavailable` where none may. ``True``: it is the one try.

        Whoever got that calls :meth:`left` at the end.
        """
        state = self.state
        if state is Circuit.CLOSED:
            return False
        if state is Circuit.HALF_OPEN and not self._trying:
            self._trying = True
            return True
        error = EngineUnavailable(
            f"{self.trouble} (BREAKER_FAILURES, BREAKER_SECONDS)", reason="circuit open"
        )
        error.detail |= {"retry_after": round(self._left, 3), "retry_may_help": True}
        raise error

    def left(self) -> None:
        """The one try is over, however it ended."""
        self._trying = False

    def failed(self, reason: str) -> None:
        """It did not, or said that it cannot."""
        self.failures += 1
        self.reason = reason
        if self.failures >= self.most:
            self._until = self.clock() + self.seconds
