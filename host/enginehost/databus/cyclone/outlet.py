"""Writers with a thread of their own: nothing that waits for a slow reader waits on the event loop.

Their ``max_blocking_time`` is 0, so that a write either succeeds at once or says that readers are
behind; then it is tried again on the thread, for a while.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cyclonedds.core import DDSException
from cyclonedds.pub import DataWriter

from enginehost.databus.cyclone.matches import matched
from enginehost.databus.cyclone.wire import Outcome, dispose, unregister, wait_for_acks, write

log = logging.getLogger("enginehost.databus")

BATCH_PATIENCE = 10.0
"""Seconds for which all capabilities that are written in one go may wait for readers."""

RETRY_SECONDS = 0.002
"""Between two tries while readers are behind."""


class Outlet:
    """Writes serialised samples of one writer in order of arrival."""

    def __init__(self, writer: DataWriter[Any], name: str) -> None:
        self._writer = writer
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._closing = False

    @property
    def readers(self) -> list[int]:
        """The handles of the matched readers."""
        return matched(self._writer.get_matched_subscriptions)

    @property
    def liveliness_lost(self) -> int:
        """How often readers were told that this writer is not alive, as this process stood still."""
        return int(self._writer.get_liveliness_lost_status().total_count)

    async def write_all(self, make: Callable[[], Iterable[bytes]]) -> None:
        """Write what ``make``, which runs on the thread, yields.

        Readers that are behind are waited for, but not for ever. Raises :class:`TimeoutError` then.
        """
        await self._run(self._all, write, make)

    async def dispose_all(self, make: Callable[[], Iterable[bytes]]) -> None:
        """Likewise dispose the instances whose keys ``make`` yields."""
        await self._run(self._all, dispose, make)

    async def unregister_all(self, make: Callable[[], Iterable[bytes]]) -> None:
        """Likewise say that these instances are not written here any more, without disposing of them."""
        await self._run(self._all, unregister, make)

    async def close(self, patience: float) -> None:
        """Wait about ``patience`` seconds until all is written and readers have it; delete the writer."""
        loop = asyncio.get_running_loop()
        flushed = loop.run_in_executor(self._thread, wait_for_acks, self._writer, patience)
        await asyncio.wait((flushed,), timeout=patience)
        self._closing = True
        await asyncio.to_thread(self._thread.shutdown)
        await asyncio.to_thread(self._delete)

    def _delete(self) -> None:
        """The library waits for readers once more."""
        self._writer.__del__()

    async def _run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    def _all(self, act: Callable[..., Outcome], make: Callable[[], Iterable[bytes]]) -> None:
        until = time.monotonic() + BATCH_PATIENCE
        unwritten = 0
        for data in make():
            try:
                unwritten += not self._insist(act, data, until)
            except DDSException as failure:
                log.error("a sample could not be written on the databus: %s", failure)
        if unwritten:
            raise TimeoutError(f"readers are behind: {unwritten} samples were not written")

    def _insist(self, act: Callable[..., Outcome], data: bytes, until: float) -> bool:
        while act(self._writer, data) is not Outcome.DONE:
            if self._closing or time.monotonic() >= until:
                return False
            time.sleep(RETRY_SECONDS)
        return True
