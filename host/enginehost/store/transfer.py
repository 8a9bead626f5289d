"""Loading a session from JSON lines, in transactions of a few hundred rows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

from enginehost.errors import InvalidRequest
from enginehost.llm.message import Message, Status
from enginehost.store.appending import append_job, ready
from enginehost.store.loading import lines_of, parse_line
from enginehost.store.port import Owner
from enginehost.store.writing import OpenMessage, Pieces, Submit

_MOST_ROWS = 500
_MOST_SIZE = 1 << 20


class Loading:
    """One session that is being loaded."""

    def __init__(
        self,
        submit: Submit,
        pieces: Pieces,
        instance: str,
        session: str,
        owner: Owner,
        look: Callable[[Message], Message],
    ) -> None:
        self._submit, self._pieces, self._instance = submit, pieces, instance
        self._session, self._owner, self._look = session, owner, look
        self._waiting: list[Message] = []
        self._size = 0
        self._writing: tuple[str, OpenMessage] | None = None
        self._last = 0
        """The number of the latest row that has one."""

    async def load(self, lines: AsyncIterator[bytes]) -> None:
        """Store what the lines say. Raises :class:`InvalidRequest` with the number of the line at fault."""
        number = 0
        async for line in lines_of(lines):
            number += 1
            message = self._look(parse_line(line, number))
            self._check_order(message, number)
            await self._add(message, len(line))
        await self._flush()
        if self._writing is not None:
            raise InvalidRequest(f"the last message ({self._writing[0]}) is not whole")
        if not number:
            raise InvalidRequest("there is no message to load")

    def _check_order(self, message: Message, number: int) -> None:
        """Numbers rise from row to row; the pieces of one row have one."""
        if not message.sequence or (self._writing and message.id == self._writing[0]):
            return
        if message.sequence <= self._last:
            what = f"sequence {message.sequence} does not come after {self._last}"
            raise InvalidRequest(f"line {number} is no message: {what}")
        self._last = message.sequence

    async def _add(self, message: Message, size: int) -> None:
        if message.status is Status.OPEN or (self._writing and message.id == self._writing[0]):
            await self._flush()
            await self._piece(message)
            return
        self._waiting.append(message)
        self._size += size
        if len(self._waiting) >= _MOST_ROWS or self._size >= _MOST_SIZE:
            await self._flush()

    async def _flush(self) -> None:
        messages, self._waiting, self._size = self._waiting, [], 0
        if messages:
            await self._append(messages)

    async def _append(self, messages: Sequence[Message], writer: str | None = None) -> Message:
        """Store rows with new ids and the numbers that they had."""
        rows = [
            ready(replace(one, id=""), self._session, self._owner, None, writer=writer) for one in messages
        ]
        keep = [message.sequence for message in messages]
        stored: list[Message] = await self._submit(
            append_job(self._session, rows, self._owner, None, keep=keep)
        )
        return stored[-1]

    async def _piece(self, message: Message) -> None:
        """A piece of a long content; after the last one nothing is being written."""
        if self._writing is None:
            begun = await self._append([replace(message, content="")], self._instance)
            self._writing = message.id, OpenMessage(begun, self._owner, None, self._pieces)
        if self._writing[0] != message.id:
            raise InvalidRequest(f"message {self._writing[0]} is not whole before the next one begins")
        writing = self._writing[1]
        await writing.write(message.content)
        if message.status is not Status.OPEN:
            await writing.finish(
                message.status, usage=message.usage, provider=message.provider, query=message.query
            )
            self._writing = None
