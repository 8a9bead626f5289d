"""Events on their way to the bus: a bounded queue that is emptied a little at a time."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from enginehost.databus.port import Transport

log = logging.getLogger("enginehost.databus")

MOST_WAITING = 4_096
"""Events that may wait, besides those that must be taken; further ones are dropped and counted."""

IN_ONE_GO = 32
"""Events written in one turn of the event loop; calls have the next one."""

PAUSE = 0.002
"""Seconds between two goes: some 16,000 events a second at most."""

RETRY = 0.05
"""Seconds after which an event is tried again that must not be lost."""

AFTER_FAILURE = 1.0
"""Seconds of rest after a transport has failed."""


class _Event(NamedTuple):
    topic: str
    values: Mapping[str, Any]
    last: bool


class Outbox:
    """Takes events at once, on the event loop, and gives them to the transport in order.

    The last event of an instance is tried until it is written, as long as anybody reads the topic: with it
    the transport lets go of what it keeps of the instance.
    """

    def __init__(self, transport: Transport) -> None:
        self.sent = 0
        self.dropped = 0
        self._transport = transport
        self._queue: deque[_Event] = deque()
        self._wake = asyncio.Event()
        self._empty = asyncio.Event()
        self._failing = False

    def room(self, events: int = 1) -> bool:
        """Whether that many events find a place."""
        return len(self._queue) + events <= MOST_WAITING

    def put(self, topic: str, values: Mapping[str, Any], *, last: bool = False, must: bool = False) -> None:
        """Take an event. Where the queue is full it is dropped and counted, unless it ``must`` be taken."""
        if not must and not self.room():
            self.dropped += 1
            return
        self._queue.append(_Event(topic, values, last))
        self._wake.set()

    async def run(self) -> None:
        """Write what comes, until this is cancelled."""
        while True:
            await self._wake.wait()
            pause = self._write_some()
            if not self._queue:
                self._wake.clear()
                self._empty.set()
            await asyncio.sleep(pause)

    async def emptied(self, seconds: float) -> None:
        """Wait until all is written, but no longer than that."""
        self._empty.clear()
        if self._queue:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), seconds)

    def _write_some(self) -> float:
        """Write a few; how long to pause."""
        for _ in range(min(IN_ONE_GO, len(self._queue))):
            event = self._queue.popleft()
            try:
                if not self._written(event):
                    self._queue.appendleft(event)
                    return RETRY
            except Exception as failure:  # the plugin boundary: a transport that fails once may recover
                self.dropped += 1
                if not self._failing:
                    log.error("events cannot be written on the databus", exc_info=failure)
                self._failing = True
                return AFTER_FAILURE
            self._failing = False
        return PAUSE

    def _written(self, event: _Event) -> bool:
        """Whether nothing is left to do for this event."""
        if self._transport.announce(event.topic, event.values, last=event.last):
            self.sent += 1
        elif self._transport.listened(event.topic):
            if event.last:
                return False
            self.dropped += 1
        return True
