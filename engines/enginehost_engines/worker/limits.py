"""What a worker process may use, and when another takes its place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """Zero is no limit.

    ``memory_mb`` is what a worker, with the processes that it started, may use. After ``max_calls`` calls, or
    when it uses more than ``recycle_mb`` at the end of one, a fresh worker takes its place.
    """

    memory_mb: int = 0
    max_calls: int = 0
    recycle_mb: int = 0

    @property
    def recycles(self) -> bool:
        """Whether workers wear out."""
        return bool(self.max_calls or self.recycle_mb)


NO_LIMITS = WorkerLimits()
