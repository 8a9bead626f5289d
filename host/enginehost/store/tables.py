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


def _owner() -> tuple[Column[str], Column[str]]:
    return Column("created_by", Text, nullable=False), Column("tenant", Text, nullable=False)


messages = Table(
    "messages",
    metadata,
    Column("id", Text, primary_key=True),
    Column("session", Text, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("prev", Text),
    Column("role", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("once", Text, comment="what may be there once: a call, its result, a decision on it"),
    Column("parts", Integer, nullable=False, comment="whether the content stands in parts: 0 or 1"),
    Column("run", Text),
    Column("writer", Text, comment="the process that writes it, while it is open"),
    Column("created_at", Float, nullable=False),
    Column("modified_at", Float, nullable=False),
    *_owner(),
    Column("body", Text, nullable=False),
    UniqueConstraint("session", "sequence", name="messages_in_order"),
    Index("messages_once", "once", unique=True),
    Index("messages_of_owner", "created_by", "tenant", "session", "modified_at", "created_at"),
    *(
        Index(f"messages_{name}", "session", "sequence", sqlite_where=text(rule), postgresql_where=text(rule))
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
    Column("content", Text, nullable=False, comment="as it stands between the quotes of a JSON string"),
)

events = Table(
    "events",
    metadata,
    Column("session", Text, primary_key=True),
    Column("sequence", BigInteger, primary_key=True),
    Column(
        "kind", Text, nullable=False, comment="run: a new state of one; fork: where the session comes from"
    ),
    Column("parent", Text, comment="of a fork: the session it comes from"),
    Column("at", BigInteger, comment="of a fork: the last row it has from there"),
    Column("prev", Text, comment="of a fork: the id of that row"),
    Column("data", Text),
    Column("created_at", Float, nullable=False),
    *_owner(),
    Index(
        "events_forks", "parent", sqlite_where=text("kind = 'fork'"), postgresql_where=text("kind = 'fork'")
    ),
    Index(
        "events_fork_owner",
        "created_by",
        "tenant",
        sqlite_where=text("kind = 'fork'"),
        postgresql_where=text("kind = 'fork'"),
    ),
)

_UNFINISHED = "state IN ('queued', 'running', 'paused')"

runs = Table(
    "runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("session", Text, nullable=False),
    Column("agent", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("holder", Text, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("started_by", BigInteger, nullable=False),
    Column("cancel", Boolean, nullable=False),
    Column("error", Text),
    Column("usage", Text),
    Column("task", Text, nullable=False),
    Column("context", Text, nullable=False),
    Column("data", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("modified_at", Float, nullable=False),
    *_owner(),
    Index("runs_of_session", "session", "created_at"),
    Index("runs_of_task", "task"),
    Index(
        "runs_one_at_a_time",
        "session",
        unique=True,
        sqlite_where=text(_UNFINISHED),
        postgresql_where=text(_UNFINISHED),
    ),
    Index(
        "runs_to_take",
        "state",
        "created_at",
        sqlite_where=text(_UNFINISHED),
        postgresql_where=text(_UNFINISHED),
    ),
)

processes = Table(
    "processes",
    metadata,
    Column("holder", Text, primary_key=True),
    Column("boot", Text, nullable=False, comment="which start of the machine until counts from"),
    Column("until", Float, nullable=False, comment="seconds on the clock of leases"),
)

push_configs = Table(
    "push_configs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("session", Text, nullable=False),
    Column("task", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("data", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    *_owner(),
    Index("push_configs_of_task", "task"),
)

audit = Table(
    "audit",
    metadata,
    Column("id", Text, primary_key=True),
    Column("at", Float, nullable=False),
    Column("what", Text, nullable=False, comment="decision, cancel, delete, retire"),
    Column("session", Text, nullable=False),
    Column("detail", Text, nullable=False),
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
