"""The store as a runner uses it: of what it began to write it learns the outcome, interrupted or not.

A cancelled wait for a commit would leave open whether the row is there. And a database that cannot be
reached is no failure of the turn: the turn goes on from its rows when the database is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from enginehost.errors import EngineHostError
from enginehost.llm.message import Message, Status
from enginehost.llm.passage import Batches, Passage, seen_through
from enginehost.store.port import Fence, Owner, Run, RunState, Store, Writing

T = TypeVar("T")


class StoreTrouble(Exception):
    """The store did not do what a runner needs; its cause says why."""


class DurableWriting:
    """A message that is being written."""

    def __init__(self, writing: Writing) -> None:
        self.message = writing.message
        self._writing = writing

    async def write(self, text: str) -> None:
        """A further part."""
        try:
            await self._writing.write(text)
        except EngineHostError as error:
            raise StoreTrouble(error.message) from error

    async def finish(self, status: Status = Status.DONE, **fields: Any) -> None:
        """It is whole, and durable."""
        await _to_its_end(self._writing.finish(status, **fields))


class Durable:
    """The part of the store that a runner writes through."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def append(
        self, session: str, messages: Sequence[Message], owner: Owner, *, fence: Fence | None = None
    ) -> list[Message]:
        """See :class:`~enginehost.store.port.Store`."""
        return await _to_its_end(self._store.append(session, messages, owner, fence=fence))

    async def begin(
        self, session: str, message: Message, owner: Owner, *, fence: Fence | None = None
    ) -> DurableWriting:
        """See :class:`~enginehost.store.port.Store`. Interrupted, it closes what it has begun."""
        beginning = asyncio.ensure_future(self._store.begin(session, message, owner, fence=fence))
        try:
            return DurableWriting(await _to_its_end(beginning))
        except asyncio.CancelledError:
            if beginning.done() and not beginning.cancelled() and beginning.exception() is None:
                await beginning.result().finish(Status.FAILED)
            raise

    async def history(
        self, session: str, owner: Owner, *, after: int = 0, before: int | None = None, limit: int = 100
    ) -> list[Message]:
        """See :class:`~enginehost.store.port.Store`."""
        page = self._store.history(session, owner, after=after, before=before, limit=limit)
        return await _to_its_end(page)

    async def close_open(self, fence: Fence, owner: Owner) -> list[Message]:
        """See :class:`~enginehost.store.port.Store`."""
        return await _to_its_end(self._store.close_open(fence, owner))

    async def change_run(self, fence: Fence, state: RunState, **fields: Any) -> Run:
        """See :class:`~enginehost.store.port.Store`."""
        return await _to_its_end(self._store.change_run(fence, state, **fields))


async def reading(batches: Batches) -> Batches:
    """Rows of the store; raises :class:`StoreTrouble` where they cannot be read."""
    try:
        async with aclosing(batches):
            async for batch in batches:
                yield seen_through(batch, reading) if isinstance(batch, Passage) else batch
    except EngineHostError as error:
        raise StoreTrouble(error.message) from error


async def _to_its_end(work: Awaitable[T]) -> T:
    """Wait for it whatever happens to this task; a cancellation is let through afterwards."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait({task})
        raise
    except EngineHostError as error:
        raise StoreTrouble(error.message) from error
