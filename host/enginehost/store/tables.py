"""The tables, as the newest migration leaves them.

A conversation is rows of ``messages``; there is no table of sessions. ``body`` is the row as final JSON, so
that reading passes it on without making it anew; the other columns are what queries ask for. What stands in
it besides is in ``parts``. Numbers of ``sequence`` are shared by ``messages`` and ``events``, without gaps.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

metadata = MetaData()


def _text(name: str, comment: str | None = None) -> Column[str]:
    """A text that every row has."""
    return Column(name, Text, nullable=False, comment=comment)


def _time(name: str, comment: str | None = None) -> Column[float]:
    """Seconds that every row has."""
    return Column(name, Float, nullable=False, comment=comment)


def _partial(name: str, rule: str, *columns: str, unique: bool = False) -> Index:
    """An index of the rows to which a rule applies."""
    return Index(name, *columns, unique=unique, sqlite_where=text(rule), postgresql_where=text(rule))


def _owner() -> tuple[Column[str], Column[str]]:
    return _text("created_by"), _text("tenant")


messages = Table(
    "messages",
    metadata,
    Column("id", Text, primary_key=True),
    _text("session"),
    Column("sequence", BigInteger, nullable=False),
    Column("prev", Text),
    _text("role"),
    _text("type"),
    _text("status"),
    Column("once", Text, comment="what may be there once: a call, its result, a decision on it"),
    Column("parts", Integer, nullable=False, comment="whether the content stands in parts: 0 or 1"),
    Column("run", Text),
    Column("writer", Text, comment="the process that writes it, while it is open"),
    _time("created_at"),
    _time("modified_at"),
    *_owner(),
    Column("text_at", Integer, comment="of a plain text: at which byte of the body its JSON string begins"),
    _text("body"),
    UniqueConstraint("session", "sequence", name="messages_in_order"),
    Index("messages_once", "once", unique=True),
    Index("messages_of_owner", "created_by", "tenant", "session", "modified_at", "created_at"),
    *(
        _partial(f"messages_{name}", rule, "session", "sequence")
        for name, rule in (
            ("system", "role = 'system'"),
            ("compaction", "type = 'compaction'"),
            ("open", "status = 'open'"),
            ("calls", "type = 'tool_call'"),
        )
    ),
)

parts = Table(
    "parts",
    metadata,
    Column("message", Text, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("start", BigInteger, nullable=False, comment="characters before it"),
    _text("content", "as it stands between the quotes of a JSON string"),
)

events = Table(
    "events",
    metadata,
    Column("session", Text, primary_key=True),
    Column("sequence", BigInteger, primary_key=True),
    _text("kind", "run: a new state of one; fork: where the session comes from"),
    Column("parent", Text, comment="of a fork: the session it comes from"),
    Column("at", BigInteger, comment="of a fork: the last row it has from there"),
    Column("prev", Text, comment="of a fork: the id of that row"),
    Column("data", Text),
    _time("created_at"),
    *_owner(),
    _partial("events_forks", "kind = 'fork'", "parent"),
    _partial("events_fork_owner", "kind = 'fork'", "created_by", "tenant"),
)

_UNFINISHED = "state IN ('queued', 'running', 'paused')"

runs = Table(
    "runs",
    metadata,
    Column("id", Text, primary_key=True),
    _text("session"),
    _text("agent"),
    _text("state"),
    _text("holder"),
    Column("epoch", Integer, nullable=False),
    Column("started_by", BigInteger, nullable=False),
    Column("cancel", Boolean, nullable=False),
    Column("error", Text),
    Column("usage", Text),
    _text("task"),
    _text("context"),
    _text("data"),
    _time("created_at"),
    _time("modified_at"),
    *_owner(),
    Index("runs_of_session", "session", "created_at"),
    Index("runs_of_task", "task"),
    Index("runs_of_owner", "created_by", "tenant", "agent", "modified_at", "id"),
    _partial("runs_one_at_a_time", _UNFINISHED, "session", unique=True),
    _partial("runs_to_take", _UNFINISHED, "state", "created_at"),
)

processes = Table(
    "processes",
    metadata,
    Column("holder", Text, primary_key=True),
    _text("boot", "which start of the machine until counts from"),
    _time("until", "seconds on the clock of leases"),
)

push_configs = Table(
    "push_configs",
    metadata,
    Column("id", Text, primary_key=True),
    _text("session"),
    _text("task"),
    _text("url"),
    _text("data"),
    _time("created_at"),
    *_owner(),
    Index("push_configs_of_task", "task"),
)

audit = Table(
    "audit",
    metadata,
    Column("id", Text, primary_key=True),
    _time("at"),
    _text("what", "decision, cancel, delete, retire"),
    _text("session"),
    _text("detail"),
    *_owner(),
    Index("audit_in_time", "at"),
)

_SESSIONS = """
CREATE VIEW sessions AS
SELECT id, created_by, tenant, min(created_at) AS created_at, max(modified_at) AS modified_at,
       CAST(sum(rows) AS INTEGER) AS messages
FROM (
  SELECT session AS id, created_by, tenant, created_at, modified_at, 1 AS rows FROM messages
  UNION ALL
  SELECT session, created_by, tenant, created_at, created_at, 0 FROM events WHERE kind = 'fork'
) AS all_rows
WHERE substr(id, 1, 1) <> '~'
GROUP BY id, created_by, tenant
"""
_CONVERSATION = """
CREATE VIEW conversation AS
SELECT id, session, sequence, prev, role, type, {content} AS content, {query} AS query,
       {provider} AS provider, {usage} AS usage, status, created_at, modified_at, created_by, tenant
FROM messages
"""
_MEMBERS = ("content", "query", "provider", "usage")


def views(dialect: str) -> tuple[str, ...]:
    """The statements that make the views."""
    if dialect == "sqlite":
        members = {name: f"json_extract(body, '$.{name}')" for name in _MEMBERS}
    else:
        members = {name: f"CAST(body AS json) ->> '{name}'" for name in _MEMBERS}
    return _SESSIONS, _CONVERSATION.format(**members)
