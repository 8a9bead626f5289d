"""Which providers take requests, and what becomes of the calls of one that is out of sight."""

from __future__ import annotations

import asyncio
import time

from enginehost.databus.exchange import Exchange
from enginehost.databus.outgoing import Outgoing
from enginehost.databus.port import Transport
from enginehost.databus.reminders import Reminders
from enginehost.databus.replicas import Provider

REACH_SECONDS = 3.0
"""How long a first call waits until its provider is connected."""

MISSED_SECONDS = 1.5
"""How long a call that may have run waits for a provider that went out of sight."""
LOOK_SECONDS = 0.01


class Presence:
    """Reaches providers, and looks for those again that calls wait for."""

    def __init__(self, transport: Transport, outgoing: Outgoing, reminders: Reminders) -> None:
        self._transport = transport
        self._outgoing = outgoing
        self._reminders = reminders

    async def reaches(self, provider: Provider, patience: float = REACH_SECONDS) -> bool:
        """Whether the provider takes requests, which may take a moment to find out the first time."""
        if provider.reached or provider.gone:
            return not provider.gone
        if provider.reaching is None:
            work = self._transport.reach(provider.partition, provider.participant, patience)
            provider.reaching = asyncio.ensure_future(work)
        task = provider.reaching
        try:
            provider.reached = await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():
                raise
        finally:
            if task.done():
                provider.reaching = None
        return provider.reached and not provider.gone

    def gone(self, provider: Provider) -> None:
        """The provider is not heard of any more."""
        if provider.gone:
            return
        provider.gone = True
        if provider.reaching is not None:
            provider.reaching.cancel()
        for exchange in tuple(provider.exchanges):
            self.missed(exchange)
        if provider.incarnation:
            self._transport.forget(provider.partition)

    def missed(self, exchange: Exchange) -> None:
        """Its provider is out of sight.

        A call that may be asked of somebody else is, at once; another one waits a moment for a return: a
        provider on a machine that is too busy for a while has not lost its calls.
        """
        moves = exchange.ask.repeatable or (exchange.wanted.get("ack") and not exchange.accepted)
        if moves or not exchange.provider.incarnation:
            exchange.lose()
        elif not exchange.missed:
            exchange.missed = True
            self._outgoing.watch_over(self._sought(exchange))

    async def _sought(self, exchange: Exchange) -> None:
        until = time.monotonic() + MISSED_SECONDS
        while time.monotonic() < until and not exchange.answer.done():
            await asyncio.sleep(LOOK_SECONDS)
            if await self.reaches(exchange.provider, 0.1):
                exchange.missed = False
                self._reminders.ask_again(exchange)
                return
        exchange.lose()
