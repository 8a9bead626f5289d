"""One call over HTTP, against a bare Starlette route that parses, adds and dumps the same JSON.

Each server has core 0 for all its processes, wrk (32 connections) core 1; the runs take turns. The host
writes a log line for each call (to the null device) and counts its metrics; the audit is off. Needs wrk.

    python bench/http_call.py [RUNS=5] [SECONDS=3]
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.request import Request, urlopen

from measuring import LOAD_CORE, RUNS, SERVER_CORE, Spread, finish, introduce, table, verdict
from peers import interpreter
from servers import running

CONNECTIONS = 32
TARGETS = {"host": 0.9, "worker": 0.6, "async worker": 0.6}
PLAIN = '{"a":1,"b":2}'
MCP = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "add", "arguments": {"a": 1, "b": 2}},
    }
)
TITLES = {
    "bare": "bare Starlette route",
    "bare, one write": "the same, on the host's uvicorn protocol",
    "host": "enginehost, async def in the host",
    "worker": "enginehost, def in a worker process",
    "async worker": "enginehost, async def in a worker process",
    "fastapi": "FastAPI, pydantic body",
    "fastmcp": "FastMCP, tools/call, stateless, JSON",
}
LUA = """
wrk.method = "POST"
wrk.body = os.getenv("BODY")
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Accept"] = "application/json, */*;q=0.5"
if os.getenv("MCP") then
  wrk.headers["Accept"] = "application/json, text/event-stream"
  wrk.headers["MCP-Protocol-Version"] = "2025-11-25"
end
done = function(summary, latency, requests)
  local failed = summary.errors.status + summary.errors.read + summary.errors.write + summary.errors.timeout
  io.write(string.format('JSON [%d, %f, %f, %f, %d]\\n', summary.requests, summary.duration / 1e6,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, failed))
end
"""


class Figures(NamedTuple):
    """Calls a second, milliseconds of half and of 99 % of them, microseconds of the server's processors."""

    rate: float
    median_ms: float
    p99_ms: float
    processor: float


@contextmanager
def serving(kind: str, python: str) -> Generator[tuple[int, str]]:
    """A server of this kind, on its core: its process and its URL."""
    path = "mcp" if kind == "fastmcp" else "v1/functions/add"
    with running(kind, SERVER_CORE, python) as (pid, port):
        yield pid, f"http://127.0.0.1:{port}/{path}"


def measure(kind: str, python: str, seconds: int, script: str) -> Figures:
    """One run against a fresh server, after a second to warm up."""
    body = MCP if kind == "fastmcp" else PLAIN
    environment = {**os.environ, "BODY": body} | ({"MCP": "1"} if kind == "fastmcp" else {})
    with serving(kind, python) as (pid, url):
        check_answer(url, body)
        load(url, 1, script, environment)
        before = processor_seconds(pid)
        requests, duration, median_ms, p99_ms, failed = load(url, seconds, script, environment)
        spent = processor_seconds(pid) - before
    assert not failed, f"{kind}: {failed:.0f} calls failed"
    return Figures(requests / duration, median_ms, p99_ms, spent / requests * 1e6)


def load(url: str, seconds: int, script: str, environment: dict[str, str]) -> list[float]:
    """Run wrk on its core: calls, seconds, median and 99th percentile in milliseconds, failures."""
    wrk = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-s", script, url]
    command = ["taskset", "-c", str(LOAD_CORE), *wrk]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout.partition("JSON ")[2])


def check_answer(url: str, body: str) -> None:
    """A server that answers quickly but wrongly is not measured."""
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if url.endswith("add"):
        headers["Accept"] = "application/json"
    with urlopen(Request(url, body.encode(), headers)) as answer:
        text = answer.read().decode()
    assert '"result":3' in text, text


def processor_seconds(root: int) -> float:
    """What the process and all that it started have used."""
    ticks = {pid: (parent, spent) for pid, parent, spent in _processes()}
    family, grown = {root}, True
    while grown:
        more = {pid for pid, (parent, _) in ticks.items() if parent in family} - family
        family |= more
        grown = bool(more)
    return sum(ticks[pid][1] for pid in family) / os.sysconf("SC_CLK_TCK")


def _processes() -> Iterator[tuple[int, int, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            yield int(entry.name), int(fields[1]), int(fields[11]) + int(fields[12])


def report(found: dict[str, list[Figures]]) -> None:
    """Print the table and whether the promise is kept."""
    columns = {kind: [Spread(column) for column in zip(*runs, strict=True)] for kind, runs in found.items()}
    base, base_processor = columns["bare"][0].median, columns["bare"][3].median
    rows: list[list[str]] = []
    for kind, (rate, median_ms, p99_ms, processor) in columns.items():
        rows.append(
            [
                TITLES[kind],
                *rate.cells(0),
                f"{rate.median / base:.2f}",
                f"{median_ms.median:.2f}",
                f"{p99_ms.median:.2f}",
                f"{processor.median:.0f}",
                f"{base_processor / processor.median:.2f}",
            ]
        )
    rate = ["calls/s", "lowest", "highest", "of bare"]
    head = ["server", *rate, "p50 ms", "p99 ms", "cpu µs", "bare cpu / cpu"]
    table(f"add over HTTP, {CONNECTIONS} connections", head, rows)
    for kind, least in TARGETS.items():
        verdict(
            f"of the bare route's throughput, {TITLES[kind]}", columns[kind][0].median / base, least=least
        )


def main(runs: int = RUNS, seconds: int = 3) -> None:
    introduce("HTTP: calls a second of one core")
    if not shutil.which("wrk") or not shutil.which("taskset"):
        sys.exit("this needs the programs wrk and taskset")
    pythons = dict.fromkeys(TITLES, sys.executable)
    peer = interpreter("fastmcp")
    if peer:
        pythons["fastmcp"] = peer
    else:
        del pythons["fastmcp"]
    found: dict[str, list[Figures]] = {kind: [] for kind in pythons}
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(LUA)
        script.flush()
        for _ in range(runs):
            for kind, python in pythons.items():
                found[kind].append(measure(kind, python, seconds, script.name))
    report(found)


if __name__ == "__main__":
    main(*(int(given) for given in sys.argv[1:]))
    finish()
