"""Long stretches of plain texts by user and model in turns, put together by the database.

A row has ``text_at`` where it is plain (see :func:`enginehost.store.rows.text_at`). A passage begins after a
plain row and ends before one, both of which are given as messages: how a writer joins neighbours, or marks
the last row of all, is never a passage's business. Everything else is read as messages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import orjson

from enginehost.llm.message import Message, Role
from enginehost.llm.passage import Batches, Passage, PlainForm
from enginehost.store.chain import Segment
from enginehost.store.link import Database, Link
from enginehost.store.port import Owner
from enginehost.store.rows import message_of

_SIZE = 1 << 19
"""Bytes that the database joins at once, as far as the rows before tell."""
_FEWEST, _MOST = 64, 2048
"""Rows that it looks at for that."""
_NEXT = "SELECT sequence, text_at, {body} FROM messages WHERE {where} ORDER BY sequence LIMIT 1"
_LAST = (
    "SELECT max(sequence) FROM messages WHERE session = :session AND sequence > :after AND sequence <= :upto"
)

Item = list[Message] | Message | Passage
"""Messages; one whose content stands in parts; or a passage."""
Items = tuple[int | None, list[Item]]
"""The sequence of their last row (none: there are no more), and they."""
Scan = Callable[[str, Segment], Batches]


@dataclass(frozen=True, slots=True)
class _Plain:
    sequence: int
    role: Role
    message: Message


@dataclass(frozen=True, slots=True)
class _Piece:
    text: bytes
    upto: int
    role: Role
    """That of its last row."""


class Passages:
    """Finds the passages of one segment. ``scan`` reads rows of a range as messages."""

    def __init__(self, database: Database, owner: Owner, form: PlainForm, scan: Scan) -> None:
        self._database, self._owner, self._form, self._scan = database, owner, form, scan
        self._rows = _FEWEST
        self._end: int | None = None

    def read(self, link: Link, where: str, segment: Segment) -> Items | None:
        """A plain row, a passage, and the plain row after it; ``None`` where the next rows are not such."""
        first = self._plain(link, where, segment)
        pieces = self._pieces(link, replace(segment, after=first.sequence), first.role) if first else []
        if not first or not pieces:
            return None
        following = self._plain(link, where, replace(segment, after=pieces[-1].upto))
        if following is not None and following.role is not pieces[-1].role:
            return following.sequence, [
                [first.message],
                self._passage(where, first, pieces),
                [following.message],
            ]
        pieces.pop()  # its first row is a message of the next page, then
        return (pieces[-1].upto, [[first.message], self._passage(where, first, pieces)]) if pieces else None

    def _plain(self, link: Link, where: str, segment: Segment) -> _Plain | None:
        """The next row that a model is to see, if it is plain."""
        row = link.one(_NEXT.format(body=self._database.raw("body"), where=where), _params(segment))
        if row is None or row[1] is None:
            return None
        message = message_of(orjson.loads(row[2]), segment.session, self._owner)
        return _Plain(row[0], message.role, message)

    def _pieces(self, link: Link, segment: Segment, role: Role) -> list[_Piece]:
        """Plain texts in turns, the first not of ``role``; the session's last row is not among them."""
        if self._end is None:
            row = link.one(_LAST, _params(segment))
            self._end = int(row[0] or 0) if row else 0
        found, size, upto = list[_Piece](), 0, min(segment.upto, self._end - 1)
        while size < _SIZE // 2 and segment.after < upto:
            bound = min(upto, segment.after + self._rows)
            piece = self._joined(link, replace(segment, upto=bound), role)
            if piece is None:
                self._rows = _FEWEST
                break
            found.append(piece)
            size += len(piece.text)
            role, segment = piece.role, replace(segment, after=piece.upto)
        return found

    def _joined(self, link: Link, segment: Segment, before: Role) -> _Piece | None:
        """All rows of a range; ``None`` where there is none, or they are not all plain texts in turns."""
        form, first = self._form, _other(before)
        upto, count, plain, roles, text = self._database.joined_texts(
            link, _params(segment), form.between(Role.USER), form.between(Role.ASSISTANT)
        )
        in_turns = f"{first}{before}" * (count // 2) + (first if count % 2 else "")
        if upto is None or count != plain or roles != in_turns:
            return None
        self._rows = max(_FEWEST, min(_MOST, 4 * self._rows, _SIZE * count // len(text)))
        return _Piece(text, upto, first if count % 2 else before)

    def _passage(self, where: str, first: _Plain, pieces: list[_Piece]) -> Passage:
        form, role, last = self._form, _other(first.role), pieces[-1]
        texts = [form.of(role)[0]]
        for number, piece in enumerate(pieces):
            texts += (form.between(_other(role)), piece.text) if number else (piece.text,)
            role = piece.role
        texts.append(form.of(role)[1][1:])
        session = first.message.session
        rows = partial(self._scan, where, Segment(session, first.sequence, last.upto))
        return Passage([text for text in texts if text], session, last.upto, rows)


def _other(role: Role) -> Role:
    return Role.USER if role is Role.ASSISTANT else Role.ASSISTANT


def _params(segment: Segment) -> dict[str, Any]:
    return {"session": segment.session, "after": segment.after, "upto": segment.upto}
