"""Updates as server-sent events, for as long as the client listens. Its leaving cancels nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from starlette.types import Receive, Send

from enginehost.errors import EngineHostError, OutcomeUnknown
from enginehost.serve.disconnect import Watch
from enginehost.serve.events import QUIET_SECONDS
from enginehost.serve.problem import HeaderList

_HEADERS: HeaderList = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


async def send_updates(
    updates: AsyncGenerator[bytes, None],
    failed: Callable[[EngineHostError], bytes],
    receive: Receive,
    send: Send,
    headers: HeaderList,
) -> None:
    """Send each update as an event; an error after the first is the last event.

    Raises what comes before the first one.
    """
    started = quiet = False

    async def write(chunk: bytes) -> None:
        nonlocal started, quiet
        if not started:
            started = True
            await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS, *headers]})
        quiet = False
        await send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def beat() -> None:
        nonlocal quiet
        if quiet and started:
            await write(b": still here\n\n")
        quiet = True

    watch = Watch(receive, beat=beat, every=QUIET_SECONDS)
    try:
        async with aclosing(updates):
            async for update in updates:
                await write(b"data: %b\n\n" % update)
    except asyncio.CancelledError:
        try:
            watch.settle()
        except OutcomeUnknown:  # the host stops: the task goes on elsewhere, and so may its client
            if not started:
                raise
    except EngineHostError as error:
        if not started:
            raise
        await write(b"data: %b\n\n" % failed(error))
    finally:
        watch.stop()
    if started:
        await send({"type": "http.response.body", "body": b""})
