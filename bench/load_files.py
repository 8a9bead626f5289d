"""10,000 smss files: loading them, editing one, what an engine weighs, and reading ``/metrics``.

Each run is a process of its own on one core. What an engine weighs is what the memory of the host's process
grew by, shared out: the functions of *LocalPython* are called in one worker process, those of *REST* at one
service, and *Adder* is an engine class that runs inside the host.

    python bench/load_files.py [RUNS=5] [COUNT=10000]
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import uvloop

from enginehost import Host, HostSettings
from enginehost.engine import AbstractFunctionEngine
from enginehost.plugins import PluginRegistry
from enginehost.testing import engine_registry
from folders import declaration, write_folder
from measuring import LOAD_CORE, RUNS, SERVER_CORE, Spread, finish, introduce, pin, table, verdict
from peers import figure, interpreter
from scraping import pauses
from servers import running

KINDS = ("LocalPython", "REST", "Adder")
EDITS = 5
MOST_LOAD_SECONDS = 1.5
MOST_EDIT_SECONDS = 0.3
MOST_UNUSED_KB = 15.0
MOST_USED_KB = 25.0
MOST_GAP_MS = 50.0
"""A pause of the event loop that nobody notices; one turn of Python's threads may take 5 ms."""


class Adder(AbstractFunctionEngine):
    """Adds inside the host."""

    async def execute(  # pyright: ignore[reportIncompatibleMethodOverride] - the contract takes either form
        self, parameters: dict[str, Any]
    ) -> Any:
        """``a`` + ``b``."""
        return parameters["a"] + parameters["b"]


def resident_kb() -> float:
    """Memory of this process that is in RAM."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


async def measure(folder: Path, kind: str, count: int, port: int) -> dict[str, float]:
    """One run: load, edit, call all; where the engines are in the host, read the metrics under load."""
    registry = engine_registry(Adder, declaration(kind, "f")) if kind == "Adder" else PluginRegistry()
    before, begin, begun = resident_kb(), perf_counter(), process_time()
    with Path(os.devnull).open("w") as log:  # noqa: ASYNC230 - nothing runs yet
        async with Host(folder, None, settings=HostSettings(), registry=registry, log=log) as host:
            found = {"load": perf_counter() - begin, "load_cpu": process_time() - begun}
            if len(host.catalog) != count:
                raise RuntimeError(f"{len(host.catalog)} of {count} functions serve: {host.problems()[:1]}")
            found["unused"] = (resident_kb() - before) / count
            found["edit"], found["slowest_edit"] = await edits(host, folder, kind, port)
            for number in range(count):
                answer = await host.call(f"f{number}", {"a": 1, "b": 2})
                if answer != 3:
                    raise RuntimeError(f"f{number} answered {answer}")
            found["used"] = (resident_kb() - before) / count
            if kind == "Adder":
                found |= await pauses(host, count)
    return found


async def edits(host: Host, folder: Path, kind: str, port: int) -> tuple[float, float]:
    """Seconds until a written file serves: the middle one and the slowest."""
    await asyncio.sleep(1.0)  # the watcher is set up
    seconds: list[float] = []
    for number in range(EDITS):
        name = f"f{number * 7}"
        original = declaration(kind, name, port=port)
        begin = perf_counter()
        (folder / f"{name}.smss").write_text(original.replace("Adds two numbers", f"Version {number}"))
        while host.entry(name).signature.description != f"Version {number}":  # noqa: ASYNC110 - as a caller looks
            await asyncio.sleep(0.002)
        seconds.append(perf_counter() - begin)
        (folder / f"{name}.smss").write_text(original)
        await asyncio.sleep(0.5)
    return median(seconds), max(seconds)


def run_apart(folder: Path, kind: str, count: int, port: int) -> dict[str, float]:
    """:func:`measure` in a process of its own."""
    command = [sys.executable, __file__, "one", str(folder), kind, str(count), str(port)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def report(found: Mapping[str, list[dict[str, float]]]) -> None:
    """Print the tables and whether the promises are kept."""
    spreads = {
        kind: {key: Spread([run[key] for run in runs]) for key in runs[0]} for kind, runs in found.items()
    }
    load = ["load s", "lowest", "highest", "cpu s"]
    head = ["engines", *load, "edit live s", "slowest", "kB unused", "kB called"]
    rows = [
        [
            kind,
            *row["load"].cells(2),
            f"{row['load_cpu'].median:.2f}",
            f"{row['edit'].median:.3f}",
            f"{row['slowest_edit'].highest:.3f}",
            f"{row['unused'].median:.1f}",
            f"{row['used'].median:.1f}",
        ]
        for kind, row in spreads.items()
    ]
    table("smss files in a watched folder; memory for one engine", head, rows)
    row = spreads["Adder"]
    table(
        "/metrics over HTTP after a call of each function, while 32 connections call",
        ["", "median", "lowest", "highest"],
        [
            ["seconds", *row["scrape"].cells(3)],
            ["MB", *row["scrape_mb"].cells(2)],
            ["calls/s meanwhile", *row["rate"].cells(0)],
            ["longest pause of the loop, ms", *row["gap"].cells(1)],
            ["the same with the calls alone, ms", *row["idle_gap"].cells(1)],
        ],
    )
    for kind, row in spreads.items():
        slowest = row["slowest_edit"].highest
        verdict(f"{kind}: seconds to load", row["load"].median, most=MOST_LOAD_SECONDS)
        verdict(f"{kind}: seconds until the slowest edit is live", slowest, most=MOST_EDIT_SECONDS)
        verdict(f"{kind}: kB for an engine nobody called", row["unused"].median, most=MOST_UNUSED_KB)
        verdict(f"{kind}: kB for an engine after its first call", row["used"].median, most=MOST_USED_KB)
    longest = spreads["Adder"]["gap"].highest
    verdict("ms of the longest pause while the metrics are read", longest, most=MOST_GAP_MS)


def main(runs: int = RUNS, count: int = 10_000) -> None:
    pin(SERVER_CORE)
    introduce(f"{count} smss files on one core")
    found: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    with tempfile.TemporaryDirectory() as name, running("service", LOAD_CORE) as (_, port):
        for kind in KINDS:
            (folder := Path(name, kind)).mkdir()
            write_folder(folder, kind, count, port)
        for _ in range(runs):
            for kind in KINDS:
                found[kind].append(run_apart(Path(name, kind), kind, count, port))
    report(found)
    if peer := interpreter("fastmcp"):
        each = Spread([figure(peer, "load") for _ in range(runs)])
        print(f"FastMCP, making {count} tools of a Python function: {each.median * count / 1e6:.1f} s")


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        one = measure(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
        print(json.dumps(uvloop.run(one)))
    else:
        main(*(int(given) for given in sys.argv[1:]))
        finish()
