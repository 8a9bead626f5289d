"""Samples from Cyclone's threads to the event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from cyclonedds._clayer import ddspy_take
from cyclonedds.core import GuardCondition, InstanceState, ReadCondition, SampleState, ViewState, WaitSet
from cyclonedds.domain import DomainParticipant
from cyclonedds.sub import DataReader

from enginehost.databus.cyclone.wire import deserialized

log = logging.getLogger("enginehost.databus")

BATCH = 32
"""Samples taken at once: as many calls start in one turn of the event loop, which others share."""

BATCHES_AHEAD = 2
"""Batches that may wait for the event loop; the rest stays in DDS, which slows the writers down."""

_ANY = SampleState.Any | ViewState.Any | InstanceState.Any
_WAKE_NS = 1_000_000_000
_NEEDED = ("request_id", "function_id")
"""What has to be text in a sample: without it nobody can be answered."""

Receive = Callable[[Sequence[tuple[Any, Any]]], Awaitable[None]]
"""Takes (sample, sample info) pairs on the event loop."""


class Pump:
    """One reader, one thread: waits for samples, takes and decodes them, hands them to the event loop.

    A listener would run on the thread that also processes acknowledgements, and wait there for the GIL.
    Samples are decoded one by one, so that a malformed one takes no other with it; those without data
    (a writer went, an instance was disposed) are left out.
    """

    def __init__(self, participant: DomainParticipant, reader: DataReader[Any], receive: Receive) -> None:
        self.malformed = 0
        self._reader = reader
        self._receive = receive
        self._condition = ReadCondition(reader, _ANY)
        self._stop = GuardCondition(participant)
        self._waitset = WaitSet(participant)
        self._waitset.attach(self._condition)
        self._waitset.attach(self._stop)
        self._stopping = False
        self._ahead = threading.Semaphore(BATCHES_AHEAD)
        self._batches: asyncio.Queue[list[tuple[Any, Any]]] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._consume(), name="databus-requests")
        self._thread = threading.Thread(target=self._run, name="databus-reader", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Stop; what was not yet handed over stays untaken."""
        self._stopping = True
        self._stop.set(True)
        self._ahead.release()
        await asyncio.to_thread(self._thread.join)
        self._task.cancel()
        await asyncio.wait((self._task,))
        for entity in (self._waitset, self._stop, self._condition, self._reader):
            entity.__del__()

    def _run(self) -> None:
        while not self._stopping:
            self._waitset.wait(_WAKE_NS)
            while not self._stopping and self._ahead.acquire() and (batch := self._take()):
                try:
                    self._loop.call_soon_threadsafe(self._batches.put_nowait, batch)
                except RuntimeError:  # the event loop is closed: nobody is left to hand anything to
                    return
            self._ahead.release()

    def _take(self) -> list[tuple[Any, Any]]:
        """The next samples with data; empty when there are none."""
        while True:
            taken = ddspy_take(self._reader._ref, _ANY, BATCH)
            if isinstance(taken, int) or not taken:
                return []
            batch = [pair for data, info in taken if info.valid_data and (pair := self._decode(data, info))]
            if batch:
                return batch

    def _decode(self, data: bytes, info: Any) -> tuple[Any, Any] | None:
        try:
            return deserialized(self._reader.topic.data_type, data, _NEEDED), info
        except Exception as failure:  # noqa: BLE001 - the library raises bare exceptions, and peers choose the bytes
            self.malformed += 1
            log.warning("a malformed sample on the databus was dropped: %s", type(failure).__name__)
            return None

    async def _consume(self) -> None:
        while True:
            batch = await self._batches.get()
            await self._receive(batch)
            self._ahead.release()
