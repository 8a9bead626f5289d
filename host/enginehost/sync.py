"""The host for programs without an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from enginehost.caller import LOCAL, Caller
from enginehost.errors import EngineUnavailable
from enginehost.host import Host

if TYPE_CHECKING:
    from enginehost.catalog import Entry
    from enginehost.model_tools import ModelTools

T = TypeVar("T")
_END = object()


class HostSync:
    """A :class:`~enginehost.host.Host` on a thread of its own; usable from any other thread.

    ::

        with HostSync("smss") as host:
            print(host.call("add", {"a": 1, "b": 2}))

    Takes what ``Host`` takes. Raises what it raises. An interrupted wait (Ctrl-C) cancels its call.
    """

    def __init__(self, folder: str | Path | None = "smss", *args: Any, **options: Any) -> None:
        self._host = Host(folder, *args, **options)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._handing = threading.Lock()
        """Whoever hands work to the loop holds it, so that the loop never ends before it has begun that."""
        self._ending = threading.Lock()
        """One stop at a time; a second waits for the first."""
        self._held: dict[AsyncGenerator[Any, None], threading.Thread] = {}
        """Streams of which a thread has an item and has not yet come for the next one."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def host(self) -> Host:
        """The host itself; its coroutines run on its own thread only."""
        return self._host

    def start(self) -> None:
        """Start the host and wait until it is ready. It starts once."""
        if self._thread is not None:
            raise RuntimeError("a host starts once; make another one")
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._serve, args=(started,), name="enginehost", daemon=True)
        self._thread.start()
        started.result()
        try:
            self._run(self._host.start())
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the host and end its thread; calls that other threads wait for are answered."""
        with self._ending:
            if self._loop is None or self._thread is None:
                return
            try:
                self._leave_abandoned()
                self._run(self._host.stop())
            finally:
                with self._handing:
                    loop, self._loop = self._loop, None
                loop.call_soon_threadsafe(loop.stop)
                self._thread.join()

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        caller: Caller = LOCAL,
        timeout: float | None = None,
    ) -> Any:
        """Call a function and wait for its result."""
        return self._run(self._host.call(name, arguments, caller=caller, timeout=timeout))

    def stream(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        caller: Caller = LOCAL,
        timeout: float | None = None,
    ) -> Iterator[Any]:
        """The items of a streaming function as they come."""
        items = self._host.stream(name, arguments, caller=caller, timeout=timeout)
        one_at_a_time = asyncio.Lock()

        async def step() -> Any:
            async with one_at_a_time:
                return await anext(items, _END)

        async def leave() -> None:
            async with one_at_a_time:  # an interrupted step ends first
                await items.aclose()

        try:
            while (item := self._run(step())) is not _END:
                self._held[items] = threading.current_thread()
                yield item
                self._held.pop(items, None)
        finally:
            self._held.pop(items, None)
            with suppress(EngineUnavailable):  # the host has stopped and closed it
                self._run(leave())

    def _leave_abandoned(self) -> None:
        """Close the streams that nobody can read on: those that this thread holds, or one that has ended."""
        here = threading.current_thread()
        for items, holder in tuple(self._held.items()):
            if holder is here or not holder.is_alive():
                with suppress(RuntimeError):  # somebody reads on after all
                    self._run(items.aclose())

    def functions(self, tags: Iterable[str] = ()) -> list[Entry]:
        """The functions, by name; with ``tags``, those that have one of them."""
        return self._run(_in_loop(lambda: self._host.functions(tags=tags)))

    def tools(self, kind: str = "openai", *, tags: Iterable[str] = ()) -> list[dict[str, Any]]:
        """The functions as tools of one kind."""
        return self._run(_in_loop(lambda: self._host.tools(kind, tags=tags)))

    def tools_for_model(self, query: str = "", kind: str = "openai", **options: Any) -> ModelTools:
        """See :meth:`enginehost.host.Host.tools_for_model`."""
        return self._run(self._host.tools_for_model(query, kind, **options))

    def _serve(self, started: Future[None]) -> None:
        """The thread: runs the loop until it is stopped, then ends what is left on it."""
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            self._loop.call_soon(started.set_result, None)
            self._loop.run_forever()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        errand = _Errand(coroutine)
        try:
            self._hand_over(errand.start)
            return errand.future.result()
        except BaseException:
            if not errand.future.done():  # interrupted, perhaps in the middle of handing over
                self._drop(errand)
            raise

    def _hand_over(self, step: Callable[[], None]) -> None:
        if threading.current_thread() is self._thread:
            raise RuntimeError("the host's own thread would wait for itself; await the methods of `.host`")
        with self._handing:
            if self._loop is None:
                raise self._not_running()
            self._loop.call_soon_threadsafe(step)

    def _drop(self, errand: _Errand[Any]) -> None:
        try:
            self._hand_over(errand.drop)
        except (RuntimeError, EngineUnavailable):  # there is no loop that could have begun it
            with suppress(RuntimeError):  # its loop is closed, and has ended it
                errand.drop()

    def _not_running(self) -> EngineUnavailable:
        if self._thread is not None:
            return EngineUnavailable("the host does not run any more", state="closing")
        how = "use `with HostSync(…) as host`, or `host.start()`"
        return EngineUnavailable(f"the host does not run yet: {how}", state="loading")


class _Errand(Generic[T]):
    """A coroutine that the loop runs for another thread. All but ``future`` belongs to the loop."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self.future: Future[T] = Future()
        self._coroutine = coroutine
        self._task: asyncio.Task[T] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._coroutine)
        self._task.add_done_callback(self._ended)

    def drop(self) -> None:
        """End it, begun or not: nobody waits any more."""
        if self._task is not None:
            self._task.cancel()
        else:
            self._coroutine.close()

    def _ended(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.future.cancel()
        elif (error := task.exception()) is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(task.result())


async def _in_loop(work: Callable[[], T]) -> T:
    return work()
