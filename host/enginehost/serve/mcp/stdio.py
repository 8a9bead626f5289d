"""MCP over stdin and stdout: a message a line."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from contextlib import aclosing, suppress
from itertools import count
from typing import TYPE_CHECKING, Any

from enginehost.admission import as_told
from enginehost.caller import Caller
from enginehost.errors import CallTimeout, EngineHostError, ExecutionFailed
from enginehost.serve.mcp.changes import LISTS, Stream, listening, over
from enginehost.serve.mcp.face import LISTEN, McpFace
from enginehost.serve.mcp.handshake import Handshake
from enginehost.serve.mcp.messages import Request, Response, check_envelope, level_in, message_of, parsed
from enginehost.serve.mcp.peer import Peer
from enginehost.serve.mcp.wire import (
    BATCHES,
    HANDSHAKE,
    INVALID_REQUEST,
    META_VERSION,
    MODERN,
    Fault,
    RequestId,
    answer,
    failure,
    request_of,
)

if TYPE_CHECKING:
    from enginehost.host import Host

LONGEST_LINE = 64 << 20
MOST_AT_ONCE = 1_000
"""Requests that run at once; further ones are read when one has ended."""
_LEAST_BUFFER = 64 * 1024


class StdioServer:
    """Serves one client until its input ends.

    ``caller`` is who calls: the program that started this one. ``tags`` make a tool set.
    """

    def __init__(self, host: Host, caller: Caller, tags: frozenset[str] = frozenset()) -> None:
        self._host, self._caller, self._tags = host, caller, tags
        self._face = McpFace(host)
        self._handshake = Handshake("stdio", {})
        """The client as its handshake said it is."""
        self._version = HANDSHAKE[0]
        self._running: dict[RequestId, asyncio.Task[None]] = {}
        self._asked: dict[RequestId, asyncio.Future[Any]] = {}
        self._numbers = count(1)
        self._room = asyncio.Semaphore(MOST_AT_ONCE)
        self._news: asyncio.Task[None] | None = None
        self._lines: Lines

    async def serve(self, lines: Lines) -> None:
        """Answer what is read. Whatever runs when the input ends is cancelled."""
        self._lines = lines
        try:
            while line := await lines.read():
                if not line.isspace():
                    await self._heard(line)
        finally:
            tasks = [*self._running.values(), *([self._news] if self._news is not None else [])]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _heard(self, line: bytes) -> None:
        try:
            found = parsed(line)
        except Fault as fault:
            await self._send(failure(None, fault))
            return
        if isinstance(found, list) and self._version == BATCHES:
            for one in found:
                await self._take(one)
        else:
            await self._take(found)

    async def _take(self, found: Any) -> None:
        request_id: RequestId | None = None
        try:
            if isinstance(found, dict) and isinstance(found.get("id"), str | int):
                request_id = found["id"]
            message = message_of(found)
            if isinstance(message, Response):
                self._answered(message)
            elif message.id is None:
                self._told(message)
            else:
                await self._begin(message, message.id)
        except Fault as fault:
            await self._send(failure(request_id, fault))

    async def _begin(self, message: Request, request_id: RequestId) -> None:
        peer = self._peer(message)
        if request_id in self._running:
            raise Fault(INVALID_REQUEST, "a request with this id runs already")
        if self._room.locked():
            await self._lines.flush()
        await self._room.acquire()
        task = asyncio.create_task(self._answer(peer, message, request_id))
        self._running[request_id] = task
        task.add_done_callback(lambda _: self._ended(request_id))

    def _ended(self, request_id: RequestId) -> None:
        self._running.pop(request_id, None)
        self._room.release()

    def _peer(self, message: Request) -> Peer:
        if META_VERSION in message.meta:
            capabilities = check_envelope(message)
            peer = Peer(self._caller, MODERN, self._tags, capabilities, notify=self._send)
            peer.level = level_in(message)
            return peer
        shake = self._handshake
        peer = Peer(self._caller, self._version, self._tags, shake.capabilities, notify=self._send)
        peer.handshake, peer.level, peer.ask = shake, shake.level, self._ask
        return peer

    def _told(self, message: Request) -> None:
        """A notification: something is to stop, or the handshake is over."""
        if message.method == "notifications/cancelled":
            wanted: Any = message.params.get("requestId")
            task = self._running.get(wanted) if isinstance(wanted, str | int) else None
            if task is not None:
                task.cancel()
        elif message.method == "notifications/initialized" and self._news is None:
            self._news = asyncio.create_task(self._tell_news())

    def _answered(self, response: Response) -> None:
        future = self._asked.get(response.id)
        if future is None or future.done():
            return
        if response.error is not None:
            said = response.error.get("message") if isinstance(response.error, Mapping) else None
            future.set_exception(ExecutionFailed(f"the client did not answer: {str(said)[:500]}"))
        else:
            future.set_result(response.result)

    async def _ask(self, method: str, params: Mapping[str, Any]) -> Any:
        name = f"enginehost-{next(self._numbers)}"
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[name] = future
        seconds = self._host.settings.mcp.answer_seconds
        try:
            await self._send(request_of(name, method, params))
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            raise CallTimeout("the client", seconds, "it was asked something") from None
        finally:
            del self._asked[name]

    async def _tell_news(self) -> None:
        peer = Peer(self._caller, self._version, self._tags, handshake=self._handshake)
        shake, stream = self._handshake, Stream(self._face.news, peer)
        async with aclosing(stream.messages(LISTS, shake.subscriptions, shake.heard_by)) as messages:
            async for message in messages:
                await self._send(message)

    async def _answer(self, peer: Peer, message: Request, request_id: RequestId) -> None:
        try:
            if message.method == LISTEN and peer.modern:
                async with aclosing(listening(self._face.news, peer, message)) as messages:
                    async for one in messages:
                        await self._send(one)
                said = answer(request_id, over(message))
            else:
                said = answer(request_id, await self._face.result(peer, message))
                if message.method == "initialize" and not peer.modern:
                    self._version = peer.version
                    self._handshake.capabilities = peer.capabilities
        except Fault as fault:
            said = failure(request_id, fault)
        except EngineHostError as error:
            error = as_told(error, peer.caller)
            said = failure(request_id, Fault(error.row.jsonrpc, error.message, error.to_json()))
        except asyncio.CancelledError:
            return  # whoever cancelled hears nothing more of it
        await self._send(said)

    async def _send(self, message: bytes) -> None:
        await self._lines.write(message)


class Lines:
    """Lines in and out. What is written goes out in one piece with what else this turn of the loop writes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._out: list[bytes] = []
        self._size = 0

    async def read(self) -> bytes:
        """The next line; nothing at the end, nor of one that is too long, which ends the conversation."""
        try:
            return await self._reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as end:
            return end.partial
        except asyncio.LimitOverrunError:
            return b""

    async def write(self, message: bytes) -> None:
        """Send a message soon; waits for a slow reader once much is under way."""
        if not self._out:
            asyncio.get_running_loop().call_soon(self._put)
        self._out.append(message)
        self._size += len(message)
        if self._size > _LEAST_BUFFER:
            await self.flush()

    async def flush(self) -> None:
        """Send what waits, and wait until there is room for more."""
        self._put()
        with suppress(ConnectionError):  # the client has gone: its input ends too
            await self._writer.drain()

    def _put(self) -> None:
        if self._out:
            self._out.append(b"")
            self._writer.write(b"\n".join(self._out))
            self._out, self._size = [], 0


async def own_streams() -> Lines:
    """Stdin and stdout of this process. What else is printed goes to stderr from now on."""
    loop = asyncio.get_running_loop()
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    reader = asyncio.StreamReader(limit=LONGEST_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, out)
    return Lines(reader, asyncio.StreamWriter(transport, protocol, None, loop))
