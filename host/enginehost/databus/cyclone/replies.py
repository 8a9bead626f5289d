"""The writers of replies in the default partition: a reader that takes nothing holds up nobody but itself.

A reliable writer that keeps all waits for its slowest reader, and every requester reads every reply
(they tell theirs by its id). So there is a second writer, which keeps only the latest replies: it never
waits. It takes over while some reader is behind; whoever reads in time gets everything from either.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from cyclonedds.pub import DataWriter

from enginehost.databus.cyclone.outlet import Outlet
from enginehost.databus.cyclone.path import SMALL_BYTES
from enginehost.databus.cyclone.wire import Outcome, wait_for_acks, write, write_now

log = logging.getLogger("enginehost.databus")

LAG_PATIENCE = 0.5
"""Seconds for which a reply waits for a reader that is behind, before the reserve takes over."""

LAG_SECONDS = 30.0
"""How long the reserve serves at least: a reader that lags now and then holds up the others no oftener."""

LOOK_SECONDS = 1.0
"""Between two looks whether the reader that was behind has caught up, or gone."""

RESERVE_BYTES_PER_SECOND = 50e6
"""The reserve knows no flow control: faster than this, readers on the same machine lose pieces (measured)."""


class ReplyOutlet(Outlet):
    """Writes replies: through ``writer``, or through ``reserve`` while a reader is behind."""

    def __init__(self, writer: DataWriter[Any], reserve: DataWriter[Any], name: str) -> None:
        super().__init__(writer, name)
        self._reserve = reserve
        self._waiting = 0
        self._since: float | None = None
        self._look_again = 0.0

    @property
    def lagging(self) -> bool:
        """Whether some reader is behind."""
        return self._since is not None

    async def send(self, data: bytes) -> bool:
        """Write one reply; ``False`` when the outlet closes meanwhile."""
        if self._closing:
            return False
        at_once = not self._waiting and not self.lagging and len(data) <= SMALL_BYTES
        if at_once and write_now(self._writer, data) is Outcome.DONE:
            return True
        self._waiting += 1
        try:
            return await self._run(self._send, data)
        finally:
            self._waiting -= 1

    def _delete(self) -> None:
        super()._delete()
        self._reserve.__del__()

    def _send(self, data: bytes) -> bool:
        if self._since is not None:
            self._look(self._since)
        if self._since is None:
            if self._insist(write, data, time.monotonic() + LAG_PATIENCE):
                return True
            self._lag()
        if self._closing:
            return False
        write(self._reserve, data)
        time.sleep(len(data) / RESERVE_BYTES_PER_SECOND)
        return True

    def _lag(self) -> None:
        self._since = time.monotonic()
        log.warning("a peer on the databus does not take its replies; it may lose some")

    def _look(self, since: float) -> None:
        now = time.monotonic()
        if now < self._look_again or now < since + LAG_SECONDS:
            return
        self._look_again = now + LOOK_SECONDS
        if wait_for_acks(self._writer, 0.0):
            self._since = None
            log.info("all peers on the databus take their replies again")
