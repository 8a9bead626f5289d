"""The turns of an owner in all sessions, page by page, and the rows of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from enginehost.errors import UnknownSession
from enginehost.llm.message import Message
from enginehost.store.batch import find_run
from enginehost.store.link import Link
from enginehost.store.port import Owner, Run, RunQuery, Standing, TurnPage
from enginehost.store.rows import RUN_COLUMNS, run_of

_REFUSAL = '%"type":"Refusal"%'
"""How the error of a turn is stored whose model refused."""
_STANDING = {
    Standing.NEW: "state = 'queued' AND epoch = 0",
    Standing.GOING: "(state = 'running' OR (state = 'queued' AND epoch > 0))",
    Standing.WAITING: "state = 'paused'",
    Standing.DONE: "state = 'done' AND error IS NULL",
    Standing.FAILED: "((state = 'failed' AND coalesce(error, '') NOT LIKE :refusal)"
    " OR (state = 'done' AND error IS NOT NULL))",
    Standing.REFUSED: "state = 'failed' AND error LIKE :refusal",
    Standing.CANCELLED: "state = 'cancelled'",
}


def standing_of(run: Run) -> Standing:
    """Where a turn stands."""
    name = str(run.state)
    if name == "queued":
        return Standing.GOING if run.epoch else Standing.NEW
    if name == "done":
        return Standing.FAILED if run.error is not None else Standing.DONE
    if name == "failed":
        detail = (run.error or {}).get("detail")
        refused = isinstance(detail, dict) and detail.get("type") == "Refusal"
        return Standing.REFUSED if refused else Standing.FAILED
    return {"running": Standing.GOING, "paused": Standing.WAITING}.get(name, Standing.CANCELLED)


_NEXT = "SELECT min(started_by) FROM runs WHERE session = :session AND started_by > :started_by"
History = Callable[[Link, str, Owner, int, int | None, int], list[Message]]


def turn_of(
    link: Link, run_id: str, owner: Owner, after: int, limit: int, *, history: History
) -> TurnPage | None:
    """A turn and a page of its rows; ``None`` where there is none of this owner."""
    run = find_run(link, run_id)
    if run is None:
        return None
    first = max(after, int(run.data.get("first", run.started_by)) - 1)
    try:
        rows = history(link, run.session, owner, first, None, limit)
    except UnknownSession:
        return None
    found = link.one(_NEXT, {"session": run.session, "started_by": run.started_by})
    end = found[0] if found else None
    mine = rows if end is None else [row for row in rows if row.sequence < end]
    return TurnPage(run, mine, len(rows) == limit and len(mine) == limit)


def runs_of(link: Link, owner: Owner, asked: RunQuery) -> tuple[list[Run], int]:
    """A page, latest changed first, and how many there are on all pages."""
    where, params = _rules(owner, asked)
    total = link.one(f"SELECT count(*) FROM runs WHERE {where}", params)  # noqa: S608 - our own words
    if asked.after is not None:
        where += " AND (modified_at < :at OR (modified_at = :at AND id < :id))"
        params |= {"at": asked.after[0], "id": asked.after[1]}
    sql = (
        f"SELECT {RUN_COLUMNS} FROM runs WHERE {where}"  # noqa: S608 - our own words
        " ORDER BY modified_at DESC, id DESC LIMIT :limit"
    )
    rows = link.all(sql, params | {"limit": asked.limit})
    return [run_of(row) for row in rows], int(total[0]) if total else 0


def _rules(owner: Owner, asked: RunQuery) -> tuple[str, dict[str, Any]]:
    rules = ["created_by = :subject", "tenant = :tenant", "agent = :agent"]
    params: dict[str, Any] = {"subject": owner.subject, "tenant": owner.tenant, "agent": asked.agent}
    if asked.session:
        rules.append("session = :session")
        params["session"] = asked.session
    if asked.standing is not None:
        rules.append(_STANDING[asked.standing])
        params["refusal"] = _REFUSAL
    if asked.since is not None:
        rules.append("modified_at >= :since")
        params["since"] = asked.since
    return " AND ".join(rules), params
