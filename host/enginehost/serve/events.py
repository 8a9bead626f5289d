"""Results as server-sent events: ``item`` for each item of a streaming function, ``result`` for the one
result of a plain one, then ``done``; or ``error`` with a problem document, which is the last.

Until the first event nothing is sent, so that a call that fails at once has its HTTP status.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from starlette.types import Send

from enginehost.errors import EngineHostError
from enginehost.serve.problem import HeaderList, problem_json

QUIET_SECONDS = 15.0
"""A comment is sent after so long without an event: proxies close connections that look dead."""
_EVENT_STREAM: HeaderList = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class EventStream:
    """One response of server-sent events. ``headers`` gives the call's own headers when it has begun."""

    def __init__(self, send: Send, headers: Callable[[], HeaderList]) -> None:
        self._send = send
        self._headers = headers
        self._quiet = True
        self.started = False

    async def send_all(self, items: AsyncIterator[bytes], name: bytes) -> None:
        """Send each of ``items`` (JSON) as an event ``name``, and the end."""
        count = 0
        async for item in items:
            await self.event(name, item)
            count += 1
        await self.event(b"done", b'{"items":%d}' % count)
        await self.end()

    async def fail(self, error: EngineHostError, call_id: str) -> None:
        """Send ``error`` as the last event."""
        await self.event(b"error", problem_json(error, call_id))
        await self.end()

    async def beat(self) -> None:
        """Send a comment if nothing was sent since the last beat."""
        if self._quiet:
            await self._write(b": still running\n\n")
        self._quiet = True

    async def event(self, name: bytes, data: bytes) -> None:
        """Send one event; ``data`` is JSON."""
        self._quiet = False
        await self._write(b"event: %b\ndata: %b\n\n" % (name, data))

    async def open(self) -> None:
        """Send what comes before all events, where the client has to know at once that it is heard."""
        await self._write(b"retry: 1000\n\n")

    async def end(self) -> None:
        """Nothing comes any more."""
        await self._send({"type": "http.response.body", "body": b""})

    async def _write(self, chunk: bytes) -> None:
        if not self.started:
            self.started = True
            headers = [*_EVENT_STREAM, *self._headers()]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
