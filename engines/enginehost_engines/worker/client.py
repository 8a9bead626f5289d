"""What an engine holds to have its functions run in workers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any

from enginehost.errors import InvalidArguments
from enginehost.values import NotJson, pack
from enginehost_engines.worker.group import Group
from enginehost_engines.worker.pool import current_pool
from enginehost_engines.worker.process import WorkerSpec
from enginehost_engines.worker.replies import CallReply, StreamReply
from enginehost_engines.worker.wire import CALL, CREDIT, CREDIT_PAYLOAD, STREAM


class WorkerClient:
    """Calls functions in workers of one spec; no process exists before the first call.

    ``size`` workers at most, each ended after ``idle`` seconds without a call (``None``: never).
    ``most`` raises or lowers the number of worker processes of the whole event loop.
    """

    __slots__ = ("_group", "_idle", "_log", "_most", "_size", "_spec")

    def __init__(
        self,
        spec: WorkerSpec,
        log: logging.Logger,
        *,
        size: int = 1,
        idle: float | None = None,
        most: int | None = None,
    ) -> None:
        self._spec = spec
        self._log = log
        self._size = size
        self._idle = idle
        self._most = most
        self._group: Group | None = None

    @property
    def group(self) -> Group:
        """The group of workers, joined when first asked for (on the event loop)."""
        if self._group is None:
            pool = current_pool()
            if self._most is not None:
                pool.most = self._most
            self._group = pool.join(self._spec, self._log, self._size, self._idle)
        return self._group

    async def describe(self) -> Any:
        """What the target says of itself; starts a worker if there is none."""
        group = self.group
        worker = await group.lease()
        group.release(worker)
        return worker.info

    async def call(self, function: str, arguments: dict[str, Any], about: Any = None) -> Any:
        """Run a function once. Raises what it raised; ends it when cancelled."""
        payload = _payload(function, arguments, about)
        group = self._group or self.group
        worker = group.take() or await group.lease()
        reply = CallReply(self._log)
        try:
            call_id = worker.send(CALL, payload, reply)
            try:
                return await reply.result()
            except (asyncio.CancelledError, GeneratorExit):
                group.abandon(worker, call_id)
                raise
        finally:
            group.release(worker)

    async def stream(
        self, function: str, arguments: dict[str, Any], about: Any = None
    ) -> AsyncGenerator[Any, None]:
        """The items of a function as they come; leaving early ends it."""
        payload = _payload(function, arguments, about)
        group = self.group
        worker = await group.lease()
        reply = StreamReply(self._log, lambda: group.release(worker))
        try:
            call_id = worker.send(STREAM, payload, reply)
        except BaseException:
            group.release(worker)
            raise
        reply.credit = lambda taken: worker.say(CREDIT, call_id, CREDIT_PAYLOAD.pack(taken))
        try:
            while True:
                try:
                    item = await reply.next()
                except StopAsyncIteration:
                    return
                yield item
        finally:
            worker.abandon(call_id)

    async def close(self) -> None:
        """End the workers, unless another engine uses them."""
        if self._group is not None:
            group, self._group = self._group, None
            await group.leave()


def _payload(function: str, arguments: dict[str, Any], about: Any) -> bytes:
    try:
        return pack([function, arguments, about])
    except NotJson as error:
        pointer = error.pointer.removeprefix("/1")
        raise InvalidArguments(
            f"{function}: an argument cannot be sent to the worker: {error.message}",
            errors=[{"pointer": pointer, "message": error.message}],
        ) from error
