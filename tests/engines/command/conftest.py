"""Hosts on a folder of smss files that run small programs of Python and the shell."""

from __future__ import annotations

import asyncio
import json
import sys
import textwrap
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from enginehost.engine import EngineContext, FunctionSignature, HostAccess
from enginehost.host import Host
from enginehost.testing.leftovers import snapshot
from enginehost_engines.command import CommandConfig, CommandEngine

Smss = Callable[..., None]


def python(code: str, *words: Any) -> list[Any]:
    """A command that runs this Python code."""
    return [sys.executable, "-I", "-c", textwrap.dedent(code), *words]


def escaped(text: str) -> str:
    """A value as a smss file holds it."""
    return text.replace("\\", "\\\\").replace("\n", "\\n")


class Served:
    """A host, and the folder that it serves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host = Host(folder, None, watch=False)

    def smss(self, name: str, command: list[Any], parameters: Any = (), **keys: str) -> None:
        """Write a file."""
        lines = {
            "ENGINE_CLASS": "Command",
            "COMMAND": json.dumps(command),
            "FUNCTION_NAME": name,
            "FUNCTION_DESCRIPTION": "d",
            "FUNCTION_PARAMETERS": json.dumps([{"name": p} if isinstance(p, str) else p for p in parameters]),
            **keys,
        }
        text = "".join(f"{key} = {escaped(value)}\n" for key, value in lines.items())
        (self.folder / f"{name}.smss").write_text(text)

    async def call(self, name: str, **arguments: Any) -> Any:
        """Call a function of the folder."""
        return await self.host.call(name, arguments, timeout=20)

    async def run(self, command: list[Any], parameters: Any = (), /, **keys: Any) -> Any:
        """Write a file, start the host, call the function; ``arguments`` are its arguments."""
        arguments = keys.pop("arguments", {})
        self.smss("f", command, parameters, **keys)
        await self.host.start()
        return await self.call("f", **arguments)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncGenerator[Served, None]:
    """A host; afterwards no process, task or pipe of it is left, and the loop has nothing to complain of."""
    folder = tmp_path / "smss"
    folder.mkdir()
    before, amiss = left(), list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, what: amiss.append(what))
    made = Served(folder)
    yield made
    await made.host.stop()
    await eventually(lambda: left() <= before)
    asyncio.get_running_loop().set_exception_handler(None)
    assert amiss == []


def left() -> set[str]:
    """The tasks, threads, processes and open pipes there are, those of the test itself apart."""
    pipes = set[str]()
    for number in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            pipes.add(f"{number.name} {number.readlink()}")
    own = {one for one in snapshot() if "TestRunner" not in one}
    return own | {pipe for pipe in pipes if "pipe:" in pipe or "pidfd" in pipe}


async def eventually(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Wait until ``condition`` holds."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def engine_of(folder: Path, parameters: list[str] = (), most: int = 64, **config: Any) -> CommandEngine:  # type: ignore[assignment]
    """An engine without a host."""
    schema = {"type": "object", "properties": {name: {} for name in parameters}}
    signature = FunctionSignature("f", "d", schema)
    context = EngineContext(
        "f", path=folder / "f.smss", signature=signature, access=HostAccess(max_programs=most)
    )
    return CommandEngine(context, CommandConfig.model_validate(config))
