"""Closing versions of engines that serve no more: after their last call, or when the drain time is over."""

from __future__ import annotations

import asyncio
import logging

from enginehost.catalog import EngineRecord
from enginehost.engine import AbstractFunctionEngine, EngineState, IFunctionEngine
from enginehost.patience import within

CLOSE_SECONDS = 5.0
"""What an engine may take to close at least: to drain for no time is about calls, not about cleaning up."""

_log = logging.getLogger("enginehost.closing")


class Closing:
    """Owns the versions that go. ``drain_seconds`` is what their running calls get."""

    def __init__(self, drain_seconds: float) -> None:
        self._drain_seconds = drain_seconds
        self._hurried = False
        self._waiting: set[asyncio.Event] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        """Those that are not closed yet."""

    def let_go(self, record: EngineRecord) -> None:
        """Close a version when its last call has ended, or when the drain time is over."""
        record.move(EngineState.CLOSING)
        if record.engine is None or (record.running == 0 and _closes_at_once(record.engine)):
            return
        task = asyncio.get_running_loop().create_task(self._drain(record))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def hurry(self) -> None:
        """From now on wait for no calls: who stops the host has."""
        self._hurried = True
        for idle in self._waiting:
            idle.set()

    async def _drain(self, record: EngineRecord) -> None:
        if record.running and not self._hurried:
            await self._idle(record)
        if record.running:
            _log.warning("engine %s is closed with %d calls running", record.engine_id, record.running)
        await self.close_quietly(record)

    async def _idle(self, record: EngineRecord) -> None:
        idle = asyncio.Event()
        record.idle = idle.set
        self._waiting.add(idle)
        try:
            async with asyncio.timeout(self._drain_seconds):
                await idle.wait()
        except TimeoutError:
            pass  # the caller says so
        finally:
            self._waiting.discard(idle)

    async def close_quietly(self, record: EngineRecord) -> None:
        """Close its engine, if it has one; what goes wrong is logged."""
        if record.engine is None:
            return
        seconds = max(self._drain_seconds, CLOSE_SECONDS)
        try:
            await within(record.engine.close(), seconds, f"close() of {record.kind}")
        except Exception:  # noqa: BLE001 - the plugin boundary: one engine's close must not stop the others
            _log.exception("engine %s did not close cleanly", record.engine_id)


def _closes_at_once(engine: IFunctionEngine) -> bool:
    return type(engine).close is AbstractFunctionEngine.close
