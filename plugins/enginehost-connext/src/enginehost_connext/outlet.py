"""Writers that wait for slow readers beside the event loop, never on it.

Their ``max_blocking_time`` is 0: a write succeeds at once or says that readers are behind; then it is
tried again for a while.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable

import rti.connextdds as dds

from enginehost_connext.entities import Writer, close_writer
from enginehost_connext.peers import readers_of

log = logging.getLogger("enginehost.databus")

BATCH_PATIENCE = 10.0
"""Seconds for which all instances that are written in one go may wait for readers."""

RETRY_SECONDS = 0.002
"""Between two tries while readers are behind."""

Act = Callable[[dds.DynamicData], object]
Samples = Callable[[], Iterable[dds.DynamicData]]


class Outlet:
    """Writes samples of one writer in order of arrival."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.readers = readers_of(writer)
        self.waiting = 0
        self._order = asyncio.Lock()  # samples of one outlet arrive in the order in which they were given
        self._closed = False

    async def send(self, sample: dds.DynamicData, patience: float, *, aside: bool = False) -> bool:
        """Write one sample; ``False`` where readers are behind for ``patience`` seconds, or it is closed.

        ``aside``: it is large, and the event loop should not wait while it is copied.
        """
        until = time.monotonic() + patience
        self.waiting += 1
        try:
            async with self._order:
                while not self._closed:
                    if await self._tried(sample, aside):
                        return True
                    if time.monotonic() >= until:
                        break
                    await asyncio.sleep(RETRY_SECONDS)
                return False
        finally:
            self.waiting -= 1

    async def _tried(self, sample: dds.DynamicData, aside: bool) -> bool:
        if aside:
            return await asyncio.to_thread(done, self.writer.write, sample)
        return done(self.writer.write, sample)

    async def write_all(self, samples: Samples) -> None:
        """Write instances, which are made off the event loop too.

        Raises :class:`TimeoutError` where readers are behind for too long.
        """
        await self._all(self.writer.write, samples)

    async def dispose_all(
        self, keys: Callable[[], Iterable[dds.DynamicData]], *, dispose: bool = True
    ) -> None:
        """Dispose the instances of these keys, or (without ``dispose``) only stop writing them."""
        await self._all(self._dispose if dispose else self._unregister, keys)

    async def close(self, patience: float) -> None:
        """Wait about ``patience`` seconds until readers have everything; delete the writer."""
        self._closed = True
        await asyncio.to_thread(self._close, patience)

    def _close(self, patience: float) -> None:
        done(self.writer.wait_for_acknowledgments, dds.Duration.from_seconds(patience))
        close_writer(self.writer)

    async def _all(self, act: Act, samples: Samples) -> None:
        async with self._order:
            unwritten = await asyncio.to_thread(self._batch, act, samples)
        if unwritten:
            raise TimeoutError(f"readers are behind: {unwritten} samples were not written")

    def _batch(self, act: Act, samples: Samples) -> int:
        until = time.monotonic() + BATCH_PATIENCE
        unwritten = 0
        for sample in samples():
            try:
                unwritten += not self._insist(act, sample, until)
            except dds.Exception as failure:
                log.error("a sample could not be written: %s", failure)
        return unwritten

    def _insist(self, act: Act, sample: dds.DynamicData, until: float) -> bool:
        while not done(act, sample):
            if self._closed or time.monotonic() >= until:
                return False
            time.sleep(RETRY_SECONDS)
        return True

    def _dispose(self, key: dds.DynamicData) -> None:
        if not (handle := self.writer.lookup_instance(key)).is_nil:
            self.writer.dispose_instance(handle)
            self.writer.unregister_instance(handle)

    def _unregister(self, key: dds.DynamicData) -> None:
        if not (handle := self.writer.lookup_instance(key)).is_nil:
            self.writer.unregister_instance(handle)


def done(act: Callable[..., object], *arguments: object) -> bool:
    """Whether ``act`` succeeded at once; ``False`` where readers are behind."""
    try:
        act(*arguments)
    except dds.TimeoutError:
        return False
    return True
