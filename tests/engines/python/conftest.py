"""Engines made directly of a script, and a look at the processes behind them."""

from __future__ import annotations

import asyncio
import os
import textwrap
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from enginehost.engine import Call, EngineContext, Function, FunctionSignature, HostAccess
from enginehost_engines.local_python import LocalPythonConfig, LocalPythonEngine
from enginehost_engines.worker.pool import current_pool

SCRIPT = """
import asyncio, logging, os, sys, time

calls = 0

def add(a, b):
    return a + b

async def add_async(a, b):
    return a + b

def echo(value):
    return value

async def echo_async(value):
    await asyncio.sleep(0)
    return value

def count():
    global calls
    calls += 1
    return calls

def process_id():
    return os.getpid()

async def process_id_async():
    return os.getpid()

def fail(kind, text):
    raise getattr(__import__("builtins"), kind)(text)

def kill(signal):
    os.kill(os.getpid(), signal)

def crash():
    import ctypes
    ctypes.string_at(0)

def leave(status):
    os._exit(status)

def spin(mark=""):
    if mark:
        open(mark, "w").write(str(os.getpid()))
    while True:
        pass

async def block(mark):
    open(mark, "w").close()
    while True:
        pass

async def wait(mark=""):
    try:
        await asyncio.sleep(3600)
    finally:
        if mark:
            open(mark, "w").close()

def say(lines, width=10):
    for number in range(lines):
        print(str(number).ljust(width, "."))
    print("to stderr", file=sys.stderr)
    logging.getLogger("mine").error("a record")
    os.write(2, b"past python\\n")
    return lines

def numbers(upto, mark=""):
    try:
        for number in range(upto):
            if mark:
                open(mark, "w").write(str(number))
            yield number
    finally:
        if mark:
            open(mark + ".closed", "w").close()

async def numbers_async(upto, mark=""):
    try:
        for number in range(upto):
            if mark:
                open(mark, "w").write(str(number))
            yield number
    finally:
        if mark:
            open(mark + ".closed", "w").close()

def numbers_then_fail(upto):
    yield from range(upto)
    raise ValueError("no more")

def grandchild():
    import subprocess
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"]).pid

def unsendable():
    return object()

def keyword(**arguments):
    return arguments
"""


class Engines:
    """Makes LocalPython engines of one script and closes them at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made: list[LocalPythonEngine] = []
        (folder / "tools.py").write_text(SCRIPT)

    def make(
        self,
        name: str,
        *,
        script: str | None = None,
        access: HostAccess | None = None,
        context: dict[str, Any] | None = None,
        **config: Any,
    ) -> LocalPythonEngine:
        """The engine of function ``name`` in the common script, or in ``script``."""
        file = "tools.py"
        if script is not None:
            file = f"script_{len(self.made)}.py"
            (self.folder / file).write_text(textwrap.dedent(script))
        born = EngineContext(
            f"{name}-{len(self.made)}",
            path=self.folder / "engine.smss",
            access=access or HostAccess(),
            **{"signature": FunctionSignature(name), **(context or {})},
        )
        config = {"python_script_path": file} | config
        engine = LocalPythonEngine(born, LocalPythonConfig(**config))
        self.made.append(engine)
        return engine

    async def call(self, engine: LocalPythonEngine | str, /, **arguments: Any) -> Any:
        """The result of the engine's function."""
        if isinstance(engine, str):
            engine = self.make(engine)
        return await function_of(engine).run(arguments, Call("test"))

    def stream(self, engine: LocalPythonEngine | str, /, **arguments: Any) -> AsyncGenerator[Any, None]:
        """The items of the engine's function."""
        if isinstance(engine, str):
            engine = self.make(engine)
        return function_of(engine).run(arguments, Call("test"))

    async def close(self) -> None:
        """Close all engines that were made."""
        for engine in self.made:
            await engine.close()


def function_of(engine: Any) -> Function:
    """The one function of an engine."""
    (function,) = engine.functions()
    return function


def children() -> set[int]:
    """The processes that this one has started and not reaped."""
    me = os.getpid()
    found: set[int] = set()
    for task in Path(f"/proc/{me}/task").iterdir():
        try:
            found.update(int(pid) for pid in (task / "children").read_text().split())
        except FileNotFoundError:
            continue
    return found


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def eventually(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Wait until ``condition`` holds."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture
async def engines(tmp_path: Path) -> AsyncGenerator[Engines, None]:
    """Makes engines; afterwards no process of theirs is left."""
    before = children()
    made = Engines(tmp_path)
    yield made
    await made.close()
    assert current_pool().count == 0
    assert children() <= before
