"""Where a session's rows are: its own, and those of the sessions that it was forked from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from enginehost.errors import UnknownSession
from enginehost.store.ids import known_id
from enginehost.store.link import Link
from enginehost.store.port import Owner

LAST = 1 << 62
"""After every row there is."""

_OWNER = "SELECT created_by, tenant FROM {} WHERE session = :session ORDER BY sequence LIMIT 1"
_FIRST_EVENT = (
    "SELECT created_by, tenant, kind, parent, at FROM events WHERE session = :session"
    " ORDER BY sequence LIMIT 1"
)


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows of one session after a number, up to another one."""

    session: str
    after: int
    upto: int


def owned_chain(link: Link, session: str, owner: Owner) -> list[Segment]:
    """The segments of the owner's session, oldest first. Raises :class:`UnknownSession`."""
    segments, upto = list[Segment](), LAST
    known_id(session)
    event: tuple[Any, ...] | None = link.one(_FIRST_EVENT, {"session": session})
    found = link.one(_OWNER.format("messages"), {"session": session}) or event
    if found is None or tuple(found[:2]) != (owner.subject, owner.tenant):
        raise UnknownSession(session)
    while event is not None and event[2] == "fork":
        segments.append(Segment(session, event[4], upto))
        session, upto = event[3], event[4]
        event = link.one(_FIRST_EVENT, {"session": session})
    segments.append(Segment(session, 0, upto))
    return segments[::-1]


def within(segments: Sequence[Segment], after: int, upto: int = LAST) -> list[Segment]:
    """The parts of the segments that lie in a range of numbers."""
    cut = [Segment(one.session, max(one.after, after), min(one.upto, upto)) for one in segments]
    return [one for one in cut if one.after < one.upto]
