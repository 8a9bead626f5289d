"""A provider of our own that speaks the wire, as scripted."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

KEPT = 4 * 1024 * 1024
"""Bytes of a body that are kept."""


@dataclass
class Request:
    """What came: the path, the headers, and the body (of a huge one, only its length)."""

    path: str
    headers: dict[str, str]
    size: int
    data: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.data)


class Exchange:
    """One request that is being answered."""

    def __init__(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.request = request
        self._reader = reader
        self._writer = writer

    async def status(self, status: int, body: Any = None, **headers: str) -> None:
        """A whole answer."""
        data = json.dumps(body).encode() if body is not None else b""
        lines = {"content-type": "application/json", "content-length": str(len(data))}
        lines |= {name.replace("_", "-"): value for name, value in headers.items()}
        await self._head(status, lines)
        self._writer.write(data)
        await self._writer.drain()

    async def begin(self) -> None:
        """The head of a stream of events."""
        await self._head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})

    async def raw(self, data: bytes) -> None:
        """Bytes of a stream."""
        self._writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await self._writer.drain()

    async def event(self, value: Any, name: str = "") -> None:
        """One event of a stream."""
        text = value if isinstance(value, str) else json.dumps(value)
        await self.raw((f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode())

    async def end(self) -> None:
        """The end of a stream's body."""
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def left(self) -> None:
        """Returns when the other side has closed the connection."""
        while await self._reader.read(65536):
            pass

    async def _head(self, status: int, headers: dict[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items())]
        self._writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        await self._writer.drain()


Answer = Callable[[Exchange], Awaitable[bool | None]]
"""Answers one request. ``False``: the connection is cut."""


@dataclass
class Provider:
    """The server. ``answer`` is asked for each request to the API; ``requests`` has them."""

    answer: Answer
    models: list[str] | None = field(default_factory=lambda: ["small-1", "large-1", "large-2"])
    requests: list[Request] = field(default_factory=list)
    listed: int = 0
    port: int = 0
    writers: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def bodies(self) -> list[Any]:
        return [request.json for request in self.requests]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.add(writer)
        try:
            while (request := await read_request(reader)) is not None:
                exchange = Exchange(request, reader, writer)
                if request.path.endswith("/models"):
                    self.listed += 1
                    if self.models is None:
                        await exchange.status(404, {"error": {"message": "no such route"}})
                    else:
                        await exchange.status(200, {"data": [{"id": one} for one in self.models]})
                    continue
                self.requests.append(request)
                if await self.answer(exchange) is False:
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.writers.discard(writer)
            writer.close()


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
    if not head:
        return None
    first, *lines = head.decode().split("\r\n")
    headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines if line)}
    kept, size = bytearray(), 0
    if headers.get("transfer-encoding") == "chunked":
        while length := int((await reader.readline()).strip() or b"0", 16):
            data = await reader.readexactly(length)
            await reader.readline()
            size += length
            if len(kept) < KEPT:
                kept += data
        await reader.readline()
    else:
        size = int(headers.get("content-length", 0))
        kept += await reader.readexactly(size)
    return Request(first.split()[1], headers, size, bytes(kept))


async def nothing(exchange: Exchange) -> None:
    """The answer of a provider without a script."""
    await exchange.status(500, {"error": {"message": "nothing is scripted"}})


@asynccontextmanager
async def running(answer: Answer = nothing) -> AsyncGenerator[Provider, None]:
    """A provider on the running loop."""
    made = Provider(answer)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, limit=1 << 20)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        for writer in tuple(made.writers):
            writer.transport.abort()
        await asyncio.sleep(0)


@contextmanager
def on_a_thread(answer: Answer) -> Generator[Provider, None, None]:
    """A provider on a loop of its own."""
    ready, found = threading.Event(), list[Any]()

    async def main() -> None:
        stop = asyncio.Event()
        async with running(answer) as made:
            found.extend((made, asyncio.get_running_loop(), stop))
            ready.set()
            await stop.wait()
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    thread = threading.Thread(target=asyncio.run, args=(main(),), name="provider")
    thread.start()
    ready.wait(10)
    made, loop, stop = found
    try:
        yield made
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)


# Chat Completions


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """One chunk."""
    return {"model": "large-1", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


USAGE = {
    "prompt_tokens": 12,
    "completion_tokens": 5,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 2},
}


def call(index: int, id_: str = "", name: str = "", arguments: str = "") -> dict[str, Any]:
    """A piece of a tool call."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value}
    return {"index": index, "function": function} | ({"id": id_, "type": "function"} if id_ else {})


async def chat(exchange: Exchange, *chunks: Any, usage: Any = USAGE) -> None:
    """A whole stream of these chunks."""
    await exchange.begin()
    for chunk in chunks:
        await exchange.event(chunk)
    if usage:
        await exchange.event({"model": "large-1", "choices": [], "usage": usage})
    await exchange.event("[DONE]")
    await exchange.end()


def says(*texts: str) -> list[dict[str, Any]]:
    """The chunks of a text."""
    return [delta(role="assistant", content=""), *(delta(content=text) for text in texts), delta("stop")]
