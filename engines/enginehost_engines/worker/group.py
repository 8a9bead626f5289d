"""The workers of one spec, and which call gets which of them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from enginehost.engine import Waited
from enginehost.errors import EngineHostError, EngineUnavailable
from enginehost_engines.worker.failures import load_failure
from enginehost_engines.worker.process import Worker
from enginehost_engines.worker.spec import Files, WorkerSpec

if TYPE_CHECKING:
    from enginehost_engines.worker.pool import WorkerPool

RETRY_SECONDS = 1.0
"""After a failed start, calls get the same answer for so long: a crash loop starts one process a second."""

RETRY_ALONE_SECONDS = 2.0, 300.0
"""How long until a failed start is repeated without a call, or beside workers that serve; twice as long each
time, up to the second."""

GROW_SECONDS = 0.005
"""How long a call waits for one of the busy workers before a further one is started: most calls are short."""

_NEVER = float("inf")


class Listener(Protocol):
    """An engine that uses workers. ``files`` are those of its user that the code imported."""

    def loaded(self, info: Any, files: Collection[str]) -> None:
        """A worker serves, or what it says of itself has changed."""
        ...

    def not_loaded(self, error: EngineHostError, files: Collection[str]) -> None:
        """The code cannot be loaded, and no worker serves."""
        ...


class _Waiter:
    """A call that waits for a worker."""

    __slots__ = ("future", "since")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.future: asyncio.Future[Worker] = loop.create_future()
        self.since = loop.time()


class Group:
    """The workers of one spec.

    A call leases a worker and releases it. Workers that serve one call at a time are leased to one call of
    one engine; a further process starts when calls wait for longer than a moment. Concurrent ones are shared
    by the calls of one engine; there are up to ``size``. One that has not heard a cancellation yet is perhaps
    stuck: it gets no calls until it has, and does not count.
    """

    def __init__(
        self, pool: WorkerPool, spec: WorkerSpec, files: Files, log: logging.Logger, size: int
    ) -> None:
        self.spec = spec
        self.files = dict(files)
        """What its code imports, as it was at the first import."""
        self._listeners: list[Listener | None] = []
        self._pool = pool
        self._log = log
        self._size = size if spec.concurrent else _NEVER
        self._later: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._retry_seconds = RETRY_ALONE_SECONDS[0]
        self._loop = asyncio.get_running_loop()
        self._workers: list[Worker] = []
        self._going: set[Worker] = set()
        self._parting: set[asyncio.Task[None]] = set()
        """Of those that have ended: what they left behind is being looked for."""
        self._worn: deque[Worker] = deque()
        """Those that serve until a fresh one does."""
        self._ahead = 0
        self._filling: asyncio.TimerHandle | None = None
        self._starting: dict[Worker, asyncio.Task[None]] = {}
        self._waiters: deque[_Waiter] = deque()
        self._failure: EngineHostError | None = None
        self._failed_at = -_NEVER

    def join(self, listener: Listener | None) -> None:
        """One engine more, until it leaves."""
        self._listeners.append(listener)
        if self._workers and listener is not None:
            listener.loaded(self._workers[0].info, self._workers[0].files)

    # leases

    def take(self) -> Worker | None:
        """A worker at once, if there is one and nobody came before."""
        return self._take() if not self._waiters else None

    async def lease(self, *, beyond: bool = False) -> Worker:
        """A worker, when there is one. Raises ``EngineUnavailable`` where none can be started.

        ``beyond``: at once, with a process more than there should be where all are busy.
        """
        worker = self.take()
        if worker is not None:
            return worker
        if self._failure is not None and self._has_just_failed and not self._workers:
            raise _refusal(self._failure)
        waiter = _Waiter(self._loop)
        self._waiters.append(waiter)
        self._want(beyond)
        try:
            return await waiter.future
        except asyncio.CancelledError as error:
            error.args = (Waited(self.why_waiting()),)
            self._cancelled(waiter)
            raise

    def release(self, worker: Worker) -> None:
        """The call on this worker is over."""
        worker.leases -= 1
        worker.used_at = self._loop.time()
        if worker.leases or worker not in self._workers:
            return
        outwaited = self._pool.longest_wait() < self.waiting_since and not self.spec.pinned
        if outwaited or (worker.worn and not worker.usable):
            self.drop(worker)
        elif self._waiters:
            self._serve()
        elif (self._pool.is_crowded and not self.spec.pinned) or self._trusted > self._size:
            self.drop(worker)

    def abandon(self, worker: Worker, call_id: int) -> None:
        """Nobody waits for this call any more: end it. A worker that runs nothing else is killed at once."""
        if self.spec.concurrent:
            worker.abandon(call_id)
        elif worker in self._workers:
            self.drop(worker)
            self._fill_after(worker)
            self.grow()

    def _take(self) -> Worker | None:
        if not self.spec.concurrent:
            for worker in self._workers:
                if worker.usable and not worker.leases:
                    worker.leases = 1
                    return worker
            return None
        usable = [worker for worker in self._workers if worker.usable and not worker.unheard]
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
        self._pool.reclaim()

    def give_up_start(self) -> bool:
        """End a process that is being started though no call waits for it; whether there was one."""
        tasks = [task for task in self._starting.values() if not task.cancelling()]
        if self.spec.pinned or len(tasks) <= len(self._waiters):
            return False
        return tasks[0].cancel()

    def why_waiting(self) -> str:
        """What a call waits for that has no worker yet."""
        if self._starting:
            return "it waited for its worker process to load the code"
        return f"it waited for a free worker process (max_workers = {self._pool.most})"

    # processes

    @property
    def wanted_elsewhere(self) -> bool:
        """Whether somebody else waits for a worker that may be one of these."""
        return bool(self._waiters) or self._pool.longest_wait() < _NEVER

    @property
    def wants_worker(self) -> bool:
        """Whether calls wait for a process that may be started as soon as there is room."""
        return self.missing > 0 and not self._has_just_failed

    @property
    def missing(self) -> int:
        """Processes that are wanted beside those that are being started."""
        starting = len(self._starting)
        room = self._size - self._trusted - starting
        return int(max(0, min(len(self._waiters) - starting, room)))

    @property
    def waiting_since(self) -> float:
        """When the first waiting call came (loop time); infinity when none waits."""
        return self._waiters[0].since if self._waiters else _NEVER

    def grow(self) -> None:
        """Start the processes that are wanted and allowed."""
        while self.wants_worker and (self.spec.pinned or self._pool.reserve(self)):
            self._start_one()

    def _want(self, beyond: bool) -> None:
        """Somebody waits."""
        if self._workers and not beyond:
            self._grow_soon()
            return
        self.grow()
        if beyond and self.wants_worker:
            self._pool.count += 1
            self._start_one()

    def _grow_soon(self) -> None:
        if self._later is None:
            self._later = self._loop.call_later(GROW_SECONDS, self._grow_late)

    def _grow_late(self) -> None:
        self._later = None
        if self.waiting_since <= self._loop.time() - GROW_SECONDS:
            self.grow()
        elif self._waiters:
            self._grow_soon()

    def prepare(self, many: int) -> None:
        """Have so many processes before anyone calls, as far as there is room; also after one has died."""
        self._ahead = max(self._ahead, many)
        self._fill()

    def _fill(self) -> None:
        self._filling = None
        while len(self._workers) + len(self._starting) < self._ahead and not self._has_just_failed:
            if not self._pool.reserve_free():
                return
            self._start_one()

    def _fill_after(self, worker: Worker) -> None:
        """A worker died: one that is to be there ahead is started again, not at once where it died young."""
        if len(self._workers) + len(self._starting) < self._ahead and self._filling is None:
            age = self._loop.time() - worker.started_at
            self._filling = self._loop.call_later(max(0.0, RETRY_SECONDS - age), self._fill)

    def drop(self, worker: Worker, patience: float | None = None) -> None:
        """Take a worker out of service; it ends by itself, or by force where it runs a call or takes long."""
        self._workers.remove(worker)
        self._going.add(worker)
        if not self.spec.pinned:
            self._pool.removed(worker)
            self._pool.leaving()
        if worker.idle_timer is not None:
            worker.idle_timer.cancel()
        if worker.busy:
            worker.kill()
        else:
            worker.close(patience)

    def _may_grow(self) -> bool:
        return self._trusted + len(self._starting) < self._size

    @property
    def _trusted(self) -> int:
        """Workers that are not stuck, as far as is known; the state of pinned ones is in no other process."""
        if self.spec.pinned or not self.spec.concurrent:
            return len(self._workers)
        return sum(not worker.unheard for worker in self._workers)

    @property
    def _has_just_failed(self) -> bool:
        pause = self._retry_seconds if self._workers else RETRY_SECONDS
        return self._failure is not None and self._loop.time() - self._failed_at < pause

    def _help(self) -> None:
        """Start a further worker beside busy concurrent ones, where there is room without taking any."""
        if self._may_grow() and not self._starting and self._pool.count < self._pool.most:
            self._pool.count += 1
            self._start_one()

    def _start_one(self) -> None:
        # a task of the group's own: the call that wanted it may be cancelled, the next one needs it too
        worker = Worker(self.spec, self._log, self)
        task = self._loop.create_task(self._start(worker), name="enginehost-worker-start")
        task.add_done_callback(lambda task: self._given_up(worker) if task.cancelled() else None)
        self._starting[worker] = task

    def _given_up(self, worker: Worker) -> None:
        """A start was cancelled, perhaps before it began."""
        del self._starting[worker]
        self._keep_worn()
        self._free_room()
        self.grow()  # for a call that came meanwhile, and counted on this start

    async def _start(self, worker: Worker) -> None:
        try:
            await worker.start()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer of those who wait
            del self._starting[worker]
            self._failed(load_failure(error), worker.files)
        else:
            del self._starting[worker]
            self._started(worker)

    def _started(self, worker: Worker) -> None:
        self._failure = None
        self._retry_seconds = RETRY_ALONE_SECONDS[0]
        worker.used_at = worker.started_at = self._loop.time()
        self._workers.append(worker)
        if not self.spec.pinned:
            self._pool.added(worker, self)
            self._check_idle(worker)
        self._relieve()
        self.told(worker)
        self._serve()
        self.grow()

    def _failed(self, error: EngineHostError, files: Files) -> None:
        self._failure, self._failed_at = error, self._loop.time()
        self._keep_worn()
        if self._workers:
            self._log.error("a further worker process: %s", error.message, exc_info=error)
            self._retry_seconds = min(self._retry_seconds * 2, RETRY_ALONE_SECONDS[1])
        else:
            self._pool.imported(self, files)
            for listener in tuple(self._listeners):
                if listener is not None:
                    listener.not_loaded(error, files)
            self._refuse(error)
            self._try_later()
        self._free_room()

    def _try_later(self) -> None:
        """What made the code fail may be over: a database that was down, a package that was missing."""
        if self._retry is not None:
            self._retry.cancel()
        self._retry = self._loop.call_later(self._retry_seconds, self._try_again)
        self._retry_seconds = min(self._retry_seconds * 2, RETRY_ALONE_SECONDS[1])

    def _try_again(self) -> None:
        self._retry = None
        if self._workers or self._starting or self._failure is None:
            return
        if self.spec.pinned:
            self._start_one()
        elif self._pool.count < self._pool.most:
            self._pool.count += 1
            self._start_one()
        else:
            self._try_later()

    def _refuse(self, error: EngineHostError) -> None:
        """Answer all who wait."""
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            if not waiter.future.done():
                waiter.future.set_exception(_refusal(error))

    # what workers tell

    def told(self, worker: Worker) -> None:
        """What a worker says of its target has changed."""
        self._pool.imported(self, worker.files)
        for listener in tuple(self._listeners):
            if listener is not None:
                listener.loaded(worker.info, worker.files)

    def heard(self, worker: Worker) -> None:
        """A worker that was perhaps stuck is not."""
        self._serve()

    def answered(self, worker: Worker) -> None:
        """A call is over on a worker that wears out: a fresh one is started first, to take its place."""
        if worker.worn or worker not in self._workers or self._has_just_failed or not worker.is_worn():
            return
        if self._pool.reserve_spare():
            worker.worn = True
            self._worn.append(worker)
            self._start_one()

    def _relieve(self) -> None:
        """There is a fresh worker: the one that wore out first takes no more calls."""
        if self._worn:
            worker = self._worn.popleft()
            self._pool.spare -= 1
            worker.usable = False
            if not worker.leases and worker in self._workers:
                self.drop(worker)

    def _keep_worn(self) -> None:
        """No fresh worker comes: those that wore out go on until the next try."""
        while self._worn:
            self._worn.pop().worn = False
            self._pool.spare -= 1

    def ended(self, worker: Worker) -> None:
        """A worker that served has gone: as it should, by itself, or killed by somebody else."""
        if worker in self._workers:
            self.drop(worker)
            self._fill_after(worker)
        if worker in self._going:
            self._going.discard(worker)
            if not self.spec.pinned:
                self._pool.left()
            parting = self._loop.create_task(worker.gone(), name="enginehost-worker-parting")
            self._parting.add(parting)
            parting.add_done_callback(self._parting.discard)
        self.grow()

    def _free_room(self) -> None:
        if not self.spec.pinned:
            self._pool.freed()

    def _check_idle(self, worker: Worker) -> None:
        if self.spec.idle is None:
            return
        left = worker.used_at + self.spec.idle - self._loop.time()
        if left <= 0 and not worker.leases:
            self.drop(worker)
        else:
            delay = left if left > 0 else self.spec.idle
            worker.idle_timer = self._loop.call_later(delay, self._check_idle, worker)

    # end

    async def leave(self, listener: Listener | None) -> None:
        """One engine less; with the last one the workers go, and this waits for their end."""
        self._listeners.remove(listener)
        if self._listeners:
            return
        self._pool.forget(self)
        self._ahead = 0
        self._keep_worn()
        for timer in (self._later, self._retry, self._filling):
            if timer is not None:
                timer.cancel()
        self._refuse(EngineUnavailable("the engine was closed", state="closing"))
        starting = tuple(self._starting.values())
        for task in starting:
            task.cancel()
        await asyncio.gather(*starting, return_exceptions=True)
        for worker in tuple(self._workers):
            self.drop(worker)
        for worker in tuple(self._going):
            await worker.gone()
        await asyncio.gather(*self._parting)


def _refusal(error: EngineHostError) -> EngineUnavailable:
    refusal = EngineUnavailable(error.message, state="failed", reason=error.message)
    refusal.__cause__ = error
    return refusal
