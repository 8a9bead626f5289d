"""``enginehost mcp`` and a client that speaks through a pipe."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

SCRIPT = """
import time

def add(a: int, b: int) -> int:
    print("this is for people")
    return a + b

def nap(file: str) -> str:
    open(file, "w").close()
    time.sleep(60)
    return "rested"
"""


class Pipe:
    """One client's conversation."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self._out, self._in = process, process.stdin, process.stdout

    async def write(self, data: bytes) -> None:
        self._out.write(data)
        await self._out.drain()

    async def send(self, method: str, request_id: Any = None, **params: Any) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        await self.write(
            json.dumps(message | ({} if request_id is None else {"id": request_id})).encode() + b"\n"
        )

    async def read(self) -> Any:
        async with asyncio.timeout(20):
            return json.loads(await self._in.readline())

    async def end(self) -> int:
        self._out.close()
        async with asyncio.timeout(20):
            return await self.process.wait()


@pytest.fixture
def pipe(tmp_path: Path) -> Callable[[], Any]:
    """``async with pipe() as one``: the program, past its handshake."""
    folder = tmp_path / "smss"
    folder.mkdir()
    (folder / "f.py").write_text(SCRIPT)
    for name in ("add", "nap"):
        (folder / f"{name}.smss").write_text(
            f"ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = f.py\nFUNCTION_NAME = {name}\n"
        )
    (tmp_path / "enginehost.yaml").write_text(f"state_dir: {tmp_path / 'state'}\n")

    @asynccontextmanager
    async def opened() -> AsyncIterator[Pipe]:
        words = (sys.executable, "-m", "enginehost", "mcp", str(folder))
        process = await asyncio.create_subprocess_exec(*words, stdin=PIPE, stdout=PIPE)
        try:
            one = Pipe(process)
            hello = {"name": "t", "version": "1"}
            await one.send("initialize", 0, protocolVersion="2025-11-25", capabilities={}, clientInfo=hello)
            assert (await one.read())["result"]["protocolVersion"] == "2025-11-25"
            await one.send("notifications/initialized")
            yield one
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    return opened


async def test_stdout_has_messages_alone_and_the_end_of_the_input_ends_it(pipe: Any) -> None:
    async with pipe() as one:
        await one.send("tools/call", "a", name="add", arguments={"a": 1, "b": 2})
        answer = await one.read()
        assert (answer["id"], answer["result"]["content"]) == ("a", [{"type": "text", "text": "3"}])
        assert await one.end() == 0


async def test_what_is_no_message_is_answered_and_the_next_one_is_heard(pipe: Any) -> None:
    async with pipe() as one:
        for wrong, code in (
            (b"{\n", -32700),
            (b"[1]\n", -32600),
            (b"\xff\n", -32700),
            (b"[" * 50_000 + b"\n", -32700),
        ):
            await one.write(wrong)
            assert (await one.read())["error"]["code"] == code
        await one.write(b"\n \n")
        message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode() + b"\n"
        for byte in message:
            await one.write(bytes([byte]))
        assert await one.read() == {"jsonrpc": "2.0", "id": 1, "result": {}}


async def test_a_call_is_cancelled_by_its_id_and_nothing_more_is_heard_of_it(
    pipe: Any, tmp_path: Path
) -> None:
    async with pipe() as one:
        begun = tmp_path / "begun"
        await one.send("tools/call", 1, name="nap", arguments={"file": str(begun)})
        async with asyncio.timeout(20):
            while not begun.exists():
                await asyncio.sleep(0.01)
        await one.send("ping", 1)
        assert (await one.read())["error"]["message"] == "a request with this id runs already"
        await one.send("notifications/cancelled", requestId=1)
        await one.send("tools/call", 2, name="add", arguments={"a": 2, "b": 2})
        assert (await one.read())["id"] == 2
        await one.send("ping", 1)
        assert (await one.read()) == {"jsonrpc": "2.0", "id": 1, "result": {}}


async def test_the_tools_that_a_new_file_brings_are_told(pipe: Any, tmp_path: Path) -> None:
    async with pipe() as one:
        old = (tmp_path / "smss" / "add.smss").read_text()
        (tmp_path / "smss" / "plus.smss").write_text(
            old.replace("NAME = add", "NAME = plus\nPYTHON_FUNCTION_NAME = add")
        )
        assert (await one.read())["method"] == "notifications/tools/list_changed"
