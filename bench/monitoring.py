"""How many events of chains one process records into SQLite a second, and how many it drops.

Usage::

    python bench/monitoring.py [RUNS=3] [CALLS=40000]

A call has two events, its start and its end. Beside it the same calls unrecorded, and SQLite's bare driver
with one row an event in transactions of 1,000.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from enginehost import EngineContext, Function, Host, HostSettings
from enginehost.call import Call
from enginehost.catalog import EngineRecord
from enginehost.engine import AbstractFunctionEngine

SCHEMA = {"type": "object", "additionalProperties": True}


class Adding(AbstractFunctionEngine):
    """One function that does next to nothing."""

    def functions(self) -> list[Function]:
        """It alone."""
        return [self.context.function(self.add, name="add", parameters=SCHEMA)]

    async def add(self, arguments: dict[str, Any], call: Call) -> Any:
        """Add one."""
        return arguments["a"] + 1


async def called(mode: str, calls: int, pace: float = 0.0) -> tuple[float, Mapping[str, int]]:
    """Events a second, from the first call until all is in the database, and the recorder's counts.

    With ``pace`` so many calls a second are made at most.
    """
    folder = Path(tempfile.mkdtemp())
    settings = HostSettings(state_dir=folder, record_chains=mode)  # pyright: ignore[reportArgumentType]
    host = Host(None, None, settings=settings)
    try:
        async with host:
            await host.add_engine(EngineRecord("e", "Bench"), Adding(EngineContext("e")))
            begin = perf_counter()
            for number in range(calls):
                await host.call("add", {"a": number})
                if number % 100 == 0:
                    behind = number / pace - (perf_counter() - begin) if pace else 0.0
                    await asyncio.sleep(max(0.0, behind))
        return 2 * calls / (perf_counter() - begin), host.recorded() or {}
    finally:
        shutil.rmtree(folder)


def bare(events: int) -> float:
    """Rows a second of the driver alone."""
    folder = Path(tempfile.mkdtemp())
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = normal")
    connection.execute("CREATE TABLE bare (id INTEGER PRIMARY KEY, body TEXT)")
    begin = perf_counter()
    for start in range(0, events, 1000):
        connection.execute("BEGIN")
        rows = [(number, "x" * 200) for number in range(start, start + 1000)]
        connection.executemany("INSERT INTO bare VALUES (?, ?)", rows)
        connection.execute("COMMIT")
    spent = perf_counter() - begin
    connection.close()
    shutil.rmtree(folder)
    return events / spent


def main() -> int:
    """Print the table; the exit code is 1 where fewer than 10,000 events a second are recorded."""
    given = dict(word.split("=", 1) for word in sys.argv[1:])
    runs, calls = int(given.get("RUNS", 3)), int(given.get("CALLS", 40_000))
    print(f"{'':44} {'events/s':>10} {'recorded':>9} {'dropped':>8}")
    rates: dict[str, float] = {}
    for name, mode, pace in (
        ("calls, not recorded", "off", 0.0),
        ("recorded, as fast as calls go", "on", 0.0),
        ("recorded with values, as fast as calls go", "values", 0.0),
        ("recorded, 6,000 calls/s", "on", 6_000.0),
    ):
        found = [asyncio.run(called(mode, calls, pace)) for _ in range(runs)]
        rates[name] = median(rate for rate, _ in found)
        recorded = sum(one.get("recorded", 0) for _, one in found) // runs
        dropped = sum(one.get("dropped", 0) for _, one in found) // runs
        print(f"{name:44} {rates[name]:10,.0f} {recorded:9,} {dropped:8,}")
    print(f"{'sqlite3 alone, a row an event':44} {median(bare(2 * calls) for _ in range(runs)):10,.0f}")
    return 0 if rates["recorded, as fast as calls go"] > 10_000 else 1


if __name__ == "__main__":
    sys.exit(main())
