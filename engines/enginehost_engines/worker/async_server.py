"""Serving many calls at once on an event loop: what ``async def`` functions and engine classes want."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncGenerator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any

from enginehost.values import pack, unpack
from enginehost_engines.worker.child import Channel, about, describe, log_payload
from enginehost_engines.worker.imports import Imports
from enginehost_engines.worker.output import CALL_ID, Output
from enginehost_engines.worker.targets import Target, load
from enginehost_engines.worker.wire import (
    CALL,
    CANCEL,
    CANCELLING,
    CHANGED,
    CREDIT,
    CREDIT_PAYLOAD,
    DESCRIBE,
    END,
    ERROR,
    ITEM,
    LOG,
    READY,
    RESULT,
    STREAM,
    WINDOW,
    FrameReader,
    frame,
)

_CLOSE_SECONDS = 2.0
"""How long calls and the target may take to end after the host has gone."""

_DONE: Any = object()


def serve_concurrently(channel: Channel, output: Output, order: Mapping[str, Any], imports: Imports) -> None:
    """Load the target and serve the host until it closes the connection."""
    asyncio.run(_serve(channel, output, order, imports))


async def _serve(channel: Channel, output: Output, order: Mapping[str, Any], imports: Imports) -> None:
    loop = asyncio.get_running_loop()
    try:
        target = load(order)
        await target.open()
        ready = about(target, imports)
    except BaseException as error:  # noqa: BLE001 - user code may raise anything, SystemExit too
        channel.fail_to_load(error, imports)
        return
    output.ended(0)
    channel.send(READY, 0, ready)
    server = AsyncServer(output, target, imports)
    channel.sock.setblocking(False)
    await loop.create_connection(lambda: server, sock=channel.sock)
    await server.gone.wait()
    await server.stop()


class AsyncServer(asyncio.Protocol):
    """One task for each call; sync functions one at a time on a thread."""

    def __init__(self, output: Output, target: Target, imports: Imports) -> None:
        self._imports = imports
        self.gone = asyncio.Event()
        self._output = output
        self._target = target
        self._reader = FrameReader()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._credit: dict[int, asyncio.Semaphore] = {}
        self._on_thread: set[int] = set()
        self._threads = ThreadPoolExecutor(1)
        self._transport: Any = None
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The host is there."""
        self._transport = transport
        # from here on the socket is the transport's: other threads hand their output to the loop
        self._output.redirect(self._log)
        self._target.on_change = self._changed

    def connection_lost(self, exc: Exception | None) -> None:
        """The host has gone."""
        self.gone.set()

    def data_received(self, data: bytes) -> None:
        """Start, feed and cancel calls."""
        for kind, call_id, payload in self._reader.feed(data):
            if kind in (CALL, STREAM):
                self._tasks[call_id] = self._loop.create_task(self._run(kind, call_id, payload))
            elif kind == DESCRIBE:
                self._describe(call_id, payload)
            elif kind == CREDIT and call_id in self._credit:
                for _ in range(CREDIT_PAYLOAD.unpack(payload)[0]):
                    self._credit[call_id].release()
            elif kind == CANCEL and call_id in self._tasks and call_id not in self._on_thread:
                # not at once: a task that is cancelled before its first step would never answer
                self._loop.call_soon(self._tasks[call_id].cancel)
                self._send(CANCELLING, call_id)

    async def stop(self) -> None:
        """End what runs, then the target, within the time there is."""
        for task in self._tasks.values():
            task.cancel()
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await asyncio.gather(*self._tasks.values(), return_exceptions=True)
                await self._target.close()
        except TimeoutError:
            pass
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, kind: int, call_id: int, payload: bytes) -> None:
        CALL_ID.set(call_id)
        try:
            function, arguments, call = unpack(payload)
            if kind == CALL:
                answer = RESULT, pack(await self._result(call_id, function, arguments, call))
            else:
                await self._stream(call_id, function, arguments, call)
                answer = END, b""
        except BaseException as error:  # noqa: BLE001 - the call boundary: SystemExit hurts only its call
            answer = ERROR, describe(error)
        finally:
            self._tasks.pop(call_id, None)
        self._output.ended(call_id)
        self._send(answer[0], call_id, answer[1])
        if self._imports.grew():
            self._send_changed()

    def _describe(self, call_id: int, payload: bytes) -> None:
        try:
            self._send(RESULT, call_id, pack(self._target.describe(*unpack(payload))))
        except Exception as error:  # noqa: BLE001 - a script's names may be anything
            self._send(ERROR, call_id, describe(error))

    async def _result(self, call_id: int, function: str, arguments: dict[str, Any], call: Any) -> Any:
        if self._target.is_sync(function):
            return await self._threaded(call_id, self._target.invoke, function, arguments, call)
        value = self._target.invoke(function, arguments, call)
        return await value if inspect.isawaitable(value) else value

    async def _threaded(self, call_id: int, function: Any, *arguments: Any) -> Any:
        self._on_thread.add(call_id)
        try:
            run = partial(copy_context().run, function, *arguments)
            return await self._loop.run_in_executor(self._threads, run)
        finally:
            self._on_thread.discard(call_id)

    async def _stream(self, call_id: int, function: str, arguments: dict[str, Any], call: Any) -> None:
        credit = self._credit[call_id] = asyncio.Semaphore(WINDOW)
        value = self._target.invoke(function, arguments, call)
        items: Any = value if inspect.isasyncgen(value) else self._sync_items(call_id, value)
        try:
            async for item in items:
                await credit.acquire()
                self._send(ITEM, call_id, pack(item))
        finally:
            del self._credit[call_id]
            await items.aclose()

    async def _sync_items(self, call_id: int, value: Any) -> AsyncGenerator[Any, None]:
        if not inspect.isgenerator(value):
            yield await value if inspect.isawaitable(value) else value
            return
        try:
            while (item := await self._threaded(call_id, next, value, _DONE)) is not _DONE:
                yield item
        finally:
            value.close()

    def _send(self, kind: int, call_id: int, payload: bytes = b"") -> None:
        self._transport.write(frame(kind, call_id, payload))

    def _log(self, call_id: int, level: int, text: str) -> None:
        payload = log_payload(level, text)
        if threading.get_ident() == self._thread:
            self._send(LOG, call_id, payload)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._send, LOG, call_id, payload)

    def _changed(self) -> None:
        self._loop.call_soon_threadsafe(self._send_changed)

    def _send_changed(self) -> None:
        self._send(CHANGED, 0, about(self._target, self._imports))
