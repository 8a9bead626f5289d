"""A thousand clients of MCP that only listen: little memory each, and all are told of a change."""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

STREAMS = 1_000
MOST_BYTES = 40_000
HEAD = "ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = f.py\n"
FILE = HEAD + "PYTHON_FUNCTION_NAME = add\nFUNCTION_NAME = {}\n"
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
LISTEN = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "subscriptions/listen",
        "params": {"_meta": META, "notifications": {"toolsListChanged": True}},
    }
)
REQUESTS = {
    "GET": b"GET /mcp HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n",
    "POST": (
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream, application/json\r\n"
        "content-type: application/json\r\nmcp-protocol-version: 2026-07-28\r\n"
        f"mcp-method: subscriptions/listen\r\ncontent-length: {len(LISTEN)}\r\n\r\n{LISTEN}"
    ).encode(),
}
FIRST = {"GET": b": what changes", "POST": b"acknowledged"}

pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]


def own_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.parametrize("kind", REQUESTS)
async def test_idle_streams_cost_little_and_all_hear_of_a_change(tmp_path: Path, kind: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 4_096), hard), hard))
    folder = tmp_path / "smss"
    folder.mkdir()
    (folder / "f.py").write_text("def add(a: int) -> int:\n    return a\n")
    (folder / "add.smss").write_text(FILE.format("add"))
    (tmp_path / "enginehost.yaml").write_text(f"state_dir: {tmp_path / 'state'}\n")
    words = ["-m", "enginehost", "run", str(folder), "--http", "127.0.0.1:0", "--no-bus", "--json"]
    with subprocess.Popen([sys.executable, *words], stderr=subprocess.PIPE, text=True) as host:
        try:
            assert host.stderr is not None
            ready = json.loads(next(line for line in host.stderr if '"event":"ready"' in line))
            name, _, port = ready["address"].rpartition(":")

            async def opened() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
                reader, writer = await asyncio.open_connection(name, int(port), limit=8_192)
                writer.write(REQUESTS[kind])
                await reader.readuntil(FIRST[kind])
                return reader, writer

            streams = [await opened() for _ in range(20)]
            before = own_bytes(host.pid)
            streams += [await opened() for _ in range(STREAMS)]
            await asyncio.sleep(1)
            assert (own_bytes(host.pid) - before) / STREAMS < MOST_BYTES
            (folder / "more.smss").write_text(FILE.format("more"))
            async with asyncio.timeout(20):
                await asyncio.gather(*(reader.readuntil(b"list_changed") for reader, _ in streams))
            host.terminate()
            async with asyncio.timeout(20):  # a host that stops ends them all
                await asyncio.gather(*(reader.read(-1) for reader, _ in streams))
            for _, writer in streams:
                writer.close()
            await asyncio.gather(*(writer.wait_closed() for _, writer in streams), return_exceptions=True)
        finally:
            host.terminate()
            host.wait(20)
