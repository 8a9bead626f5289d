"""A raw connection, and what the two kinds of database do each in their own way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Protocol

Params = Mapping[str, Any]
Row = Sequence[Any]
"""The values of a row, in the order of a statement's ``?``."""
_NAME = re.compile(r"(?<![:\w]):(\w+)")


@lru_cache(maxsize=512)
def percent(sql: str) -> str:
    """A statement with the parameters as psycopg writes them."""
    return _NAME.sub(r"%(\1)s", sql).replace("?", "%s")


class Link:
    """One connection. Statements have ``:name`` parameters, or ``?`` alone, and neither ``::`` nor ``%``."""

    def __init__(self, raw: Any, *, written: Callable[[str], str] = str) -> None:
        self.raw = raw
        self.mark = ""
        """Of the transaction that is written: what to ask :meth:`Database.committed` for, if anything."""
        self._sql = written

    def run(self, sql: str, params: Params = {}) -> int:  # noqa: B006 - never changed
        """Execute; how many rows it touched."""
        return self.raw.execute(self._sql(sql), params).rowcount

    def all(self, sql: str, params: Params = {}) -> list[tuple[Any, ...]]:  # noqa: B006
        """All rows of an answer."""
        return self.raw.execute(self._sql(sql), params).fetchall()

    def one(self, sql: str, params: Params = {}) -> tuple[Any, ...] | None:  # noqa: B006
        """The first row, if there is one."""
        return self.raw.execute(self._sql(sql), params).fetchone()

    def rows(self, sql: str, params: Params) -> Iterator[tuple[Any, ...]]:
        """The rows, as they are asked for where the database can do that."""
        cursor = self.raw.execute(self._sql(sql), params)
        try:
            yield from cursor
        finally:
            cursor.close()

    def many(self, sql: str, rows: Sequence[Row]) -> None:
        """Execute once for each row, whose values stand for ``?`` (names cost twice as much)."""
        if len(rows) == 1:
            self.raw.execute(self._sql(sql), rows[0])
            return
        cursor = self.raw.cursor()
        cursor.executemany(self._sql(sql), rows)
        cursor.close()

    def close(self) -> None:
        """Let the connection go."""
        self.raw.close()


class Fault(StrEnum):
    """Why a database did not do what it was asked."""

    LOST = "lost"
    """The connection is gone; a new one may do."""
    AGAIN = "again"
    """The database gave up on this transaction among others (a deadlock): the same once more may do."""
    LOCKED = "locked"
    FULL = "full"
    BROKEN = "broken"
    REFUSED = "refused"
    """What was to be written breaks a rule of the schema."""
    OTHER = "other"

    @property
    def of_all(self) -> bool:
        """Whether every statement would meet it now."""
        return self in (Fault.LOST, Fault.LOCKED, Fault.FULL, Fault.BROKEN)


@dataclass(slots=True)
class Head:
    """Where a session stands inside one transaction: its last number and its owner (none: it is new)."""

    sequence: int = 0
    subject: str | None = None
    tenant: str = ""
    messages: bool = False
    """Whether it has rows of its own; the first one of a fork says where it comes from."""


class Database(Protocol):
    """What SQLite and PostgreSQL do differently."""

    polls: bool
    """Whether commits of other processes are seen by asking (``foreign``) rather than by being told."""
    boot: str
    """From which start on :meth:`clock` counts."""

    def writer(self) -> Link:
        """The connection that writes."""
        ...

    def reader(self) -> Link:
        """A connection that reads."""
        ...

    def upgrade(self) -> None:
        """Bring the schema up to date under a lock. Raises ``ConfigError``."""
        ...

    def look(self) -> str:
        """Whether it can be used, with nothing changed: in words what it is. Raises ``ConfigError``."""
        ...

    def begin(self, link: Link, sessions: Sequence[str], locked: Sequence[str]) -> dict[str, Head]:
        """Begin to write; nobody else writes to what is ``locked`` until the end.

        Gives where ``sessions`` stand, which are among those.
        """
        ...

    def lock(self, link: Link, session: str) -> bool:
        """Add a session to those of the transaction; ``False`` where somebody else has it (never waits)."""
        ...

    def head(self, link: Link, session: str) -> Head:
        """Where one session stands."""
        ...

    def commit(self, link: Link, flush: Callable[[], None], note: str) -> None:
        """Write what waits, tell other processes (a note, if there is one), and commit."""
        ...

    def committed(self, link: Link, mark: str) -> bool | None:
        """Whether a transaction whose commit was not answered took place; ``None``: nobody can tell."""
        ...

    def foreign(self, link: Link) -> bool:
        """Whether others have committed since this was last asked."""
        ...

    def clock(self, link: Link) -> float:
        """Seconds on the clock of leases: the same for all processes, whatever their own clocks say."""
        ...

    def fault(self, error: BaseException) -> Fault | None:
        """What an exception of the driver means; ``None`` for one that is not the driver's."""
        ...

    def snapshot(self, link: Link) -> AbstractContextManager[None]:
        """Statements that see one and the same state."""
        ...

    def among(self, column: str, name: str) -> str:
        """A condition: the column is one of the parameter's values, given as :meth:`listed` has them."""
        ...

    def listed(self, values: Iterable[str]) -> Any:
        """Several values as one parameter."""
        ...

    def page(self, link: Link, where: str, params: Params, size: int) -> Iterator[tuple[int, int, bytes]]:
        """Rows of ``messages`` as ``(sequence, parts, body)`` in order, until ``size`` bytes have come."""
        ...

    def joined(self, link: Link, where: str, params: Params) -> tuple[int | None, int, int, bytes]:
        """The next ``:rows`` rows: the last one's number, how many, whether any is in parts, their lines."""
        ...

    def joined_texts(
        self, link: Link, params: Params, user: bytes, assistant: bytes
    ) -> tuple[int | None, int, int, str | None, bytes]:
        """The contents of a range of rows, each but the first after what stands before its role.

        Gives the last one's number, how many rows there are and how many of them are plain, their roles one
        after the other, and the contents as the JSON strings that they are, each with the brace after it.
        """
        ...

    def raw(self, column: str) -> str:
        """The column's text as bytes."""
        ...
