"""The events of a session as server-sent events, from any of them on, for as long as the client listens.

Each has its position as id: a client that comes back with ``Last-Event-ID``, to this host or another on the
same database, misses nothing and gets nothing twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from enginehost.agents.identity import owner_of
from enginehost.agents.session import check_position, position
from enginehost.errors import EngineHostError, InvalidRequest
from enginehost.serve.events import QUIET_SECONDS
from enginehost.serve.problem import HeaderList, problem_json
from enginehost.serve.sessions.access import agents_of, caller_of
from enginehost.serve.sessions.shapes import event_json
from enginehost.store.port import Event, Owner, Position, Store
from enginehost.values import write

if TYPE_CHECKING:
    from enginehost.host import Host

LOOK_SECONDS = 1.0
"""How often it is seen that the host stops: then the stream ends, and its client goes on elsewhere."""
_MOST_POSITION = 40
_HEADERS: HeaderList = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class Events:
    """``GET /v1/sessions/{id}/events`` as an ASGI application."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one subscriber."""
        request = Request(scope, receive)
        owner, session = owner_of(caller_of(request)), request.path_params["id"]
        after, until_end = _after(request), _until_end(request)
        store = (await agents_of(self._host)).store
        await check_position(store, session, owner, after or Position())
        place = store, session, owner, after
        events = _until(*place) if until_end else store.events(session, owner, after)
        await _Subscriber(self._host, receive, send).serve(events)


def _after(request: Request) -> Position | None:
    """Where to go on: the header, which a browser sends when it comes back, before the query string."""
    text = request.headers.get("last-event-id") or request.query_params.get("after")
    if text is not None and len(text) > _MOST_POSITION:
        raise InvalidRequest("that is no position in a session's events, such as 12.0")
    return position(text or None)


def _until_end(request: Request) -> bool:
    text = request.query_params.get("until")
    if text not in (None, "run-end"):
        raise InvalidRequest("until must be run-end, or left out")
    return text is not None


async def _until(
    store: Store, session: str, owner: Owner, after: Position | None
) -> AsyncGenerator[Event, None]:
    """The events up to the end of the latest turn; where that has ended, up to what is stored."""
    runs = await store.runs(session, owner)
    going = runs[0].id if runs and not runs[0].state.ended else ""
    end = _order(await store.end(session, owner))
    if not going and _order(after or Position()) >= end:
        return
    async with aclosing(store.events(session, owner, after)) as events:
        async for event in events:
            yield event
            run = event.run
            if run is not None and run.state.ended and run.id == going:
                return
            if not going and _order(event.at) >= end:
                return


def _order(position: Position) -> tuple[int, int]:
    return position.sequence, position.offset


class _Subscriber:
    def __init__(self, host: Host, receive: Receive, send: Send) -> None:
        self._host, self._receive, self._send = host, receive, send
        self._quiet = 0.0
        self._ready = False

    async def serve(self, events: AsyncGenerator[Event, None]) -> None:
        """Send events until they end, the client leaves, or the host stops."""
        await self._send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
        await self._write(b"retry: 1000\n\n")
        sending = asyncio.create_task(self._send_all(events))
        leaving = asyncio.create_task(self._until_left())
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
            leaving.cancel()
            await asyncio.wait({sending, leaving})
        error = None if sending.cancelled() or self._stopping() else sending.exception()
        if error is not None:  # but for a host that stops: its client goes on elsewhere
            failure = error if isinstance(error, EngineHostError) else EngineHostError("the host failed")
            await self._write(b"event: error\ndata: %b\n\n" % problem_json(failure))
        await self._send({"type": "http.response.body", "body": b""})

    async def _send_all(self, events: AsyncGenerator[Event, None]) -> None:
        async with aclosing(events):
            async for event in events:
                name, data = event_json(event)
                await self._write(
                    b"id: %b\nevent: %b\ndata: %b\n\n" % (str(event.at).encode(), name.encode(), write(data))
                )

    async def _until_left(self) -> None:
        while not self._stopping():
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    message = await self._receive()
            except TimeoutError:
                await self._beat()
                continue
            if message["type"] == "http.disconnect":
                return

    def _stopping(self) -> bool:
        self._ready = self._ready or self._host.ready
        return self._ready and not self._host.ready

    async def _beat(self) -> None:
        self._quiet += LOOK_SECONDS
        if self._quiet >= QUIET_SECONDS:
            await self._write(b": still here\n\n")

    async def _write(self, chunk: bytes) -> None:
        self._quiet = 0.0
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
