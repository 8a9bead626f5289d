"""How many worker processes there are at once, and who may start the next one.

One pool for each event loop. Workers of one spec form a :class:`~.group.Group`; engines with the same
spec share it, as long as the files that its code imports are the same too. There are at most ``most``
processes, those that are ending counted: where the number is reached, the worker that idles longest goes, and
the next one starts when it has gone. Whoever waits longest for a process is served first. Pinned workers do
not count.
"""

from __future__ import annotations

import asyncio
import logging
import os
from weakref import WeakKeyDictionary

from enginehost_engines.worker.group import Group, Listener
from enginehost_engines.worker.imports import stamp
from enginehost_engines.worker.process import Worker
from enginehost_engines.worker.spec import Files, WorkerSpec

_NEVER = float("inf")

EVICTED_SECONDS = 0.5
"""How long a worker may take to end by itself where others wait for its place."""

_CHECKS = 2
"""New versions that are tried at once."""


class WorkerPool:
    """The worker processes of one event loop."""

    def __init__(self) -> None:
        self.most = max(4, 2 * (os.cpu_count() or 1))
        self.count = 0
        """Processes that there are, or are being started."""
        self.going = 0
        """Those of them that serve no more."""
        self.spare = 0
        """Those of them that are to take the place of another, which serves until then."""
        self.checks = asyncio.Semaphore(_CHECKS)
        """Held while a new version is loaded to see whether it can be."""
        self._groups: dict[_Key, Group] = {}
        self._imported: dict[str, set[str]] = {}
        """By the origin of the code, what it was ever seen to import."""
        self.workers: dict[Worker, Group] = {}
        """Those that serve, pinned ones apart."""
        self._wanting: dict[Group, None] = {}

    def join(self, spec: WorkerSpec, log: logging.Logger, listener: Listener | None, size: int = 1) -> Group:
        """The group of ``spec``, for one more engine (see :meth:`Group.leave`).

        ``size`` is for concurrent workers: how many there may be.
        """
        files = {file: stamp(file) for file in self._imported.get(spec.origin, ())}
        key = _key(spec, files)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(self, spec, files, log, size)
        group.join(listener)
        return group

    def forget(self, group: Group) -> None:
        """The group has no engines any more."""
        key = _key(group.spec, group.files)
        if self._groups.get(key) is group:
            del self._groups[key]
        self._wanting.pop(group, None)

    def imported(self, group: Group, files: Files) -> None:
        """A worker of the group imported these files: who comes when they have changed joins another."""
        new = {file: seen for file, seen in files.items() if file not in group.files}
        if not new:
            return
        self._imported.setdefault(group.spec.origin, set()).update(new)
        former = _key(group.spec, group.files)
        group.files |= new
        if self._groups.get(former) is group:
            del self._groups[former]
            self._groups.setdefault(_key(group.spec, group.files), group)

    def reserve(self, group: Group) -> bool:
        """Take the right to one more process; ``False``: the group's turn comes when one has gone."""
        if self.count < self.most:
            self.count += 1
            return True
        self._wanting[group] = None
        while self.going < self._missing() and self._evict():
            pass
        self.reclaim()
        return False

    def reserve_free(self) -> bool:
        """Take the right to one more process where nobody else wants it."""
        if self.count >= self.most or self._wanting:
            return False
        self.count += 1
        return True

    def reserve_spare(self) -> bool:
        """Take the right to a process that is to replace another: one more than allowed, at most."""
        if self.count - self.going > self.most:
            return False
        self.count += 1
        self.spare += 1
        return True

    def reclaim(self) -> None:
        """Where a group waits for room, end one start that nobody waits for: its import may never end."""
        if self._longest_waiting() is not None:
            any(group.give_up_start() for group in tuple(self._groups.values()))

    def leaving(self) -> None:
        """A process is ending."""
        self.going += 1

    def left(self) -> None:
        """A process that was ending has gone."""
        self.going -= 1
        self.freed()

    def freed(self) -> None:
        """A process has gone: whoever waits longest may start one."""
        self.count -= 1
        group = self._longest_waiting()
        if group is not None:
            group.grow()

    @property
    def is_crowded(self) -> bool:
        """Whether more processes serve than there should be."""
        return self.count - self.going - self.spare > self.most

    def added(self, worker: Worker, group: Group) -> None:
        """A worker serves."""
        self.workers[worker] = group

    def removed(self, worker: Worker) -> None:
        """A worker serves no more."""
        self.workers.pop(worker, None)

    def longest_wait(self) -> float:
        """Since when a group waits for room that nobody makes (loop time); infinity when none does."""
        group = self._longest_waiting() if self._wanting else None
        return group.waiting_since if group is not None and self.going < self._missing() else _NEVER

    def _missing(self) -> int:
        return sum(group.missing for group in self._wanting)

    def _longest_waiting(self) -> Group | None:
        for group in [group for group in self._wanting if not group.wants_worker]:
            del self._wanting[group]
        return min(self._wanting, key=lambda group: group.waiting_since, default=None)

    def _evict(self) -> bool:
        idle = [worker for worker in self.workers if not worker.leases]
        if not idle:
            return False
        oldest = min(idle, key=lambda worker: worker.used_at)
        self.workers[oldest].drop(oldest, EVICTED_SECONDS)
        return True


_Key = tuple[WorkerSpec, frozenset[tuple[str, int, int]]]


def _key(spec: WorkerSpec, files: Files) -> _Key:
    return spec, frozenset((file, *seen) for file, seen in files.items())


_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, WorkerPool] = WeakKeyDictionary()


def current_pool() -> WorkerPool:
    """The pool of the running event loop."""
    loop = asyncio.get_running_loop()
    pool = _pools.get(loop)
    if pool is None:
        pool = _pools[loop] = WorkerPool()
    return pool
