"""An agent on the databus beside a program that talks to it directly."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from enginehost.engine import no_sessions
from enginehost.genesis.agent import Agent, folder_of
from enginehost.genesis.alone import serving

if TYPE_CHECKING:
    from enginehost.settings import HostSettings

_SETTLE_SECONDS = 1.5
"""How long the first message waits for the functions of others at most."""


class Background:
    """Owns the task in which an agent's host lives."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] | None = None
        self._end = asyncio.Event()

    async def start(self, agent: Agent, *, settings: HostSettings | None = None) -> None:
        """Go on the databus, and see what there is. Raises what :func:`serving` raises."""
        if self._ready is None:
            self._ready = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._serve(agent, settings, self._ready))
        try:
            await asyncio.shield(self._ready)
        except Exception:
            self._task = self._ready = None  # the next one tries again
            raise

    async def stop(self) -> bool:
        """Leave it. Whether that was done: not where there is none, nor for the host that ends in here."""
        task = self._task
        if task is None or task is asyncio.current_task():
            return False
        self._task, self._ready = None, None
        self._end.set()
        try:
            await task
        finally:
            self._end.clear()
        return True

    async def _serve(self, agent: Agent, settings: HostSettings | None, ready: asyncio.Future[None]) -> None:
        try:
            async with serving(
                agent,
                agent.service_on_bus,
                folder=folder_of(None),
                settings=settings,
                brings=agent.bring_model,
            ) as host:
                if host.bus is not None:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(host.bus.settled(), _SETTLE_SECONDS)
                ready.set_result(None)
                await self._end.wait()
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)
        finally:
            agent.context = replace(agent.context, agents=no_sessions)  # those of a host that is no more
