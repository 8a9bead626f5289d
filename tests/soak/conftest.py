"""A folder with one function of each kind, a service for the REST ones, and a host that serves them all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from textwrap import dedent

TOOLS = """
import asyncio, os, signal, time

def add(a, b):
    return a + b

async def add_async(a, b):
    return a + b

def fail(text):
    raise ValueError(text)

def large(size):
    return "x" * size

def nap():
    time.sleep(600)

async def nap_async():
    await asyncio.sleep(600)

def crash(how):
    if how == "exit":
        os._exit(3)
    os.kill(os.getpid(), signal.SIGKILL)

async def crash_async():
    os._exit(3)

def numbers(upto):
    for number in range(upto):
        yield number

async def numbers_async(upto):
    for number in range(upto):
        yield number

def nap_stream():
    yield 0
    time.sleep(600)
"""
REACTOR = """
from enginehost.reactor import NounMetadata, Reactor

class SumReactor(Reactor):
    keys_to_get = ["a", "b"]

    def execute(self):
        self.organize_keys()
        return NounMetadata(self.key_value["a"] + self.key_value["b"])
"""
PARAMETERS = {
    "add": ("a", "b"),
    "add_async": ("a", "b"),
    "add_reactor": ("a", "b"),
    "fail": ("text",),
    "large": ("size",),
    "nap": (),
    "nap_async": (),
    "crash": ("how",),
    "crash_async": (),
    "numbers": ("upto",),
    "numbers_async": ("upto",),
    "nap_stream": (),
    "ask": ("what",),
    "edited": (),
}


def smss(name: str, **keys: str) -> str:
    """The file of the function ``name``; all its parameters are required."""
    parameters = [{"name": one, "required": True} for one in PARAMETERS.get(name, ())]
    lines = {
        "FUNCTION_NAME": name,
        "FUNCTION_DESCRIPTION": "For the soak.",
        "FUNCTION_PARAMETERS": json.dumps(parameters),
        **keys,
    }
    return "".join(f"{key} = {value}\n" for key, value in lines.items())


def python(name: str, script: str = "tools.py", **keys: str) -> str:
    return smss(name, ENGINE_CLASS="LocalPython", PYTHON_SCRIPT_PATH=script, **keys)


class Files:
    """The folder, and what happens to it: edits, broken scripts, scripts gone, files that come and go."""

    def __init__(self, folder: Path, service: str) -> None:
        self.folder = folder
        self.version = 0
        """Of the function ``edited``: the number it gives, once the newest script is live."""
        folder.mkdir()
        (folder / "tools.py").write_text(TOOLS)
        (folder / "sums.py").write_text(REACTOR)
        for name in PARAMETERS:
            (folder / f"{name}.smss").write_text(python(name))
        self._write(
            "add_reactor.smss",
            smss("add_reactor", ENGINE_CLASS="Reactor", REACTOR_CLASS_NAME="sums.SumReactor"),
        )
        self._write(
            "ask.smss",
            smss("ask", ENGINE_CLASS="REST", API_ENDPOINT_URL=f"{service}/{{what}}", HTTP_METHOD="GET"),
        )
        self._write("edited.smss", python("edited", "edited.py"))
        self.edit()

    def edit(self) -> None:
        """A script of a new version."""
        self.version += 1
        self._write("edited.py", f"def edited():\n    return {self.version}\n")

    def disturb(self, random: Random) -> None:
        """One thing that people and programs do to files."""
        match random.randrange(6):
            case 0 | 1:
                self.edit()
            case 2:
                self._write("edited.py", "def edited(:\n")
            case 3:
                with suppress(FileNotFoundError):
                    (self.folder / "edited.py").unlink()
            case 4:
                self._write("guest.smss", python("guest", "guest.py"))
                self._write("guest.py", "def guest():\n    return 'here'\n")
            case _:
                with suppress(FileNotFoundError):
                    (self.folder / "guest.smss").unlink()

    def _write(self, name: str, text: str) -> None:
        new = self.folder / f".{name}.new"
        new.write_text(dedent(text))
        new.replace(self.folder / name)


@asynccontextmanager
async def service() -> AsyncIterator[str]:
    """What ``ask`` asks: it answers well, badly, too late, or hangs up."""
    writers: set[asyncio.StreamWriter] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                what = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode().strip("/")
                if what == "silence":
                    await reader.read()  # until the other side has gone
                if what in ("silence", "nothing"):
                    break
                status = 500 if what == "failure" else 200
                writer.write(
                    b'HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: 6\r\n\r\n"well"'
                    % status
                )
                await writer.drain()
        writer.close()
        writers.discard(writer)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in tuple(writers):
            writer.close()
        await server.wait_closed()
