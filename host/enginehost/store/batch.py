"""One transaction of the writer: the work of several callers, committed together."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

from enginehost.errors import UnknownSession
from enginehost.llm.message import Message
from enginehost.store.link import Database, Head, Link, Row
from enginehost.store.port import Event, Fence, Fenced, Owner, Position, Run, Settled
from enginehost.store.rows import (
    RUN_COLUMNS,
    dumps,
    numbered,
    run_json,
    run_of,
    run_row,
    text_at,
    with_content_of,
)

_MESSAGE_COLUMNS = (
    "id, session, role, type, status, once, parts, run, writer, created_at, modified_at, created_by, tenant,"
    " sequence, prev, text_at, body"
)


def insert(table: str, columns: str) -> str:
    """The statement that stores a row, whose parameters are named as its columns."""
    names = columns.split(", ")
    return f"INSERT INTO {table} ({columns}) VALUES ({', '.join(f':{name}' for name in names)})"  # noqa: S608


def _in_order(table: str, columns: str) -> str:
    """The statement that stores a row, whose values come in the order of its columns."""
    places = ", ".join("?" * len(columns.split(", ")))
    return f"INSERT INTO {table} ({columns}) VALUES ({places})"  # noqa: S608 - our own words


_INSERT_MESSAGE = _in_order("messages", _MESSAGE_COLUMNS)
_INSERT_PART = _in_order("parts", "message, number, start, content")
_INSERT_EVENT = insert(
    "events", "session, sequence, kind, parent, at, prev, data, created_at, created_by, tenant"
)
_INSERT_AUDIT = insert("audit", "id, at, what, session, detail, created_by, tenant")
_FORK = "SELECT prev FROM events WHERE session = :session AND kind = 'fork'"


def find_run(link: Link, run_id: str) -> Run | None:
    """A run as it is stored."""
    row = link.one(f"SELECT {RUN_COLUMNS} FROM runs WHERE id = :id", {"id": run_id})  # noqa: S608 - our own
    return run_of(row) if row else None


@dataclass(slots=True, eq=False)
class Change:
    """What a subscriber may take from memory once it is committed, if it stands at ``start``.

    The event is made for who asks for it: of most pieces on a busy server, nobody does.
    """

    session: str
    start: Position
    end: Position
    of: Message | Run
    piece: str | None = None
    """The part of the message's content, where it is not the message as it stands."""

    def event(self) -> Event:
        """What the subscriber gets."""
        of = self.of
        if isinstance(of, Run):
            return Event(self.end, run=of)
        return Event(self.end, of if self.piece is None else with_content_of(of, self.piece))


@dataclass(slots=True, eq=False)
class Job:
    """Work for the writer. What it says it needs is looked up for all jobs of a transaction at once.

    ``work`` raises what its caller is to know (:class:`Fenced`, …) before it writes anything; whatever else
    goes wrong takes the transaction back, and the jobs run again each alone.
    """

    work: Callable[[Batch], Any]
    sessions: Collection[str] = ()
    runs: Collection[str] = ()
    once: Collection[str] = ()
    size: int = 0
    locked: Collection[str] = ()
    """Further sessions to which nobody else is to write meanwhile; where they stand is not asked."""


