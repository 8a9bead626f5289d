"""The workers of one spec, and which call gets which of them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from enginehost.errors import EngineHostError, EngineUnavailable
from enginehost_engines.worker.failures import load_failure
from enginehost_engines.worker.process import Worker, WorkerSpec

if TYPE_CHECKING:
    from enginehost_engines.worker.pool import WorkerPool

RETRY_SECONDS = 1.0
"""After a failed start, calls get the same answer for so long: a crash loop starts one process a second."""

_NEVER = float("inf")


class _Waiter:
    """A call that waits for a worker."""

    __slots__ = ("future", "since")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.future: asyncio.Future[Worker] = loop.create_future()
        self.since = loop.time()


class Group:
    """The workers of one spec.

    A call leases a worker and releases it. Workers that serve one call at a time are leased to
    one; concurrent ones are shared. Processes start when calls wait, up to ``size``.
    """

    def __init__(self, pool: WorkerPool, spec: WorkerSpec, log: logging.Logger, idle: float | None) -> None:
        self.spec = spec
        self.users = 0
        self.size = 1
        self.on_info: Callable[[Any], None] | None = None
        self._pool = pool
        self._log = log
        self._idle_seconds = idle
        self._loop = asyncio.get_running_loop()
        self._workers: list[Worker] = []
        self._starting: dict[Worker, asyncio.Task[None]] = {}
        self._waiters: deque[_Waiter] = deque()
        self._failure: EngineHostError | None = None
        self._failed_at = -_NEVER

    # leases

    def take(self) -> Worker | None:
        """A worker at once, if there is one and nobody came before."""
        return self._take() if not self._waiters else None

    async def lease(self) -> Worker:
        """A worker, when there is one. Raises ``EngineUnavailable`` where none can be started."""
        worker = self.take()
        if worker is not None:
            return worker
        if self._failure is not None and self._loop.time() - self._failed_at < RETRY_SECONDS:
            raise EngineUnavailable(self._failure.message, state="failed") from self._failure
        waiter = _Waiter(self._loop)
        self._waiters.append(waiter)
        self.grow()
        try:
            return await waiter.future
        except asyncio.CancelledError:
            self._cancelled(waiter)
            raise

    def release(self, worker: Worker) -> None:
        """The call on this worker is over."""
        worker.leases -= 1
        worker.used_at = self._loop.time()
        if worker.leases or worker not in self._workers:
            return
        if self._pool.longest_wait() < self.waiting_since and not self.spec.pinned:
            self._retire(worker)
        elif self._waiters:
            self._serve()

    def abandon(self, worker: Worker, call_id: int) -> None:
        """Nobody waits for this call any more: end it. A worker that runs nothing else is killed at once."""
        if self.spec.concurrent:
            worker.abandon(call_id)
        elif worker in self._workers:
            self._retire(worker)
            self.grow()

    def _take(self) -> Worker | None:
        if not self.spec.concurrent:
            for worker in self._workers:
                if worker.usable and not worker.leases:
                    worker.leases = 1
                    return worker
            return None
        usable = [worker for worker in self._workers if worker.usable]
        if not usable:
            return None
        worker = min(usable, key=lambda worker: worker.leases) if len(usable) > 1 else usable[0]
        if worker.leases:
            self._help()
        worker.leases += 1
        return worker

    def _serve(self) -> None:
        """Hand workers to those who wait, in the order they came."""
        while self._waiters:
            if self._waiters[0].future.done():  # cancelled, and not yet run to take itself out
                self._waiters.popleft()
                continue
            worker = self._take()
            if worker is None:
                return
            self._waiters.popleft().future.set_result(worker)

    def _cancelled(self, waiter: _Waiter) -> None:
        with suppress(ValueError):
            self._waiters.remove(waiter)
        if not waiter.future.cancelled() and waiter.future.exception() is None:
            self.release(waiter.future.result())

    # processes

    @property
    def wants_worker(self) -> bool:
        """Whether calls wait for a process that may be started as soon as there is room."""
        return len(self._waiters) > len(self._starting) and self._may_grow()

    @property
    def waiting_since(self) -> float:
        """When the first waiting call came (loop time); infinity when none waits."""
        return self._waiters[0].since if self._waiters else _NEVER

    def grow(self) -> None:
        """Start the processes that are wanted and allowed."""
        while self.wants_worker and (self.spec.pinned or self._pool.reserve(self)):
            self._start_one()

    def drop(self, worker: Worker) -> None:
        """Take a worker out of service; it ends by itself, or by force where it runs a call."""
        self._workers.remove(worker)
        self._pool.removed(worker)
        if worker.idle_timer is not None:
            worker.idle_timer.cancel()
        if worker.busy:
            worker.kill()
        else:
            worker.close()

    def _may_grow(self) -> bool:
        return len(self._workers) + len(self._starting) < self.size

    def _help(self) -> None:
        """Start a further worker beside busy concurrent ones, where there is room without taking any."""
        if self._may_grow() and not self._starting and self._pool.count < self._pool.most:
            self._pool.count += 1
            self._start_one()

    def _start_one(self) -> None:
        # a task of the group's own: the call that wanted it may be cancelled, the next one needs it too
        worker = Worker(self.spec, self._log, self._ended, self._told)
        task = self._loop.create_task(self._start(worker), name="enginehost-worker-start")
        self._starting[worker] = task

    async def _start(self, worker: Worker) -> None:
        try:
            await worker.start()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer of those who wait
            del self._starting[worker]
            self._failed(load_failure(error))
        except asyncio.CancelledError:
            del self._starting[worker]
            self._free_room()
            raise
        else:
            del self._starting[worker]
            self._started(worker)

    def _started(self, worker: Worker) -> None:
        self._failure = None
        worker.used_at = self._loop.time()
        self._workers.append(worker)
        if not self.spec.pinned:
            self._pool.added(worker, self)
            self._check_idle(worker)
        self._told(worker.info)
        self._serve()

    def _failed(self, error: EngineHostError) -> None:
        self._failure, self._failed_at = error, self._loop.time()
        self._log.error("%s", error.message, exc_info=error)
        if not self._workers:
            self._refuse(error)
        self._free_room()

    def _refuse(self, error: EngineHostError) -> None:
        """Answer all who wait."""
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            if not waiter.future.done():
                waiter.future.set_exception(EngineUnavailable(error.message, state="failed"))

    def _told(self, info: Any) -> None:
        if self.on_info is not None:
            self.on_info(info)

    def _ended(self, worker: Worker) -> None:
        """A worker that served has gone by itself, or was killed by somebody else."""
        if worker in self._workers:
            self._retire(worker)
            self.grow()

    def _retire(self, worker: Worker) -> None:
        self.drop(worker)
        self._free_room()

    def _free_room(self) -> None:
        if not self.spec.pinned:
            self._pool.freed()

    def _check_idle(self, worker: Worker) -> None:
        if self._idle_seconds is None:
            return
        left = worker.used_at + self._idle_seconds - self._loop.time()
        if left <= 0 and not worker.leases:
            self._retire(worker)
        else:
            delay = left if left > 0 else self._idle_seconds
            worker.idle_timer = self._loop.call_later(delay, self._check_idle, worker)

    # end

    async def leave(self) -> None:
        """One user less; with the last one the workers go, and this waits for their end."""
        self.users -= 1
        if self.users:
            return
        self._pool.forget(self)
        self._refuse(EngineUnavailable("the engine was closed", state="closing"))
        starting = tuple(self._starting.values())
        for task in starting:
            task.cancel()
        await asyncio.gather(*starting, return_exceptions=True)
        workers = tuple(self._workers)
        for worker in workers:
            self._retire(worker)
        for worker in workers:
            await worker.gone()
