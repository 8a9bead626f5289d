"""Serving many calls at once on an event loop: what ``async def`` functions and engine classes want."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncGenerator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any

from enginehost.errors import TooLarge
from enginehost.values import pack, unpack
from enginehost_engines.worker import forks, memory_guard
from enginehost_engines.worker.async_channel import AsyncChannel
from enginehost_engines.worker.async_stream import AsyncStream
from enginehost_engines.worker.child import Channel, about, describe, log_payload
from enginehost_engines.worker.crossing import packed, read_call
from enginehost_engines.worker.eager import begin
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
    ITEMS,
    LOG,
    READY,
    RESULT,
    STREAM,
    Frame,
)

_CLOSE_SECONDS = 2.0
"""How long calls and the target may take to end after the host has gone."""

_DONE: Any = object()


def serve_concurrently(channel: Channel, output: Output, order: Mapping[str, Any], imports: Imports) -> None:
    """Load the target and serve the host until it closes the connection."""
    asyncio.run(_serve(channel, output, order, imports))


async def _serve(channel: Channel, output: Output, order: Mapping[str, Any], imports: Imports) -> None:
    try:
        target = load(order)
        await target.open()
        memory_guard.arm(order["memory_mb"])
        ready = about(target, imports)
    except BaseException as error:  # noqa: BLE001 - user code may raise anything, SystemExit too
        channel.fail_to_load(error, imports)
        return
    output.ended(0)
    channel.send(READY, 0, ready)
    server = AsyncServer(channel, output, target, imports)
    await server.gone.wait()
    await server.stop()


class AsyncServer:
    """One task for each call; sync functions one at a time on a thread."""

    def __init__(self, channel: Channel, output: Output, target: Target, imports: Imports) -> None:
        self.gone = asyncio.Event()
        self._imports = imports
        self._output = output
        self._target = target
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._streams: dict[int, AsyncStream] = {}
        self._on_thread: set[int] = set()
        self._threads = ThreadPoolExecutor(1)
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._channel = AsyncChannel(channel.sock, channel.area, self._received, self.gone.set)
        self._send = self._channel.send
        self._area = channel.area
        self._read = memory_guard.without(read_call)
        self._packed = memory_guard.without(packed)
        # from here on the socket is the loop's: other threads hand their output to it
        output.redirect(self._log)
        target.on_change = self._changed

    async def stop(self) -> None:
        """End what runs, then the target, within the time there is."""
        for task in self._tasks.values():
            task.cancel()
        with suppress(asyncio.TimeoutError):  # in the oldest Python not yet the built-in one
            await asyncio.wait_for(self._ended(), _CLOSE_SECONDS)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _ended(self) -> None:
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._target.close()

    def _received(self, received: Frame) -> None:
        """Start, feed and cancel calls."""
        kind, call_id, payload = received
        if kind in (CALL, STREAM):
            self._area.begin(call_id)
            task = begin(self._run(kind, call_id, payload), self._loop)
            if not task.done():
                self._tasks[call_id] = task
                task.add_done_callback(partial(self._forget, call_id))
        elif kind == DESCRIBE:
            self._describe(call_id, payload)
        elif kind == CREDIT and call_id in self._streams:
            self._streams[call_id].more(CREDIT_PAYLOAD.unpack(payload)[0])
        elif kind == CANCEL and call_id in self._tasks and call_id not in self._on_thread:
            self._tasks[call_id].cancel()
            self._send(CANCELLING, call_id)

    def _forget(self, call_id: int, task: asyncio.Task[None]) -> None:
        del self._tasks[call_id]

    async def _run(self, kind: int, call_id: int, payload: bytes) -> None:
        CALL_ID.set(call_id)
        try:
            function, arguments, call, limit = self._read(payload)
            if kind == STREAM:
                await self._stream(call_id, limit, self._target.invoke(function, arguments, call))
                answer = END, b""
            else:
                if self._target.is_sync(function):
                    value = await self._threaded(call_id, self._target.invoke, function, arguments, call)
                else:
                    value = self._target.invoke(function, arguments, call)
                    if hasattr(value, "__await__"):
                        value = await value
                answer = RESULT, self._packed(value, limit)
        except BaseException as error:  # noqa: BLE001 - the call boundary: SystemExit hurts only its call
            answer = ERROR, describe(error)
        if forks.is_child():
            forks.leave()
        self._output.ended(call_id)
        try:
            self._send(answer[0], call_id, answer[1])
        except (TooLarge, MemoryError) as error:  # it fits no frame
            self._send(ERROR, call_id, describe(error))
        if self._imports.grew():
            self._send_changed()

    def _describe(self, call_id: int, payload: bytes) -> None:
        try:
            self._send(RESULT, call_id, pack(self._target.describe(*unpack(payload))))
        except Exception as error:  # noqa: BLE001 - a script's names may be anything
            self._send(ERROR, call_id, describe(error))

    async def _threaded(self, call_id: int, function: Any, *arguments: Any) -> Any:
        self._on_thread.add(call_id)
        try:
            run = partial(copy_context().run, function, *arguments)
            return await self._loop.run_in_executor(self._threads, run)
        finally:
            self._on_thread.discard(call_id)

    async def _stream(self, call_id: int, limit: int | None, value: Any) -> None:
        items: Any = value if inspect.isasyncgen(value) else self._sync_items(call_id, value)
        stream = self._streams[call_id] = AsyncStream(partial(self._send, ITEMS, call_id), limit, self._loop)
        try:
            await stream.run(items)
        finally:
            del self._streams[call_id]
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

    def _log(self, call_id: int, level: int, text: Any) -> None:
        payload = log_payload(level, text)
        if threading.get_ident() == self._thread:
            self._send(LOG, call_id, payload)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._send, LOG, call_id, payload)

    def _changed(self) -> None:
        self._loop.call_soon_threadsafe(self._send_changed)

    def _send_changed(self) -> None:
        self._send(CHANGED, 0, about(self._target, self._imports))
