"""What sessions need of a database, in our own values."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from enginehost.llm.message import Message, Status, Usage
from enginehost.llm.passage import Batches, PlainForm


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose sessions are meant; everything is scoped to it. A foreign id answers like an unknown one."""

    subject: str
    tenant: str = ""


CLAIM_LEASE = 10.0
"""Seconds for which a process keeps a run that it has taken, where it says nothing."""


def as_it_is(message: Message) -> Message:
    """The message itself: see :meth:`Store.load`."""
    return message


class RunState(StrEnum):
    """Where a turn stands."""

    QUEUED = "queued"
    """It may be taken by any process."""
    RUNNING = "running"
    PAUSED = "paused"
    """It waits for a person (approval, answer), or for results from outside."""
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether it goes on no more."""
        return self in (RunState.DONE, RunState.FAILED, RunState.CANCELLED)


@dataclass(frozen=True, slots=True)
class Run:
    """One turn of a session: from a user's message to the answer.

    ``holder`` is the process that runs it and ``epoch`` counts its holders: a write with an older epoch is
    refused. ``agent`` names who answers. ``started_by`` is the sequence of the message that began it.
    ``cancel``: somebody has asked for its end. ``task`` and ``context`` are A2A's ids.
    """

    id: str
    session: str
    agent: str
    state: RunState
    holder: str = ""
    epoch: int = 0
    started_by: int = 0
    cancel: bool = False
    error: Mapping[str, Any] | None = None
    usage: Usage | None = None
    task: str = ""
    context: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    created_at: float = 0.0
    modified_at: float = 0.0


class Standing(StrEnum):
    """Where a turn stands, as whoever asked for it sees it."""

    NEW = "new"
    """Nobody has begun it."""
    GOING = "going"
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"
    """Also one that ended at a limit."""
    REFUSED = "refused"
    """The model, or its provider's guard, would not answer."""
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class RunQuery:
    """Which turns are meant: of one ``agent``; in one ``session`` and of one ``standing``, where given.

    ``since`` is when they were changed at the earliest. ``after`` is where the last page ended: time and id
    of its last turn.
    """

    agent: str
    session: str = ""
    standing: Standing | None = None
    since: float | None = None
    after: tuple[float, str] | None = None
    limit: int = 50


class TurnPage(NamedTuple):
    """A turn as it stands, some of its rows, and whether there may be more of them."""

    run: Run
    rows: list[Message]
    more: bool


@dataclass(frozen=True, slots=True)
class Fence:
    """The right to write for a run: refused with :class:`Fenced` once another process holds it."""

    run: str
    epoch: int


class Fenced(Exception):
    """Another process has taken the run over; whoever meets this stops at once and writes nothing more."""


class Settled(Exception):
    """This call has its result, or this approval its decision, already (consume-once)."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a session's events: after so many rows, and so many characters of the next one.

    Its text (``12.3400``) is an SSE event id.
    """

    sequence: int = 0
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.sequence}.{self.offset}"


