"""Requests and replies from Cyclone's threads to the event loop, by one thread for all of a participant.

A listener would run on the thread that also processes acknowledgements, and wait there for the GIL.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from cyclonedds._clayer import ddspy_take
from cyclonedds.core import InstanceState, ReadCondition, SampleState, ViewState
from cyclonedds.sub import DataReader

from enginehost.databus.cyclone.handover import Handover
from enginehost.databus.cyclone.participant import Participant
from enginehost.databus.cyclone.waits import Waits, keep_on, post

log = logging.getLogger("enginehost.databus")

BATCH = 32
"""Samples taken at once: as many calls start in one turn of the event loop, which others share."""

BATCHES_AHEAD = 3
"""Batches that may wait for the event loop; the rest stays in DDS, which slows the writers down."""

ANY = SampleState.Any | ViewState.Any | InstanceState.Any

Decode = Callable[[bytes, int], Any]
"""A sample from its bytes and its writer's handle; raises :class:`ValueError` where it is malformed."""


class Feed(ABC):
    """One reader's samples on their way to the event loop.

    They are decoded one by one, so that a malformed one takes no other with it; those without data (a
    writer went) are left out.
    """

    def __init__(self, reader: DataReader[Any], decode: Decode) -> None:
        self.reader = reader
        self.condition = ReadCondition(reader, ANY)
        self.malformed = 0
        self.held = False
        """Whether it is not waited for because the event loop is behind."""
        self._handed = 0
        self._done = 0
        self._decode = decode
        self._resume: Callable[[], None] = lambda: None

    def resumed_by(self, resume: Callable[[], None]) -> None:
        """``resume`` has it waited for again."""
        self._resume = resume

    @property
    def full(self) -> bool:
        """Whether so many batches wait for the event loop that no further one may."""
        return self._handed - self._done >= BATCHES_AHEAD

    def hand(self, loop: asyncio.AbstractEventLoop, batch: list[Any]) -> None:
        """Give a batch to the event loop. Raises :class:`~enginehost.databus.cyclone.waits.LoopClosed`."""
        self._handed += 1  # on the intake's thread alone, as the other one is on the event loop: no lock
        post(loop, self.arrive, batch)

    def take(self) -> tuple[list[Any], bool]:
        """The next samples, and whether there may be more."""
        taken = ddspy_take(self.reader._ref, ANY, BATCH)
        if isinstance(taken, int):
            return [], False
        samples = [self._sample(data, info) for data, info in taken if info.valid_data]
        return [sample for sample in samples if sample is not None], len(taken) == BATCH

    @abstractmethod
    def arrive(self, batch: list[Any]) -> None:
        """Take a batch on the event loop, and call :meth:`done` for it in the end."""

    def done(self) -> None:
        """One batch less waits for the event loop."""
        self._done += 1
        if self.held:
            self._resume()

    async def close(self) -> None:
        """Nothing arrives any more; the reader stays."""
        self.condition.__del__()

    def _sample(self, data: bytes, info: Any) -> Any:
        try:
            return self._decode(data, info.publication_handle)
        except ValueError as failure:
            self.malformed += 1
            log.warning("a malformed sample on the databus was dropped: %s", type(failure).__name__)
            return None


class DirectFeed(Feed):
    """Gives batches to a handler that does not wait."""

    def __init__(
        self, reader: DataReader[Any], decode: Decode, handler: Callable[[Sequence[Any]], None]
    ) -> None:
        super().__init__(reader, decode)
        self._handler = handler

    def arrive(self, batch: list[Any]) -> None:
        """See :class:`Feed`."""
        try:
            self._handler(batch)
        finally:
            self.done()


class WaitedFeed(Feed):
    """Gives batches, one after the other, to a handler that may wait; meanwhile the others wait too."""

    def __init__(
        self, reader: DataReader[Any], decode: Decode, handler: Callable[[Sequence[Any]], Awaitable[None]]
    ) -> None:
        super().__init__(reader, decode)
        self._handler = handler
        self._batches: deque[list[Any]] = deque()
        loop = asyncio.get_running_loop()
        self._idle = Handover(loop)
        self._task = loop.create_task(self._run(), name="databus-requests")

    def arrive(self, batch: list[Any]) -> None:
        """See :class:`Feed`."""
        self._batches.append(batch)
        self._idle.wake()

    async def close(self) -> None:
        """See :class:`Feed`."""
        await super().close()
        self._task.cancel()
        await asyncio.wait((self._task,))

    async def _run(self) -> None:
        while True:
            while self._batches:
                try:
                    await self._handler(self._batches.popleft())
                except Exception:
                    log.exception("requests from the databus were not taken")
                finally:
                    self.done()
            await self._idle


class Intake:
    """The thread that waits for samples, takes and decodes them, and hands them to the event loop."""

    def __init__(self, participant: Participant) -> None:
        self._waits = Waits(participant.entity)
        self._loop = asyncio.get_running_loop()
        self._feeds: dict[int, Feed] = {}
        self._numbers = itertools.count(1)
        self._malformed = 0
        """Of feeds that were removed."""
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="databus-reader", daemon=True)
        self._thread.start()

    @property
    def malformed(self) -> int:
        """Samples that were dropped because they were malformed."""
        return self._malformed + sum(feed.malformed for feed in tuple(self._feeds.values()))

    def add(self, feed: Feed) -> None:
        """Take what comes for ``feed``, until :meth:`close`."""
        number = next(self._numbers)
        feed.resumed_by(self._waits.wake)
        self._feeds[number] = feed
        self._waits.attach(feed.condition, number)

    async def remove(self, feed: Feed) -> None:
        """Take nothing more for ``feed``; its reader is going to be deleted."""
        for number in [number for number, one in self._feeds.items() if one is feed]:
            self._waits.detach(feed.condition)
            del self._feeds[number]
            self._malformed += feed.malformed
            await feed.close()

    async def close(self) -> None:
        """Stop; what was not yet handed over stays untaken."""
        self._stopping = True
        self._waits.wake()
        await asyncio.to_thread(self._thread.join)
        for feed in self._feeds.values():
            self._waits.detach(feed.condition)
            await feed.close()
        self._waits.close()

    def _run(self) -> None:
        keep_on(self._step, lambda: self._stopping)

    def _step(self) -> None:
        for number in self._waits.wait():
            if (feed := self._feeds.get(number)) is not None:
                self._drain(number, feed)
        self._resume()

    def _drain(self, number: int, feed: Feed) -> None:
        more = True
        while more and not self._stopping:
            feed.held = True  # first, so that a batch that is done just now is not missed
            if feed.full:
                self._waits.detach(feed.condition)
                return
            feed.held = False
            batch, more = feed.take()
            if batch:
                feed.hand(self._loop, batch)

    def _resume(self) -> None:
        for number, feed in list(self._feeds.items()):
            if feed.held and not feed.full:
                feed.held = False
                self._waits.attach(feed.condition, number)
