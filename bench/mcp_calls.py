"""MCP's ``tools/call`` and ``tools/list`` against a bare route, FastMCP and MCP Toolbox.

Over HTTP each server has core 0, wrk (32 connections) core 1; the runs take turns. The bare route is one of
Starlette that parses, adds and dumps the same bytes. Over stdin and stdout a client on core 1 writes one line
and reads one, without any library. Needs wrk. Toolbox is npm's ``@toolbox-sdk/server`` in ``.peers/toolbox``.

    python bench/mcp_calls.py [RUNS=5] [SECONDS=3]
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from folders import write, write_script
from http_call import CONNECTIONS, LUA, MCP, load
from measuring import (
    LOAD_CORE,
    RUNS,
    SERVER_CORE,
    Spread,
    finish,
    in_turn,
    introduce,
    pin,
    table,
    verdict,
)
from peers import interpreter
from servers import running

TOOLS = 1_000
STDIO_CALLS = 2_000
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-11-25",
}
TITLES = {
    "bare mcp": "bare Starlette route, the same bytes",
    "host": "enginehost, async def in the host",
    "async worker": "enginehost, async def in a worker process",
    "fastmcp": "FastMCP, stateless, JSON",
    "toolbox": "MCP Toolbox (Go, one core), SELECT ? + ?",
}
BINARY = Path(__file__).parents[1] / ".peers/toolbox/node_modules/@toolbox-sdk/server-linux-x64/bin/toolbox"
TOOLBOX = """\
sources:
  numbers: {kind: sqlite, database: ":memory:"}
tools:
  add:
    kind: sqlite-sql
    source: numbers
    description: Adds two numbers.
    parameters:
      - {name: a, type: float, description: First.}
      - {name: b, type: float, description: Second.}
    statement: SELECT ? + ? AS sum
"""
FASTMCP_STDIO = """\
from fastmcp import FastMCP
server = FastMCP("bench")
async def add(a: float, b: float) -> float:
    return a + b
server.tool(add)
server.run("stdio", show_banner=False)
"""


@contextmanager
def toolbox() -> Generator[int]:
    """Toolbox on its core; its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as name:
        file = Path(name, "tools.yaml")
        file.write_text(TOOLBOX)
        words = ["--config", str(file), "--address", "127.0.0.1", "--port", str(port), "--log-level", "ERROR"]
        command = ["taskset", "-c", str(SERVER_CORE), str(BINARY), *words, "--disable-version-check"]
        one_core = {**os.environ, "GOMAXPROCS": "1"}
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=one_core)
        try:
            yield port
        finally:
            server.terminate()
            server.wait()


def calls_a_second(kind: str, python: str, seconds: int, script: str) -> float:
    """One run against a fresh server, after a second to warm up."""
    server = toolbox() if kind == "toolbox" else running(kind, SERVER_CORE, python)
    with server as found:
        port = found[1] if isinstance(found, tuple) else found
        url = f"http://127.0.0.1:{port}/mcp"
        check(url)
        environment = {**os.environ, "BODY": MCP, "MCP": "1"}
        load(url, 1, script, environment)
        requests, duration, _, _, failed = load(url, seconds, script, environment)
    assert not failed, f"{kind}: {failed:.0f} calls failed"
    return requests / duration


def check(url: str) -> None:
    """A server that answers quickly but wrongly is not measured."""
    until = time.monotonic() + 10
    while True:
        try:
            with urlopen(Request(url, MCP.encode(), HEADERS)) as answer:
                text = answer.read().decode()
            break
        except URLError:  # it has yet to listen
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
    assert '"content"' in text, text
    assert "3" in text, text


def over_http(runs: int, seconds: int) -> None:
    """Print the table of calls over HTTP, and whether the promises are kept."""
    pythons = dict.fromkeys(TITLES, sys.executable)
    if peer := interpreter("fastmcp"):
        pythons["fastmcp"] = peer
    else:
        del pythons["fastmcp"]
    if not BINARY.exists():
        print("(no row for toolbox: npm install --prefix .peers/toolbox @toolbox-sdk/server)")
        del pythons["toolbox"]
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(LUA)
        script.flush()
        cases = {
            kind: lambda kind=kind, python=python: calls_a_second(kind, python, seconds, script.name)
            for kind, python in pythons.items()
        }
        found = in_turn(cases, runs)
    base = found["bare mcp"].median
    rows = [[TITLES[kind], *rate.cells(0), f"{rate.median / base:.2f}"] for kind, rate in found.items()]
    head = ["server", "calls/s", "lowest", "highest", "of bare"]
    table(f"tools/call of add over HTTP, {CONNECTIONS} connections", head, rows)
    ours = found["host"].median
    verdict("of the bare route's throughput", ours / base, least=0.7)
    for kind, least in (("fastmcp", 8.0), ("toolbox", 1.2)):
        if kind in found:
            verdict(f"times the throughput of {TITLES[kind]}", ours / found[kind].median, least=least)