@dataclass(frozen=True, slots=True)
class Event:
    """What a subscriber sees: a message, a further piece of one, or a new state of the run.

    ``at`` is the position after it: a subscriber that comes back with it misses nothing and gets nothing
    twice.
    """

    at: Position
    message: Message | None = None
    run: Run | None = None


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A row of the view ``sessions``."""

    id: str
    owner: Owner
    created_at: float
    modified_at: float
    messages: int


class Writing(Protocol):
    """A message that is being written as it comes."""

    message: Message
    """As it was begun, with id and sequence."""

    async def write(self, text: str) -> None:
        """A further part; stored within 250 ms, or as soon as 64 kB have come together."""
        ...

    async def finish(
        self,
        status: Status = Status.DONE,
        *,
        usage: Usage | None = None,
        provider: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> None:
        """It is whole; returns when all of it is durable."""
        ...


class Store(Protocol):
    """Messages, runs and events in a database that several processes may share."""

    async def open(self) -> None:
        """Connect, and bring the schema up to date under a lock.

        Raises :class:`~enginehost.errors.ConfigError` with what to do.
        """
        ...

    async def close(self) -> None:
        """Write what waits, and let go."""
        ...

    # Messages

    async def append(
        self,
        session: str,
        messages: Sequence[Message],
        owner: Owner,
        *,
        fence: Fence | None = None,
        new: bool = False,
    ) -> list[Message]:
        """Store messages in one transaction; durable on return. Gives them with id and sequence.

        ``new``: they begin the session; raises ``InvalidRequest`` (reason ``taken``) where the owner has one
        of this id. An id that no new session may have is refused, too.

        Raises :class:`Fenced`; :class:`Settled` for a second result or decision of one call;
        :class:`~enginehost.errors.UnknownSession` for a session of somebody else.
        """
        ...

    async def begin(
        self, session: str, message: Message, owner: Owner, *, fence: Fence | None = None
    ) -> Writing:
        """Begin a message whose content comes in parts."""
        ...

    def context(self, session: str, owner: Owner) -> AsyncGenerator[Message, None]:
        """All rows that a model is to see, forks followed, compacted ranges replaced; in flat memory.

        First those of role ``system``; then the latest compaction row, if there is one, and what came after
        what it stands for; without approvals. A long content comes in pieces (status ``open``), as it stands
        in ``parts``. Rows that failed (status ``failed``: a writer died, a stream was cut) are for people
        and not among them.
        """
        ...

    def batches(self, session: str, owner: Owner, form: PlainForm | None = None) -> Batches:
        """What :meth:`context` gives, in batches; with a form, long stretches of plain texts are passages."""
        ...

    def rows_json(self, session: str, owner: Owner, *, context: bool = False) -> AsyncGenerator[bytes, None]:
        """The rows as JSON lines in chunks of about 1 MB: all of them, or those that :meth:`context` gives.

        A content of more than 64 kB comes as lines of its own, pieces with status ``open`` before the last.
        """
        ...

    async def history(
        self, session: str, owner: Owner, *, after: int = 0, before: int | None = None, limit: int = 100
    ) -> list[Message]:
        """A page of rows (forks followed), contents whole up to 1 MB each, then cut with ``query["cut"]``."""
        ...

    async def said(self, session: str, message_id: str, owner: Owner) -> Message | None:
        """The row of a message that its sender named (``query["message_id"]``), where it was said."""
        ...

    async def fork(self, session: str, at: int, owner: Owner, *, new: str = "") -> str:
        """A session that goes on from row ``at`` of another; copies nothing. Gives its id."""
        ...

    async def sessions(
        self, owner: Owner, *, before: float | None = None, limit: int = 100
    ) -> list[SessionInfo]:
        """The owner's sessions, latest first."""
        ...

    async def delete(self, session: str, owner: Owner) -> None:
        """Delete a session; rows that forks go on from stay, unreachable by its id."""
        ...

    async def retire(self, older_than: float) -> int:
        """Delete sessions that were last changed before a time; how many (retention)."""
        ...

    # Events

    def events(
        self, session: str, owner: Owner, after: Position | None = None
    ) -> AsyncGenerator[Event, None]:
        """Follow a session from a position: what is stored, then what comes, until closed.

        Every subscriber gets every event in the same order, and the end of each run exactly once.
        """
        ...

    async def end(self, session: str, owner: Owner) -> Position:
        """Where the events of a session end now; before a message that is still being written."""
        ...

    # Runs

    async def start_run(
        self,
        session: str,
        agent: str,
        owner: Owner,
        *,
        started_by: int = 0,
        data: Mapping[str, Any] | None = None,
        task: str = "",
        context: str = "",
    ) -> Run:
        """A new turn, queued, with what whoever takes it has to know in ``data``.

        Raises ``Overloaded`` where the session has one that has not ended.
        """
        ...

    async def run(self, run_id: str) -> Run | None:
        """A run as it stands."""
        ...

    async def turn(self, run_id: str, owner: Owner, *, after: int = 0, limit: int = 200) -> TurnPage | None:
        """A turn with its rows after a sequence, as :meth:`history` has them; ``None`` for a foreign id too.

        They begin with the first row of the message that began it (``data["first"]``), and end before the
        message that began the next one.
        """
        ...

    async def runs(self, session: str, owner: Owner) -> list[Run]:
        """The turns of a session, latest first."""
        ...

    async def runs_of(self, owner: Owner, asked: RunQuery) -> tuple[list[Run], int]:
        """A page of the owner's turns in all sessions, latest changed first; how many there are in all."""
        ...

    async def claim(
        self, holder: str, agents: Sequence[str], *, session: str = "", lease: float = CLAIM_LEASE
    ) -> Run | None:
        """Take a queued run, or one whose holder's lease is over, for this process: epoch + 1. Atomic.

        The process keeps it for ``lease`` seconds at least.
        """
        ...

    async def close_open(self, fence: Fence, owner: Owner) -> list[Message]:
        """Close what an earlier holder of this run left half-written, for whoever took the run over.

        Rows that were written for the run and have status ``open`` become ``failed``; a tool result among
        them is no result of its call any more (its call may be settled again). Gives their heads. Raises
        :class:`Fenced`.
        """
        ...

    async def change_run(self, fence: Fence, state: RunState, **fields: Any) -> Run:
        """Move a run this process holds to another state. Raises :class:`Fenced`."""
        ...

    async def resume_run(self, run_id: str) -> bool:
        """Queue a paused run again; ``False`` where it is not paused (of two at once, one wins)."""
        ...

    async def cancel_run(self, run_id: str, owner: Owner) -> Run | None:
        """Ask for the end of a run, from any process. One that nobody runs ends at once."""
        ...

    async def beat(self, holder: str, seconds: float) -> None:
        """This process lives: its lease holds for so many seconds more."""
        ...

    async def leave(self, holder: str) -> None:
        """This process has ended: what it still holds is free at once."""
        ...

    async def succeed(self, origin: str, holder: str) -> None:
        """The processes that are known by ``origin`` have ended, but this one: what they hold is free."""
        ...

    def cancelled(self, holder: str) -> AsyncGenerator[str, None]:
        """The ids of runs of this process whose end somebody asks for, as it happens."""
        ...

    # Whole sessions as JSON lines

    def export(self, session: str, owner: Owner) -> AsyncGenerator[bytes, None]:
        """A session as JSON lines, one message each; forks are written out."""
        ...

    async def load(
        self,
        lines: AsyncIterator[bytes],
        owner: Owner,
        *,
        session: str = "",
        look: Callable[[Message], Message] = as_it_is,
    ) -> str:
        """A session from JSON lines; gives its id. Rows as the seed writes them are accepted.

        ``look`` is shown each row, or piece of one, and gives what is stored in its place.
        """
        ...
