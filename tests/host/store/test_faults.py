"""What is acknowledged is there, whatever happens; and a database that fails says so and comes back."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from enginehost.errors import ConfigError, EngineUnavailable
from enginehost.llm.message import user
from enginehost.store.port import Owner
from enginehost.store.schema import VERSIONS
from enginehost.store.sql import SqlStore

from .conftest import program

Open = Callable[..., Awaitable[SqlStore]]
Raw = Callable[..., list[tuple[Any, ...]]]

WRITERS = """
async def write(name):
    number = 0
    while True:
        rows = await store.append(session, [user(f"{name} {number}"), user("second")], owner)
        print(rows[0].id, rows[1].id, flush=True)
        number += 1
await asyncio.gather(*map(write, range(5)))
"""


async def test_what_was_acknowledged_before_a_kill_is_there_and_nothing_half(
    open_store: Open, owner: Owner, session: str, url: str
) -> None:
    writers = [
        await asyncio.create_subprocess_exec(
            *program(WRITERS), url, session, owner.subject, stdout=asyncio.subprocess.PIPE
        )
        for _ in range(2)
    ]
    told: list[str] = []
    for writer in writers:
        assert writer.stdout is not None
        for _ in range(40):
            told += (await writer.stdout.readline()).decode().split()
    for writer in writers:
        writer.send_signal(signal.SIGKILL)
        assert writer.stdout is not None
        told += (await writer.stdout.read()).decode().rpartition("\n")[0].split()
        await writer.wait()
    store = await open_store()
    rows = await store.history(session, owner, limit=100_000)
    assert set(told) <= {row.id for row in rows}
    assert [row.sequence for row in rows] == list(range(1, len(rows) + 1))
    assert [row.content == "second" for row in rows] == [bool(number % 2) for number in range(len(rows))]
    await store.append(session, [user("next")], owner)


FULL = """
resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, resource.RLIM_INFINITY))
stored = failed = 0
async def write():
    global stored, failed
    try:
        await store.append(session, [user("x" * 50_000)], owner)
        stored += 1
    except EngineHostError as error:
        assert error.code == "engine_unavailable" and error.detail["reason"] == "full", error.to_json()
        failed += 1
await asyncio.gather(*(write() for _ in range(100)))
writing = await store.begin(session + "2", Message(Role.ASSISTANT), owner) if not failed else None
assert failed, "nothing failed"
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
await store.append(session, [user("room again")], owner)
rows = await store.history(session, owner, limit=1000)
print(len(rows) == stored + 1, rows[-1].content)
await store.close()
"""


def test_a_full_disk_is_told_to_those_who_wait_and_the_store_goes_on_when_there_is_room(
    sqlite_url: str,
) -> None:
    done = subprocess.run(
        [*program(FULL.replace("    global stored, failed\n", "    nonlocal stored, failed\n")),
         sqlite_url, "s", "ada"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout == "True room again\n", done.stderr


PIECES = """
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
writing = await store.begin(session, Message(Role.ASSISTANT), owner)
sent = 0
try:
    for number in range(100):
        await writing.write("x" * 50_000)
        sent += 1
except EngineHostError:
    sent += 1  # it waits in the writing
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert sent < 100
await writing.write("end")
await writing.finish()
size, last = 0, ""
async for piece in store.context(session, owner):
    size, last = size + len(piece.content), piece.content or last
