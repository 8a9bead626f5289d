"""Runs: who holds a turn, and how it moves from state to state. All of it in the writer's transactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from enginehost.errors import Overloaded
from enginehost.llm.message import Message, Role, Status, Type, new_id
from enginehost.store.appending import append_job, ready
from enginehost.store.batch import Batch, Job, insert
from enginehost.store.ids import known_id
from enginehost.store.link import Database, Link
from enginehost.store.port import Fence, Fenced, Owner, Run, RunState
from enginehost.store.rows import RUN_COLUMNS, loads, message_of, run_of, run_row
from enginehost.store.writing import close_left

_INSERT = insert("runs", f"{RUN_COLUMNS}, created_by, tenant")
_UNFINISHED = "state IN ('queued', 'running', 'paused')"
_FREE = (
    "(r.state = 'queued' OR (r.state = 'running' AND"
    " (p.holder IS NULL OR p.boot <> :boot OR p.until < :now)))"
)
_BEAT = (
    "INSERT INTO processes (holder, boot, until) VALUES (:holder, :boot, :until) ON CONFLICT (holder)"
    " DO UPDATE SET boot = excluded.boot, until = CASE WHEN processes.boot = excluded.boot"
    " AND processes.until > excluded.until THEN processes.until ELSE excluded.until END"
)
_CANCELLED = "SELECT id, epoch FROM runs WHERE holder = :holder AND state = 'running' AND cancel = {}"
_CALLS = (
    "SELECT once, body FROM messages WHERE session = :session AND type = 'tool_call'"
    " AND sequence >= :first AND once IS NOT NULL ORDER BY sequence"
)
_FIELDS = frozenset({"error", "usage", "data", "task", "context", "started_by"})
_CANCEL_NOTE = "~cancel:"


def cancel_note(holder: str) -> str:
    """What is told beside sessions when a run of this process is to end."""
    return _CANCEL_NOTE + holder


def is_cancel_note(told: str) -> bool:
    """Whether that is told, and no session."""
    return told.startswith(_CANCEL_NOTE)


def start_job(run: Run, owner: Owner) -> Job:
    """A new turn. Raises ``Overloaded``, ``UnknownSession``."""
    known_id(run.session)

    def work(batch: Batch) -> Run:
        batch.owned(run.session, owner, known=True)
        sql = f"SELECT 1 FROM runs WHERE session = :session AND {_UNFINISHED}"  # noqa: S608 - our own
        if batch.link.one(sql, {"session": run.session}):
            raise Overloaded("this session has a turn that has not ended", retry_after=1.0)
        new = replace(run, created_at=batch.now, modified_at=batch.now)
        batch.link.run(_INSERT, run_row(new) | {"created_by": owner.subject, "tenant": owner.tenant})
        batch.runs[new.id] = new
        batch.put_event(new)
        return new

    return Job(work, (run.session,), (run.id,))


def claim_job(holder: str, agents: Sequence[str], session: str, lease: float) -> Job:
    """Take a free run, the oldest first."""

    def work(batch: Batch) -> Run | None:
        batch.flush()
        found = _free(batch, agents, "AND r.session = :session" if session else "", session=session)
        for run in found:
            if not batch.database.lock(batch.link, run.session):
                continue
            batch.flush()
            batch.heads.pop(run.session, None)  # it may have moved before the lock was ours
            still = _free(batch, agents, "AND r.id = :id", id=run.id)
            if still:
                beat(batch.link, batch.database, holder, lease)
                taken = replace(still[0], state=RunState.RUNNING, holder=holder, epoch=still[0].epoch + 1)
                return batch.put_run(taken)
        return None

    return Job(work, (session,) if session else ())


def _free(batch: Batch, agents: Sequence[str], condition: str, **params: Any) -> list[Run]:
    columns = ", ".join(f"r.{name}" for name in RUN_COLUMNS.split(", "))
    database = batch.database
    sql = (
        f"SELECT {columns} FROM runs AS r LEFT JOIN processes AS p ON p.holder = r.holder"  # noqa: S608
        f" WHERE r.state IN ('queued', 'running') AND {_FREE} AND {database.among('r.agent', 'agents')}"
        f" {condition} ORDER BY r.created_at, r.id LIMIT 20"
    )
    now = database.clock(batch.link)
    return [
        run_of(row)
        for row in batch.link.all(
            sql, params | {"boot": database.boot, "now": now, "agents": database.listed(agents)}
        )
    ]


def change_job(session: str, fence: Fence, state: RunState, fields: Mapping[str, Any]) -> Job:
    """Move a run to another state. Raises :class:`Fenced`."""
    if unknown := set(fields) - _FIELDS:
        raise TypeError(f"a run has no field to change named {', '.join(sorted(unknown))}")

    def work(batch: Batch) -> Run:
        run = batch.held(fence)
        if run.state is not RunState.RUNNING and not state.ended:
            raise Fenced(f"run {run.id} is {run.state}, and nobody holds it")
        if state.ended:
            _close(batch, run, Status.CANCELLED if state is RunState.CANCELLED else Status.FAILED)
        holder = run.holder if state is RunState.RUNNING or state.ended else ""
        return batch.put_run(replace(run, state=state, holder=holder, **fields))

    return Job(work, (session,), (fence.run,))


def _close(batch: Batch, run: Run, status: Status) -> list[Message]:
    params = {"session": run.session, "run": run.id}
    return close_left(batch, "session = :session AND run = :run", params, status)


def close_open_job(session: str, fence: Fence, owner: Owner) -> Job:
    """Close what an earlier holder left open."""

    def work(batch: Batch) -> list[Message]:
        batch.owned(session, owner, known=True)
        return _close(batch, batch.held(fence, session), Status.FAILED)

    return Job(work, (session,), (fence.run,))


def resume_job(session: str, run_id: str) -> Job:
    """Queue a paused run."""

    def work(batch: Batch) -> bool:
        run = batch.find_run(run_id)
        if run is None or run.state is not RunState.PAUSED:
            return False
        batch.put_run(replace(run, state=RunState.QUEUED, holder=""))
        return True

    return Job(work, (session,), (run_id,))


def cancel_job(session: str, run_id: str, owner: Owner) -> Job:
    """Ask for a run's end; end it where nobody runs it."""

    def work(batch: Batch) -> Run | None:
        run = batch.find_run(run_id)
        head = batch.head(session)
        if run is None or (head.subject, head.tenant) != (owner.subject, owner.tenant):
            return None
        if run.state.ended or run.cancel:
            return run
        batch.put_audit(new_id(), "cancel", session, owner, run=run_id)
        if run.state is RunState.RUNNING and alive(batch.link, batch.database, run.holder):
            batch.told.add(cancel_note(run.holder))
            return batch.put_run(replace(run, cancel=True))
        _close(batch, run, Status.CANCELLED)
        _settle(batch, run, owner)
        ended = replace(run, state=RunState.CANCELLED, cancel=True, epoch=run.epoch + 1, holder="")
        return batch.put_run(ended)

    return Job(work, (session,), (run_id,))


