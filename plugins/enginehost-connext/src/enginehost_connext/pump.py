"""Samples from Connext to the event loop: one reader, one thread that waits for it.

A listener would run on the thread that also takes acknowledgements, and wait there for the GIL.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any

import rti.connextdds as dds

from enginehost_connext.entities import Library, Reader, close_reader

log = logging.getLogger("enginehost.databus")

BATCH = 32
"""Samples taken at once: as many calls start in one turn of the event loop, which others share."""

Decode = Callable[[Any, dds.SampleInfo], Any]
"""Makes a value of a sample, on the thread; ``None`` of one that says nothing. Raises where malformed."""

Deliver = Callable[[Sequence[Any]], None]
"""Takes the values on the event loop, at once."""

DeliverAndWait = Callable[[Sequence[Any]], Coroutine[Any, Any, None]]
"""Takes the values on the event loop; while it waits, no more are taken."""


class Pump:
    """Waits for samples of ``reader``, decodes them and hands them to the event loop.

    Samples are decoded one by one, so that a malformed one takes no other with it. ``noticed`` is called on
    the event loop when one of ``statuses`` changed; it has to read the status, which resets it.
    """

    def __init__(
        self,
        library: Library,
        reader: Reader,
        decode: Decode,
        *,
        deliver: Deliver | None = None,
        deliver_and_wait: DeliverAndWait | None = None,
        statuses: dds.StatusMask = dds.StatusMask.NONE,
        noticed: Callable[[], None] | None = None,
        owns_reader: bool = True,
    ) -> None:
        self._owns_reader = owns_reader
        self.malformed = 0
        self.reader = reader
        self._decode = decode
        self._deliver = deliver
        self._deliver_and_wait = deliver_and_wait
        self._noticed = noticed
        self._loop = asyncio.get_running_loop()
        self._stopping = False
        self._running: Future[None] | None = None
        self._data = library.read_condition(reader, dds.DataState.any)
        self._status = library.status_condition(reader)
        self._status.enabled_statuses = statuses
        self._stop = dds.GuardCondition()
        self._waitset = dds.WaitSet()
        for condition in (self._data, self._status, self._stop):
            self._waitset.attach_condition(condition)
        self._thread = threading.Thread(target=self._run, name="databus-reader", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Stop; what was not handed over stays untaken."""
        self._stopping = True
        self._stop.trigger_value = True
        if (running := self._running) is not None:
            running.cancel()
        await asyncio.to_thread(self._thread.join)
        self._waitset.detach_all()
        if self._owns_reader:
            await asyncio.to_thread(close_reader, self.reader)

    def _run(self) -> None:
        try:
            while not self._stopping:
                active = self._waitset.wait(dds.Duration(1))
                if self._noticed is not None and self._status in active:
                    self._on_loop_and_wait(_at_once(self._noticed))
                while not self._stopping and (taken := self._take()):
                    self._hand_over([value for sample in taken if (value := self._value(sample)) is not None])
        except _NobodyLeft:
            return

    def _take(self) -> list[Any]:
        return self.reader.select().max_samples(BATCH).take()

    def _hand_over(self, values: list[Any]) -> None:
        if not values:
            return
        if self._deliver is not None:
            self._call_soon(self._deliver, values)
        elif self._deliver_and_wait is not None:
            self._on_loop_and_wait(self._deliver_and_wait(values))

    def _call_soon(self, act: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(act, *arguments)
        except RuntimeError as closed:
            raise _NobodyLeft from closed

    def _on_loop_and_wait(self, coroutine: Coroutine[Any, Any, None]) -> None:
        try:
            self._running = running = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError as closed:
            coroutine.close()
            raise _NobodyLeft from closed
        if self._stopping:
            running.cancel()
        try:
            running.result()
        except CancelledError as closed:
            raise _NobodyLeft from closed
        except Exception:
            log.exception("what came from the databus was not taken")

    def _value(self, sample: Any) -> Any:
        try:
            return self._decode(sample.data, sample.info)
        except (ValueError, dds.Exception) as failure:
            self.malformed += 1
            log.warning("a malformed sample on the databus was dropped: %s", failure)
            return None


class _NobodyLeft(Exception):
    """There is nobody to hand anything to."""


async def _at_once(act: Callable[[], None]) -> None:
    act()
