"""One function of a script, called in worker processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Protocol

from enginehost.engine import Call, RunMode
from enginehost_engines.python_declared import Declared
from enginehost_engines.worker.client import WorkerClient


class Workers(Protocol):
    """The engine whose workers run the function."""

    async def connected(self, *, concurrent: bool) -> WorkerClient:
        """The way to those that run calls one by one, or many at once."""
        ...

    async def learned(self, client: WorkerClient, name: str) -> RunMode:
        """How the loaded code runs ``name``. Raises ``EngineUnavailable``."""
        ...

    async def moved(self, client: WorkerClient) -> None:
        """A function runs elsewhere from now on than by ``client``."""
        ...


class ScriptFunction:
    """Calls ``f(**arguments)``; learns at the first call how it runs, where the source could not tell."""

    __slots__ = ("_client", "_learning", "_workers", "declared", "is_guess", "mode")

    def __init__(self, workers: Workers, declared: Declared) -> None:
        self._workers = workers
        self.declared = declared
        self.mode = declared.mode
        self.is_guess = declared.is_guess
        self._client: WorkerClient | None = None
        self._learning: asyncio.Lock | None = None

    async def call(self, arguments: dict[str, Any], call: Call) -> Any:
        """The function's result; the list of them where it turns out to stream."""
        if self.is_guess:
            await self._learn()
            if self.mode.streams:
                return [item async for item in self.stream(arguments, call)]
        client = self._client or await self.connected()
        return await client.call(self.declared.name, arguments, call.function, self._about(call))

    async def stream(self, arguments: dict[str, Any], call: Call) -> AsyncGenerator[Any, None]:
        """The function's items."""
        if self.is_guess:
            await self._learn()
        client = self._client or await self.connected()
        items = client.stream(self.declared.name, arguments, call.function, self._about(call))
        try:
            async for item in items:
                yield item
        finally:
            await items.aclose()

    async def connected(self) -> WorkerClient:
        """The way to its workers."""
        concurrent = self.mode in (RunMode.ASYNC, RunMode.ASYNC_STREAM)
        self._client = await self._workers.connected(concurrent=concurrent)
        return self._client

    async def take_mode(self, found: RunMode) -> None:
        """Run so from now on, as the loaded code says."""
        self.is_guess = False
        if found is RunMode.SYNC and self.mode is RunMode.ASYNC:
            return  # a decorator's wrapper that hands on the coroutine
        if found is not self.mode:
            self.mode, client, self._client = found, self._client, None
            if client is not None:
                await self._workers.moved(client)

    def uses(self, client: WorkerClient) -> bool:
        """Whether its calls go by ``client``."""
        return self._client is client

    def _about(self, call: Call) -> Any:
        return self.declared.about(call.function)

    async def _learn(self) -> None:
        """Ask the loaded code how the function runs, once."""
        self._learning = self._learning or asyncio.Lock()
        async with self._learning:  # no call may run while the workers are exchanged
            if self.is_guess:
                client = self._client or await self.connected()
                await self.take_mode(await self._workers.learned(client, self.declared.name))
