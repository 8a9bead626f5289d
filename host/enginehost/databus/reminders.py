"""Asks a provider again that has said nothing for a while.

Of two that stood still or were cut off for about two seconds, one may take the other for gone and the other
not; what is sent then is lost without anybody's notice. The provider runs no request twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress

from enginehost.databus.exchange import Exchange
from enginehost.databus.metadata import STATUS
from enginehost.databus.outgoing import Outgoing
from enginehost.errors import CallTimeout
from enginehost.values import LARGE

REMIND_SECONDS = 1.0
"""After so long without a word the provider is asked again, later twice as long each time."""
REMIND_LARGE_SECONDS = 5.0
REMIND_MOST_SECONDS = 8.0
LOOK_SECONDS = 0.5


class Reminders:
    """One task for all ``exchanges``, which runs while there are any."""

    def __init__(self, exchanges: Mapping[str, Exchange], outgoing: Outgoing) -> None:
        self._exchanges = exchanges
        self._outgoing = outgoing
        self._task: asyncio.Task[None] | None = None

    def later(self, exchange: Exchange) -> None:
        """Ask again in a while, should nothing be heard until then."""
        if not exchange.provider.incarnation:
            return  # it may not know requests that come twice
        seconds = REMIND_LARGE_SECONDS if len(exchange.ask.parameters) >= LARGE else REMIND_SECONDS
        seconds = min(REMIND_MOST_SECONDS, seconds * 2**exchange.reminders)
        exchange.remind_at = time.monotonic() + seconds
        exchange.reminders += 1
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    def ask_again(self, exchange: Exchange) -> None:
        """Send the request once more, or, where it was accepted, ask what has become of it."""
        if exchange.accepted:
            self._outgoing.tell(exchange, STATUS)
        else:
            exchange.wanted["ack"] = True
            with suppress(CallTimeout):
                self._outgoing.send_again(exchange)
        self.later(exchange)

    def close(self) -> None:
        """Ask nobody any more."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while self._exchanges:
            await asyncio.sleep(LOOK_SECONDS)
            now = time.monotonic()
            for exchange in tuple(self._exchanges.values()):
                if 0.0 < exchange.remind_at <= now and not exchange.answer.done():
                    self.ask_again(exchange)
