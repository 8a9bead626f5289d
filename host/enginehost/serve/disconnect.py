"""Noticing that the client went away, so that its call does not run on for nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.types import Receive

from enginehost.errors import OutcomeUnknown

_PATIENCE = 0.02
"""Seconds a call runs before anybody looks: a shorter one ends before its end would be noticed."""


class Watch:
    """Cancels the task that made it when the client goes away, until :meth:`stop`.

    ``beat`` is awaited every ``every`` seconds meanwhile (a stream's sign of life).
    """

    __slots__ = ("_beat", "_every", "_receive", "_task", "_timer", "_watcher", "gone")

    def __init__(
        self,
        receive: Receive,
        *,
        beat: Callable[[], Awaitable[None]] | None = None,
        every: float | None = None,
    ) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a request runs in an asyncio task")
        self._task = task
        self._receive = receive
        self._beat = beat
        self._every = every
        self._watcher: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(_PATIENCE, self._start)
        self.gone = False
        """Whether the client went away (and the cancellation is ours)."""

    def stop(self) -> None:
        """Look no longer."""
        self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()

    def settle(self) -> None:
        """Answer the cancellation that arrived: take ours back, raise for one from outside.

        From outside means that the server stops and waits no longer; the client still listens.
        """
        self._task.uncancel()
        if not self.gone:
            raise OutcomeUnknown("the host stopped before the call ended") from None

    def _start(self) -> None:
        self._watcher = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._every):
                    message = await self._receive()
            except TimeoutError:
                if self._beat is not None:
                    await self._beat()
                continue
            if message["type"] == "http.disconnect":
                self.gone = True
                self._task.cancel()
                return