@dataclass(slots=True)
class Batch:
    """The transaction: what is known in it, and what waits to be written in one go."""

    link: Link
    database: Database
    now: float
    heads: dict[str, Head] = field(default_factory=dict[str, Head])
    runs: dict[str, Run | None] = field(default_factory=dict[str, "Run | None"])
    settled: set[str] = field(default_factory=set[str])
    changes: list[Change] = field(default_factory=list[Change])
    told: set[str] = field(default_factory=set[str])
    """Sessions that others are to look at."""
    witness: str = ""
    """A message that is there if, and only if, the transaction took place; empty where it stores none."""
    _messages: list[Row] = field(default_factory=list[Row])
    _parts: list[Row] = field(default_factory=list[Row])

    def head(self, session: str) -> Head:
        """Where a session stands; a job that writes to it has named it."""
        head = self.heads.get(session)
        if head is None:
            self.flush()
            head = self.heads[session] = self.database.head(self.link, session)
        return head

    def owned(self, session: str, owner: Owner, *, known: bool = False) -> Head:
        """The head of the owner's session. ``known``: there has to be one already."""
        head = self.head(session)
        if head.subject is None:
            if known:
                raise UnknownSession(session)
        elif (head.subject, head.tenant) != (owner.subject, owner.tenant):
            raise UnknownSession(session)
        return head

    def held(self, fence: Fence, session: str = "") -> Run:
        """The run of a fence. Raises :class:`Fenced` where somebody else holds it, or it has ended."""
        run = self.find_run(fence.run)
        if run is None or run.epoch != fence.epoch or run.state.ended or session not in ("", run.session):
            raise Fenced(f"run {fence.run} is no longer held with epoch {fence.epoch}")
        return run

    def find_run(self, run_id: str) -> Run | None:
        """A run as it stands in this transaction."""
        if run_id not in self.runs:
            self.runs[run_id] = find_run(self.link, run_id)
        return self.runs[run_id]

    def unsettled(self, keys: Collection[str]) -> None:
        """Raises :class:`Settled` where one of these is there already."""
        if len(set(keys)) < len(keys) or not self.settled.isdisjoint(keys):
            raise Settled("this call has its result, or its decision, already")

    def take(self, session: str, owner: Owner) -> tuple[int, str]:
        """The next number of a session, and for the first row of a fork where it comes from."""
        head = self.head(session)
        head.sequence += 1
        prev = ""
        if not head.messages and head.sequence > 1:
            row = self.link.one(_FORK, {"session": session})
            prev = str(row[0]) if row else ""
        head.subject, head.tenant, head.messages = owner.subject, owner.tenant, True
        return head.sequence, prev

    def put(self, message: Message, row: Row, text: str, once: str | None) -> None:
        """Store a message: its columns but for what only the transaction knows, and its body."""
        sequence = message.sequence
        text = numbered(text, sequence)
        at = text_at(message, message.content, text)
        self._messages.append((*row, sequence, message.prev or None, at, text))
        self.witness = self.witness or message.id
        if once:
            self.settled.add(once)
        self.told.add(message.session)

    def put_part(self, message: str, number: int, start: int, content: str) -> None:
        """Store a part of a content, escaped."""
        self._parts.append((message, number, start, content))

    def put_run(self, run: Run) -> Run:
        """Store a run's new state, and tell of it."""
        run = replace(run, modified_at=self.now)
        self.runs[run.id] = run
        row = run_row(run)
        names = [name for name in row if name not in ("id", "session", "agent", "created_at")]
        self.link.run(
            f"UPDATE runs SET {', '.join(f'{name} = :{name}' for name in names)} WHERE id = :id",  # noqa: S608
            row,
        )
        self.put_event(run)
        return run

    def put_event(self, run: Run) -> None:
        """Tell of a run's state."""
        head = self.head(run.session)
        head.sequence += 1
        owner = Owner(head.subject or "", head.tenant)
        self._event(run.session, head.sequence, "run", owner, data=run_json(run))
        at = Position(head.sequence)
        self.changes.append(Change(run.session, Position(head.sequence - 1), at, run))

    def put_fork(self, session: str, parent: str, at: int, prev: str, owner: Owner) -> None:
        """Begin a fork: its numbers go on from those of the row it continues from."""
        self.heads[session] = Head(at + 1, owner.subject, owner.tenant)
        self._event(session, at + 1, "fork", owner, parent=parent, at=at, prev=prev)

    def _event(self, session: str, sequence: int, kind: str, owner: Owner, **columns: Any) -> None:
        row = {"parent": None, "at": None, "prev": None, "data": None} | columns
        row |= {"session": session, "sequence": sequence, "kind": kind, "created_at": self.now}
        self.link.run(_INSERT_EVENT, row | {"created_by": owner.subject, "tenant": owner.tenant})
        self.told.add(session)

    def put_audit(self, name: str, what: str, session: str, owner: Owner, **detail: Any) -> None:
        """Note who did what."""
        row = {"id": name, "at": self.now, "what": what, "session": session, "detail": dumps(detail)}
        self.link.run(_INSERT_AUDIT, row | {"created_by": owner.subject, "tenant": owner.tenant})

    def flush(self) -> None:
        """Write what waits."""
        if self._messages:
            self.link.many(_INSERT_MESSAGE, self._messages)
            self._messages.clear()
        if self._parts:
            self.link.many(_INSERT_PART, self._parts)
            self._parts.clear()

    def changed(self, message: Message, start: int) -> None:
        """Tell of a message that is whole now, whose first ``start`` characters have been told."""
        begun = Position(message.sequence - 1, start)
        self.changes.append(Change(message.session, begun, Position(message.sequence), message))

    def grown(self, message: Message, start: int, text: str) -> None:
        """Tell of a further piece of an open message, which begins after ``start`` characters."""
        before = message.sequence - 1
        begun, ended = Position(before, start), Position(before, start + len(text))
        self.changes.append(Change(message.session, begun, ended, message, text))
