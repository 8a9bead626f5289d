"""The base of harnesses that put something before what the user said last."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from enginehost.agents.contract import Harness, Session
from enginehost.llm.message import Message, Role, Type

_MOST_READ = 20_000
"""Characters of what the user said that are looked at."""
_MOST_KEPT = 1_000
"""Messages for which is remembered what was found."""


class Beside(Harness):
    """Subclasses write :meth:`found`.

    It is asked once for each message of a user, so that all steps of a turn see the same context.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], Sequence[Message]] = {}

    async def found(self, session: Session, said: Message) -> Sequence[Message]:
        """What the model is to see before ``said``, the last message of the user."""
        raise NotImplementedError

    async def context(self, session: Session) -> AsyncGenerator[Message, None]:
        """The session's rows, with what was found in its place."""
        said = await last_said(session)
        more = await self._found(session, said) if said is not None else ()
        async with aclosing(session.rows()) as rows:
            async for row in rows:
                if more and said is not None and row.sequence == said.sequence:
                    for one in more:
                        yield one
                    more = ()
                yield row

    async def _found(self, session: Session, said: Message) -> Sequence[Message]:
        key = session.id, said.sequence
        if key not in self._known:
            while len(self._known) >= _MOST_KEPT:
                del self._known[next(iter(self._known))]
            self._known[key] = await self.found(session, said)
        return self._known[key]


async def last_said(session: Session) -> Message | None:
    """The last text of the user, as far as it is looked at; ``None`` where there is none."""
    last: Message | None = None
    async with aclosing(session.rows()) as rows:
        async for row in rows:
            if row.role is not Role.USER or row.type is not Type.TEXT:
                continue
            if last is not None and last.sequence == row.sequence:  # a further piece
                last = replace(last, content=(last.content + row.content)[:_MOST_READ])
            else:
                last = replace(row, content=row.content[:_MOST_READ])
    return last