print(size == sent * 50_000 + 3, last[-3:])
await store.close()
"""


def test_pieces_that_a_full_disk_did_not_take_are_stored_when_there_is_room(sqlite_url: str) -> None:
    done = subprocess.run(
        [*program(PIECES), sqlite_url, "s", "ada"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "True end\n", done.stderr


async def test_a_database_that_another_program_locks_is_told_and_used_again(
    sqlite_url: str, owner: Owner, session: str
) -> None:
    store = SqlStore(sqlite_url, lock_timeout=0.1)
    await store.open()
    await store.append(session, [user("1")], owner)
    other = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(EngineUnavailable) as told:
        await store.append(session, [user("2")], owner)
    assert told.value.detail == {"state": "store", "reason": "locked"}
    assert len(await store.history(session, owner)) == 1  # reading goes on
    other.execute("ROLLBACK")
    await store.append(session, [user("2")], owner)
    other.execute("BEGIN EXCLUSIVE")
    fresh = SqlStore(f"{sqlite_url}", lock_timeout=0.1)
    await fresh.open()  # a current schema asks for no lock
    await fresh.close()
    other.close()
    await store.close()


async def test_many_processes_that_open_one_new_database_make_it_once(
    open_store: Open, owner: Owner, session: str, url: str, raw: Raw
) -> None:
    if not url.startswith("sqlite"):
        first = await open_store()
        await first.close()
        for view in ("sessions", "conversation"):
            raw(f"DROP VIEW {view}")
        tables = (
            "messages",
            "parts",
            "events",
            "runs",
            "processes",
            "push_configs",
            "audit",
            "chains",
            "chain_events",
        )
        for table in (*tables, "alembic_version"):
            raw(f"DROP TABLE {table}")
    stores = await asyncio.gather(*(open_store() for _ in range(4)))
    await asyncio.gather(*(one.append(session, [user("x")], owner) for one in stores))
    assert raw("SELECT version_num FROM alembic_version") == [(VERSIONS[-1],)]
    assert len(await stores[0].history(session, owner)) == 4


def test_the_steps_that_the_program_knows_are_those_there_are() -> None:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    from enginehost import store

    config = Config()
    folder = Path(store.__file__).with_name("migrations")
    config.set_main_option("script_location", str(folder))
    steps = ScriptDirectory.from_config(config).walk_revisions()
    assert tuple(step.revision for step in steps)[::-1] == VERSIONS


async def test_a_newer_schema_is_told(open_store: Open, url: str, raw: Raw) -> None:
    await open_store()
    raw("UPDATE alembic_version SET version_num = 's9999'")
    try:
        with pytest.raises(ConfigError) as told:
            await open_store()
    finally:
        raw(f"UPDATE alembic_version SET version_num = '{VERSIONS[-1]}'")
    assert "s9999" in told.value.message
    assert "update enginehost" in told.value.hint


@pytest.mark.parametrize(
    "content", [b"this is no database " * 1000, b"SQLite format 3\0" + b"\xff" * 8000], ids=["text", "torn"]
)
async def test_a_file_that_is_no_database_is_told(sqlite_url: str, content: bytes) -> None:
    file = Path(sqlite_url.removeprefix("sqlite:///"))
    file.write_bytes(content)
    with pytest.raises(ConfigError, match="no SQLite database") as told:
        await SqlStore(sqlite_url).open()
    assert told.value.hint
    assert file.read_bytes() == content


async def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for url in (f"sqlite:///{tmp_path / 'file' / 'x.db'}", f"sqlite:///{tmp_path}"):
        with pytest.raises(ConfigError) as told:
            await SqlStore(url).open()
        assert told.value.hint


async def test_a_server_that_is_not_there_is_told_without_the_password() -> None:
    with pytest.raises(ConfigError) as told:
        await SqlStore("postgresql://ada:s3cret@127.0.0.1:1/x").open()
    assert "s3cret" not in str(told.value)
    assert told.value.hint


async def test_a_commit_counts_as_done_by_what_it_stored_not_by_a_number_given_anew(
    start_postgres: Callable[[Path], Any], owner: Owner, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        server = start_postgres(Path(folder) / "data")
        store = SqlStore(server.get_uri())
        await store.open()
        try:
            await store.append(session, [user("first")], owner)
            database: Any = store._database
            commit = database.commit
            numbers = [
                "(SELECT xmin::text FROM messages LIMIT 1)",
                "'999999'",
            ]  # another's, one yet to be given

            def crashes(link: Any, flush: Any, note: str) -> None:
                if not numbers:
                    return commit(link, flush, note)
                flush()
                number = link.raw.execute(f"SELECT {numbers.pop(0)}").fetchone()[0]
                link.raw.close()
                link.mark = number
                raise psycopg.OperationalError("the server closed the connection")

            monkeypatch.setattr(database, "commit", crashes)
            await store.append(session, [user("second")], owner)
            assert not numbers
            assert [row.content for row in await store.history(session, owner)] == ["first", "second"]
        finally:
            await store.close()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                server.cleanup()


async def test_a_server_that_restarts_in_the_middle_loses_nothing(
    start_postgres: Callable[[Path], Any], owner: Owner, session: str
) -> None:
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        server = start_postgres(Path(folder) / "data")
        try:
            await _restarted_in_the_middle(server, owner, session)
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                server.cleanup()


async def _restarted_in_the_middle(server: Any, owner: Owner, session: str) -> None:
    store, other = SqlStore(server.get_uri()), SqlStore(server.get_uri())
    quick = SqlStore(server.get_uri(), synchronous="normal")
    await quick.open()  # it makes the tables
    restart = [server.bin_path / "pg_ctl", "-w", "-m", "immediate", "-D", server.pgdata, "restart"]
    await asyncio.to_thread(_as_owner, restart, server.system_user)
    await quick.append(f"{session}-quick", [user("the tables are there")], owner)
    await quick.close()
    await store.open()
    await other.open()
    await store.append(session, [user("first")], owner)
    seen: list[str] = []

    async def follow() -> None:
        async for event in other.events(session, owner):
            assert event.message is not None
            seen.append(event.message.content)

    async def write(name: int) -> None:
        for number in range(60):
            await store.append(session, [user(f"{name} {number}")], owner)
            await asyncio.sleep(0.005)

    following = asyncio.create_task(follow())
    writing = asyncio.gather(*map(write, range(5)))
    await asyncio.sleep(0.1)
    await asyncio.to_thread(_as_owner, restart, server.system_user)
    await writing
    rows = await store.history(session, owner, limit=1000)
    assert sorted(row.content for row in rows[1:]) == sorted(f"{n} {k}" for n in range(5) for k in range(60))
    await store.append(session, [user("last")], owner)
    async with asyncio.timeout(20):
        while not seen or seen[-1] != "last":
            await asyncio.sleep(0.05)
    assert seen == [row.content for row in rows] + ["last"]
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await store.close()
    await other.close()


def _as_owner(command: list[Any], name: str | None) -> None:
    subprocess.run(command, user=name, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   cwd="/", timeout=60)  # fmt: skip


@pytest.mark.parametrize("fate", ["took place", "did not", "is under way"])
async def test_a_commit_whose_answer_is_lost_is_looked_up(
    postgres: str, owner: Owner, session: str, monkeypatch: pytest.MonkeyPatch, fate: str
) -> None:
    """A server may notice late that a connection is gone, and until then has its transaction going on."""
    import psycopg

    from enginehost.store.postgres import Postgres

    commit, lost = Postgres.commit, list[str]()

    def once(self: Any, link: Any, flush: Any, note: str) -> None:
        if note and not lost:
            lost.append(note)
            if fate == "took place":
                commit(self, link, flush, note)
            if fate == "is under way":
                threading.Timer(0.3, link.raw.close).start()
                monkeypatch.setattr(link, "close", lambda: None)
            else:
                link.close()
            raise psycopg.OperationalError("the server closed the connection unexpectedly")
        commit(self, link, flush, note)

    store = SqlStore(postgres)
    await store.open()
    monkeypatch.setattr(Postgres, "commit", once)
    (row,) = await store.append(session, [user("x")], owner)
    assert lost
    assert await store.history(session, owner) == [row]
    await store.close()


def test_a_store_on_a_current_file_loads_neither_migrations_nor_other_drivers(sqlite_url: str) -> None:
    body = """
    await store.append(session, [user("x")], owner)
    await store.close()
    print(*sorted({"alembic", "sqlalchemy", "psycopg", "mako"} & set(sys.modules)))
    """
    for expected in ("alembic mako sqlalchemy\n", "\n"):
        done = subprocess.run(
            [*program(body), sqlite_url, "s", "ada"], capture_output=True, text=True, timeout=60, check=True
        )
        assert done.stdout == expected
    assert sys.modules
