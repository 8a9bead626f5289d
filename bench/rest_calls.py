"""A REST engine through ``Host.call`` over the same request by a bare client of httpx2.

Both call one small server in a process of its own, on the other core; the client is made once and shared,
as the engine's connections are. What a caller gets is the same: the parsed JSON answer.

    python bench/rest_calls.py [RUNS=7] [CALLS=2000]
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter
from typing import Any, TextIO

import httpx2
import uvloop

from enginehost import Host
from measuring import LOAD_CORE, SERVER_CORE, Spread, finish, introduce, pin, table, verdict

MOST_TIMES = 1.15
CROWDS = (1, 100)
"""Requests in flight."""

BODY = b'{"temperature": 14.5, "wind": 12.0, "sky": "clouds"}'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
ANSWER = HEAD % len(BODY) + BODY
FILE = """
ENGINE_CLASS = REST
API_ENDPOINT_URL = http://127.0.0.1:{port}/v1/weather/{{city}}
FUNCTION_NAME = weather
FUNCTION_DESCRIPTION = The weather in a city.
FUNCTION_PARAMETERS = [{{"name": "city", "type": "string", "required": true}}, \\
    {{"name": "units", "type": "string"}}]
"""

Measured = Callable[[], Awaitable[Any]]


class Answering(asyncio.Protocol):
    """Answers each request at once: what is measured is the client."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what answers go to."""
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        """One answer for each head; the requests have no body."""
        self.transport.write(ANSWER * data.count(b"\r\n\r\n"))


async def serve(ready: int) -> None:
    """Tell the port, and answer until the other side of the pipe is gone."""
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0)
    os.write(ready, b"%d\n" % server.sockets[0].getsockname()[1])
    await server.serve_forever()


def start_server() -> tuple[int, int]:
    """The process id and the port of a server on a core of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        pin(SERVER_CORE)
        try:
            uvloop.run(serve(writing))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        return child, int(told.readline())


async def microseconds(call: Measured, count: int, crowd: int) -> float:
    """Of one call, with ``crowd`` in flight."""
    left = count

    async def one_after_the_other() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await call()

    begin = perf_counter()
    await asyncio.gather(*(one_after_the_other() for _ in range(crowd)))
    return (perf_counter() - begin) / count * 1e6


async def measure(
    folder: Path, log: TextIO, port: int, runs: int, calls: int
) -> dict[tuple[str, int], Spread]:
    """Both sides at each number in flight, in turn."""
    limits = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)
    async with Host(folder, None, log=log) as host, httpx2.AsyncClient(limits=limits) as client:

        async def bare() -> Any:
            url = f"http://127.0.0.1:{port}/v1/weather/Berlin"
            return (await client.get(url, params={"units": "metric"})).raise_for_status().json()

        async def engine() -> Any:
            return await host.call("weather", {"city": "Berlin", "units": "metric"})

        if await bare() != await engine():
            raise AssertionError("the two sides answer differently")
        found: dict[tuple[str, int], list[float]] = {}
        for crowd in CROWDS:  # the small one first: a pool looks at its idle connections at each request
            for run in range(runs + 1):
                for name, call in (("bare httpx2", bare), ("Host.call", engine)):
                    took = await microseconds(call, calls, crowd)
                    if run:  # the first opens connections and fills caches
                        found.setdefault((name, crowd), []).append(took)
    return {row: Spread(values) for row, values in found.items()}


def report(found: dict[tuple[str, int], Spread]) -> None:
    """Print the table and whether the promise is kept."""
    rows = [[f"{name}, {crowd} in flight", *spread.cells(1)] for (name, crowd), spread in found.items()]
    table("one request, µs", ["call", "median", "lowest", "highest"], rows)
    for crowd in CROWDS:
        times = found["Host.call", crowd].median / found["bare httpx2", crowd].median
        verdict(f"times the bare client, {crowd} in flight", times, most=MOST_TIMES)


def main(runs: int = 7, calls: int = 2000) -> None:
    child, port = start_server()
    try:
        pin(LOAD_CORE)
        introduce("REST engine: what the host and the engine add to a request, on uvloop")
        with tempfile.TemporaryDirectory() as place, Path(os.devnull).open("w") as log:
            folder = Path(place)
            (folder / "weather.smss").write_text(FILE.format(port=port))
            found = uvloop.run(measure(folder, log, port, runs, calls))
    finally:
        os.kill(child, 15)
        os.waitpid(child, 0)
    report(found)


if __name__ == "__main__":
    main(*(int(given) for given in sys.argv[1:]))
    finish()
