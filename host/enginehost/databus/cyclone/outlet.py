"""A writer with a thread of its own: nothing that waits for a slow reader waits on the event loop."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cyclonedds.core import DDSException
from cyclonedds.pub import DataWriter

from enginehost.databus.cyclone.wire import Outcome, dispose, wait_for_acks, write

log = logging.getLogger("enginehost.databus")

SMALL_BYTES = 16 * 1024
"""Up to this size a sample is written on the event loop: a hop to a thread would cost more."""

RETRY_SECONDS = 0.002
"""Between two tries while readers are behind."""


class Outlet:
    """Writes serialised samples in order of arrival.

    The writer's ``max_blocking_time`` is 0, so that a write either succeeds at once or says that
    readers are behind; then it is tried again on the thread.
    """

    def __init__(self, writer: DataWriter[Any], name: str) -> None:
        self._writer = writer
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._waiting = 0
        self._closing = False

    @property
    def readers(self) -> list[int]:
        """The handles of the matched readers."""
        return self._writer.get_matched_subscriptions()

    def reader_data(self, handle: int) -> Any:
        """What discovery says of a matched reader; ``None`` when it has gone."""
        return self._writer.get_matched_subscription_data(handle)

    async def send(self, data: bytes, patience: float) -> bool:
        """Write one sample; ``False`` when readers are behind for ``patience`` seconds or all ends."""
        if self._closing:
            return False
        if not self._waiting and len(data) <= SMALL_BYTES and write(self._writer, data) is Outcome.DONE:
            return True
        self._waiting += 1
        try:
            return await self._run(self._insist, write, data, patience)
        finally:
            self._waiting -= 1

    async def write_all(self, make: Callable[[], Iterable[bytes]]) -> None:
        """Write what ``make``, which runs on the thread, yields; readers that are behind are waited for."""
        await self._run(self._all, write, make)

    async def dispose_all(self, make: Callable[[], Iterable[bytes]]) -> None:
        """Likewise dispose the instances whose keys ``make`` yields."""
        await self._run(self._all, dispose, make)

    async def close(self, patience: float) -> None:
        """Wait about ``patience`` seconds until all is written and readers have it; delete the writer."""
        loop = asyncio.get_running_loop()
        flushed = loop.run_in_executor(self._thread, wait_for_acks, self._writer, patience)
        await asyncio.wait((flushed,), timeout=patience)
        self._closing = True
        await asyncio.to_thread(self._thread.shutdown)
        self._writer.__del__()

    async def _run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    def _all(self, act: Callable[..., Outcome], make: Callable[[], Iterable[bytes]]) -> None:
        for data in make():
            try:
                self._insist(act, data, float("inf"))
            except DDSException as failure:
                log.error("a capability could not be written: %s", failure)

    def _insist(self, act: Callable[..., Outcome], data: bytes, patience: float) -> bool:
        deadline = time.monotonic() + patience
        while act(self._writer, data) is not Outcome.DONE:
            if self._closing or time.monotonic() >= deadline:
                return False
            time.sleep(RETRY_SECONDS)
        return True
