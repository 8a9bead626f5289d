"""A real host behind a real server on loopback, with functions given as Python functions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx2
import pytest

from enginehost.catalog import EngineRecord
from enginehost.engine import AbstractFunctionEngine, EngineContext, Function, Limits
from enginehost.host import Host
from enginehost.serve import HttpServer
from enginehost.settings import HostSettings
from enginehost.signature import Annotations, FunctionSignature

NUMBERS = {
    "type": "object",
    "properties": {"a": {"type": "number", "description": "First."}, "b": {"type": "number"}},
    "required": ["a", "b"],
}
MATH = {"tags": ("math",), "annotations": Annotations(title="Addition", read_only=True)}


def function(
    name: str, run: Callable[..., Any], parameters: Any = None, limits: Limits | None = None, **fields: Any
) -> Function:
    """A function of ``run(parameters, call)``."""
    signature = FunctionSignature(name, f"Does {name}.", parameters or {"type": "object", "properties": {}})
    made = EngineContext("e", signature=replace(signature, **fields)).function(run)
    return replace(made, limits=limits or Limits())


class Functions(AbstractFunctionEngine):
    """An engine of given functions."""

    def __init__(self, engine_id: str, functions: Iterable[Function]) -> None:
        super().__init__(EngineContext(engine_id))
        self._functions = tuple(functions)

    def functions(self) -> tuple[Function, ...]:
        return self._functions


async def add(parameters: dict[str, Any], call: Any) -> Any:
    return parameters["a"] + parameters["b"]


async def echo(parameters: dict[str, Any], call: Any) -> Any:
    return parameters


async def count(parameters: dict[str, Any], call: Any) -> AsyncIterator[int]:
    for number in range(parameters.get("to", 3)):
        yield number


async def fail(parameters: dict[str, Any], call: Any) -> Any:
    raise RuntimeError("it broke")


async def fail_late(parameters: dict[str, Any], call: Any) -> AsyncIterator[int]:
    yield 1
    raise RuntimeError("it broke")


async def whoami(parameters: dict[str, Any], call: Any) -> Any:
    return {
        "subject": call.caller.subject,
        "call": call.call_id,
        "trace": call.chain_id,
        "parent": call.parent,
    }


class Sleeper:
    """A function that runs until it is let go, or cancelled."""

    def __init__(self) -> None:
        self.running = 0
        self.cancelled = 0
        self.go = asyncio.Event()
        self.changed = asyncio.Condition()

    async def run(self, parameters: dict[str, Any], call: Any) -> str:
        await self._count(running=1)
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            await self._count(cancelled=1)
            raise
        finally:
            self.running -= 1
        return "slept"

    async def stream(self, parameters: dict[str, Any], call: Any) -> AsyncIterator[str]:
        yield "awake"
        yield await self.run(parameters, call)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20), self.changed:
            await self.changed.wait_for(condition)

    async def _count(self, running: int = 0, cancelled: int = 0) -> None:
        async with self.changed:
            self.running += running
            self.cancelled += cancelled
            self.changed.notify_all()


@dataclass
class Served:
    host: Host
    server: HttpServer
    client: httpx2.AsyncClient
    sleeper: Sleeper

    @property
    def place(self) -> tuple[str, int]:
        name, _, port = self.server.address.rpartition(":")
        return name, int(port)

    async def call(self, name: str, arguments: Any = None, **options: Any) -> httpx2.Response:
        return await self.client.post(f"/v1/functions/{name}", json=arguments or {}, **options)

    async def raw(self, request: bytes, *, until_close: bool = True) -> bytes:
        """Send bytes; what comes back until the server closes."""
        reader, writer = await asyncio.open_connection(*self.place)
        try:
            writer.write(request)
            await writer.drain()
            async with asyncio.timeout(20):
                return await reader.read(-1 if until_close else 65536)
        finally:
            writer.close()

    async def add(self, name: str, run: Callable[..., Any] = echo, parameters: Any = None) -> None:
        """Serve one more function, of an engine of its own name."""
        made = Functions(name, [function(name, run, parameters)])
        await self.host.add_engine(EngineRecord(name, "Test"), made)


Serve = Callable[..., AbstractAsyncContextManager[Served]]


def standard(sleeper: Sleeper) -> dict[str, list[Function]]:
    anything = {"type": "object", "additionalProperties": True}
    return {
        "adder": [function("add", add, NUMBERS, result={"type": "number"}, **MATH)],
        "tools": [
            function("echo", echo, anything),
            function("count", count, {"type": "object", "properties": {"to": {"type": "integer"}}}),
            function("fail", fail),
            function("fail_late", fail_late),
            function("größe/weit", echo, anything),
            function("sleep", sleeper.run),
            function("sleep_stream", sleeper.stream),
            function("whoami", whoami),
            function("slow", sleeper.run, limits=Limits(timeout=0.05)),
            function("one", sleeper.run, limits=Limits(max_concurrency=1, queue_limit=0)),
        ],
    }


@pytest.fixture
def serve() -> Serve:
    """``async with serve(**settings) as served``: a host with the standard functions, and its server."""

    @asynccontextmanager
    async def serving(**settings: Any) -> AsyncIterator[Served]:
        sleeper = Sleeper()
        async with Host(None, None, settings=HostSettings(**settings)) as host:
            for engine_id, functions in standard(sleeper).items():
                await host.add_engine(EngineRecord(engine_id, "Test"), Functions(engine_id, functions))
            server = HttpServer(host, "127.0.0.1:0")
            await server.start()
            try:
                async with httpx2.AsyncClient(base_url=server.url, timeout=30) as client:
                    yield Served(host, server, client, sleeper)
            finally:
                sleeper.go.set()
                await server.stop()

    return serving


@pytest.fixture
async def served(serve: Serve) -> AsyncIterator[Served]:
    async with serve() as running:
        yield running
