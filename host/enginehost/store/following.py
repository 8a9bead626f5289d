"""The events of a session for one subscriber: what is stored, then what comes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import merge
from typing import Any

from enginehost.llm.message import Message, Status
from enginehost.store.chain import Segment, owned_chain, within
from enginehost.store.hub import Subscriber
from enginehost.store.link import Database, Link
from enginehost.store.port import Event, Owner, Position
from enginehost.store.readers import Readers
from enginehost.store.rows import loads, message_of, run_from_json, unescaped
from enginehost.store.turns import alive

SAFETY = 15.0
"""Seconds after which a subscriber looks by itself, at what no notice came of."""
SILENCE = 5.0
"""Seconds without a piece after which it looks whether the writer lives."""

_MOST_ROWS = 200
_MOST_SIZE = 1 << 20
_MESSAGES = (
    "SELECT sequence, parts, status, writer, body FROM messages WHERE session = :session"
    " AND sequence > :after AND sequence <= :upto ORDER BY sequence LIMIT :rows"
)
_EVENTS = (
    "SELECT sequence, data FROM events WHERE session = :session AND sequence > :after AND kind = 'run'"
    " ORDER BY sequence LIMIT :rows"
)
_PART = "SELECT max(number) FROM parts WHERE message = :id AND start <= :offset"
_PARTS = "SELECT start, content FROM parts WHERE message = :id AND number >= :number ORDER BY number LIMIT 8"
_END = (
    "SELECT max(last) FROM (SELECT max(sequence) AS last FROM messages WHERE session = :session"
    " AND status <> 'open' AND sequence <= :upto"
    " UNION ALL SELECT max(sequence) FROM events WHERE session = :runs AND kind = 'run') AS ends"
)


def end_of(link: Link, session: str, owner: Owner) -> Position:
    """Where the events of a session end; before a message that is still being written."""
    for segment in reversed(owned_chain(link, session, owner)):
        runs = session if segment.session == session else ""  # those of a fork are its own alone
        row = link.one(_END, {"session": segment.session, "runs": runs, "upto": segment.upto})
        if row is not None and row[0] is not None and row[0] > segment.after:
            return Position(row[0])
    return Position()


@dataclass(slots=True)
class _Found:
    """What one look at the database gave."""

    events: list[Event] = field(default_factory=list[Event])
    more: bool = False
    open: str = ""
    """The message at which it ends since that is still being written."""
    left: bool = False
    """Whoever wrote that one is dead."""


def _look(database: Database, link: Link, session: str, owner: Owner, at: Position) -> _Found:
    found = _Found()
    with database.snapshot(link):
        chain = owned_chain(link, session, owner)
        for segment in within(chain, at.sequence):
            last = segment.session == session
            _look_at(_Look(database, link, owner, found), segment, at, runs=last)
            if found.more or found.open:
                break
            if found.events:
                at = found.events[-1].at
    return found


@dataclass(slots=True)
class _Look:
    database: Database
    link: Link
    owner: Owner
    found: _Found
    size: int = 0

    def add(self, at: Position, message: Message) -> None:
        """A message, or a piece."""
        self.size += len(message.content)
        self.found.events.append(Event(at, message=message))

    @property
    def full(self) -> bool:
        """Whether the rest is for the next look."""
        return self.size >= _MOST_SIZE


def _look_at(look: _Look, segment: Segment, at: Position, *, runs: bool) -> None:
    params: dict[str, Any] = {"session": segment.session, "after": segment.after, "rows": _MOST_ROWS}
    rows: list[tuple[Any, ...]] = []
    size = 0
    for row in look.link.rows(_MESSAGES, params | {"upto": segment.upto}):
        rows.append(row)
        size += len(row[4])
        if size >= _MOST_SIZE:
            break
    events = look.link.all(_EVENTS, params) if runs else []
    cut = [rows[-1][0]] if size >= _MOST_SIZE or len(rows) == _MOST_ROWS else []
    cut += [events[-1][0]] if len(events) == _MOST_ROWS else []
    horizon = min(cut) if cut else None
    for row in merge(rows, events, key=lambda one: one[0]):
        if horizon is not None and row[0] > horizon:
            break
        if len(row) == 2:
            look.found.events.append(Event(Position(row[0]), run=run_from_json(row[1])))
            continue
        offset = at.offset if row[0] == at.sequence + 1 else 0
        if not _message(look, segment.session, row, offset):
            return
    look.found.more = horizon is not None


def _message(look: _Look, session: str, row: tuple[Any, ...], offset: int) -> bool:
    """The rest of one message; ``False`` where it does not come to its end now."""
    sequence, parts, status, writer, text = row
    message = message_of(loads(text), session, look.owner)
    if parts or status == Status.OPEN:
        if not _pieces(look, message, offset):
            look.found.more = True
            return False
        if status == Status.OPEN:
            look.found.open = message.id
            look.found.left = not alive(look.link, look.database, writer or "")
            return False
    look.add(Position(sequence), replace(message, content=message.content[offset:]) if offset else message)
    return True


def _pieces(look: _Look, message: Message, offset: int) -> bool:
    """Pieces from a character on; whether that were all there are."""
    piece = replace(message, status=Status.OPEN, usage=None, provider=None)
    first = look.link.one(_PART, {"id": message.id, "offset": offset})
    number = (first[0] if first else None) or 0
    while found := look.link.all(_PARTS, {"id": message.id, "number": number}):
        for start, escaped in found:
            content = unescaped(escaped)
            end = start + len(content)
            if end > offset:
                at = Position(message.sequence - 1, end)
                look.add(at, replace(piece, content=content[max(0, offset - start) :]))
        number += len(found)
        if look.full:
            return False
    return True


class Following:
    """One subscriber's way through a session. ``close_left`` closes what a dead process left open."""

    def __init__(
        self,
        database: Database,
        readers: Readers,
        close_left: Callable[[str, str], Awaitable[None]],
    ) -> None:
        self._database, self._readers, self._close_left = database, readers, close_left

    async def events(
        self, subscriber: Subscriber, owner: Owner, after: Position
    ) -> AsyncGenerator[Event, None]:
        """Event after event, until closed. The subscriber has joined already."""
        session, at = subscriber.session, after
        look = partial(_look, self._database)
        opened = missed = False
        while True:
            if subscriber.behind:
                subscriber.behind = False
                subscriber.changes.clear()
                found = await self._readers.run(look, session, owner, at)
                for event in found.events:
                    at = event.at
                    yield event
                opened = missed = bool(found.open)  # it did not look beyond that one
                subscriber.behind |= found.more
                if found.left:
                    await self._close_left(session, found.open)
                continue
            while subscriber.changes and not subscriber.behind:
                change = subscriber.changes.popleft()
                if change.start == at:
                    at = change.end
                    opened = at.offset > 0
                    subscriber.behind = missed and not opened
                    yield change.event()
                elif _order(change.end) > _order(at):
                    # a later row than the one that is still being written waits until that is whole
                    ahead = opened and change.start.sequence > at.sequence
                    missed |= ahead
                    subscriber.behind = not ahead
            if not await subscriber.wait(SILENCE if opened else SAFETY):
                subscriber.behind = True


def _order(position: Position) -> tuple[int, int]:
    return position.sequence, position.offset
