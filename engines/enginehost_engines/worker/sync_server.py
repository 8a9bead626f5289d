"""Serving one call at a time on the main thread: what plain ``def`` functions want."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from enginehost.values import pack, unpack
from enginehost_engines.worker import forks, memory_guard
from enginehost_engines.worker.child import Channel, about
from enginehost_engines.worker.crossing import packed, read_call
from enginehost_engines.worker.imports import Imports
from enginehost_engines.worker.output import CALL_ID, Output
from enginehost_engines.worker.sync_stream import SyncStream
from enginehost_engines.worker.targets import Target
from enginehost_engines.worker.wire import (
    CALL,
    CANCEL,
    CHANGED,
    CREDIT,
    CREDIT_PAYLOAD,
    DESCRIBE,
    END,
    ITEMS,
    READY,
    RESULT,
    STREAM,
)


class _Left(Exception):
    """The reader of a stream wants no more of it."""


class SyncServer:
    """Reads a call, runs it, answers; the next one waits in the socket."""

    def __init__(self, channel: Channel, output: Output, target: Target, imports: Imports) -> None:
        self._imports = imports
        self._channel = channel
        self._output = output
        self._target = target
        # all else runs without the limit of memory
        self._read = memory_guard.without(read_call)
        self._invoke = memory_guard.within(target.invoke)
        self._finished = memory_guard.within(self._await)
        self._send_items = memory_guard.within(self._send_all)
        self._packed = memory_guard.without(packed)
        self._finish: Callable[[Any], Any] | None = None

    def run(self) -> None:
        """Serve until the host is gone."""
        with memory_guard.lifted:
            self._run()

    def _run(self) -> None:
        self._channel.send(READY, 0, about(self._target, self._imports))
        while (received := self._channel.receive()) is not None:
            kind, call_id, payload = received
            if self._channel.revoked(call_id):
                self._channel.send(END, call_id)
            elif kind == CALL:
                self._serve(call_id, payload, self._call)
            elif kind == STREAM:
                self._serve(call_id, payload, self._stream)
            elif kind == DESCRIBE:
                self._describe(call_id, payload)

    def _serve(self, call_id: int, payload: bytes, answer: Callable[[int, Any, int | None], None]) -> None:
        CALL_ID.set(call_id)
        try:
            function, arguments, call, limit = self._read(payload)
            answer(call_id, self._invoke(function, arguments, call), limit)
        except BaseException as error:  # noqa: BLE001 - the call boundary: SystemExit hurts only its call
            if forks.is_child():
                forks.leave(error)
            self._output.ended(call_id)
            self._channel.fail(call_id, error)
        CALL_ID.set(0)
        if self._imports.grew():
            self._channel.send(CHANGED, 0, about(self._target, self._imports))

    def _describe(self, call_id: int, payload: bytes) -> None:
        try:
            self._channel.send(RESULT, call_id, pack(self._target.describe(*unpack(payload))))
        except Exception as error:  # noqa: BLE001 - a script's names may be anything
            self._channel.fail(call_id, error)

    def _call(self, call_id: int, value: Any, limit: int | None) -> None:
        if hasattr(value, "__await__"):
            value = self._finished(value)
        result = self._packed(value, limit)
        self._output.ended(call_id)
        self._channel.send(RESULT, call_id, result)

    def _stream(self, call_id: int, value: Any, limit: int | None) -> None:
        self._send_items(call_id, value, limit)
        self._output.ended(call_id)
        self._channel.send(END, call_id)

    def _send_all(self, call_id: int, value: Any, limit: int | None) -> None:
        items = self._items(value)
        stream = SyncStream(partial(self._channel.send, ITEMS, call_id))
        try:
            for item in items:
                data = self._packed(item, limit)
                if not stream.room or (not stream.holds and self._channel.waiting()):
                    self._hear(call_id, stream)
                stream.add(data)
        except _Left:
            pass
        finally:
            stream.end()
            items.close()

    def _items(self, value: Any) -> Any:
        """The items of a generator of either colour; one item of anything else."""
        if inspect.isasyncgen(value):
            return self._async_items(value)
        if inspect.isgenerator(value):
            return value
        return _one(self._await(value) if inspect.isawaitable(value) else value)

    def _async_items(self, items: Any) -> Iterator[Any]:
        try:
            while True:
                try:
                    yield self._await(anext(items))
                except StopAsyncIteration:
                    return
        finally:
            self._await(items.aclose())

    def _hear(self, call_id: int, stream: SyncStream) -> None:
        """What the reader said meanwhile: items it asks for. Raises ``_Left`` when it left."""
        while not stream.room or self._channel.waiting():
            received = self._channel.receive()
            if received is None:
                raise _Left
            kind, about, payload = received
            if about == call_id and kind == CANCEL:
                raise _Left
            if about == call_id and kind == CREDIT:
                stream.more(CREDIT_PAYLOAD.unpack(payload)[0])

    def _await(self, awaitable: Any) -> Any:
        """Run an awaitable to its end on a loop of this worker's own, made at the first one."""
        if self._finish is None:
            import asyncio

            self._finish = asyncio.new_event_loop().run_until_complete
        return self._finish(_ended(awaitable))


async def _ended(awaitable: Any) -> Any:
    return await awaitable


def _one(value: Any) -> Iterator[Any]:
    yield value
