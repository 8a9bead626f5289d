"""Hosts as sources of tools: in this process, in a thread of it, and over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from enginehost import Host, HostSettings, HostSync
from enginehost.catalog import EngineRecord
from enginehost.client import Client
from enginehost.engine import AbstractFunctionEngine, Annotations, Approval, EngineContext, Function
from enginehost.serve import HttpServer
from enginehost.signature import FunctionSignature

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8
ADD = {
    "type": "object",
    "properties": {
        "a": {"type": "number", "description": "The first.", "minimum": -1000},
        "b": {"type": "number", "default": 40},
        "config": {"type": "string", "title": "Not LangChain's"},
    },
    "required": ["a"],
    "additionalProperties": False,
}
WHAT = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}
NOTHING = {"type": "object", "properties": {}}


class Functions(AbstractFunctionEngine):
    """Functions of each kind that tools have to deal with."""

    def __init__(self) -> None:
        super().__init__(EngineContext("tests"))
        self.wiped: list[str] = []

    def functions(self) -> tuple[Function, ...]:
        return (
            self._made("math.add", self._add, ADD, tags=("math",)),
            self._made("wipe", self._wipe, WHAT, Approval.ALWAYS),
            self._made("destroy", self._wipe, WHAT, annotations=Annotations(destructive=True)),
            self._made("story", self._story, NOTHING, streaming=True),
            self._made("picture", self._picture, NOTHING),
            self._made("fail", self._fail, NOTHING),
        )

    def _made(
        self, name: str, run: Any, schema: Any, approval: Approval = Approval.NEVER, **fields: Any
    ) -> Function:
        signature = FunctionSignature(name, f"Does {name}.", schema, **fields)
        return EngineContext("tests", signature=signature, approval=approval).function(run)

    async def _add(self, parameters: dict[str, Any], call: Any) -> float:
        return parameters["a"] + parameters.get("b", 40)

    async def _wipe(self, parameters: dict[str, Any], call: Any) -> str:
        self.wiped.append(parameters["what"])
        return f"{parameters['what']} is gone"

    async def _story(self, parameters: dict[str, Any], call: Any) -> AsyncIterator[str]:
        for word in ("once ", "upon"):
            yield word

    async def _picture(self, parameters: dict[str, Any], call: Any) -> Any:
        return {"title": "a dot", "data": PNG}

    async def _fail(self, parameters: dict[str, Any], call: Any) -> Any:
        raise LookupError("there is none")


@dataclass
class There:
    """A source, and what its functions have done."""

    source: Any
    functions: Functions

    @property
    def wiped(self) -> list[str]:
        return self.functions.wiped


@pytest.fixture(params=["thread", "http"])
def blocking(request: pytest.FixtureRequest) -> Iterator[There]:
    """A source that is called without an event loop."""
    functions = Functions()
    if request.param == "thread":
        with HostSync(None, None, settings=HostSettings()) as host:
            adding = host.host.add_engine(EngineRecord("tests", "Test"), functions)
            host._run(adding)  # as a program cannot: it has files
            yield There(host, functions)
        return
    with start_blocking_portal() as portal:
        there, server = portal.call(_served, functions)
        with Client(server.url) as client:
            yield There(client, functions)
        portal.call(server.stop, 0.0)
        portal.call(there.stop)


async def _served(functions: Functions, **settings: Any) -> tuple[Host, HttpServer]:
    host = Host(None, None, settings=HostSettings(**settings))
    await host.start()
    await host.add_engine(EngineRecord("tests", "Test"), functions)
    server = HttpServer(host, "127.0.0.1:0")
    await server.start()
    return host, server


@pytest.fixture(params=["process", "http", "blocking http"])
async def awaited(request: pytest.FixtureRequest) -> AsyncIterator[There]:
    """A source that is awaited."""
    from enginehost.client import AsyncClient

    functions = Functions()
    host, server = await _served(functions)
    try:
        if request.param == "process":
            yield There(host, functions)
        elif request.param == "http":
            async with AsyncClient(server.url) as client:
                yield There(client, functions)
        else:
            with Client(server.url) as client:
                yield There(client, functions)
    finally:
        await server.stop(0.0)
        await host.stop()


@pytest.fixture
async def limited() -> AsyncIterator[There]:
    """A host in this process where a caller may call one function."""
    rules = {"default": "view", "rules": [{"allow": "call", "subjects": ["ann"], "tags": ["math"]}]}
    functions = Functions()
    host, server = await _served(functions, policy=rules)
    yield There(host, functions)
    await server.stop(0.0)
    await host.stop()


@pytest.fixture
def own_loop() -> Iterator[None]:
    """For frameworks whose blocking calls make an event loop and leave it open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()
