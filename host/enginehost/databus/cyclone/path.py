"""A writer in one partition: what is sent on it waits for its own readers and for nobody else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cyclonedds.core import DDSException
from cyclonedds.pub import DataWriter

from enginehost.databus.cyclone.matches import Matches
from enginehost.databus.cyclone.wire import Outcome, write, write_now

log = logging.getLogger("enginehost.databus")

SMALL_BYTES = 128 * 1024
"""Up to this size a sample is written on the event loop: a hop to a thread would cost more."""

RETRY_SECONDS = 0.000_25
"""Between the first two tries while readers are behind; later ones wait longer."""
LONGEST_RETRY = 0.02


class Path:
    """Sends samples in order of arrival.

    Its writer's ``max_blocking_time`` is 0: a write succeeds at once, or says that readers are behind.
    """

    def __init__(self, writer: DataWriter[Any], matches: Matches, threads: ThreadPoolExecutor) -> None:
        self.writer = writer
        self.matches = matches
        self.closed = False
        self._threads = threads
        self._turn = asyncio.Lock()  # one sample at a time waits for readers, the others behind it
        self._waiting = 0
        self._complained = False

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be written."""
        return not self._waiting

    async def send(self, data: bytes, patience: float) -> bool:
        """Write a sample; ``False`` when readers were behind for ``patience`` seconds, or the path closes."""
        if not self._waiting and len(data) <= SMALL_BYTES and not self.closed and self._written(data):
            return True
        until = asyncio.get_running_loop().time() + patience
        self._waiting += 1
        try:
            async with self._turn:
                return await self._insist(data, until)
        finally:
            self._waiting -= 1

    async def _insist(self, data: bytes, until: float) -> bool:
        loop = asyncio.get_running_loop()
        pause = RETRY_SECONDS
        while not self.closed:
            if len(data) <= SMALL_BYTES:
                done = self._written(data)
            else:
                done = await loop.run_in_executor(self._threads, self._written, data, write)
            if done:
                return True
            if loop.time() >= until:
                self._complain("readers on the databus are behind; what was sent to them is dropped")
                return False
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_RETRY)
        return False

    def _written(self, data: bytes, write: Callable[[DataWriter[Any], bytes], Outcome] = write_now) -> bool:
        try:
            return write(self.writer, data) is Outcome.DONE
        except DDSException as failure:
            self._complain(f"nothing can be written on the databus: {failure}")
            return False

    def _complain(self, why: str) -> None:
        if not (self._complained or self.closed):
            self._complained = True
            log.warning(why)
