"""Deleting sessions: what forks go on from stays, under an id that nobody can ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from enginehost.errors import InvalidRequest
from enginehost.llm.message import new_id
from enginehost.store.batch import Batch, Job
from enginehost.store.chain import owned_chain
from enginehost.store.ids import check_new_id, known_id, taken
from enginehost.store.link import Head, Link
from enginehost.store.port import Owner

_LAST_ROW = (
    "SELECT id, sequence FROM messages WHERE session = :session AND sequence > :after AND sequence <= :upto"
    " ORDER BY sequence DESC LIMIT 1"
)
_AFTER = "session = :session AND sequence > :keep"
_FORKS = "SELECT max(at) FROM events WHERE parent = :session AND kind = 'fork'"
_PARENT = "SELECT parent FROM events WHERE session = :session AND kind = 'fork'"
_BUSY = "SELECT 1 FROM runs WHERE session = :session AND state IN ('queued', 'running')"
_STALE = (
    "SELECT id, created_by, tenant FROM sessions WHERE modified_at < :before ORDER BY modified_at LIMIT 500"
)
_CHANGED = "SELECT max(modified_at) FROM messages WHERE session = :session"


def fork_job(session: str, at: int, owner: Owner, new: str) -> Job:
    """A session that goes on from a row of another one."""
    known_id(session)
    check_new_id(new)

    def work(batch: Batch) -> str:
        batch.owned(session, owner, known=True)
        if batch.head(new).subject is not None:
            raise taken(new)
        batch.flush()
        chain = owned_chain(batch.link, session, owner)
        for one in reversed(chain):
            params = {"session": one.session, "after": one.after, "upto": min(one.upto, at)}
            row = batch.link.one(_LAST_ROW, params) if one.after < at else None
            if row is not None and row[1] == at:
                batch.put_fork(new, one.session, row[1], row[0], owner)
                return new
        raise InvalidRequest(
            f"session {session!r} has no row {at} to go on from", detail={"reason": "no-row"}
        )

    return Job(work, sorted({session, new}))


def delete_job(session: str, owner: Owner, *, unchanged_since: float | None = None) -> Job:
    """Delete a session; where it was not changed since a time, and no turn runs, if that is given."""
    known_id(session)

    def work(batch: Batch) -> bool:
        head = batch.owned(session, owner, known=unchanged_since is None)
        batch.flush()
        if head.subject is None or (unchanged_since and _used(batch.link, session, unchanged_since)):
            return False
        row = batch.link.one(_PARENT, {"session": session})
        _cut(batch.link, session, hide=True)
        for table in ("runs", "push_configs"):
            batch.link.run(f"DELETE FROM {table} WHERE session = :session", {"session": session})  # noqa: S608
        if row:
            _release(batch.link, row[0])
        batch.heads[session] = Head()
        batch.runs.clear()
        batch.settled.clear()
        batch.told.add(session)
        what = "delete" if unchanged_since is None else "retire"
        batch.put_audit(new_id(), what, session, owner)
        return True

    return Job(work, (session,))


def stale(link: Link, before: float) -> Sequence[tuple[Any, ...]]:
    """Sessions that were last changed before a time."""
    return link.all(_STALE, {"before": before})


def _used(link: Link, session: str, since: float) -> bool:
    row = link.one(_CHANGED, {"session": session})
    changed = row is not None and row[0] is not None and row[0] >= since
    return changed or link.one(_BUSY, {"session": session}) is not None


def _cut(link: Link, session: str, *, hide: bool) -> None:
    """Delete the rows of a session that no fork needs; ``hide`` gives the others an id of their own."""
    row = link.one(_FORKS, {"session": session})
    keep = (row[0] if row else None) or 0
    params = {"session": session, "keep": keep}
    link.run(
        f"DELETE FROM parts WHERE message IN (SELECT id FROM messages WHERE {_AFTER}"  # noqa: S608
        " AND (parts = 1 OR status = 'open'))",
        params,
    )
    link.run(f"DELETE FROM messages WHERE {_AFTER}", params)  # noqa: S608
    link.run("DELETE FROM events WHERE session = :session AND kind <> 'fork'", {"session": session})
    if not keep:
        link.run("DELETE FROM events WHERE session = :session", {"session": session})
    elif hide:
        _hide(link, session, f"~{new_id()}")


def _hide(link: Link, session: str, hidden: str) -> None:
    params = {"session": session, "hidden": hidden}
    for statement in (
        "UPDATE messages SET session = :hidden, once = NULL, created_by = '', tenant = ''"
        " WHERE session = :session",
        "UPDATE events SET session = :hidden, created_by = '', tenant = '' WHERE session = :session",
        "UPDATE events SET parent = :hidden WHERE parent = :session",
    ):
        link.run(statement, params)


def _release(link: Link, parent: str) -> None:
    """A hidden session of which one fork has gone: what no other needs goes too, and so on upwards."""
    while parent.startswith("~"):
        row = link.one(_PARENT, {"session": parent})
        _cut(link, parent, hide=False)
        if row is None or link.one("SELECT 1 FROM events WHERE session = :session", {"session": parent}):
            return
        parent = row[0]
