"""The rows of a session as a model may see them: in the order and completeness that providers insist on.

A provider refuses a request in which a tool call has no result, a result has no call, or something stands
between the two. So: a call's results follow it at once, what was written meanwhile (a user's next message)
comes after them, a call that never got a result gets one here that says so, and a result whose call was
compacted away is left out. Rows for people (questions, notices) are not for models. All of it streams: kept
are only the calls that are open and what waits for their results.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import replace
from typing import cast

import orjson

from enginehost.agents.options import OPTIONS
from enginehost.agents.rows import NOTICE, failure_text, result_query
from enginehost.llm.message import Message, Role, Status, Type
from enginehost.llm.passage import Batches, Passage, each, one_by_one

Lazily = Callable[[Message], Awaitable[str]]
"""Runs the query that stands in place of a result; gives the result's JSON text."""

_NOT_FOR_MODELS = (OPTIONS, NOTICE)
_NO_RESULT = failure_text("this call was not carried out, and has no result", "cancelled")


def for_model(
    rows: AsyncIterator[Message], lazily: Lazily, *, result_chars: int | None = None
) -> AsyncGenerator[Message, None]:
    """See the module. ``result_chars`` of a tool's result are given, with a note where that is not all."""
    return each(batches_for_model(one_by_one(rows), lazily, result_chars=result_chars))


async def batches_for_model(batches: Batches, lazily: Lazily, *, result_chars: int | None = None) -> Batches:
    """The same in batches. A passage stays one where nothing is open when it comes."""
    order = _Order(lazily, result_chars)
    async with aclosing(batches):  # a context that is left half read lets go of the database at once
        async for batch in batches:
            if not isinstance(batch, Passage):
                async for given in _settled(order, batch):
                    yield given
            elif order.open or order.thought:
                async with aclosing(batch.messages()) as inner:
                    async for rows in inner:
                        async for given in _settled(order, cast("list[Message]", rows)):
                            yield given
            else:
                yield batch
    if last := [given async for given in order.end()]:
        yield last


async def _settled(order: _Order, rows: Iterable[Message]) -> Batches:
    """Rows as the model may see them; what needs more than a look is given as it comes."""
    found: list[Message] = []
    for row in rows:
        if row.type is Type.TEXT and row.role is not Role.SYSTEM and not order.open and not order.thought:
            order.leading = False
            found.append(row)  # nearly all rows of nearly all sessions
            continue
        if found:
            yield found
            found = []
        async for given in order.put(row):
            yield [given]
    if found:
        yield found


class _Order:
    """What is open while rows pass."""

    def __init__(self, lazily: Lazily, result_chars: int | None) -> None:
        self.open: dict[str, Message] = {}
        """Calls without a result yet."""
        self.leading = True
        """Whether only system rows have come yet; providers take a later one as a user's only."""
        self.thought: list[Message] = []
        """Reasoning that has not been followed by what it led to: without that, no provider takes it back."""
        self._held: list[Message] = []
        """Rows that have to wait until the open calls have their results."""
        self._lazily = lazily
        self._most = result_chars
        self._passing = ""
        """The id of the result of which pieces come, and how many characters of it have come."""
        self._passed = 0
        self._begun = False

    async def put(self, row: Message) -> AsyncGenerator[Message, None]:
        if row.type is Type.TOOL_RESULT:
            async for given in self._result(row):
                yield given
            return
        if row.type is Type.APPROVAL or _kind(row) in _NOT_FOR_MODELS:
            return
        if self.open and row.type is Type.TOOL_CALL:
            if _step(row) != _step(next(iter(self.open.values()))):
                async for given in self.end():  # these never got theirs
                    yield given
        elif self.open:
            if row.role is Role.ASSISTANT and row.type is not Type.REASONING:
                async for given in self.end():  # the conversation went on without these results
                    yield given
            else:
                self._held.append(row)
                return
        if row.type is Type.REASONING:
            if self.thought and _step(self.thought[0]) != _step(row):
                self.thought.clear()
            self.thought.append(row)
            return
        for earlier in self._thoughts(row):
            yield earlier
        if row.type is Type.TOOL_CALL:
            self.open[row.call_id] = row
        yield self._plain(row)

    async def end(self) -> AsyncGenerator[Message, None]:
        """Settle what is open, then give what waited for it."""
        for call in self.open.values():
            yield Message(Role.TOOL, Type.TOOL_RESULT, _NO_RESULT, query=result_query(call, error=True))
        self.open.clear()
        held, self._held = self._held, []
        for row in held:
            async for given in self.put(row):
                yield given

    def _thoughts(self, row: Message) -> list[Message]:
        """The reasoning that led to ``row``, if it is of its step."""
        thought, self.thought = self.thought, []
        return thought if row.role is Role.ASSISTANT and thought and _step(thought[0]) == _step(row) else []

    async def _result(self, row: Message) -> AsyncGenerator[Message, None]:
        if row.call_id not in self.open:
            return
        query = row.query or {}
        if "lazy" in query:
            row = replace(row, content=await self._lazily(row), status=Status.DONE)
        edited = query.get("edited")
        if edited is not None and not self._begun:
            note = "a person changed the arguments of this call before it ran; this is the result for them"
            told = orjson.dumps({"note": note, "args": edited}, default=str).decode()
            row = replace(row, content=f'{told[:-1]},"result":{row.content}')
        self._begun = not row.whole
        if row.whole and edited is not None:
            row = replace(row, content=row.content + "}")
        if (shortened := self._shortened(row)) is not None:
            yield shortened
        if row.whole:
            del self.open[row.call_id]
            if not self.open:
                async for given in self.end():
                    yield given

    def _plain(self, row: Message) -> Message:
        """A row in the form in which every provider takes it."""
        if row.type is Type.COMPACTION:
            row = replace(row, role=Role.USER, type=Type.TEXT)
        elif row.role is Role.SYSTEM and not self.leading:
            return replace(row, role=Role.USER)
        self.leading = self.leading and row.role is Role.SYSTEM
        return row

    def _shortened(self, row: Message) -> Message | None:
        """The piece as far as it goes to the model; ``None`` where none of it does."""
        if self._passing != row.call_id:
            self._passing, self._passed = row.call_id, 0
        before, size = self._passed, len(row.content)
        self._passed += size
        if row.whole:
            self._passing = ""
        if self._most is None or self._passed <= self._most:
            return row
        content = row.content[: max(0, self._most - before)]
        if row.whole:
            return replace(row, content=f"{content}… ({self._passed - self._most} characters are left out)")
        return replace(row, content=content) if content else None


def _kind(row: Message) -> str:
    return str(row.query.get("kind", "")) if row.query and row.role is Role.SYSTEM else ""


def _step(row: Message) -> object:
    return row.query.get("step") if row.query else None
