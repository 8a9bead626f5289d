"""Messages that are written as they come: what waits is stored together, for all of a process at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from enginehost.llm.message import Message, Status, Usage
from enginehost.store.batch import Batch, Job
from enginehost.store.port import Fence, Fenced, Owner
from enginehost.store.rows import (
    INLINE,
    body,
    dumps,
    escaped,
    loads,
    message_of,
    numbered,
    once,
    pieces,
    text_at,
    unescaped,
    with_content,
)

TICK = 0.1
"""Seconds in which pieces gather; the port promises 0.25."""

_OURS = (  # the epoch of who holds its run, where it was begun for one
    "SELECT m.id, r.epoch FROM messages AS m LEFT JOIN runs AS r ON r.id = m.run AND r.session = m.session"
    " AND r.state IN ('queued', 'running', 'paused') WHERE {} AND m.status = 'open'"
)
_READ = "SELECT content FROM parts WHERE message = :id ORDER BY number"
_LENGTH = "SELECT start, content FROM parts WHERE message = :id ORDER BY number DESC LIMIT 1"
_WHOLE = (
    "UPDATE messages SET status = :status, once = :once, parts = :parts, writer = NULL,"
    " modified_at = :modified_at, text_at = :text_at, body = :body WHERE id = :id"
)

Submit = Callable[[Job], "asyncio.Future[Any]"]


class _Piece(NamedTuple):
    number: int
    start: int
    text: str


class Pieces:
    """What waits of all messages that this process writes; one job of the writer stores it."""

    def __init__(self, submit: Submit) -> None:
        self._submit = submit
        self._waiting: dict[str, OpenMessage] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._last = 0.0
        self.open: dict[str, OpenMessage] = {}

    def add(self, writing: OpenMessage) -> None:
        """Store what this one holds, soon: the first piece for a while at once."""
        self._waiting[writing.message.id] = writing
        if self._timer is None:
            loop = asyncio.get_running_loop()
            wait = max(0.0, self._last + TICK - loop.time())
            self._timer = loop.call_later(wait, self._tick)

    async def settle(self) -> None:
        """Store what waits, now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if running := {one.stored for one in self.open.values() if one.stored is not None}:
            await asyncio.wait(running)
        writings = [one for one in self.open.values() if one.size and one.stored is None]
        if writings:
            await asyncio.wait([self.store(writings)])

    def _tick(self) -> None:
        self._timer = None
        self._last = asyncio.get_running_loop().time()
        writings = [one for one in self._waiting.values() if one.stored is None and one.size]
        self._waiting.clear()
        if writings:
            self.store(writings)

    def store(self, writings: Sequence[OpenMessage]) -> asyncio.Future[Any]:
        """Store what these hold now."""
        taken = [(one, one.take()) for one in writings]
        future = self._submit(_pieces_job(taken))
        for one in writings:
            one.stored = future
        future.add_done_callback(lambda done: self._stored(done, taken))
        return future

    def finish(self, writing: OpenMessage, job: Job) -> asyncio.Future[Any]:
        """Do the last job of one."""
        future = self._submit(job)
        future.add_done_callback(lambda done: self._finished(done, writing))
        return future

    def _finished(self, done: asyncio.Future[Any], writing: OpenMessage) -> None:
        if not done.cancelled() and (done.exception() is None or isinstance(done.exception(), Fenced)):
            self.open.pop(writing.message.id, None)

    def _stored(
        self, done: asyncio.Future[Any], taken: Sequence[tuple[OpenMessage, Sequence[_Piece]]]
    ) -> None:
        if done.cancelled() or done.exception() is not None:
            for writing, pieces_of_it in taken:
                writing.stored = None
                writing.give_back(pieces_of_it)
            return
        refused: dict[str, Fenced] = done.result()
        for writing, _ in taken:
            writing.stored = None
            if refused and writing.message.id in refused:
                writing.refused = refused[writing.message.id]
                self.open.pop(writing.message.id, None)
            if writing.size:
                self.add(writing)


def _pieces_job(taken: Sequence[tuple[OpenMessage, Sequence[_Piece]]]) -> Job:
    def work(batch: Batch) -> dict[str, Fenced]:
        refused = _refused(batch, [writing for writing, _ in taken])
        for writing, pieces_of_it in taken:
            if writing.message.id not in refused:
                _put(batch, writing.message, pieces_of_it)
        return refused

    sessions = {writing.message.session for writing, _ in taken}
    size = sum(len(piece.text) for _, some in taken for piece in some)
    return Job(work, locked=sessions, size=size)


def _refused(batch: Batch, writings: Sequence[OpenMessage]) -> dict[str, Fenced]:
    """Those of them that are no longer ours to write, by their ids: asked for all of them at once."""
    batch.flush()
    ids = batch.database.listed([writing.message.id for writing in writings])
    ours = dict(batch.link.all(_OURS.format(batch.database.among("m.id", "ids")), {"ids": ids}))
    refused: dict[str, Fenced] = {}
    for writing in writings:
        name, fence = writing.message.id, writing.fence
        if name not in ours:
            refused[name] = Fenced(f"message {name} was closed by another process")
        elif fence is not None and ours[name] != fence.epoch:
            refused[name] = Fenced(f"run {fence.run} is no longer held with epoch {fence.epoch}")
    return refused


