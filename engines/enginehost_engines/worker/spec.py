"""What makes two worker processes the same."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from enginehost.values import pack
from enginehost_engines.worker.limits import NO_LIMITS, WorkerLimits

Files = Mapping[str, tuple[int, int]]
"""Files that a worker imported, each with what changes when the file changes."""

_owners = itertools.count(1)


@dataclass(frozen=True)
class WorkerSpec:
    """What makes two workers the same.

    ``order`` is the packed LOAD frame, ``origin`` names the code that it loads, ``version`` changes with
    that code; ``concurrent`` workers serve many calls at once; ``pinned`` ones have state, so nothing but
    their owner ends them. Workers end after ``idle`` seconds without a call (``None``: never). Only engines
    whose ``owner`` is the same share workers.
    """

    order: bytes = field(repr=False)  # it holds secrets
    origin: str
    concurrent: bool = False
    pinned: bool = False
    version: tuple[int, ...] = ()
    idle: float | None = None
    owner: int = 0
    interpreter: str = sys.executable
    limits: WorkerLimits = NO_LIMITS

    @classmethod
    def of(cls, order: Mapping[str, Any], origin: str, **fields: Any) -> WorkerSpec:
        """The spec of a worker that loads ``order``. Concurrent ones are never shared.

        (A call that blocks or ends such a process takes all others on it along.)
        """
        concurrent = bool(fields.get("concurrent", False))
        owner = next(_owners) if concurrent else 0
        limits: WorkerLimits = fields.get("limits", NO_LIMITS)
        told = {**order, "concurrent": concurrent, "memory_mb": limits.memory_mb}
        return cls(pack(told), origin, owner=owner, **fields)
