"""Serving one call at a time on the main thread: what plain ``def`` functions want."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from enginehost.values import pack, unpack
from enginehost_engines.worker.child import Channel, about
from enginehost_engines.worker.imports import Imports
from enginehost_engines.worker.output import CALL_ID, Output
from enginehost_engines.worker.targets import Target
from enginehost_engines.worker.wire import (
    CALL,
    CANCEL,
    CHANGED,
    CREDIT,
    CREDIT_PAYLOAD,
    DESCRIBE,
    END,
    ITEM,
    READY,
    RESULT,
    STREAM,
    WINDOW,
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
        self._finish: Callable[[Any], Any] | None = None

    def run(self) -> None:
        """Serve until the host is gone."""
        self._channel.send(READY, 0, about(self._target, self._imports))
        while (received := self._channel.receive()) is not None:
            kind, call_id, payload = received
            if kind == CALL:
                self._serve(call_id, payload, self._call)
            elif kind == STREAM:
                self._serve(call_id, payload, self._stream)
            elif kind == DESCRIBE:
                self._describe(call_id, payload)

    def _serve(self, call_id: int, payload: bytes, answer: Callable[[int, Any], None]) -> None:
        CALL_ID.set(call_id)
        try:
            function, arguments, call = unpack(payload)
            answer(call_id, self._target.invoke(function, arguments, call))
        except BaseException as error:  # noqa: BLE001 - the call boundary: SystemExit hurts only its call
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

    def _call(self, call_id: int, value: Any) -> None:
        if hasattr(value, "__await__"):
            value = self._await(value)
        result = pack(value)
        self._output.ended(call_id)
        self._channel.send(RESULT, call_id, result)

    def _stream(self, call_id: int, value: Any) -> None:
        credit = WINDOW
        items = self._items(value)
        try:
            for item in items:
                credit += self._news(call_id, wait=credit == 0)
                self._channel.send(ITEM, call_id, pack(item))
                credit -= 1
        except _Left:
            pass
        finally:
            items.close()
        self._output.ended(call_id)
        self._channel.send(END, call_id)

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

    def _news(self, call_id: int, wait: bool) -> int:
        """What the reader said meanwhile: items it took. Raises ``_Left`` when it left."""
        taken = 0
        while (wait and taken == 0) or self._channel.waiting():
            received = self._channel.receive()
            if received is None:
                raise _Left
            kind, about, payload = received
            if about == call_id and kind == CANCEL:
                raise _Left
            if about == call_id and kind == CREDIT:
                taken += CREDIT_PAYLOAD.unpack(payload)[0]
        return taken

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