def _put(batch: Batch, message: Message, some: Sequence[_Piece]) -> None:
    for number, start, text in some:
        batch.put_part(message.id, number, start, escaped(text))
        batch.grown(message, start, text)
    batch.told.add(message.session)


class OpenMessage:
    """One message that is being written. (Implements ``Writing``.)"""

    def __init__(self, message: Message, owner: Owner, fence: Fence | None, all_pieces: Pieces) -> None:
        self.message, self.owner, self.fence = message, owner, fence
        self.size = 0
        self.stored: asyncio.Future[Any] | None = None
        """The job that stores what came before, while it runs: pieces are stored in order."""
        self.refused: Exception | None = None
        self._all = all_pieces
        self._buffer: list[str] = []
        self._number = self._total = 0
        all_pieces.open[message.id] = self

    async def write(self, text: str) -> None:
        """A further part; waits only where more than 64 kB have come together."""
        if self.refused is not None:
            raise self.refused
        if not text:
            return
        self._buffer.append(text)
        self.size += len(text)
        if self.size >= INLINE:
            await self._settle()
            if self.size >= INLINE:
                await asyncio.shield(self._all.store([self]))
        elif self.stored is None:
            self._all.add(self)

    async def finish(
        self,
        status: Status = Status.DONE,
        *,
        usage: Usage | None = None,
        provider: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> None:
        """It is whole; durable on return."""
        while self.stored is not None:
            await self._settle()
        if self.refused is not None:
            raise self.refused
        message = replace(
            self.message,
            status=status,
            usage=usage or self.message.usage,
            provider=provider if provider is not None else self.message.provider,
            query=query if query is not None else self.message.query,
            modified_at=max(time.time(), self.message.created_at),
        )
        text = dumps(body(message, content=False))
        rest = self.take()
        try:
            await asyncio.shield(self._all.finish(self, self._finish_job(message, text, rest)))
        except Exception:
            self.give_back(rest)
            raise

    def _finish_job(self, message: Message, text: str, rest: Sequence[_Piece]) -> Job:
        def work(batch: Batch) -> None:
            for refusal in _refused(batch, [self]).values():
                raise refusal
            _put(batch, self.message, rest)
            batch.flush()
            close(batch, message, text, self._total)

        return Job(work, locked=(message.session,))

    async def _settle(self) -> None:
        stored = self.stored
        if stored is not None:
            await asyncio.wait([stored])
        if self.refused is not None:
            raise self.refused

    def take(self) -> Sequence[_Piece]:
        """What has come since the last time, numbered."""
        found: list[_Piece] = []
        waiting = "".join(self._buffer)
        for text in pieces(waiting) if len(waiting) > INLINE else (waiting,) if waiting else ():
            found.append(_Piece(self._number, self._total, text))
            self._number += 1
            self._total += len(text)
        self._buffer.clear()
        self.size = 0
        return found

    def give_back(self, some: Sequence[_Piece]) -> None:
        """What was not stored waits again: in front of what came since."""
        if some:
            self._number, self._total = some[0].number, some[0].start
            self._buffer[:0] = [piece.text for piece in some]
            self.size += sum(len(piece.text) for piece in some)


def close(batch: Batch, message: Message, text: str, total: int) -> None:
    """Make an open message whole: a short content into its row, a long one stays in its parts."""
    content, in_parts = "", total > INLINE
    if total and not in_parts:
        content = "".join(row[0] for row in batch.link.all(_READ, {"id": message.id}))
        batch.link.run("DELETE FROM parts WHERE message = :id", {"id": message.id})
    whole = numbered(with_content(text, content), message.sequence)
    row = {
        "id": message.id,
        "status": str(message.status),
        "once": once(message) or None,
        "parts": int(in_parts),
        "modified_at": message.modified_at,
        "text_at": text_at(message, unescaped(content), whole),
        "body": whole,
    }
    batch.link.run(_WHOLE, row)
    if message.status is Status.FAILED:  # a failed result is none
        batch.settled.discard(once(replace(message, status=Status.DONE)))
    batch.changed(replace(message, content=""), total)
    batch.told.add(message.session)


def close_left(batch: Batch, condition: str, params: Mapping[str, Any], status: Status) -> list[Message]:
    """Close open messages that nobody writes any more; gives their heads."""
    batch.flush()
    sql = (
        "SELECT session, created_by, tenant, body FROM messages WHERE status = 'open'"  # noqa: S608 - our own
        f" AND {condition} ORDER BY session, sequence"
    )
    closed: list[Message] = []
    for session, subject, tenant, text in batch.link.all(sql, params):
        found = message_of(loads(text), session, Owner(subject, tenant))
        last = batch.link.one(_LENGTH, {"id": found.id})
        total = last[0] + len(unescaped(last[1])) if last else 0
        message = replace(found, status=status, modified_at=max(batch.now, found.created_at))
        close(batch, message, dumps(body(message, content=False)), total)
        closed.append(message)
    return closed
