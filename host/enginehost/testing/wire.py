"""A model provider's side of the wire, for tests of model engines: it says what it is told to, byte by byte.

::

    async with provider() as server:
        server.says(sse({"type": "ping"}, …))
        …
        assert server.seen[0].json()["model"] == "…"
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import orjson

HANG = "hang"
"""A part of an answer: nothing more comes until the client goes."""

CUT = "cut"
"""A part of an answer: the connection breaks off."""

Part = bytes | float | str
"""Bytes to send, seconds to wait, :data:`HANG` or :data:`CUT`."""


@dataclass(slots=True)
class Seen:
    """A request as it came. ``body`` is its beginning, ``size`` its whole length in bytes."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""
    size: int = 0

    def json(self) -> Any:
        """The body as JSON."""
        return orjson.loads(self.body)

    @property
    def chunked(self) -> bool:
        """Whether it came without a length before it."""
        return self.headers.get("transfer-encoding") == "chunked"


@dataclass(slots=True)
class Reply:
    """An answer: status, headers, and the parts of its body."""

    parts: Sequence[Part] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class Provider:
    """A server on a loopback port. Answers are given in the order in which :meth:`says` had them."""

    def __init__(self, keep: int) -> None:
        self.seen: list[Seen] = []
        self.left = asyncio.Event()
        """Set when a client has closed its connection in the middle of an answer."""
        self.port = 0
        self.reacts: Callable[[Seen], Reply] | None = None
        """What gives the answers to requests for which :meth:`says` has left none."""
        self._keep = keep
        self._replies: deque[Reply] = deque()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def says(self, *replies: Reply | Part) -> None:
        """Answer the next requests with these; bytes are a whole answer."""
        self._replies += (one if isinstance(one, Reply) else Reply((one,)) for one in replies)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while (request := await self._read(reader)) is not None:
                self.seen.append(request)
                if not await self._answer(self._reply(request), reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            self.left.set()
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def _reply(self, request: Seen) -> Reply:
        if self._replies or self.reacts is None:
            return self._replies.popleft()
        return self.reacts(request)

    async def _answer(self, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = [f"HTTP/1.1 {reply.status} Said", "transfer-encoding: chunked"]
        head += [f"{name}: {text}" for name, text in reply.headers.items()]
        writer.write("\r\n".join([*head, "", ""]).encode())
        for part in reply.parts:
            if part == CUT:
                writer.transport.abort()
                return False
            if part == HANG:
                await writer.drain()
                await reader.read(1)
                self.left.set()
                return False
            if isinstance(part, bytes):
                writer.write(b"%x\r\n%b\r\n" % (len(part), part))
                await writer.drain()
            elif isinstance(part, int | float):
                await asyncio.sleep(part)
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return reply.headers.get("connection") != "close"

    async def _read(self, reader: asyncio.StreamReader) -> Seen | None:
        head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
        if not head:
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        pairs = (line.partition(":") for line in lines if line)
        request = Seen(method, path, {name.lower(): text.strip() for name, _, text in pairs})
        if request.chunked:
            while size := int(await reader.readuntil(b"\r\n"), 16):
                await self._take(request, reader, size)
                await reader.readexactly(2)
            await reader.readexactly(2)
        else:
            await self._take(request, reader, int(request.headers.get("content-length", "0")))
        return request

    async def _take(self, request: Seen, reader: asyncio.StreamReader, size: int) -> None:
        while size:
            data = await reader.read(min(size, 1 << 16))
            if not data:
                raise asyncio.IncompleteReadError(data, size)
            size -= len(data)
            request.size += len(data)
            if len(request.body) < self._keep:
                request.body += data


@asynccontextmanager
async def provider(keep: int = 1 << 20) -> AsyncGenerator[Provider, None]:
    """A server that listens. ``keep``: bytes of each body that are kept, about."""
    served = Provider(keep)
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(served.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    served.port = server.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def provider_on_thread(reacts: Callable[[Seen], Reply]) -> Generator[Provider, None, None]:
    """A server on a loop of its own, for fixtures of tests that have none."""
    started = threading.Event()
    found: list[Provider] = []
    ends: list[Callable[[], object]] = []

    async def serve() -> None:
        end = asyncio.Event()
        loop = asyncio.get_running_loop()
        async with provider() as served:
            served.reacts = reacts
            found.append(served)
            ends.append(lambda: loop.call_soon_threadsafe(end.set))
            started.set()
            await end.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), name="provider", daemon=True)
    thread.start()
    started.wait()
    try:
        yield found[0]
    finally:
        ends[0]()
        thread.join()


def sse(*events: Any) -> bytes:
    """Server-sent events with these JSON values as data."""
    return b"".join(b"data: " + orjson.dumps(event) + b"\n\n" for event in events)
