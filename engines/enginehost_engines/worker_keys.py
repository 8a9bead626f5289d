"""The smss keys that bound worker processes, for every engine whose code runs in them."""

from __future__ import annotations

from pydantic import Field

from enginehost.config import EngineConfig
from enginehost_engines.worker.limits import WorkerLimits


class MemoryKey(EngineConfig):
    """What a worker process may use."""

    python_memory_mb: int = Field(
        default=0,
        ge=0,
        description="Memory (MiB) that a worker process may use, together with those that it starts; 0 is no"
        " limit. (Linux)",
    )

    def worker_limits(self) -> WorkerLimits:
        """The same, for workers."""
        return WorkerLimits(self.python_memory_mb)


class WorkerKeys(MemoryKey):
    """What a worker process may use, and when another takes its place."""

    python_max_calls: int = Field(
        default=0,
        ge=0,
        description="After so many calls a fresh process takes the place of a worker; 0 is never.",
    )
    python_recycle_mb: int = Field(
        default=0,
        ge=0,
        description="A fresh process takes the place of a worker that uses more memory (MiB) at the end of a"
        " call; 0 is never. (Linux)",
    )

    def worker_limits(self) -> WorkerLimits:
        """The same, for workers."""
        return WorkerLimits(self.python_memory_mb, self.python_max_calls, self.python_recycle_mb)
