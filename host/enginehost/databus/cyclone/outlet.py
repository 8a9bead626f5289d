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
from contextlib import suppress
from typing import Any

from cyclonedds.core import DDSException
from cyclonedds.pub import DataWriter

from enginehost.databus.cyclone.wire import Outcome, dispose, wait_for_acks, write

log = logging.getLogger("enginehost.databus")

BATCH_PATIENCE = 10.0
"""Seconds for which all capabilities that are written in one go may wait for readers."""

RETRY_SECONDS = 0.002
"""Between two tries while readers are behind."""


def matched(handles: Callable[[], list[int]]) -> list[int]:
    """The handles that the library's ``get_matched_…`` gives.

    It counts them and then fills as many places: one that is discovered in between has it fail.
    """
    while True:
        with suppress(IndexError):
            return handles()


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

    def reader_data(self, handle: int) -> Any:
        """What discovery says of a matched reader; ``None`` when it has gone."""
        return self._writer.get_matched_subscription_data(handle)

    async def write_all(self, make: Callable[[], Iterable[bytes]]) -> None:
        """Write what ``make``, which runs on the thread, yields.

        Readers that are behind are waited for, but not for ever. Raises :class:`TimeoutError` then.
        """
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
                log.error("a capability could not be written: %s", failure)
        if unwritten:
            raise TimeoutError(f"readers are behind: {unwritten} capabilities were not written")

    def _insist(self, act: Callable[..., Outcome], data: bytes, until: float) -> bool:
        while act(self._writer, data) is not Outcome.DONE:
            if self._closing or time.monotonic() >= until:
                return False
            time.sleep(RETRY_SECONDS)
        return True
