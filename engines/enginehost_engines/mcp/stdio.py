"""A server's standard input and output as a transport of the SDK's client.

In place of the SDK's own, which keeps a line of any length in memory, leaves behind what the server started,
and passes the server's error output through to the host's.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from enginehost_engines.mcp.process import LAST_WORDS_SECONDS, ServerProcess
from enginehost_engines.mcp.results import one_line

Items = MemoryObjectSendStream[SessionMessage | Exception]
Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]

TOO_LARGE = -32098
UNREADABLE = -32097
"""Codes of errors made here, in the range that JSON-RPC leaves to implementations."""

MOST_GARBAGE = 1000
"""Lines in a row that are no message; then the server counts as broken."""
_TOLD_GARBAGE = 20

_FIRST_MEMBER = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*,')
_LAST_MEMBER = re.compile(rb'"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
_EDGE = 200


@asynccontextmanager
async def stdio_transport(
    process: ServerProcess, limit: int, lost: Callable[[str], None], log: logging.Logger
) -> AsyncGenerator[Streams]:
    """The streams of a running server, which is ended with them. ``lost`` hears why they have ended."""
    received, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, to_send = anyio.create_memory_object_stream[SessionMessage](0)
    writer: asyncio.StreamWriter | None = None
    try:
        output, writer = await process.streams()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read, output, received, _Lines(limit, log), process, lost)
            tasks.start_soon(_write, writer, to_send, process, lost)
            try:
                yield read_stream, write_stream
            finally:
                tasks.cancel_scope.cancel()
    finally:
        for stream in (received, read_stream, write_stream, to_send):
            stream.close()
        if writer is not None:
            writer.close()
        with anyio.CancelScope(shield=True):
            await process.stop()
        if writer is not None and writer.transport.get_write_buffer_size():
            writer.transport.abort()  # whoever left the group may hold the pipe's other end


async def _read(
    output: asyncio.StreamReader,
    received: Items,
    lines: _Lines,
    process: ServerProcess,
    lost: Callable[[str], None],
) -> None:
    reason = ""
    try:
        while chunk := await output.read(256 * 1024):
            for message in lines.feed(chunk):
                await received.send(message)
    except Broken as error:
        reason = str(error)
    except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        reason = ""
    if not reason:
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                await process.ended.wait()
        await asyncio.sleep(0)  # what it said last is read by another task
        reason = process.end
    lost(reason)
    received.close()


async def _write(
    writer: asyncio.StreamWriter,
    to_send: MemoryObjectReceiveStream[SessionMessage],
    process: ServerProcess,
    lost: Callable[[str], None],
) -> None:
    try:
        async for item in to_send:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            writer.write(text.encode() + b"\n")
            await writer.drain()
    except OSError:
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                await process.ended.wait()
        lost(process.end if process.ended.is_set() else "the server closed its input")


class Broken(Exception):
    """The server writes what no client can follow."""


class _Lines:
    """Bytes into messages, each of at most ``limit`` bytes."""

    def __init__(self, limit: int, log: logging.Logger) -> None:
        self._limit = limit
        self._log = log
        self._parts: list[bytes] = []
        self._size = 0
        self._head = b""
        """Of a line that is too long, how it began: only that, and how it ended, is kept."""
        self._garbage = 0

    def feed(self, chunk: bytes) -> list[SessionMessage]:
        """The messages that are complete now. Raises :class:`Broken`."""
        *ends, rest = chunk.split(b"\n")
        found = [message for end in ends if (message := self._line(end)) is not None]
        self._keep(rest)
        return found

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        self._parts.append(part)
        if self._size > self._limit:
            whole = b"".join(self._parts)
            self._head = self._head or whole[:_EDGE]
            self._parts = [whole[-_EDGE:]]

    def _line(self, end: bytes) -> SessionMessage | None:
        self._keep(end)
        line, head, size = b"".join(self._parts), self._head, self._size
        self._parts, self._head, self._size = [], b"", 0
        if head:
            return self._too_long(head, line, size)
        if not line.strip():
            return None
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            return self._unreadable(line)
        self._garbage = 0
        return SessionMessage(message)

    def _too_long(self, head: bytes, tail: bytes, size: int) -> SessionMessage | None:
        found = _FIRST_MEMBER.match(head) or _LAST_MEMBER.search(tail)
        self._log.warning("the server sent a message of %d bytes, more than MAX_MESSAGE_BYTES", size)
        return _failure(int(found[1]), TOO_LARGE, str(size)) if found else None

    def _unreadable(self, line: bytes) -> SessionMessage | None:
        """Programs print what they like; an answer that is none ends its call."""
        self._garbage += 1
        if self._garbage > MOST_GARBAGE:
            raise Broken("the server writes on its output what is no message")
        if self._garbage <= _TOLD_GARBAGE:
            shown = one_line(line[:400].decode("utf-8", "replace"), 200)
            self._log.warning("the server wrote on its output what is no message: %s", shown)
        identifier = _id_of(line)
        return None if identifier is None else _failure(identifier, UNREADABLE, "")


def _id_of(line: bytes) -> int | None:
    try:
        body: Any = json.loads(line)
    except (ValueError, RecursionError):
        found = _FIRST_MEMBER.match(line[:_EDGE]) or _LAST_MEMBER.search(line[-_EDGE:])
        return int(found[1]) if found else None
    identifier = body.get("id") if isinstance(body, dict) and "method" not in body else None
    return identifier if type(identifier) is int else None


def _failure(identifier: int, code: int, message: str) -> SessionMessage:
    error = types.ErrorData(code=code, message=message)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=identifier, error=error))
