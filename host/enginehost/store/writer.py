"""The one thread that writes, with group commit: what waits is committed together, and then answered."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from queue import Empty, SimpleQueue
from typing import Any

import orjson

from enginehost.errors import EngineHostError, EngineUnavailable, InvalidRequest, OutcomeUnknown
from enginehost.store.batch import Batch, Change, Job
from enginehost.store.link import Database, Fault, Link
from enginehost.store.port import Fenced, Settled
from enginehost.store.rows import RUN_COLUMNS, run_of

_log = logging.getLogger("enginehost.store")

_MOST_JOBS = 512
_MOST_SIZE = 8 << 20
_PATIENCE = 10.0
"""Seconds for which a lost connection is tried anew before whoever waits is told."""
_TRIES = 5
_POLL = 0.05
_IDLE = 5.0
_TOLD = (EngineHostError, Fenced, Settled)
"""What a job raises on purpose, before it has written anything."""

Outcome = tuple[asyncio.Future[Any], Any]
Committed = Callable[[list[Change], set[str]], None]


class _Lost(Exception):
    """The connection went, and nothing was committed."""


class Writer:
    """``committed`` gets each transaction's changes, on the loop; ``foreign`` is called when others commit.

    ``idle`` is work that the thread does by itself about every five seconds (leases).
    """

    def __init__(
        self,
        database: Database,
        instance: str,
        committed: Committed,
        foreign: Callable[[], None],
        idle: Callable[[Link], None],
    ) -> None:
        self._database, self._instance = database, instance
        self._committed, self._foreign, self._idle = committed, foreign, idle
        self._queue: SimpleQueue[tuple[Job, asyncio.Future[Any]] | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._link: Link | None = None
        self._closing = False
        self.watched = False
        """Whether somebody waits for what other processes do."""
        self._thread = threading.Thread(target=self._run, name="enginehost-store", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> asyncio.Future[Any]:
        """Do a job; the future is done when it is durable. (On the loop.)"""
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._closing:
            future.set_exception(_unavailable("closing", "the store is closed"))
        else:
            self._queue.put((job, future))
        return future

    def look(self) -> None:
        """Look what others did from now on, without waiting for the next job."""
        self._queue.put(None)

    async def close(self) -> None:
        """Do what waits, and end the thread."""
        self._closing = True
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    # the thread

    def _run(self) -> None:
        looked = 0.0
        while True:
            taken = self._take()
            if taken:
                outcomes, changes, told = self._do_all(taken)
                self._call(self._answer, outcomes, changes, told)
            elif self._closing and self._queue.empty():
                break
            if self.watched and self._database.polls:
                self._poll()
            if time.monotonic() - looked > _IDLE:
                looked = time.monotonic()
                self._do_idle()
        if self._link is not None:
            self._link.close()

    def _take(self) -> list[tuple[Job, asyncio.Future[Any]]]:
        taken: list[tuple[Job, asyncio.Future[Any]]] = []
        try:
            entry = self._queue.get(timeout=_POLL if self.watched and self._database.polls else _IDLE)
            size = 0
            while True:
                if entry is not None and not entry[1].cancelled():
                    taken.append(entry)
                    size += entry[0].size
                if len(taken) >= _MOST_JOBS or size >= _MOST_SIZE:
                    break
                entry = self._queue.get_nowait()
        except Empty:
            pass
        return taken

    def _call(self, what: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(what, *arguments)
        except RuntimeError:  # the loop has ended: nobody waits any more
            _log.debug("the loop ended before the store was closed")

    def _answer(self, outcomes: Sequence[Outcome], changes: list[Change], told: set[str]) -> None:
        for future, outcome in outcomes:
            if future.cancelled():
                continue
            if isinstance(outcome, BaseException):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        self._committed(changes, told)

    def _do_all(
        self, taken: Sequence[tuple[Job, asyncio.Future[Any]]]
    ) -> tuple[list[Outcome], list[Change], set[str]]:
        jobs = [job for job, _ in taken]
        results, batches = self._together(jobs)
        changes = [change for batch in batches for change in batch.changes]
        told = {session for batch in batches for session in batch.told}
        return [(future, result) for (_, future), result in zip(taken, results, strict=True)], changes, told

    def _together(self, jobs: Sequence[Job]) -> tuple[list[Any], list[Batch]]:
        """All in one transaction; each alone where one of them takes the others down."""
        try:
            results, batch = self._durably(jobs)
        except Exception as error:  # noqa: BLE001 - whoever waits is told, and the thread lives on
            fault = self._database.fault(error)
            alone = len(jobs) == 1 or isinstance(error, (EngineHostError, _Lost))
            if alone or (fault and fault.of_all):
                return [_told(error, fault)] * len(jobs), []
        else:
            return results, [batch]
        results, batches = [], list[Batch]()
        for job in jobs:
            one, batch_of_one = self._together([job])
            results += one
            batches += batch_of_one
        return results, batches

    def _durably(self, jobs: Sequence[Job]) -> tuple[list[Any], Batch]:
        """Commit; again, for a while, where the database went away before it could."""
        end, pause, tries = time.monotonic() + _PATIENCE, 0.02, 0
        while True:
            try:
                return self._transaction(jobs)
            except Exception as error:
                tries += 1
                fault = Fault.LOST if isinstance(error, _Lost) else self._database.fault(error)
                again = fault is Fault.AGAIN and tries < _TRIES
                if not again and (fault is not Fault.LOST or time.monotonic() > end):
                    raise
                if fault is Fault.LOST:
                    self._drop()
                time.sleep(pause)
                pause = min(2 * pause, 1.0)

    def _transaction(self, jobs: Sequence[Job]) -> tuple[list[Any], Batch]:
        link = self._connected()
        try:
            batch = self._prepared(link, jobs)
            results = [_done(job, batch) for job in jobs]
        except BaseException:
            self._back(link)
            raise
        note = orjson.dumps([self._instance, *batch.told]).decode() if batch.told else ""
        try:
            self._database.commit(link, batch.flush, note)
        except Exception as error:
            if self._database.fault(error) is not Fault.LOST:
                self._back(link)
                raise
            if not self._took_place(link.mark, batch.witness):
                raise _Lost from error
        return results, batch

    def _prepared(self, link: Link, jobs: Sequence[Job]) -> Batch:
        """The transaction, begun, with all that its jobs say they need."""
        database = self._database
        sessions = {name for job in jobs for name in job.sessions}
        locked = sessions.union(*(job.locked for job in jobs))
        heads = database.begin(link, sorted(sessions), sorted(locked))
        batch = Batch(link, database, time.time(), heads)
        if runs := {name for job in jobs for name in job.runs}:
            sql = f"SELECT {RUN_COLUMNS} FROM runs WHERE {database.among('id', 'ids')}"  # noqa: S608
            batch.runs = dict.fromkeys(runs)
            batch.runs |= {row[0]: run_of(row) for row in link.all(sql, {"ids": database.listed(runs)})}
        if keys := {key for job in jobs for key in job.once}:
            sql = f"SELECT once FROM messages WHERE {database.among('once', 'keys')}"  # noqa: S608
            batch.settled = {row[0] for row in link.all(sql, {"keys": database.listed(keys)})}
        return batch

    def _took_place(self, mark: str, witness: str) -> bool:
        """Whether a commit that was not answered is there. Raises :class:`OutcomeUnknown`.

        A server that crashed gives the number of a transaction of which it knows nothing to a later one, so
        that what the number tells counts only with the ``witness``.
        """
        end = time.monotonic() + _PATIENCE
        while mark and time.monotonic() < end:
            self._drop()
            try:
                found = self._database.committed(self._connected(), mark)
            except Exception as error:
                if self._database.fault(error) is not Fault.LOST:
                    raise
                time.sleep(0.1)
                continue
            if found is None:  # the server has yet to notice that its connection is gone
                time.sleep(0.05)
                continue
            return found and (not witness or self._is_there(witness))
        raise OutcomeUnknown("the database went away in the middle of a commit")

    def _is_there(self, message: str) -> bool:
        return bool(self._connected().one("SELECT 1 FROM messages WHERE id = :id", {"id": message}))

    def _connected(self) -> Link:
        if self._link is None:
            self._link = self._database.writer()
        return self._link

    def _drop(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            try:
                link.close()
            except Exception as error:  # noqa: BLE001 - of a connection that is gone already
                _log.debug("closing a lost connection: %s", type(error).__name__)

    def _back(self, link: Link) -> None:
        """Take the transaction back; a connection that cannot is replaced."""
        try:
            if getattr(link.raw, "in_transaction", True):
                link.run("ROLLBACK")
        except Exception:  # noqa: BLE001
            self._drop()

    def _poll(self) -> None:
        try:
            if self._database.foreign(self._connected()):
                self._call(self._foreign)
        except Exception as error:  # noqa: BLE001 - the next look may do
            _log.debug("looking for commits of others: %s", type(error).__name__)

    def _do_idle(self) -> None:
        try:
            self._idle(self._connected())
        except Exception as error:  # noqa: BLE001 - whoever writes next is told
            if self._database.fault(error) is Fault.LOST:
                self._drop()
            _log.warning("the store could not renew its lease: %s", type(error).__name__)


def _done(job: Job, batch: Batch) -> Any:
    try:
        return job.work(batch)
    except _TOLD as error:
        return error


def _told(error: Exception, fault: Fault | None) -> Exception:
    """What whoever waits gets for an exception of the driver."""
    if fault is None and not isinstance(error, _Lost):
        return error
    text = {
        Fault.LOCKED: "the database is locked by another program",
        Fault.FULL: "the database has no room left, or its disk fails",
        Fault.BROKEN: "the database is damaged",
        Fault.REFUSED: "a message with this id is stored already",
        Fault.OTHER: "the database refused a statement",
    }.get(fault or Fault.LOST, "there is no connection to the database")
    if fault is Fault.REFUSED:
        told: EngineHostError = InvalidRequest(text)
    else:
        told = _unavailable(str(fault or Fault.LOST), text)
    told.__cause__ = error
    return told


def _unavailable(reason: str, text: str) -> EngineUnavailable:
    return EngineUnavailable(text, state="store", reason=reason)


def unavailable(database: Database, error: Exception) -> Exception:
    """What a reader gets for an exception of the driver."""
    return _told(error, database.fault(error))


def sessions_of(note: str) -> tuple[str, Iterable[str]]:
    """Who tells, and of which sessions."""
    instance, *sessions = orjson.loads(note)
    return instance, sessions
