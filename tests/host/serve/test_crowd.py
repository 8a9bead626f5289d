"""More connections than the server takes: those without a request give way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from enginehost.errors import Overloaded
from enginehost.serve import server
from enginehost.serve.crowd import Crowd, backlog, most_connections
from enginehost.serve.protocol import H11Connection, HttpToolsConnection

BODY = b'{"a":1,"b":2}'
CALL = (
    b"POST /v1/functions/%b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n"
)
ADD = CALL % (b"add", len(BODY)) + BODY
SLEEP = CALL % (b"sleep", 2) + b"{}"


@pytest.fixture(params=[HttpToolsConnection, H11Connection], ids=lambda parser: parser.__name__)
async def served(request: Any, serve: Any, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    monkeypatch.setattr(server, "HttpProtocol", request.param)
    async with serve(http={"max_connections": 5}) as running:
        yield running


@asynccontextmanager
async def connected(
    served: Any, sent: bytes = b""
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(*served.place)
    writer.write(sent)
    try:
        yield reader, writer
    finally:
        writer.close()


async def status(reader: asyncio.StreamReader) -> int:
    async with asyncio.timeout(20):
        return int((await reader.readuntil(b"\r\n\r\n")).split()[1])


async def test_connections_that_ask_nothing_keep_nobody_out(served: Any) -> None:
    async with AsyncExitStack() as stack:
        half_open = [await stack.enter_async_context(connected(served, ADD[:20])) for _ in range(20)]
        for _ in range(10):
            async with connected(served, ADD) as (reader, _):
                assert await status(reader) == 200
        async with asyncio.timeout(20):
            assert await half_open[0][0].read() == b""  # the first gave way first


async def test_one_that_waits_for_its_next_request_gives_way_after_those_that_never_asked(
    served: Any,
) -> None:
    async with AsyncExitStack() as stack:
        kept, writer = await stack.enter_async_context(connected(served, ADD))
        assert await status(kept) == 200
        await kept.readexactly(len(b'{"result":3}'))
        for _ in range(10):
            await stack.enter_async_context(connected(served, ADD[:20]))
            async with connected(served, ADD) as (reader, _):
                assert await status(reader) == 200
        writer.write(ADD)
        assert await status(kept) == 200
        for _ in range(5):
            await stack.enter_async_context(connected(served, SLEEP))
        async with asyncio.timeout(20):
            await kept.read()  # closed: five others have work


async def test_where_all_are_busy_a_further_one_is_refused(served: Any) -> None:
    async with AsyncExitStack() as stack:
        busy = [await stack.enter_async_context(connected(served, SLEEP)) for _ in range(5)]
        await served.sleeper.until(lambda: served.sleeper.running == 5)
        async with connected(served) as (reader, _):
            async with asyncio.timeout(20):
                answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 429 ")
            assert b"retry-after:" in answer
        served.sleeper.go.set()
        for reader, _ in busy:
            assert await status(reader) == 200
        async with connected(served, ADD) as (reader, _):
            assert await status(reader) == 200


class Fake:
    def __init__(self, *, asked: bool, answering: bool) -> None:
        self.asked, self.answering, self.gone = asked, answering, False

    def give_way(self) -> None:
        self.gone = True


def test_a_full_crowd_of_busy_ones_is_found_out_quickly_and_the_one_idle_is_found_in_time() -> None:
    crowd = Crowd(1000)
    members = [Fake(asked=True, answering=number != 555) for number in range(1000)]
    for member in members:
        crowd.enter(member)
    refused = 0
    while not members[555].gone:
        try:
            crowd.enter(Fake(asked=True, answering=True))
        except Overloaded:
            refused += 1
    assert refused == 5  # a hundred are looked at each time
    assert len(crowd) == 1000


def test_the_host_keeps_files_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))
    assert most_connections(10_000) == 128
    assert backlog(128) == 32
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert most_connections(10_000) == 10_000
    assert backlog(10_000) == 2048
