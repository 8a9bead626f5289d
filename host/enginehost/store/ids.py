"""Which texts are ids of sessions."""

from __future__ import annotations

from enginehost.errors import InvalidRequest, UnknownSession

MOST_ID = 200
"""Characters of an id."""

TAKEN = "taken"
"""``detail["reason"]`` of an id that a new session cannot have."""

_IN_A_PATH = frozenset("/\\?#%")
"""What means something in the path of a URL; ids of sessions that there are already may have it."""


def is_possible(session: str) -> bool:
    """Whether there can be a session with this id, in any database."""
    return 0 < len(session) <= MOST_ID and session[0] != "~" and session.isprintable()


def check_id(session: str) -> str:
    """An id by which somebody writes to a session. Raises :class:`InvalidRequest`."""
    if not is_possible(session):
        raise InvalidRequest(f"a session id has 1 to {MOST_ID} printable characters and begins with no ~")
    return session


def check_new_id(session: str) -> str:
    """An id that a new session may have. Raises :class:`InvalidRequest`."""
    check_id(session)
    if session in (".", "..") or not _IN_A_PATH.isdisjoint(session):
        text = "the id of a new session has none of / \\ ? # % in it, and is neither . nor .."
        raise InvalidRequest(text)
    return session


def known_id(session: str) -> str:
    """An id of a session that there may be. Raises :class:`UnknownSession` for one that no session has."""
    if not is_possible(session):
        raise UnknownSession(session)
    return session


def taken(session: str) -> InvalidRequest:
    """What to say of an id that a new session cannot have: the same, whoever's session has it."""
    text = f"the id {session!r} cannot be had; choose another id"
    return InvalidRequest(text, detail={"reason": TAKEN})


def of_another(session: str, agent: str, asked: str) -> InvalidRequest:
    """What to say of one's own conversation that another agent than the one asked has."""
    text = f"the conversation {session!r} is {agent}'s: {asked} cannot go on with it"
    hint = f"choose another id for a conversation with {asked}"
    return InvalidRequest(text, detail={"reason": TAKEN, "hint": hint})
