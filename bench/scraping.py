"""Reads ``/metrics`` over HTTP while 32 connections call functions, and watches the host's event loop.

:func:`pauses` runs in the host's process. The module as a program is the other side, on a core of its own:
``scraping.py PORT COUNT`` calls ``f0`` … of ``COUNT`` functions.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import Iterator
from time import monotonic
from typing import Any

from enginehost import Host
from measuring import LOAD_CORE, pin

CONNECTIONS = 32
SCRAPES = 3
IDLE_SECONDS = 1.0
"""How long it is watched before anybody reads the metrics."""

Span = tuple[float, float]
"""From when to when, by the clock that all processes of a machine share."""

BODY = b'{"a":1,"b":2}'
CALL = (
    b"POST /v1/functions/f%d HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%b"
)
READ = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n"


async def pauses(host: Host, count: int) -> dict[str, float]:
    """The longest pause of the loop while the metrics are read, and before; how long reading took."""
    from enginehost.serve.server import HttpServer

    server = HttpServer(host, "127.0.0.1:0")
    await server.start()
    ticks: list[Span] = []
    ticker = asyncio.create_task(tick(ticks))
    try:
        told = await other_side(server.address.rpartition(":")[2], count)
    finally:
        ticker.cancel()
        await server.stop()
    return {
        "scrape": max(end - begin for begin, end in told["scrapes"]),
        "scrape_mb": told["mb"],
        "gap": max(longest(ticks, span) for span in told["scrapes"]) * 1000,
        "idle_gap": longest(ticks, told["idle"]) * 1000,
        "rate": told["rate"],
    }


async def tick(ticks: list[Span]) -> None:
    """Sleep a millisecond, again and again, and keep from when to when each really was."""
    while True:
        begin = monotonic()
        await asyncio.sleep(0.001)
        ticks.append((begin, monotonic()))


def longest(ticks: list[Span], span: Span) -> float:
    """The longest pause that lies, even in part, in ``span``: what a tick took beyond its millisecond."""
    return max(end - begin - 0.001 for begin, end in ticks if begin < span[1] and end > span[0])


async def other_side(port: str, count: int) -> dict[str, Any]:
    """What the client's process tells."""
    command = (sys.executable, __file__, port, str(count))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    text, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError("the process that calls and reads the metrics failed")
    return json.loads(text)


class Client:
    """One connection that stays open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, port: int) -> Client:
        """To the server on this machine."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, request: bytes) -> bytes:
        """The body of the answer. An answer that is none is an error: a wrong one is not measured."""
        self._writer.write(request)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        if not head.startswith(b"http/1.1 200 "):
            raise RuntimeError(head.decode())
        length = head.partition(b"content-length:")[2].partition(b"\r")[0]
        return await self._reader.readexactly(int(length))


async def call(port: int, numbers: Iterator[int], done: list[float]) -> None:
    """Call one function after the other, and note when each answer came."""
    client = await Client.connect(port)
    for number in numbers:
        answer = await client.ask(CALL % (number, port, len(BODY), BODY))
        if b'"result":3' not in answer:
            raise RuntimeError(answer.decode())
        done.append(monotonic())


async def read(port: int, done: list[float]) -> dict[str, Any]:
    """Watch the calls alone, then read the metrics :data:`SCRAPES` times."""
    client = await Client.connect(port)
    await asyncio.sleep(IDLE_SECONDS / 2)  # all have connected
    begin = monotonic()
    await asyncio.sleep(IDLE_SECONDS)
    idle = begin, monotonic()
    scrapes: list[Span] = []
    text = b""
    for _ in range(SCRAPES):
        begin = monotonic()
        text = await client.ask(READ % port)
        scrapes.append((begin, monotonic()))
    between = sum(any(begin < then < end for begin, end in scrapes) for then in done)
    rate = between / sum(end - begin for begin, end in scrapes)
    return {"idle": idle, "scrapes": scrapes, "mb": len(text) / 1e6, "rate": rate}


async def measure(port: int, count: int) -> dict[str, Any]:
    """:func:`read` beside the callers, who must live till its end."""
    numbers, done = itertools.cycle(range(count)), list[float]()
    reading = asyncio.create_task(read(port, done))
    calling = [asyncio.create_task(call(port, numbers, done)) for _ in range(CONNECTIONS)]
    await asyncio.wait([reading, *calling], return_when=asyncio.FIRST_COMPLETED)
    for task in calling:
        if task.done():
            task.result()
        task.cancel()
    return await reading


if __name__ == "__main__":
    import uvloop

    pin(LOAD_CORE)
    print(json.dumps(uvloop.run(measure(int(sys.argv[1]), int(sys.argv[2])))))
