"""The body of a model request: JSON written from the rows as they come, never whole in memory.

::

    def body() -> AsyncGenerator[bytes, None]:
        return written(head, rows, Turns(…), b"}")

Text is joined to chunks of about 64 kB: one chunk a row is seven times slower. Every try makes a new
generator; one that is spent would be sent as no bytes at all.
"""

from __future__ import annotations

import json
import tempfile
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import IO, Any, Protocol, cast, runtime_checkable

import anyio.to_thread
import orjson

from enginehost.errors import InvalidRequest
from enginehost.llm.message import Message, Status
from enginehost.llm.passage import Passage, PlainForm, in_batches, one_by_one

CHUNK = 64 * 1024
"""Bytes after which a chunk is sent."""

_SPOOL_CHUNK = 16 * CHUNK
"""Bytes that go into, and come out of, a temporary file at once."""


class Writer(Protocol):
    """Makes JSON text of rows, one after the other. Raises ``ValueError`` for one that has no place there."""

    def write(self, message: Message) -> bytes:
        """The text for one message, or one piece of it; may be empty."""
        ...

    def end(self) -> bytes:
        """What closes the text."""
        ...


@runtime_checkable
class PlainWriter(Writer, Protocol):
    """A writer among whose text passages may stand: plain texts that the database has written already.

    They are what it would write of these rows itself, each a message of its own on the provider's wire. The
    row before a passage and the one after it are messages of the other role, which it does write.
    """

    plain: PlainForm

    def before_passage(self) -> bytes:
        """What stands before a passage: the end of what is open, and a comma."""
        ...


async def written(
    head: bytes,
    rows: Callable[[], AsyncIterable[Message]] | AsyncIterable[Message],
    writer: Writer,
    tail: bytes = b"",
) -> AsyncGenerator[bytes, None]:
    """``head``, the rows as ``writer`` has them, and ``tail``, in chunks of about :data:`CHUNK` bytes.

    Give it the function that begins the rows (``Rows``), so that a :class:`PlainWriter` gets passages; a
    passage's pieces, of up to a megabyte, come as they are. Raises :class:`InvalidRequest` for rows that
    ``writer`` refuses.
    """
    form = writer.plain if isinstance(writer, PlainWriter) else None
    batches = in_batches(rows, form) if callable(rows) else one_by_one(rows)
    parts, size = [head], len(head)
    write = writer.write
    try:
        async with aclosing(batches):
            async for batch in batches:
                if isinstance(batch, Passage):
                    yield b"".join((*parts, cast("PlainWriter", writer).before_passage()))
                    parts, size = [], 0
                    for text in batch.texts:
                        yield text
                    continue
                for message in batch:
                    text = write(message)
                    parts.append(text)
                    size += len(text)
                    if size >= CHUNK:
                        yield b"".join(parts)
                        parts, size = [], 0
            parts += (writer.end(), tail)
    except ValueError as error:
        raise InvalidRequest(str(error)) from error
    yield b"".join(parts)


def json_bytes(value: Any) -> bytes:
    """A JSON value as bytes. Lone surrogates, which no JSON text may hold, become U+FFFD."""
    try:
        return orjson.dumps(value)
    except TypeError:  # surrogates, or a whole number of more than 64 bits
        text = json.dumps(_without_surrogates(value), ensure_ascii=False, allow_nan=False)
        return text.encode()


def escaped(text: str) -> bytes:
    """``text`` as it stands inside a JSON string: pieces can be put together there."""
    return json_bytes(text)[1:-1]


def members(value: dict[str, Any]) -> bytes:
    """The members of a JSON object without its braces, to be put together with others."""
    return json_bytes(value)[1:-1]


def with_extra(said: Mapping[str, Any], extra: Mapping[str, Any], *written: str) -> dict[str, Any]:
    """The members of a body with those of ``extra``; ``written`` are further ones that the engine makes.

    Raises :class:`InvalidRequest` where both have one, which would stand there twice or win unseen.
    """
    for name in extra:
        if name in said or name in written:
            raise InvalidRequest(f"{name} cannot be given as an extra: the engine writes it itself")
    return {**said, **extra}


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_without_surrogates(name): _without_surrogates(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_surrogates(item) for item in value]
    return value


