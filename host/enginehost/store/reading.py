"""Rows in flat memory: pages of about a megabyte, the next one read while the last is used.

A page is a query of its own that begins after the last row of the one before: no transaction stays open
for a slow reader, and rows of a conversation do not change once they are whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from enginehost.llm.message import Message, Status
from enginehost.llm.passage import Batches, PlainForm
from enginehost.store.chain import LAST, Segment, owned_chain, within
from enginehost.store.link import Database, Link
from enginehost.store.passages import Item, Passages
from enginehost.store.port import Owner
from enginehost.store.readers import Readers
from enginehost.store.rows import body, dumps, loads, message_of, unescaped, with_content

PAGE = 1 << 20
"""Bytes of a page."""
MOST_HISTORY = 1_000_000
"""Characters of a content in a page of history."""

_RANGE = "session = :session AND sequence > :after AND sequence <= :upto"
_SAID = (  # a list (IN) would cost SQLite a look-up for each row
    " AND status <> 'open' AND status <> 'failed' AND type <> 'approval' AND type <> 'compaction'"
)
_ALL, _SYSTEM, _REST = _RANGE, f"{_RANGE}{_SAID} AND role = 'system'", f"{_RANGE}{_SAID} AND role <> 'system'"
_COMPACTION = (
    "SELECT body FROM messages WHERE session = :session AND sequence > :after AND sequence <= :upto"
    " AND type = 'compaction' AND status = 'done' ORDER BY sequence DESC LIMIT 1"
)
_PARTS = (
    "SELECT number, {content} FROM parts WHERE message = :id AND number >= :number ORDER BY number LIMIT 8"
)
_BEFORE = (
    "SELECT sequence FROM messages WHERE session = :session AND sequence > :after AND sequence <= :upto"
    " ORDER BY sequence DESC LIMIT :limit"
)

_GROUP = 1 << 18
"""Bytes that the database joins at once, as far as the rows before tell."""
_MOST_ROWS = 256

Row = tuple[int, int, bytes]
Content = TypeVar("Content")
Page = tuple[int | None, Content]
"""The sequence of its last row (none: there are no more rows), and what is in it."""
Read = Callable[[Link, str, Segment], Page[Content]]
Plan = tuple[Message | None, Sequence[tuple[str, Segment]]]


def _page(database: Database, link: Link, where: str, segment: Segment, size: int) -> list[Row]:
    params = {"session": segment.session, "after": segment.after, "upto": segment.upto}
    return list(database.page(link, where, params, size))


def _messages(database: Database, owner: Owner, link: Link, where: str, segment: Segment) -> Page[list[Item]]:
    rows = _page(database, link, where, segment, _GROUP)
    session, found, items = segment.session, list[Message](), list[Item]()
    for _, parts, text in rows:
        message = message_of(loads(text), session, owner)
        if not parts:
            found.append(message)
            continue
        if found:
            items.append(found)
        items.append(message)
        found = []
    if found:
        items.append(found)
    return (rows[-1][0] if rows else None), items


def _passages(
    passages: Passages, messages: Read[list[Item]], link: Link, where: str, segment: Segment
) -> Page[list[Item]]:
    return passages.read(link, where, segment) or messages(link, where, segment)


@dataclass(slots=True)
class _Lines:
    """Lines of a page, ready; or rows one by one, where the content of some stands in parts."""

    ready: list[bytes] = field(default_factory=list[bytes])
    rows: list[Row] = field(default_factory=list[Row])


def _joined(database: Database, link: Link, where: str, segment: Segment, rows: int = 16) -> Page[_Lines]:
    found, size, after = _Lines(), 0, segment.after
    params: dict[str, Any] = {"session": segment.session, "upto": segment.upto}
    while size < PAGE:
        last, count, parts, lines = database.joined(link, where, params | {"after": after, "rows": rows})
        if last is None or (parts and found.ready):
            break
        if parts:
            found.rows = _page(database, link, where, replace(segment, after=after, upto=last), PAGE)
            return found.rows[-1][0], found
        found.ready.append(lines)
        size += len(lines)
        after = last
        rows = max(4, min(_MOST_ROWS, 4 * rows, _GROUP * count // len(lines)))
    return (after if found.ready else None), found


def _parts(database: Database, link: Link, message: str, number: int) -> list[tuple[int, bytes]]:
    sql = _PARTS.format(content=database.raw("content"))
    return link.all(sql, {"id": message, "number": number})  # type: ignore[return-value]


def _plan(link: Link, session: str, owner: Owner) -> Plan:
    """The compaction row that stands for the beginning, and what else a model sees, in its order."""
    chain = owned_chain(link, session, owner)
    compaction, upto = None, 0
    for one in reversed(chain):
        params = {"session": one.session, "after": one.after, "upto": one.upto}
        if found := link.one(_COMPACTION, params):
            compaction = message_of(loads(found[0]), one.session, owner)
            upto = int((compaction.query or {}).get("upto", 0))
            break
    system = [(_SYSTEM, one) for one in chain]
    return compaction, [*system, *((_REST, one) for one in within(chain, upto))]


class Reading:
    """Reads of whole sessions."""

    def __init__(self, database: Database, readers: Readers) -> None:
        self._database, self._readers = database, readers

    async def context(self, session: str, owner: Owner, form: PlainForm | None) -> Batches:
        """What the port calls ``batches``."""
        compaction, scans = await self._readers.run(_plan, session, owner)
        messages = partial(_messages, self._database, owner)
        for where, segment in scans:
            read = messages
            if where is _REST:
                if compaction is not None:
                    yield [compaction]
                    compaction = None
                if form is not None:
                    passages = Passages(self._database, owner, form, partial(self._scan, messages))
                    read = partial(_passages, passages, messages)
            async with aclosing(self._scan(read, where, segment)) as batches:
                async for batch in batches:
                    yield batch
        if compaction is not None:  # nothing was said after it
            yield [compaction]

    async def _scan(self, read: Read[list[Item]], where: str, segment: Segment) -> Batches:
        """The rows of a segment."""
        async with aclosing(self._pages(read, where, segment)) as pages:
            async for page in pages:
                for item in page:
                    if isinstance(item, Message):
                        async for piece in self._pieces(item):
                            yield [piece]
                    else:
                        yield item

    async def lines(self, session: str, owner: Owner, *, context: bool) -> AsyncGenerator[bytes, None]:
        """JSON lines in chunks: all rows, or those that :meth:`context` gives."""
        compaction: Message | None = None
        scans: Sequence[tuple[str, Segment]]
        if context:
            compaction, scans = await self._readers.run(_plan, session, owner)
        else:
            chain = await self._readers.run(owned_chain, session, owner)
            scans = [(_ALL, one) for one in chain]
        for where, segment in scans:
            if compaction is not None and where is _REST:
                yield _line_of(compaction)
                compaction = None
            async for page in self._pages(partial(_joined, self._database), where, segment):
                if page.ready:
                    yield b"\n".join([*page.ready, b""])
                for _, parts, text in page.rows:
                    if parts:
                        async for line in self._piece_lines(text):
                            yield line
                    yield text + b"\n"
        if compaction is not None:
            yield _line_of(compaction)

    async def _pages(
        self, read: Read[Content], where: str, segment: Segment
    ) -> AsyncGenerator[Content, None]:
        """Page after page, one ahead."""
        following = asyncio.create_task(self._readers.run(read, where, segment))
        try:
            while True:
                last, page = await following
                if last is None:
                    return
                segment = replace(segment, after=last)
                following = asyncio.create_task(self._readers.run(read, where, segment))
                yield page
        finally:
            following.cancel()

    async def _pieces(self, message: Message) -> AsyncGenerator[Message, None]:
        piece = replace(message, status=Status.OPEN, usage=None, provider=None)
        async for content in self.parts(message.id):
            yield replace(piece, content=unescaped(content))
        yield message

    async def parts(self, message: str, number: int = 0) -> AsyncGenerator[str, None]:
        """The parts of a content, escaped, from one on."""
        read = partial(_parts, self._database)
        while found := await self._readers.run(read, message, number):
            for number, content in found:  # noqa: B007
                yield content.decode()
            number += 1

    async def _piece_lines(self, text: bytes) -> AsyncGenerator[bytes, None]:
        """A long content as lines of its own, each a piece."""
        found = loads(text)
        head = {name: value for name, value in found.items() if name not in ("usage", "provider", "status")}
        start = dumps(head | {"status": "open"})
        async for content in self.parts(found["id"]):
            yield with_content(start, content).encode() + b"\n"

    async def history(
        self, session: str, owner: Owner, after: int, before: int | None, limit: int
    ) -> list[Message]:
        """See the port."""
        return await self._readers.run(
            partial(history_of, self._database), session, owner, after, before, limit
        )


def _line_of(message: Message) -> bytes:
    return dumps({"sequence": message.sequence} | body(message)).encode() + b"\n"


def history_of(
    database: Database, link: Link, session: str, owner: Owner, after: int, before: int | None, limit: int
) -> list[Message]:
    """A page of rows. Raises ``UnknownSession``."""
    chain = within(owned_chain(link, session, owner), after, LAST if before is None else before - 1)
    if before is not None:
        chain = within(chain, _start(link, chain, limit))
    found: list[Message] = []
    for segment in chain:
        _collect(database, link, segment, owner, limit, found)
    return found


def _collect(
    database: Database, link: Link, segment: Segment, owner: Owner, limit: int, found: list[Message]
) -> None:
    while len(found) < limit and (page := _page(database, link, _ALL, segment, PAGE)):
        for _, parts, text in page[: limit - len(found)]:
            message = message_of(loads(text), segment.session, owner)
            open_or_long = parts or message.status is Status.OPEN
            found.append(_whole(database, link, message) if open_or_long else message)
        segment = replace(segment, after=page[-1][0])


def _start(link: Link, chain: Sequence[Segment], limit: int) -> int:
    """After which number the last ``limit`` rows of the segments begin."""
    first = LAST
    for one in reversed(chain):
        params = {"session": one.session, "after": one.after, "upto": one.upto, "limit": limit}
        rows = link.all(_BEFORE, params)
        if rows:
            first = rows[-1][0]
        limit -= len(rows)
        if limit <= 0:
            break
    return first - 1


def _whole(database: Database, link: Link, message: Message) -> Message:
    """A message with its content, up to a size."""
    parts, size, number = list[str](), 0, 0
    while size <= MOST_HISTORY and (found := _parts(database, link, message.id, number)):
        texts = [unescaped(content.decode()) for _, content in found]
        parts += texts
        size += sum(map(len, texts))
        number = found[-1][0] + 1
    content = "".join(parts)
    if len(content) <= MOST_HISTORY:
        return replace(message, content=content)
    return replace(message, content=content[:MOST_HISTORY], query=dict(message.query or {}) | {"cut": True})
