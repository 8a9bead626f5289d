"""The store on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from enginehost.llm.message import Message, Status, new_id
from enginehost.llm.passage import Batches, PlainForm, each
from enginehost.store import listing, removing, turns
from enginehost.store.appending import append_job, ready
from enginehost.store.batch import Batch, Change, Job, find_run
from enginehost.store.chain import owned_chain
from enginehost.store.connecting import database_of, listen
from enginehost.store.following import Following, end_of
from enginehost.store.hub import Hub
from enginehost.store.ids import check_id, check_new_id, taken
from enginehost.store.link import Link
from enginehost.store.port import (
    CLAIM_LEASE,
    Event,
    Fence,
    Owner,
    Position,
    Run,
    RunQuery,
    RunState,
    SessionInfo,
    TurnPage,
    Writing,
    as_it_is,
)
from enginehost.store.readers import Readers
from enginehost.store.reading import Reading, history_of
from enginehost.store.rows import loads, message_of, said_once
from enginehost.store.transfer import Loading
from enginehost.store.writer import Writer, sessions_of
from enginehost.store.writing import OpenMessage, Pieces, close_left

_log = logging.getLogger("enginehost.store")

_LEASE = 30.0
"""Seconds for which a process that writes messages counts as living after its last sign."""
_HOUR = 3600.0
_DAY = 86_400.0
_SESSIONS = (  # as the view has them, and by one owner's part of an index alone
    "SELECT id, min(created_at), max(modified_at), CAST(sum(rows) AS INTEGER) FROM ("
    "SELECT session AS id, created_at, modified_at, 1 AS rows FROM messages"
    " WHERE created_by = :subject AND tenant = :tenant"
    " UNION ALL SELECT session, created_at, created_at, 0 FROM events"
    " WHERE kind = 'fork' AND created_by = :subject AND tenant = :tenant) AS owned"
    " WHERE substr(id, 1, 1) <> '~' GROUP BY id HAVING max(modified_at) < :before"
    " ORDER BY max(modified_at) DESC, id DESC LIMIT :limit"
)
_EVER = 1e18


class SqlStore:
    """A store (see :class:`~enginehost.store.port.Store`) in the database that ``url`` names.

    ``synchronous``: ``full`` or ``normal`` (see the setting). ``readers``: connections that read.
    ``lock_timeout``: seconds to wait for other programs' locks. ``retention``: days, or none.
    """

    def __init__(
        self,
        url: str,
        *,
        synchronous: str = "full",
        readers: int = 4,
        lock_timeout: float = 5.0,
        retention: float | None = None,
    ) -> None:
        self._database = database_of(url, synchronous=synchronous, lock_timeout=lock_timeout)
        self._most_readers, self._retention = readers, retention
        self._instance = f"store:{new_id()}"
        self._hub = Hub()
        self._cancel_watch = asyncio.Event()
        self._watchers = 0
        self._sessions_of_runs: dict[str, str] = {}
        self._listener: threading.Thread | None = None
        self._closed = False
        self._leased = 0.0

    async def open(self) -> None:
        """Connect, and bring the schema up to date."""
        await asyncio.to_thread(self._database.upgrade)
        self._loop = asyncio.get_running_loop()
        self._readers = Readers(self._database, self._most_readers)
        self._writer = Writer(self._database, self._instance, self._committed, self._foreign, self._renew)
        self._pieces = Pieces(self._writer.submit)
        self._reading = Reading(self._database, self._readers)
        self._following = Following(self._database, self._readers, self._close_left)
        self._retiring = asyncio.create_task(self._retire_hourly(), name="enginehost-retention")

    async def close(self) -> None:
        """Write what waits, and let go."""
        self._closed = True
        self._retiring.cancel()
        with suppress(asyncio.CancelledError):
            await self._retiring
        await self._pieces.settle()
        with suppress(Exception):  # a database that is away ends the lease by itself
            await self.leave(self._instance)
        await self._writer.close()
        if self._listener is not None:
            await asyncio.to_thread(self._listener.join)
        await self._readers.close()
        self._hub.look()
        self._wake_cancels()

    # Messages

    async def append(
        self,
        session: str,
        messages: Sequence[Message],
        owner: Owner,
        *,
        fence: Fence | None = None,
        new: bool = False,
    ) -> list[Message]:
        """Store messages in one transaction."""
        check_id(session)
        if not messages:
            return []
        rows = [ready(message, session, owner, fence) for message in messages]
        return await self._writer.submit(append_job(session, rows, owner, fence, new=new))

    async def begin(
        self, session: str, message: Message, owner: Owner, *, fence: Fence | None = None
    ) -> Writing:
        """Begin a message whose content comes in parts."""
        check_id(session)
        first = message.content
        head = replace(message, content="", status=Status.OPEN)
        job = append_job(session, [ready(head, session, owner, fence, writer=self._instance)], owner, fence)
        work, lease = job.work, self._loop.time() - self._leased > _LEASE / 3

        def leased(batch: Batch) -> list[Message]:
            if lease:
                self._renew(batch.link, always=True)
            return work(batch)

        if lease:
            self._leased = self._loop.time()
        (stored,) = await self._writer.submit(replace(job, work=leased))
        writing = OpenMessage(stored, owner, fence, self._pieces)
        if first:
            await writing.write(first)
        return writing

    def context(self, session: str, owner: Owner) -> AsyncGenerator[Message, None]:
        """All rows that a model is to see."""
        return each(self.batches(session, owner))

    def batches(self, session: str, owner: Owner, form: PlainForm | None = None) -> Batches:
        """The same in batches, with passages."""
        return self._reading.context(session, owner, form)

    def rows_json(self, session: str, owner: Owner, *, context: bool = False) -> AsyncGenerator[bytes, None]:
        """The rows as JSON lines in chunks."""
        return self._reading.lines(session, owner, context=context)

    async def history(
        self, session: str, owner: Owner, *, after: int = 0, before: int | None = None, limit: int = 100
    ) -> list[Message]:
        """A page of rows."""
        return await self._reading.history(session, owner, after, before, limit)

    async def said(self, session: str, message_id: str, owner: Owner) -> Message | None:
        """The row of a message that its sender named."""

        def read(link: Link) -> Message | None:
            owned_chain(link, session, owner)
            only = {"once": said_once(session, message_id)}
            row = link.one("SELECT body FROM messages WHERE once = :once", only)
            return None if row is None else message_of(loads(row[0]), session, owner)

        return await self._readers.run(read)

    async def fork(self, session: str, at: int, owner: Owner, *, new: str = "") -> str:
        """A session that goes on from row ``at`` of another."""
        return await self._writer.submit(removing.fork_job(session, at, owner, new or new_id()))

    async def sessions(
        self, owner: Owner, *, before: float | None = None, limit: int = 100
    ) -> list[SessionInfo]:
        """The owner's sessions, latest first."""
        params: dict[str, Any] = {"subject": owner.subject, "tenant": owner.tenant, "limit": limit}
        params["before"] = _EVER if before is None else before
        rows = await self._readers.run(lambda link: link.all(_SESSIONS, params))
        return [SessionInfo(row[0], owner, *row[1:]) for row in rows]

    async def delete(self, session: str, owner: Owner) -> None:
        """Delete a session."""
        await self._writer.submit(removing.delete_job(session, owner))

    async def retire(self, older_than: float) -> int:
        """Delete sessions that were last changed before a time."""
        count = 0
        while found := await self._readers.run(removing.stale, older_than):
            jobs = [
                removing.delete_job(session, Owner(subject, tenant), unchanged_since=older_than)
                for session, subject, tenant in found
            ]
            gone = await asyncio.gather(*map(self._writer.submit, jobs))
            count += sum(gone)
            if not any(gone):
                break
        return count

    # Events

    async def events(
        self, session: str, owner: Owner, after: Position | None = None
    ) -> AsyncGenerator[Event, None]:
        """Follow a session from a position."""
        await self._readers.run(owned_chain, session, owner)
        subscriber = self._hub.join(session)
        self._watch()
        try:
            async with aclosing(self._following.events(subscriber, owner, after or Position())) as events:
                async for event in events:
                    yield event
        finally:
            self._hub.leave(subscriber)
            self._watch()

    async def end(self, session: str, owner: Owner) -> Position:
        """Where the events of a session end now."""
        return await self._readers.run(end_of, session, owner)

    # Runs

    async def start_run(
        self,
        session: str,
        agent: str,
        owner: Owner,
        *,
        started_by: int = 0,
        data: Mapping[str, Any] | None = None,
        task: str = "",
        context: str = "",
    ) -> Run:
        """A new turn, queued."""
        run = Run(
            new_id(),
            session,
            agent,
            RunState.QUEUED,
            started_by=started_by,
            task=task,
            context=context,
            data=data or {},
        )
        return await self._writer.submit(turns.start_job(run, owner))

    async def run(self, run_id: str) -> Run | None:
        """A run as it stands."""
        return await self._readers.run(find_run, run_id)

    async def turn(self, run_id: str, owner: Owner, *, after: int = 0, limit: int = 200) -> TurnPage | None:
        """A turn with its rows."""
        return await self._readers.run(
            partial(listing.turn_of, history=partial(history_of, self._database)), run_id, owner, after, limit
        )

    async def runs(self, session: str, owner: Owner) -> list[Run]:
        """The turns of a session, latest first."""

        def read(link: Link) -> list[Run]:
            owned_chain(link, session, owner)
            return turns.runs_of(link, session)

        return await self._readers.run(read)

    async def runs_of(self, owner: Owner, asked: RunQuery) -> tuple[list[Run], int]:
        """A page of the owner's turns."""
        return await self._readers.run(listing.runs_of, owner, asked)

    async def claim(
        self, holder: str, agents: Sequence[str], *, session: str = "", lease: float = CLAIM_LEASE
    ) -> Run | None:
        """Take a run that is free."""
        return await self._writer.submit(turns.claim_job(holder, agents, session, lease))

    async def close_open(self, fence: Fence, owner: Owner) -> list[Message]:
        """Close what an earlier holder of this run left half-written."""
        session = await self._session_of(fence.run)
        return await self._writer.submit(turns.close_open_job(session, fence, owner))

    async def change_run(self, fence: Fence, state: RunState, **fields: Any) -> Run:
        """Move a run that this process holds to another state."""
        session = await self._session_of(fence.run)
        return await self._writer.submit(turns.change_job(session, fence, state, fields))

    async def resume_run(self, run_id: str) -> bool:
        """Queue a paused run again."""
        return await self._writer.submit(turns.resume_job(await self._session_of(run_id), run_id))

    async def cancel_run(self, run_id: str, owner: Owner) -> Run | None:
        """Ask for the end of a run."""
        return await self._writer.submit(turns.cancel_job(await self._session_of(run_id), run_id, owner))

    async def beat(self, holder: str, seconds: float) -> None:
        """This process lives."""
        await self._writer.submit(Job(lambda batch: turns.beat(batch.link, batch.database, holder, seconds)))

    async def leave(self, holder: str) -> None:
        """This process has ended."""
        gone = "DELETE FROM processes WHERE holder = :holder"
        await self._writer.submit(Job(lambda batch: batch.link.run(gone, {"holder": holder})))

    async def succeed(self, origin: str, holder: str) -> None:
        """Those who had this process's place before it have ended."""
        gone = "DELETE FROM processes WHERE holder LIKE :known AND holder <> :holder"
        known = {"known": f"{origin}.%", "holder": holder}
        await self._writer.submit(Job(lambda batch: batch.link.run(gone, known)))

    async def cancelled(self, holder: str) -> AsyncGenerator[str, None]:
        """The ids of runs of this process whose end somebody asks for."""
        self._watchers += 1
        self._watch()
        truth = "1" if self._database.polls else "true"
        seen: set[tuple[str, int]] = set()
        try:
            while not self._closed:
                event = self._cancel_watch
                found = await self._readers.run(turns.cancelled_runs, holder, truth)
                for run_id, epoch in found:
                    if (run_id, epoch) not in seen:
                        yield run_id
                seen = set(found)
                with suppress(TimeoutError):
                    await asyncio.wait_for(event.wait(), 15.0)
        finally:
            self._watchers -= 1
            self._watch()

    # Whole sessions

    def export(self, session: str, owner: Owner) -> AsyncGenerator[bytes, None]:
        """A session as JSON lines."""
        return self.rows_json(session, owner)

    async def load(
        self,
        lines: AsyncIterator[bytes],
        owner: Owner,
        *,
        session: str = "",
        look: Callable[[Message], Message] = as_it_is,
    ) -> str:
        """A session from JSON lines."""
        session = check_new_id(session or new_id())
        if await self._readers.run(_exists, session):
            raise taken(session)
        await self.beat(self._instance, _LEASE)
        try:
            into = Loading(self._writer.submit, self._pieces, self._instance, session, owner, look)
            await into.load(lines)
        except BaseException:
            with suppress(Exception):  # the first error is the one to tell
                await asyncio.shield(self.delete(session, owner))
            raise
        return session

    # What happens beside

    async def _session_of(self, run_id: str) -> str:
        """The session of a run, which never changes; a run that is not there has none."""
        found = self._sessions_of_runs.get(run_id)
        if found is None:
            run = await self.run(run_id)
            if run is None:
                return ""
            if len(self._sessions_of_runs) > 10_000:
                self._sessions_of_runs.clear()
            found = self._sessions_of_runs[run_id] = run.session
        return found

    def _committed(self, changes: list[Change], told: set[str]) -> None:
        if self._hub:
            self._hub.deliver(changes)
            self._hub.look(told - {change.session for change in changes})
        if self._watchers and any(map(turns.is_cancel_note, told)):
            self._wake_cancels()

    def _foreign(self) -> None:
        """Others have committed something."""
        self._hub.look()
        self._wake_cancels()

    def _told(self, note: str | None) -> None:
        """Another process says of what; ``None``: nobody knows."""
        if note is None:
            self._foreign()
            return
        instance, sessions = sessions_of(note)
        if instance != self._instance:
            sessions = list(sessions)
            self._hub.look(sessions)
            if any(map(turns.is_cancel_note, sessions)):
                self._wake_cancels()

    def _wake_cancels(self) -> None:
        event, self._cancel_watch = self._cancel_watch, asyncio.Event()
        event.set()

    def _watch(self) -> None:
        """Look for what other processes do, while somebody waits for it."""
        watched = bool(self._hub) or self._watchers > 0
        if watched and not self._writer.watched:
            self._writer.watched = True
            self._writer.look()
        self._writer.watched = watched
        if watched and not self._database.polls and self._listener is None:
            follow = partial(listen, self._database, self._on_loop, lambda: self._closed)
            self._listener = threading.Thread(target=follow, name="enginehost-store-listen", daemon=True)
            self._listener.start()

    def _on_loop(self, note: str | None) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._told, note)

    def _renew(self, link: Link, *, always: bool = False) -> None:
        """Say that this process lives, while it writes messages. (On the writer's thread.)"""
        if always or self._pieces.open:
            turns.beat(link, self._database, self._instance, _LEASE)

    async def _close_left(self, session: str, message: str) -> None:
        def work(batch: Batch) -> list[Message]:
            return close_left(batch, "id = :id", {"id": message}, Status.FAILED)

        await self._writer.submit(Job(work, (session,)))

    async def _retire_hourly(self) -> None:
        while self._retention is not None:
            try:
                count = await self.retire(time.time() - self._retention * _DAY)
            except Exception as error:  # noqa: BLE001 - the next hour may do
                _log.warning("old sessions could not be deleted: %s", error)
            else:
                if count:
                    _log.info("deleted %d sessions that were older than %g days", count, self._retention)
            await asyncio.sleep(_HOUR)


def _exists(link: Link, session: str) -> bool:
    params = {"session": session}
    tables = ("messages", "events")
    return any(
        link.one(f"SELECT 1 FROM {table} WHERE session = :session LIMIT 1", params)  # noqa: S608
        for table in tables
    )
