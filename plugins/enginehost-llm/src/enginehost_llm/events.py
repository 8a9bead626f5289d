"""The events of a response of ``llm``, from the loop or from a thread."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import anyio
import anyio.to_thread

_END = object()


async def events(response: Any, limiter: anyio.CapacityLimiter) -> AsyncGenerator[Any, None]:
    """The stream events of a response. Closing it closes the model's generator.

    A synchronous model runs on a thread, one step an event; it cannot be stopped in the middle of a step,
    and is closed as soon as that ends.
    """
    if hasattr(response, "astream_events"):
        async with aclosing(response.astream_events()) as stream:
            async for event in stream:
                yield event
        return
    steps = _Steps(response)
    try:
        while True:
            event = await anyio.to_thread.run_sync(steps.step, abandon_on_cancel=True, limiter=limiter)
            if event is _END:
                return
            yield event
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(steps.leave, limiter=limiter)


class _Steps:
    """A synchronous model's generator, of which one thread at a time takes a step."""

    def __init__(self, response: Any) -> None:
        self._stream = response.stream_events()
        self._running = threading.Lock()
        self._left = False

    def step(self) -> Any:
        """The next event."""
        with self._running:
            if self._left:
                return _END
            try:
                return next(self._stream, _END)
            finally:
                if self._left:
                    self._stream.close()

    def leave(self) -> None:
        """No more is wanted: close it now, or let the step that runs do it."""
        self._left = True
        if self._running.acquire(blocking=False):
            try:
                self._stream.close()
            finally:
                self._running.release()
