"""PostgreSQL: many hosts on one database. (psycopg 3, in threads.)"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import errors, sql

from enginehost.errors import ConfigError
from enginehost.store.link import Fault, Head, Link, Params, percent

CHANNEL = "enginehost_sessions"
_LOCK = (  # in an order that is the same for everyone; and the number of the transaction
    "SELECT CAST(pg_current_xact_id() AS text), count(pg_advisory_xact_lock(k))"
    " FROM (SELECT DISTINCT hashtextextended(s, 0) AS k"
    " FROM unnest(CAST(:sessions AS text[])) AS s ORDER BY 1) AS sorted"
)
_TRY = "SELECT pg_try_advisory_xact_lock(hashtextextended(:session, 0))"
_HEAD = "(SELECT sequence, created_by, tenant FROM {} WHERE session = s ORDER BY sequence DESC LIMIT 1)"
_HEADS = (  # noqa: S608 - our own words
    "SELECT s, m.sequence, m.created_by, m.tenant, e.sequence, e.created_by, e.tenant"
    " FROM unnest(CAST(:sessions AS text[])) AS s LEFT JOIN LATERAL {} AS m ON true"
    " LEFT JOIN LATERAL {} AS e ON true"
).format(*(_HEAD.format(table) for table in ("messages", "events")))
_PAGE = (
    "SELECT sequence, parts, body FROM (SELECT sequence, parts, convert_to(body, 'UTF8') AS body,"
    " octet_length(body) AS size, sum(octet_length(body)) OVER (ORDER BY sequence) AS total"
    " FROM (SELECT sequence, parts, body FROM messages WHERE {} ORDER BY sequence LIMIT 4096) AS a) AS b"
    " WHERE total - size < :size ORDER BY sequence"
)
_JOINED = (
    "SELECT max(sequence), count(*), max(parts),"
    " convert_to(string_agg(body, chr(10) ORDER BY sequence), 'UTF8')"
    " FROM (SELECT sequence, parts, body FROM messages WHERE {} ORDER BY sequence LIMIT :rows) AS a"
)
_TEXTS = (
    "SELECT max(sequence), count(*), count(text_at), string_agg(role, '' ORDER BY sequence),"
    " string_agg(substr(convert_to(body, 'UTF8'), text_at),"
    " CASE WHEN role = 'user' THEN CAST(:user AS bytea) ELSE CAST(:assistant AS bytea) END ORDER BY sequence)"
    " FROM messages WHERE session = :session AND sequence > :after AND sequence <= :upto"
)
_NOTIFY = f"SELECT pg_notify('{CHANNEL}', :note)"
_PLANS = " -c plan_cache_mode=force_generic_plan -c enable_seqscan=off"
"""Of the connection that writes: it plans each statement once, for planning takes as long as all the rest.
Each has an index, and a plan that was made while a table was small is to use that too."""
_MIGRATION_LOCK = 0x656E67696E65686F  # "engineho": the same for every version of this program
_MOST_NOTE = 7900  # PostgreSQL takes 8000 bytes


class Postgres:
    """A PostgreSQL database. ``synchronous``: ``full`` waits for its disk, ``normal`` does not."""

    polls = False
    boot = ""

    def __init__(self, url: str, *, synchronous: str, lock_timeout: float) -> None:
        self._url = url
        self._commit = "on" if synchronous == "full" else "off"
        self._lock_timeout = lock_timeout

    def _connect(self, more: str = "") -> psycopg.Connection[Any]:
        milliseconds = int(self._lock_timeout * 1000)
        return psycopg.connect(
            self._url,
            autocommit=True,
            connect_timeout=10,
            prepare_threshold=2,
            application_name="enginehost",
            options=f"-c synchronous_commit={self._commit} -c lock_timeout={milliseconds}"
            f" -c client_encoding=UTF8 -c idle_in_transaction_session_timeout=60000{more}",
        )

    def upgrade(self) -> None:
        """Bring the schema up to date under an advisory lock."""
        try:
            self._upgrade()
        except psycopg.Error as error:
            raise _unusable(error) from error

    def look(self) -> str:
        """See :class:`~enginehost.store.link.Database`."""
        from enginehost.store.schema import check_version, current_version

        try:
            with self._connect() as raw:
                link = Link(raw, written=percent)
                check_version(current_version(link, "pg_catalog.pg_tables", "tablename"))
                info = raw.info
                return f"PostgreSQL {info.server_version // 10000}, {info.dbname} at {info.host}:{info.port}"
        except psycopg.Error as error:
            raise _unusable(error) from error

    def _upgrade(self) -> None:
        from enginehost.store.schema import check_version, current_version, upgrade

        with self._connect() as raw:
            link = Link(raw, written=percent)
            if check_version(current_version(link, "pg_catalog.pg_tables", "tablename")):
                return
        url = self._url.replace("postgresql:", "postgresql+psycopg:", 1)
        upgrade(
            url,
            [
                "SET lock_timeout = 0",
                "SET synchronous_commit = on",  # tables have to outlive a crash of the server in any case
                "BEGIN",
                f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})",
            ],
            connect=self._connect,
        )

    def writer(self) -> Link:
        """The connection that writes."""
        return Link(self._connect(_PLANS), written=percent)

    def reader(self) -> Link:
        """A connection that reads, in the binary format."""
        raw = self._connect()
        raw.execute("SET default_transaction_read_only = on")
        raw.cursor_factory = _Binary
        return Link(raw, written=percent)

    def begin(self, link: Link, sessions: Sequence[str], locked: Sequence[str]) -> dict[str, Head]:
        """Begin with locks on the sessions, always in the same order; one round trip."""
        with link.raw.pipeline():
            link.run("BEGIN")
            mark = link.raw.execute(percent(_LOCK), {"sessions": list(locked)})
            heads = link.raw.execute(percent(_HEADS), {"sessions": list(sessions)}) if sessions else None
        link.mark, found = mark.fetchone()[0], heads.fetchall() if heads else ()
        return {row[0]: _head(row) for row in found}

    def lock(self, link: Link, session: str) -> bool:
        """A lock that is not waited for: waiting in no order could wait for ever."""
        row = link.one(_TRY, {"session": session})
        return bool(row and row[0])

    def head(self, link: Link, session: str) -> Head:
        """Where a session stands."""
        return _head(link.all(_HEADS, {"sessions": [session]})[0])

    def commit(self, link: Link, flush: Callable[[], None], note: str) -> None:
        """One round trip for all of it, with NOTIFY."""
        with link.raw.pipeline():
            flush()
            if note:
                link.run(_NOTIFY, {"note": note if len(note.encode()) <= _MOST_NOTE else ""})
            link.run("COMMIT")

    def committed(self, link: Link, mark: str) -> bool | None:
        """What became of a transaction, ``None`` while it is under way or where nothing is known of it.

        One of which a crashed server has kept nothing did not happen.
        """
        try:
            row = link.one("SELECT pg_xact_status(CAST(:mark AS xid8))", {"mark": mark})
        except errors.InvalidParameterValue:  # its number "is in the future": it is still to be given
            return False
        return {"committed": True, "aborted": False}.get(str(row[0])) if row else None

    def foreign(self, link: Link) -> bool:
        """Others notify."""
        return False

    def listen(self, told: Callable[[str | None], None], ended: Callable[[], bool]) -> None:
        """Give notes of other processes to ``told`` until ``ended``; ``None``: some may have been missed."""
        with self._connect() as raw:
            raw.execute(sql.SQL("LISTEN {}").format(sql.Identifier(CHANNEL)))
            told(None)
            while not ended():
                for note in raw.notifies(timeout=0.2, stop_after=100):
                    told(note.payload or None)

    def clock(self, link: Link) -> float:
        """The server's clock."""
        row = link.one("SELECT CAST(extract(epoch FROM clock_timestamp()) AS double precision)")
        return float(row[0]) if row else 0.0

    def fault(self, error: BaseException) -> Fault | None:
        """By SQLSTATE (PostgreSQL, appendix A)."""
        if not isinstance(error, psycopg.Error):
            return None
        state = error.sqlstate or ""
        if isinstance(error, (errors.DeadlockDetected, errors.SerializationFailure)):
            return Fault.AGAIN
        if isinstance(error, (errors.LockNotAvailable,)):
            return Fault.LOCKED
        if isinstance(error, errors.IntegrityError):
            return Fault.REFUSED
        if state.startswith("53"):
            return Fault.FULL
        if state.startswith("XX"):
            return Fault.BROKEN
        lost = state.startswith(("57P", "08")) or state == "25P03" or not state
        return Fault.LOST if lost and isinstance(error, psycopg.OperationalError) else Fault.OTHER

    @contextmanager
    def snapshot(self, link: Link) -> Generator[None]:
        """A transaction with one snapshot."""
        link.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield
        finally:
            with suppress(psycopg.Error):  # a lost connection has no transaction any more
                link.run("ROLLBACK")

    def among(self, column: str, name: str) -> str:
        """A list is an array."""
        return f"{column} = ANY(CAST(:{name} AS text[]))"

    def listed(self, values: Iterable[str]) -> Any:
        """A list is an array."""
        return list(values)

    def page(self, link: Link, where: str, params: Params, size: int) -> Iterator[tuple[int, int, bytes]]:
        """The server counts the bytes."""
        return iter(link.all(_PAGE.format(where), {**params, "size": size}))  # type: ignore[arg-type]

    def joined(self, link: Link, where: str, params: Params) -> tuple[int | None, int, int, bytes]:
        """Joined by the server: one value for Python instead of one a row."""
        return link.all(_JOINED.format(where), params)[0]  # type: ignore[return-value]

    def joined_texts(
        self, link: Link, params: Params, user: bytes, assistant: bytes
    ) -> tuple[int | None, int, int, str | None, bytes]:
        """Joined by the server."""
        return link.all(_TEXTS, {**params, "user": user, "assistant": assistant})[0]  # type: ignore[return-value]

    def raw(self, column: str) -> str:
        """The text as bytes."""
        return f"convert_to({column}, 'UTF8')"


class _Binary(psycopg.Cursor[Any]):
    """A cursor whose answers are binary."""

    format = psycopg.pq.Format.BINARY


def _head(row: tuple[Any, ...]) -> Head:
    message, event = row[1:4], row[4:7]
    if message[0] is None and event[0] is None:
        return Head()
    last = message if event[0] is None or (message[0] is not None and message[0] > event[0]) else event
    return Head(*last, messages=message[0] is not None)


def _unusable(error: psycopg.Error) -> ConfigError:
    return ConfigError(
        f"the PostgreSQL database cannot be used: {_reason(error)}",
        hint="look at store.url (DATABASE_URL), and whether the server runs and lets this user in",
        reason="store",
    )


def _reason(error: psycopg.Error) -> str:
    """What went wrong, without the address (which may hold a password)."""
    diag = error.diag.message_primary if error.sqlstate else None
    return diag or "there is no connection"
