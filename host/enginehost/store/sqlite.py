"""SQLite: one file, one writer at a time, WAL."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson

from enginehost.errors import ConfigError
from enginehost.store.link import Fault, Head, Link, Params

_MESSAGE_HEAD = (
    "SELECT sequence, created_by, tenant FROM messages WHERE session = :session"
    " ORDER BY sequence DESC LIMIT 1"
)
_EVENT_HEAD = _MESSAGE_HEAD.replace("messages", "events")
_PAGE = "SELECT sequence, parts, CAST(body AS BLOB) FROM messages WHERE {} ORDER BY sequence"
_JOINED = (
    "SELECT max(sequence), count(*), max(parts), CAST(group_concat(body, char(10)) AS BLOB) FROM"
    " (SELECT sequence, parts, body FROM messages WHERE {} ORDER BY sequence LIMIT :rows)"
)
_TEXTS = (  # without a subquery, which would copy each row: they come in the order of the index that has both
    "SELECT max(sequence), count(*), count(text_at), group_concat(role, ''),"
    " CAST(group_concat(substr(CAST(body AS BLOB), text_at),"
    " CASE WHEN role = 'user' THEN :user ELSE :assistant END) AS BLOB) FROM messages"
    " WHERE session = :session AND sequence > :after AND sequence <= :upto"
)
_log = logging.getLogger("enginehost.store")

_MOST_WAL = 64 << 20
_OLDEST = (3, 35)  # RETURNING


class Sqlite:
    """A SQLite file. ``synchronous``: ``full`` or ``normal``; ``lock_timeout``: seconds for others' locks."""

    polls = True

    def __init__(self, file: Path, *, synchronous: str, lock_timeout: float) -> None:
        self.file = file
        self.boot = _boot()
        self._synchronous, self._lock_timeout = synchronous, lock_timeout
        self._version: int | None = None

    def upgrade(self) -> None:
        """Make the file and its folder where there are none, and bring the schema up to date."""
        if sqlite3.sqlite_version_info < _OLDEST:
            raise ConfigError(f"SQLite {sqlite3.sqlite_version} is too old", hint="3.35 is the oldest")
        try:
            self._make_folder()
            self._upgrade_soon()
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from error

    def look(self) -> str:
        """See :class:`~enginehost.store.link.Database`."""
        try:
            return self._looked() if self.file.exists() else self._to_be_made()
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from error

    def _to_be_made(self) -> str:
        above = next(one for one in self.file.absolute().parents if one.exists())
        if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
            raise self._unusable(OSError())
        folder = "" if above == self.file.absolute().parent else " with its folder"
        return f"SQLite, {self.file}: not there yet, made{folder} when a session is first needed"

    def _looked(self) -> str:
        from enginehost.store.schema import check_version, current_version

        if self.file.is_dir():
            raise ConfigError(
                "the database is a folder", path=str(self.file), hint="name a file in it", reason="store"
            )
        raw = sqlite3.connect(
            f"{self.file.absolute().as_uri()}?mode=ro", uri=True, timeout=self._lock_timeout
        )
        try:
            check_version(current_version(Link(raw), "sqlite_master", "name"))
        finally:
            raw.close()
        if not os.access(self.file, os.W_OK):
            raise self._unusable(OSError())
        return f"SQLite, {self.file}"

    def _make_folder(self) -> None:
        folder = self.file.parent
        if not folder.exists():
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _log.info("the folder %s was made for the database of sessions", folder)

    def _upgrade_soon(self) -> None:
        """Again, for a while: where a file becomes one with WAL, SQLite refuses others without waiting."""
        end = time.monotonic() + self._lock_timeout
        while True:
            try:
                return self._upgrade()
            except sqlite3.Error as error:
                if self.fault(error) is not Fault.LOCKED or time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def _upgrade(self) -> None:
        from enginehost.store.schema import check_version, current_version, upgrade

        link = self.writer()
        try:
            with suppress(OSError):  # conversations are their owner's
                self.file.chmod(0o600)
            if check_version(current_version(link, "sqlite_master", "name")):
                return
        finally:
            link.close()
        upgrade(f"sqlite:///{self.file.absolute()}", ["BEGIN EXCLUSIVE"], timeout=60.0)

    def _unusable(self, error: Exception) -> ConfigError:
        fault = self.fault(error)
        if fault is Fault.BROKEN:
            text, hint = (
                "is no SQLite database, or a damaged one",
                "restore it, or move it away to begin anew",
            )
        elif fault is Fault.LOCKED:
            text, hint = "is locked by another program", "end that program, or raise store.lock_timeout"
        elif fault is Fault.FULL:
            text, hint = "cannot grow: the disk is full", "make room"
        else:
            text, hint = "cannot be opened", "look at the folder and its permissions, or correct store.url"
        return ConfigError(f"the database {text}", path=str(self.file), hint=hint, reason="store")

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self.file,
            timeout=self._lock_timeout,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )

    def writer(self) -> Link:
        """The connection that writes."""
        raw = self._connect()
        try:
            raw.execute("PRAGMA journal_mode = WAL")
            raw.execute(f"PRAGMA synchronous = {self._synchronous}")
            raw.execute(f"PRAGMA journal_size_limit = {_MOST_WAL}")
            self._version = None
        except BaseException:
            raw.close()
            raise
        return Link(raw)

    def reader(self) -> Link:
        """A connection that reads."""
        raw = self._connect()
        raw.execute("PRAGMA query_only = 1")
        return Link(raw)

    def begin(self, link: Link, sessions: Sequence[str], locked: Sequence[str]) -> dict[str, Head]:
        """Begin: whoever writes has the whole file."""
        link.run("BEGIN IMMEDIATE")
        return {session: self.head(link, session) for session in sessions}

    def lock(self, link: Link, session: str) -> bool:
        """The whole file is locked already."""
        return True

    def head(self, link: Link, session: str) -> Head:
        """Where a session stands."""
        message = link.one(_MESSAGE_HEAD, {"session": session})
        event = link.one(_EVENT_HEAD, {"session": session})
        last = max(message or (0,), event or (0,), key=lambda row: row[0])
        return Head() if len(last) == 1 else Head(*last, messages=message is not None)

    def commit(self, link: Link, flush: Callable[[], None], note: str) -> None:
        """Others look themselves."""
        flush()
        link.run("COMMIT")

    def committed(self, link: Link, mark: str) -> bool | None:
        """A commit of SQLite always answers."""
        return None

    def foreign(self, link: Link) -> bool:
        """Whether other connections have committed (data_version leaves out this connection's own)."""
        row = link.one("PRAGMA data_version")
        before, self._version = self._version, row[0] if row else None
        return before != self._version  # the first time nobody knows: they may have

    def clock(self, link: Link) -> float:
        """Seconds since the machine started: all processes of one file share it, and nobody sets it."""
        return _uptime()

    def fault(self, error: BaseException) -> Fault | None:
        """By SQLite's primary result codes."""
        if not isinstance(error, sqlite3.Error):
            return None
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        return _FAULTS.get(code, Fault.OTHER)

    @contextmanager
    def snapshot(self, link: Link) -> Generator[None]:
        """A read transaction."""
        link.run("BEGIN")
        try:
            yield
        finally:
            link.run("ROLLBACK")

    def among(self, column: str, name: str) -> str:
        """A list travels as JSON."""
        return f"{column} IN (SELECT value FROM json_each(:{name}))"  # noqa: S608 - our own names

    def listed(self, values: Iterable[str]) -> Any:
        """A list travels as JSON."""
        return orjson.dumps(list(values)).decode()

    def page(self, link: Link, where: str, params: Params, size: int) -> Iterator[tuple[int, int, bytes]]:
        """The cursor is left as soon as there is enough."""
        cursor = link.raw.execute(_PAGE.format(where), params)
        try:
            for row in cursor:
                yield row
                size -= len(row[2])
                if size <= 0:
                    return
        finally:
            cursor.close()

    def joined(self, link: Link, where: str, params: Params) -> tuple[int | None, int, int, bytes]:
        """Joined by SQLite itself: one value for Python instead of one a row."""
        return link.raw.execute(_JOINED.format(where), params).fetchone()

    def joined_texts(
        self, link: Link, params: Params, user: bytes, assistant: bytes
    ) -> tuple[int | None, int, int, str | None, bytes]:
        """Joined by SQLite itself."""
        words = {"user": user.decode(), "assistant": assistant.decode()}
        return link.raw.execute(_TEXTS, {**params, **words}).fetchone()

    def raw(self, column: str) -> str:
        """The text as bytes."""
        return f"CAST({column} AS BLOB)"


_FAULTS = {
    sqlite3.SQLITE_BUSY: Fault.LOCKED,
    sqlite3.SQLITE_LOCKED: Fault.LOCKED,
    sqlite3.SQLITE_FULL: Fault.FULL,
    sqlite3.SQLITE_IOERR: Fault.FULL,  # a limit on the size of files, a quota, a disk that fails
    sqlite3.SQLITE_CORRUPT: Fault.BROKEN,
    sqlite3.SQLITE_NOTADB: Fault.BROKEN,
    sqlite3.SQLITE_CONSTRAINT: Fault.REFUSED,
}


def _boot() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


def _uptime() -> float:
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.clock_gettime(clock) if clock is not None and os.name == "posix" else time.monotonic()
