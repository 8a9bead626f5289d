"""Rows in batches, and passages: many plain texts as one piece of a provider's JSON.

Of a long conversation nearly every row is the text of a user or of a model. A database can put such rows
together to what the provider is sent by itself, which costs a fraction of making a message of each. Who
writes a body says in which form (:class:`PlainForm`); whoever wants to see each message calls the rows as
before and meets no passages.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from enginehost.llm.message import Message, Role


@dataclass(frozen=True, slots=True)
class PlainForm:
    """The message of a provider's wire that a plain text alone makes: of a user, and of the model.

    Each is what stands before the text's JSON string, and what stands after it. The latter begins with the
    brace that closes the object in which the text is. Between two messages there is a comma.
    """

    user: tuple[bytes, bytes]
    assistant: tuple[bytes, bytes]

    def __post_init__(self) -> None:
        if self.user[1][:1] != b"}" or self.assistant[1][:1] != b"}":
            raise ValueError("after the text of a plain form there is the brace that closes its object")

    def of(self, role: Role) -> tuple[bytes, bytes]:
        """What stands before and after a text of this role."""
        return self.user if role is Role.USER else self.assistant

    def between(self, role: Role) -> bytes:
        """What stands before a text of this role that follows one of the other, after the latter's brace."""
        this, other = (self.user, self.assistant) if role is Role.USER else (self.assistant, self.user)
        return other[1][1:] + b"," + this[0]


@dataclass(frozen=True, slots=True, eq=False)
class Passage:
    """Plain texts by user and model in turns: whole messages, with commas between them.

    What comes before it and after it is a message, a plain text of the other role.
    """

    texts: Sequence[bytes]
    """The JSON, in pieces."""
    session: str
    upto: int
    """The sequence of its last row."""
    messages: Callable[[], AsyncGenerator[Batch, None]]
    """The same rows as messages, for whoever cannot do without them."""


Batch = list[Message] | Passage
Batches = AsyncGenerator[Batch, None]


@dataclass(frozen=True, slots=True)
class Context:
    """Rows (``Rows``) that can be had in batches as well.

    ``batches(form)`` begins them anew; with a form there may be passages among them.
    """

    batches: Callable[[PlainForm | None], Batches]

    def __call__(self) -> AsyncGenerator[Message, None]:
        """One by one."""
        return each(self.batches(None))


def in_batches(rows: Callable[[], AsyncIterable[Message]], form: PlainForm | None = None) -> Batches:
    """The rows, begun anew, in batches: of one each where they know of none."""
    return rows.batches(form) if isinstance(rows, Context) else one_by_one(rows())


async def one_by_one(rows: AsyncIterable[Message]) -> Batches:
    """Each row as a batch; closing it closes the rows."""
    try:
        async for row in rows:
            yield [row]
    finally:
        close: Any = getattr(rows, "aclose", None)
        if close is not None:
            await close()


async def each(batches: Batches) -> AsyncGenerator[Message, None]:
    """The rows of batches one by one; closing it closes the batches."""
    async with aclosing(batches):
        async for batch in batches:
            if isinstance(batch, Passage):
                async with aclosing(each(batch.messages())) as rows:
                    async for row in rows:
                        yield row
            else:
                for row in batch:
                    yield row


def seen_through(passage: Passage, see: Callable[[Batches], Batches]) -> Passage:
    """The passage, whose messages are had through ``see``."""
    return replace(passage, messages=lambda: see(passage.messages()))
