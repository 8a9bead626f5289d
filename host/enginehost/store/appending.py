"""Storing messages: rows made ready beside the writer, numbered in its transaction."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from enginehost.errors import InvalidRequest
from enginehost.llm.message import Message, Status, Type, new_id
from enginehost.store.batch import Batch, Job
from enginehost.store.ids import check_new_id, taken
from enginehost.store.link import Row
from enginehost.store.port import Fence, Owner
from enginehost.store.rows import INLINE, body, dumps, escaped, once, pieces


@dataclass(frozen=True, slots=True)
class Ready:
    """A message as it will be stored, but for its number."""

    message: Message
    text: str
    row: Row
    """Its columns, but for those that only the transaction knows."""
    once: str | None
    parts: Sequence[tuple[int, str]] = ()


def ready(
    message: Message, session: str, owner: Owner, fence: Fence | None, *, writer: str | None = None
) -> Ready:
    """A message made ready. Raises :class:`InvalidRequest` where it is not JSON, or only a piece."""
    if (message.status is Status.OPEN) != (writer is not None):
        raise InvalidRequest("a message that is not whole is begun, one that is whole is appended")
    now = time.time()
    created = message.created_at or now
    message = replace(
        message,
        id=message.id or new_id(),
        session=session,
        created_at=created,
        modified_at=max(created, message.modified_at or created),
        created_by=owner.subject,
        tenant=owner.tenant,
        prev="",
        sequence=0,
    )
    long = len(message.content) > INLINE
    parts: list[tuple[int, str]] = []
    if long:
        start = 0
        for piece in pieces(message.content):
            parts.append((start, escaped(piece)))
            start += len(piece)
    text = dumps(body(message, content=not long))
    only = once(message) or None
    row = (
        message.id,
        session,
        str(message.role),
        str(message.type),
        str(message.status),
        only,
        int(long),
        fence.run if fence else None,
        writer,
        created,
        message.modified_at,
        owner.subject,
        owner.tenant,
    )
    return Ready(message, text, row, only, parts)


def append_job(
    session: str,
    rows: Sequence[Ready],
    owner: Owner,
    fence: Fence | None,
    *,
    known: bool = False,
    new: bool = False,
    keep: Sequence[int] | None = None,
) -> Job:
    """Store rows. ``known``: the session is there already, ``new``: it is not.

    ``keep``: numbers that they have already, where those go on from the last one (0: none).
    """
    keys = [row.once for row in rows if row.once]

    def work(batch: Batch) -> list[Message]:
        if batch.owned(session, owner, known=known).subject is None:
            check_new_id(session)
        elif new:
            raise taken(session)
        if fence is not None:
            batch.held(fence, session)
        batch.unsettled(keys)
        if keep:
            return [_numbered(batch, row, owner, wanted) for row, wanted in zip(rows, keep, strict=True)]
        return [_stored(batch, row, owner) for row in rows]

    size = sum(len(row.text) + sum(len(text) for _, text in row.parts) for row in rows)
    return Job(work, (session,), (fence.run,) if fence else (), keys, size=size)


def _numbered(batch: Batch, ready: Ready, owner: Owner, wanted: int) -> Message:
    head = batch.head(ready.message.session)
    head.sequence = max(head.sequence, wanted - 1)
    return _stored(batch, ready, owner)


def _stored(batch: Batch, ready: Ready, owner: Owner) -> Message:
    session = ready.message.session
    sequence, prev = batch.take(session, owner)
    message = replace(ready.message, sequence=sequence, prev=prev)
    text = dumps(body(message, content=not ready.parts)) if prev else ready.text
    batch.put(message, ready.row, text, ready.once)
    for number, (start, content) in enumerate(ready.parts):
        batch.put_part(message.id, number, start, content)
    if message.status is not Status.OPEN:
        batch.changed(message, 0)
    if message.type is Type.APPROVAL and ready.once:
        query = message.query or {}
        detail = {name: query.get(name) for name in ("id", "kind", "decision")}
        batch.put_audit(new_id(), "decision", session, owner, **detail)
    return message
