"""Threads that read, each with a connection of its own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from enginehost.errors import EngineUnavailable
from enginehost.store.link import Database, Fault, Link
from enginehost.store.writer import unavailable

Result = TypeVar("Result")
_PATIENCE = 10.0


class Readers:
    """At most ``most`` connections. A read holds one for milliseconds only, however slow its reader is."""

    def __init__(self, database: Database, most: int) -> None:
        self._database = database
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="enginehost-store-read")
        self._own = threading.local()
        self._links: set[Link] = set()
        self._closed = False

    async def run(self, read: Callable[..., Result], *arguments: Any) -> Result:
        """``read(link, *arguments)`` on a thread; once more where the connection was lost."""
        if self._closed:
            raise EngineUnavailable("the store is closed", state="store", reason="closing")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._read, read, arguments)

    def _read(self, read: Callable[..., Result], arguments: tuple[Any, ...]) -> Result:
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                return read(self._link(), *arguments)
            except Exception as error:
                fault = self._database.fault(error)
                if fault is None:
                    raise
                if fault is Fault.LOST:
                    self._drop()
                if fault is not Fault.LOST or time.monotonic() > end:
                    raise unavailable(self._database, error) from error
                time.sleep(0.05)

    def _link(self) -> Link:
        link: Link | None = getattr(self._own, "link", None)
        if link is None:
            link = self._own.link = self._database.reader()
            self._links.add(link)
        return link

    def _drop(self) -> None:
        link: Link | None = getattr(self._own, "link", None)
        self._own.link = None
        if link is not None:
            self._links.discard(link)
            with suppress(Exception):  # it is gone already
                link.close()

    async def close(self) -> None:
        """Let the reads that run end, and close the connections."""
        self._closed = True
        await asyncio.to_thread(self._pool.shutdown, True, cancel_futures=True)
        for link in self._links:
            with suppress(Exception):  # a lost connection may not close well
                link.close()
        self._links.clear()
