"""Sync functions inside the host: each call on a thread, each item of a sync generator too."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import Any

_log = logging.getLogger("enginehost.threads")

_END = object()


class Threads:
    """A pool of threads for functions that are plain ``def``.

    A thread cannot be killed: after a timeout the caller is answered and the function runs on. Its
    place in the concurrency limit is given back only when it really ended.
    """

    def __init__(self, most: int = 64) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="enginehost-call")

    async def run(
        self, run: Callable[..., Any], arguments: tuple[Any, ...], ended: Callable[[], None] | None
    ) -> Any:
        """The function's result; ``ended`` is called on the loop when the thread is done with it."""
        loop = asyncio.get_running_loop()
        try:
            future: Future[Any] = self._pool.submit(copy_context().run, _run, run, arguments)
        except BaseException:  # no thread could be started, or the host has stopped
            if ended is not None:
                ended()
            raise
        if ended is not None:
            future.add_done_callback(lambda _: _tell(loop, ended))
        return await asyncio.wrap_future(future)

    async def iterate(self, generator: Generator[Any, Any, Any]) -> AsyncGenerator[Any, None]:
        """The items of a sync generator, each made on a thread; it is closed there when left."""
        context = copy_context()
        running: Future[Any] | None = None
        try:
            while True:
                running = self._pool.submit(context.run, next, generator, _END)
                item = await asyncio.wrap_future(running)
                if item is _END:
                    return
                yield item
        finally:
            if running is not None and not running.done():
                running.add_done_callback(lambda _: _close(generator))
            elif inspect.getgeneratorstate(generator) != inspect.GEN_CLOSED:
                await asyncio.wrap_future(self._pool.submit(context.run, generator.close))

    async def close(self) -> None:
        """Take no more work; threads that still run do not hold the host back."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _run(run: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    try:
        return run(*arguments)
    except StopIteration as error:  # a future refuses it, and its caller would wait for ever
        raise RuntimeError("the function raised StopIteration") from error


def _close(generator: Generator[Any, Any, Any]) -> None:
    try:
        generator.close()
    except Exception:  # noqa: BLE001 - nobody waits for this function any more
        _log.exception("a function that was left failed while it was closed")


def _tell(loop: asyncio.AbstractEventLoop, ended: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop has closed meanwhile
        loop.call_soon_threadsafe(ended)
