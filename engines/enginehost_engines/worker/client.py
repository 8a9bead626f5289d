"""What an engine holds to have its functions run in workers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any

from enginehost.engine import RunMode, Waited, current_call
from enginehost.errors import InvalidArguments
from enginehost.values import LARGE, MalformedJson, NotJson, aside, pack, unpack
from enginehost_engines.worker.calls import with_asked
from enginehost_engines.worker.crossing import call_frame
from enginehost_engines.worker.group import Group, Listener
from enginehost_engines.worker.lanes import Lanes
from enginehost_engines.worker.pool import current_pool
from enginehost_engines.worker.replies import CallReply, StreamReply
from enginehost_engines.worker.spec import WorkerSpec
from enginehost_engines.worker.wire import CALL, DESCRIBE, RESULT, STREAM

CHECK_TURN_SECONDS = 5.0
"""How long a new version waits for its turn to be tried. Where hundreds change at once, the others serve
untried, as they do when the host starts."""


class WorkerClient:
    """Calls functions in workers of one spec; no process exists before the first call.

    ``size`` calls of this client run side by side (in concurrent workers: that is the number of
    processes). ``listener`` hears what becomes of the code. ``most`` raises or lowers the number of worker
    processes of the whole event loop.
    """

    __slots__ = ("_group", "_lanes", "_listener", "_log", "_most", "_size", "_spec")

    def __init__(
        self,
        spec: WorkerSpec,
        log: logging.Logger,
        listener: Listener | None = None,
        *,
        size: int = 1,
        most: int | None = None,
    ) -> None:
        self._spec = spec
        self._log = log
        self._listener = listener
        self._size = size
        self._most = most
        self._lanes: Lanes | None = None
        self._group: Group | None = None

    @property
    def group(self) -> Group:
        """The group of workers, joined when first asked for (on the event loop)."""
        if self._group is None:
            pool = current_pool()
            if self._most is not None:
                pool.most = self._most
            self._group = pool.join(self._spec, self._log, self._listener, self._size)
            self._spec = self._group.spec  # equal, and kept once
        return self._group

    def prepare(self) -> None:
        """Start as many workers as calls can use, as far as there is room, and do not wait for them."""
        self.group.prepare(self._size)

    async def load(self) -> Any:
        """What the target says of itself; starts a worker if there is none."""
        group = self.group
        worker = await group.lease()
        group.release(worker)
        return worker.info

    async def mode_of(self, function: str) -> RunMode:
        """How a function runs, by what it is once the code is loaded.

        Raises ``EngineUnavailable`` where the code cannot be loaded, and what stands for a ``NameError``
        where it has no such function. May start one process more than there should be.
        """
        group = self.group
        worker = await group.lease(beyond=True)
        reply = CallReply(self._log, function)
        try:
            call_id = worker.send(DESCRIBE, pack([function]), reply)
            try:
                return RunMode(await reply.result())
            except asyncio.CancelledError:
                group.abandon(worker, call_id)
                raise
        finally:
            group.release(worker)

    async def call(self, function: str, arguments: dict[str, Any], name: str, about: Any = None) -> Any:
        """Run a function once. Raises what it raised; ends it when cancelled.

        ``name`` is what callers know it by, ``about`` what it may know of the call.
        """
        current = current_call()
        about = with_asked(about, current)
        sent = function, arguments, name, about, current.max_result_bytes if current is not None else None
        is_large = current is not None and current.large
        payload = await aside(_payload, *sent) if is_large else _payload(*sent)
        reply = CallReply(self._log, name, CALL, payload)
        lanes = self._lanes or self._made()
        lanes.send(reply)
        try:
            kind, answer = await reply.answer
        except BaseException as error:
            if isinstance(error, (asyncio.CancelledError, GeneratorExit)) and (why := lanes.leave(reply)):
                error.args = (Waited(why),)
            raise
        try:
            if kind == RESULT and len(answer) < LARGE:
                return unpack(answer)
            return await reply.value(kind, answer)
        except MalformedJson:
            raise reply.unreadable() from None

    async def stream(
        self, function: str, arguments: dict[str, Any], name: str, about: Any = None
    ) -> AsyncGenerator[Any, None]:
        """The items of a function as they come; leaving early ends it."""
        current = current_call()
        about = with_asked(about, current)
        sent = function, arguments, name, about, current.max_result_bytes if current is not None else None
        is_large = current is not None and current.large
        payload = await aside(_payload, *sent) if is_large else _payload(*sent)
        reply = StreamReply(self._log, name, STREAM, payload)
        lanes = self._lanes or self._made()
        lanes.send(reply)
        try:
            while True:
                try:
                    item = await reply.next()
                except StopAsyncIteration:
                    return
                yield item
        except asyncio.CancelledError as error:
            if why := lanes.leave(reply):
                error.args = (Waited(why),)
            raise
        finally:
            lanes.leave(reply)

    async def close(self) -> None:
        """End the workers, unless another engine uses them."""
        if self._lanes is not None:
            self._lanes.shut()
            self._lanes = None
        if self._group is not None:
            group, self._group = self._group, None
            await group.leave(self._listener)

    def _made(self) -> Lanes:
        self._lanes = Lanes(self.group, self._size)
        return self._lanes


async def may_check() -> bool:
    """Take a turn at trying a new version, to be given back to ``current_pool().checks``."""
    try:
        async with asyncio.timeout(CHECK_TURN_SECONDS):
            return await current_pool().checks.acquire()
    except TimeoutError:
        return False


def _payload(function: str, arguments: dict[str, Any], name: str, about: Any, limit: int | None) -> bytes:
    try:
        return call_frame(function, arguments, about, limit)
    except NotJson as error:
        where = f" at {error.pointer}" if error.pointer else ""
        raise InvalidArguments(
            f"{name}{where}: this cannot be sent to the worker: {error.reason}",
            errors=[{"pointer": error.pointer, "message": error.reason}],
        ) from error
