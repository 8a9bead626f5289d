"""What an engine holds to have its functions run in workers."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any

from enginehost.engine import RunMode, current_call
from enginehost.errors import EngineUnavailable, InvalidArguments
from enginehost.values import NotJson, aside, pack
from enginehost_engines.worker.group import Group, Listener
from enginehost_engines.worker.pool import current_pool
from enginehost_engines.worker.process import Worker, WorkerSpec
from enginehost_engines.worker.replies import CallReply, StreamReply
from enginehost_engines.worker.wire import CALL, CREDIT, CREDIT_PAYLOAD, DESCRIBE, STREAM

CHECK_TURN_SECONDS = 5.0
"""How long a new version waits for its turn to be tried. Where hundreds change at once, the others serve
untried, as they do when the host starts."""


class WorkerClient:
    """Calls functions in workers of one spec; no process exists before the first call.

    ``size`` calls of this client run side by side (in concurrent workers: that is the number of
    processes). ``listener`` hears what becomes of the code. ``most`` raises or lowers the number of worker
    processes of the whole event loop.
    """

    __slots__ = ("_free", "_group", "_line", "_listener", "_log", "_most", "_size", "_spec")

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
        self._free = sys.maxsize if spec.concurrent else size
        self._most = most
        self._line: deque[asyncio.Future[None]] = deque()
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
        sent = function, arguments, name, about
        payload = await aside(_payload, *sent) if _is_large() else _payload(*sent)
        group = self._group or self.group
        if self._free:
            self._free -= 1
        else:
            await self._turn()
        try:
            worker = group.take() or await self._lease(group, name)
            reply = CallReply(self._log, name)
            try:
                call_id = worker.send(CALL, payload, reply)
                try:
                    return await reply.result()
                except (asyncio.CancelledError, GeneratorExit):
                    group.abandon(worker, call_id)
                    raise
            finally:
                group.release(worker)
        finally:
            self._next()

    async def stream(
        self, function: str, arguments: dict[str, Any], name: str, about: Any = None
    ) -> AsyncGenerator[Any, None]:
        """The items of a function as they come; leaving early ends it."""
        sent = function, arguments, name, about
        payload = await aside(_payload, *sent) if _is_large() else _payload(*sent)
        group = self.group
        worker, reply = await self._lease_for_stream(group, name)
        try:
            call_id = worker.send(STREAM, payload, reply)
        except BaseException:
            self._release(group, worker)
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
            await group.leave(self._listener)

    async def _lease_for_stream(self, group: Group, name: str) -> tuple[Worker, StreamReply]:
        if self._free:
            self._free -= 1
        else:
            await self._turn()
        try:
            worker = await self._lease(group, name)
        except BaseException:
            self._next()
            raise
        return worker, StreamReply(self._log, name, lambda: self._release(group, worker))

    def _release(self, group: Group, worker: Worker) -> None:
        group.release(worker)
        self._next()

    async def _lease(self, group: Group, name: str) -> Worker:
        try:
            return await group.lease()
        except EngineUnavailable as error:
            reason = str(error.detail.get("reason", ""))
            text, state = f"{name}: {error.message}", str(error.detail.get("state", ""))
            raise EngineUnavailable(text, state=state, reason=reason) from error

    async def _turn(self) -> None:
        """Wait until one of the calls that run has ended."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        try:
            await turn
        except asyncio.CancelledError as error:
            error.args = (f"it waited for the engine's other calls (PYTHON_WORKERS = {self._size})",)
            if not turn.cancelled():
                self._next()  # it had come meanwhile
            raise

    def _next(self) -> None:
        """A call has ended: the one that waits longest may run."""
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


async def may_check() -> bool:
    """Take a turn at trying a new version, to be given back to ``current_pool().checks``."""
    try:
        async with asyncio.timeout(CHECK_TURN_SECONDS):
            return await current_pool().checks.acquire()
    except TimeoutError:
        return False


def _is_large() -> bool:
    call = current_call()
    return call is not None and call.large


def _payload(function: str, arguments: dict[str, Any], name: str, about: Any) -> bytes:
    try:
        return pack([function, arguments, about])
    except NotJson as error:
        pointer = error.pointer.removeprefix("/1")  # the arguments are the second of what is sent
        where = f" at {pointer}" if pointer else ""
        raise InvalidArguments(
            f"{name}{where}: this cannot be sent to the worker: {error.reason}",
            errors=[{"pointer": pointer, "message": error.reason}],
        ) from error
