"""Stores on SQLite and on a real PostgreSQL: the same tests for both."""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from enginehost.llm.message import Message, Role, Type
from enginehost.store.port import Owner
from enginehost.store.sql import SqlStore

DATABASES = ("sqlite", "postgres")


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty SQLite file, or this worker's PostgreSQL database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'sessions.db'}"
    return str(request.getfixturevalue("postgres"))


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'sessions.db'}"


Open = Callable[..., Awaitable[SqlStore]]


@pytest.fixture
async def open_store(url: str) -> AsyncIterator[Open]:
    """Opens stores on one database, as several processes would."""
    stores: list[SqlStore] = []

    async def open_one(**options: Any) -> SqlStore:
        store = SqlStore(options.pop("url", url), **{"lock_timeout": 5.0} | options)
        await store.open()
        stores.append(store)
        return store

    yield open_one
    await asyncio.gather(*(store.close() for store in stores))


@pytest.fixture
async def store(open_store: Open) -> SqlStore:
    return await open_store()


@pytest.fixture
def owner() -> Owner:
    """Somebody new: the PostgreSQL database is shared by tests."""
    return Owner(f"ada-{uuid.uuid4().hex}", "acme")


@pytest.fixture
def session() -> str:
    return f"s-{uuid.uuid4().hex}"


@pytest.fixture
def agent() -> str:
    return f"agent-{uuid.uuid4().hex}"


def call(name: str) -> Message:
    return Message(Role.ASSISTANT, Type.TOOL_CALL, query={"tool": "add", "id": name, "args": {"a": 1}})


def result(name: str, content: str = "3") -> Message:
    return Message(Role.TOOL, Type.TOOL_RESULT, content, {"tool": "add", "id": name})


@pytest.fixture
def raw(url: str) -> Callable[..., list[tuple[Any, ...]]]:
    """Statements beside the store, as an operator's client sends them."""

    def run(sql: str) -> list[tuple[Any, ...]]:
        if url.startswith("sqlite"):
            import sqlite3

            connection = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=5)
            try:
                rows = connection.execute(sql).fetchall()
                connection.commit()
            finally:
                connection.close()
            return rows
        import psycopg

        with psycopg.connect(url, autocommit=True) as other:
            cursor = other.execute(sql)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    return run


PROGRAM = """
import asyncio, sys, resource
from enginehost.errors import EngineHostError
from enginehost.llm.message import *
from enginehost.store.port import *
from enginehost.store.sql import SqlStore
async def main(url, session, subject):
    store = SqlStore(url)
    await store.open()
    owner = Owner(subject, "acme")
{body}
asyncio.run(main(*sys.argv[1:]))
"""


def program(body: str) -> list[str]:
    """The start of a command: another process with a store open (``store``, ``session``, ``owner``)."""
    indented = indent(dedent(body), "    ")
    return [sys.executable, "-c", PROGRAM.replace("{body}", indented)]