class Pieces:
    """Tells which piece of its message a message is."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        self._open: str | None = None

    def look(self, message: Message) -> tuple[bool, bool]:
        """Whether it is the first, and whether it is the last piece of its message.

        Raises ``ValueError`` where a message begins before the last one has ended.
        """
        first = self._open is None
        if not first and message.id != self._open:
            raise ValueError(f"message {message.id or 'without an id'} begins inside message {self._open}")
        last = message.status is not Status.OPEN
        self._open = None if last else message.id
        return first, last

    @property
    def inside(self) -> bool:
        """Whether a message has begun and not ended."""
        return self._open is not None


class Turns(ABC):
    """Writes rows as a JSON list of turns, each of which holds a list of blocks.

    Rows of one :meth:`role` after each other make one turn. Give :meth:`end` its text with :func:`written`:
    the list's brackets are the caller's.
    """

    def __init__(self) -> None:
        self._pieces = Pieces()
        self._role: str | None = None
        """Whose turn is open; empty: none is, but some have been."""

    @abstractmethod
    def role(self, message: Message) -> str:
        """Whose turn the message belongs to."""

    @abstractmethod
    def open_turn(self, role: str) -> bytes:
        """What stands before the first block of a turn."""

    @abstractmethod
    def close_turn(self, role: str) -> bytes:
        """What stands after its last block."""

    @abstractmethod
    def open_block(self, message: Message) -> bytes:
        """What stands before the text of a message; of pieces, the first is given."""

    @abstractmethod
    def close_block(self, message: Message) -> bytes:
        """What stands after it; of pieces, the last is given."""

    def text(self, message: Message) -> bytes:
        """The text of a message or piece: inside a JSON string, unless overridden."""
        return escaped(message.content)

    def write(self, message: Message) -> bytes:
        """The text of one row or piece."""
        first, last = self._pieces.look(message)
        parts: list[bytes] = []
        if first:
            role = self.role(message)
            if role == self._role:
                parts.append(b",")
            else:
                parts += (self._closed(), self.open_turn(role))
                self._role = role
            parts.append(self.open_block(message))
        parts.append(self.text(message))
        if last:
            parts.append(self.close_block(message))
        return b"".join(parts)

    def before_passage(self) -> bytes:
        """See :class:`PlainWriter`."""
        closed, self._role = self._closed(), ""
        return closed

    def _closed(self) -> bytes:
        """What stands before the next turn."""
        if self._role is None:
            return b""
        return self.close_turn(self._role) + b"," if self._role else b","

    def end(self) -> bytes:
        """Close the last turn. Raises ``ValueError`` in the middle of a message."""
        if self._pieces.inside:
            raise ValueError("the rows end in the middle of a message")
        return self.close_turn(self._role) if self._role else b""


class Spooled:
    """A body in a temporary file, for endpoints that want its length, or its hash, before it."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self.file = file
        self.size = size
        """Bytes."""

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body from its beginning, each time."""
        await anyio.to_thread.run_sync(self.file.seek, 0)
        while chunk := await anyio.to_thread.run_sync(self.file.read, _SPOOL_CHUNK):
            yield chunk


@asynccontextmanager
async def spooled(chunks: AsyncIterable[bytes]) -> AsyncGenerator[Spooled]:
    """Write a body into a temporary file that goes away at the end."""
    # the file has no name, so that nobody else reads it and nothing is left of it
    file = await anyio.to_thread.run_sync(partial(tempfile.TemporaryFile, prefix="enginehost-body-"))
    try:
        size, waiting, held = 0, list[bytes](), 0
        async for chunk in chunks:
            waiting.append(chunk)
            held += len(chunk)
            if held >= _SPOOL_CHUNK:
                await anyio.to_thread.run_sync(file.write, b"".join(waiting))
                size, waiting, held = size + held, [], 0
        await anyio.to_thread.run_sync(file.write, b"".join(waiting))
        await anyio.to_thread.run_sync(file.seek, 0)
        yield Spooled(file, size + held)
    finally:
        file.close()