# tools/list


async def listing() -> tuple[float, float]:
    """Milliseconds of ``tools/list`` of a thousand tools: the first time, and then."""
    from enginehost import Host, HostSettings
    from enginehost.caller import Caller
    from enginehost.serve.mcp.face import McpFace
    from enginehost.serve.mcp.messages import Request as Message
    from enginehost.serve.mcp.peer import Peer

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_script(folder)
        for number in range(TOOLS):
            write(folder, "LocalPython", f"f{number}", "add")
        async with Host(folder, None, settings=HostSettings(state_dir=folder / "state"), watch=False) as host:
            face, peer = McpFace(host), Peer(Caller("bench", face="mcp"), "2025-11-25")
            request = Message("tools/list", {}, 1)
            times: list[float] = []
            for _ in range(101):
                begin = time.perf_counter()
                found = await face.result(peer, request)
                times.append((time.perf_counter() - begin) * 1e3)
            assert len(json.loads(found)["tools"]) == TOOLS
    return times[0], sorted(times[1:])[50]


# stdin and stdout


def microseconds_of_a_line(command: list[str], cwd: str) -> float:
    """What one call takes by a client that writes a line and reads one."""
    pinned = ["taskset", "-c", str(SERVER_CORE), *command]
    quiet = {**os.environ, "FASTMCP_LOG_LEVEL": "ERROR"}
    with subprocess.Popen(
        pinned, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=cwd, env=quiet
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        wire = server.stdin, server.stdout
        about = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "b", "version": "1"},
        }
        _say(wire, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": about})
        server.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        line = MCP.encode() + b"\n"
        for count in (200, STDIO_CALLS):
            begin = time.perf_counter()
            for _ in range(count):
                server.stdin.write(line)
                server.stdin.flush()
                answer = server.stdout.readline()
            spent = time.perf_counter() - begin
        assert b'"3' in answer, answer
        server.send_signal(signal.SIGTERM)
    return spent / STDIO_CALLS * 1e6


def _say(wire: Any, message: Any) -> None:
    wire[0].write(json.dumps(message).encode() + b"\n")
    wire[0].flush()
    assert b'"result"' in wire[1].readline()


def over_stdio(runs: int) -> None:
    """Print what a call over stdin and stdout takes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "smss")
        folder.mkdir()
        write_script(folder)
        write(folder, "LocalPython in the host", "add", "add_async")
        settings = f"in_process_python: true\nstate_dir: {name}/state\nlog: error\n"
        Path(name, "enginehost.yaml").write_text(settings)
        Path(name, "server.py").write_text(FASTMCP_STDIO)
        commands = {"enginehost mcp": [sys.executable, "-m", "enginehost", "mcp", str(folder)]}
        if peer := interpreter("fastmcp"):
            commands["FastMCP"] = [peer, f"{name}/server.py"]
        found = in_turn(
            {title: lambda command=command: microseconds_of_a_line(command, name)
             for title, command in commands.items()}, runs
        )  # fmt: skip
    rows = [[title, *spread.cells(0)] for title, spread in found.items()]
    table(
        "tools/call of add over stdin and stdout, by a raw pipe", ["server", "µs", "lowest", "highest"], rows
    )
    if "FastMCP" in found:
        ours, theirs = found["enginehost mcp"].median, found["FastMCP"].median
        verdict("of FastMCP's time", ours / theirs, most=0.3)


def main(runs: int = RUNS, seconds: int = 3) -> None:
    introduce("MCP: calls a second of one core, lists, lines")
    if not shutil.which("wrk") or not shutil.which("taskset"):
        sys.exit("this needs the programs wrk and taskset")
    over_http(runs, seconds)
    pin(LOAD_CORE)
    over_stdio(runs)
    first, then = asyncio.run(listing())
    rows = [["when the catalog has changed", f"{first:.3f}"], ["then", f"{then:.3f}"]]
    table(f"tools/list of {TOOLS} tools", ["server time", "ms"], rows)
    verdict("ms of server time of tools/list, cached", Spread([then]).median, most=2.0)


if __name__ == "__main__":
    main(*(int(given) for given in sys.argv[1:]))
    finish()
