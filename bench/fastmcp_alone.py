"""FastMCP without a transport; run by its own interpreter: ``fastmcp_alone.py call | load | list``."""

from __future__ import annotations

import asyncio
import sys
from time import perf_counter
from typing import Any

from fastmcp import FastMCP  # pyright: ignore[reportMissingImports] - the peer's interpreter has it
from fastmcp.tools import Tool  # pyright: ignore[reportMissingImports]

FUNCTIONS = 1_000
"""How many tools are made; the figures are for one."""


async def add(a: float, b: float) -> float:
    """Adds two numbers."""
    return a + b


def _server(functions: int) -> Any:
    server: Any = FastMCP("bench")
    for number in range(functions):
        server.add_tool(Tool.from_function(add, name=f"f{number}"))
    return server


async def call() -> float:
    """Microseconds of a call."""
    server, count = _server(1), 1_000
    await server.call_tool("f0", {"a": 1, "b": 2})
    begin = perf_counter()
    for _ in range(count):
        await server.call_tool("f0", {"a": 1, "b": 2})
    return (perf_counter() - begin) / count * 1e6


async def load() -> float:
    """Microseconds for making one tool."""
    _server(1)
    begin = perf_counter()
    _server(FUNCTIONS)
    return (perf_counter() - begin) / FUNCTIONS * 1e6


async def show() -> float:
    """Microseconds for the MCP form of one tool in the list of all."""
    server = _server(FUNCTIONS)
    begin = perf_counter()
    shown = [tool.to_mcp_tool().model_dump(by_alias=True) for tool in await server.list_tools()]
    return (perf_counter() - begin) / len(shown) * 1e6


if __name__ == "__main__":
    print(asyncio.run({"call": call, "load": load, "list": show}[sys.argv[1]]()))
