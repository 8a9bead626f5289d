"""A host with the functions that a test puts in."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from enginehost import Call, EngineContext, Function, Host, HostSettings
from enginehost.catalog import EngineRecord
from enginehost.engine import AbstractFunctionEngine, Annotations, run_mode
from enginehost.signature import FunctionSignature

NUMBERS = {
    "type": "object",
    "properties": {"a": {"type": "number"}, "b": {"type": "number", "default": 1}},
    "required": ["a"],
}


class Several(AbstractFunctionEngine):
    """An engine of given functions."""

    def __init__(self, functions: list[Function]) -> None:
        super().__init__(EngineContext("test"))
        self._functions = functions

    def functions(self) -> list[Function]:
        return self._functions


def function(
    run: Callable[[dict[str, Any], Call], Any],
    name: str = "f",
    parameters: dict[str, Any] | None = None,
    result: dict[str, Any] | None = None,
    **more: Any,
) -> Function:
    schema = parameters if parameters is not None else {"type": "object", "additionalProperties": True}
    mode = run_mode(run)
    signature = FunctionSignature(
        name, "", schema, result=result, annotations=Annotations(), streaming=mode.streams
    )
    return Function(signature, run, mode, **more)


@asynccontextmanager
async def serving(
    *functions: Function, log: io.StringIO | None = None, **settings: Any
) -> AsyncIterator[Host]:
    host = Host(None, None, settings=HostSettings(**settings), log=log)
    await host.start()
    await host.add_engine(EngineRecord("test", "Test"), Several(list(functions)))
    try:
        yield host
    finally:
        await host.stop(drain=1.0)


async def add(arguments: dict[str, Any], call: Call) -> Any:
    return arguments["a"] + arguments["b"]


async def count(arguments: dict[str, Any], call: Call) -> AsyncGenerator[int, None]:
    for number in range(arguments["to"]):
        yield number
        await asyncio.sleep(0)
