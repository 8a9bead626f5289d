"""The official client, in both kinds of revision, over HTTP and over stdin and stdout."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError

from enginehost.caller import Caller

SCRIPT = '''
import time

def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

def fail(why: str) -> str:
    raise ValueError(why)

def picture() -> bytes:
    return b"\\x89PNG\\r\\n\\x1a\\n" + bytes(20)

def count(to: int):
    yield from range(to)

def nap(seconds: float, file: str) -> str:
    open(file, "w").close()
    time.sleep(seconds)
    return "rested"
'''
MODES = ["auto", "legacy"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a function of each kind that answers differently."""
    made = tmp_path / "smss"
    made.mkdir()
    (made / "f.py").write_text(SCRIPT)
    for name in ("add", "fail", "picture", "count", "nap"):
        more = "STREAM = true\n" if name == "count" else ""
        more += "FUNCTION_TAGS = math\n" if name == "add" else ""
        (made / f"{name}.smss").write_text(
            f"ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = f.py\nFUNCTION_NAME = {name}\n"
            f"FUNCTION_DESCRIPTION = Does {name}.\n{more}"
        )
    (tmp_path / "enginehost.yaml").write_text(f"state_dir: {tmp_path / 'state'}\n")
    return made


def program(folder: Path, *more: str) -> StdioServerParameters:
    words = ["-m", "enginehost", "mcp", str(folder), *more]
    return StdioServerParameters(command=sys.executable, args=words)


async def uses(client: Any) -> None:
    """What a client relies on."""
    listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert sorted(listed) == ["add", "count", "fail", "nap", "picture"]
    assert listed["add"].output_schema["properties"]["result"] == {"type": "integer"}
    added = await client.call_tool("add", {"a": 1, "b": 2})
    assert (added.content[0].text, added.structured_content, added.is_error) == ("3", {"result": 3}, False)
    wrong = await client.call_tool("add", {"a": "x"})
    assert wrong.is_error
    assert '"b" is a required property' in wrong.content[0].text
    failed = await client.call_tool("fail", {"why": "no good"})
    assert (failed.is_error, failed.content[0].text) == (True, "fail failed: ValueError: no good")
    assert (await client.call_tool("picture", {})).content[0].mime_type == "image/png"
    told: list[tuple[float, str | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told.append((done, message))

    counted = await client.call_tool("count", {"to": 3}, progress_callback=progress)
    assert (counted.content[0].text, told) == ("[0,1,2]", [(1.0, "0"), (2.0, "1"), (3.0, "2")])
    with pytest.raises(MCPError, match="no function named 'nope'"):
        await client.call_tool("nope", {})


@pytest.mark.parametrize("mode", MODES)
async def test_over_http(serve_folder: Any, folder: Path, mode: Any) -> None:
    async with serve_folder(folder) as served, Client(f"{served.server.url}/mcp", mode=mode) as client:
        await uses(client)
    async with serve_folder(folder) as served, Client(f"{served.server.url}/mcp?tags=math") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["add"]
        with pytest.raises(MCPError, match="no function named"):
            await client.call_tool("count", {"to": 1})


@pytest.mark.parametrize("mode", MODES)
async def test_over_stdin_and_stdout(folder: Path, mode: Any) -> None:
    async with Client(stdio_client(program(folder)), mode=mode) as client:
        await uses(client)
    async with Client(stdio_client(program(folder, "--tags", "math")), mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["add"]


async def test_policy_and_records_know_the_face(serve_folder: Any, folder: Path) -> None:
    seen: list[Caller] = []
    async with serve_folder(folder) as served:
        served.host.watch_starts(lambda call: seen.append(call.caller))
        async with Client(f"{served.server.url}/mcp") as client:
            await client.call_tool("add", {"a": 1, "b": 2})
    assert [(caller.subject, caller.face) for caller in seen] == [("anonymous", "mcp")]
