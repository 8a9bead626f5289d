"""One stream of an ``async`` worker: its items, as the reader asks for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from enginehost_engines.worker import memory_guard
from enginehost_engines.worker.batches import Batch
from enginehost_engines.worker.crossing import packed


class AsyncStream:
    """Sends items by ``send``; what is held goes out as soon as the loop has a turn."""

    def __init__(
        self, send: Callable[[bytes], None], limit: int | None, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._batch = Batch(send)
        self._limit = limit
        self._loop = loop
        self._asked: asyncio.Future[None] | None = None
        self._flushing = False

    def more(self, count: int) -> None:
        """The reader asks for so many more."""
        self._batch.room += count
        if self._asked is not None and not self._asked.done():
            self._asked.set_result(None)

    async def run(self, items: AsyncIterator[Any]) -> None:
        """Send all items."""
        batch, written = self._batch, memory_guard.without(packed)
        try:
            async for item in items:
                data = written(item, self._limit)
                while not batch.room:
                    self._asked = self._loop.create_future()
                    await self._asked
                if batch.add(data) and not self._flushing:
                    self._flushing = True
                    self._loop.call_soon(self._flush)
        finally:
            batch.flush()

    def _flush(self) -> None:
        self._flushing = False
        self._batch.flush()