def _settle(batch: Batch, run: Run, owner: Owner) -> None:
    """Give every open call of a turn a result that says cancelled."""
    batch.flush()
    calls = batch.link.all(_CALLS, {"session": run.session, "first": run.started_by})
    keys = {once: once.replace("\ntool_call\n", "\ntool_result\n", 1) for once, _ in calls}
    sql = f"SELECT once FROM messages WHERE {batch.database.among('once', 'keys')}"  # noqa: S608
    settled = {row[0] for row in batch.link.all(sql, {"keys": batch.database.listed(keys.values())})}
    for once, text in calls:
        if keys[once] not in settled:
            call = message_of(loads(text), run.session, owner)
            query = {"tool": (call.query or {}).get("tool", ""), "id": call.call_id, "error": True}
            result = Message(Role.TOOL, Type.TOOL_RESULT, '{"error":"cancelled"}', query)
            append_job(run.session, [ready(result, run.session, owner, None)], owner, None).work(batch)
    batch.flush()


def beat(link: Link, database: Database, holder: str, seconds: float) -> None:
    """A process lives for so many seconds more, at least."""
    until = database.clock(link) + seconds
    link.run(_BEAT, {"holder": holder, "boot": database.boot, "until": until})


def alive(link: Link, database: Database, holder: str) -> bool:
    """Whether a process's lease holds."""
    row = link.one("SELECT boot, until FROM processes WHERE holder = :holder", {"holder": holder})
    return row is not None and row[0] == database.boot and row[1] >= database.clock(link)


def cancelled_runs(link: Link, holder: str, truth: str) -> list[tuple[str, int]]:
    """The runs of a process that somebody wants to end, with their epochs."""
    return [(row[0], row[1]) for row in link.all(_CANCELLED.format(truth), {"holder": holder})]


def runs_of(link: Link, session: str) -> list[Run]:
    """The runs of a session, latest first."""
    sql = f"SELECT {RUN_COLUMNS} FROM runs WHERE session = :session ORDER BY created_at DESC, id DESC"  # noqa: S608
    return [run_of(row) for row in link.all(sql, {"session": session})]
