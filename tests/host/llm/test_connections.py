"""The connections over which models are asked: many at once, each with its own deadline, in few pools."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
import trustme

from enginehost.llm.connections import Connections
from enginehost.llm.exchange import timeouts
from enginehost.llm.network import Network

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]
Served = tuple[str, list[int]]


@asynccontextmanager
async def serving(answer: Answer, context: ssl.SSLContext | None = None) -> AsyncGenerator[Served]:
    """A server whose every answer is written by ``answer``: its URL, and a number for each connection."""
    connected: list[int] = []
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.append(len(connected))
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(HEAD)
                await answer(writer)
                writer.write(b"0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def begun(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(begun, "127.0.0.1", 0, ssl=context, backlog=1024)
    name = "localhost" if context else "127.0.0.1"
    try:
        yield f"http{'s' if context else ''}://{name}:{server.sockets[0].getsockname()[1]}", connected
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def client(read: float = 5.0) -> tuple[httpx2.AsyncClient, Connections]:
    connections = Connections(Network())
    return httpx2.AsyncClient(transport=connections, timeout=timeouts(5.0, read)), connections


async def told(writer: asyncio.StreamWriter) -> None:
    writer.write(b"2\r\nhi\r\n")


async def read(made: httpx2.AsyncClient, url: str, got: list[bytes]) -> None:
    async with made.stream("GET", url) as response:
        async for chunk in response.aiter_raw():
            got.append(chunk)  # noqa: PERF401 - with what came before an error


async def test_a_read_that_takes_too_long_is_told_however_long_the_answer_was_before() -> None:
    async def slowly(writer: asyncio.StreamWriter) -> None:
        for _ in range(8):
            await told(writer)
            await asyncio.sleep(0.1)
        await asyncio.sleep(30)

    made, _ = client(read=0.5)
    got: list[bytes] = []
    async with made, serving(slowly) as (url, _):
        with pytest.raises(httpx2.ReadTimeout):
            await read(made, url, got)
    assert b"".join(got) == b"hi" * 8  # 0.8 s in all, none of it too late
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_who_is_cancelled_while_it_reads_is_cancelled() -> None:
    async def never(writer: asyncio.StreamWriter) -> None:
        await told(writer)
        await asyncio.sleep(30)

    made, _ = client()
    reads = asyncio.Event()

    async def ask(url: str) -> None:
        async with made.stream("GET", url) as response:
            async for _ in response.aiter_raw():
                reads.set()

    async with made, serving(never) as (url, _):
        asking = asyncio.create_task(ask(url))
        await reads.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(asking, 5)


async def test_many_at_once_need_several_pools_and_afterwards_one_whose_connections_serve_again() -> None:
    begun, go = asyncio.Semaphore(0), asyncio.Event()

    async def together(writer: asyncio.StreamWriter) -> None:
        begun.release()
        await go.wait()
        await told(writer)

    made, connections = client()
    async with made, serving(together) as (url, connected):
        asking = [asyncio.create_task(made.get(url)) for _ in range(120)]
        for _ in asking:
            await begun.acquire()
        assert len(connections._pools) == 3  # pyright: ignore[reportPrivateUsage]
        go.set()
        assert {(await one).content for one in asking} == {b"hi"}
        assert len(connections._pools) == 1  # pyright: ignore[reportPrivateUsage]
        assert len(connected) == 120
        for _ in range(3):
            await made.get(url)
        assert len(connected) == 120


async def test_a_server_that_cannot_be_reached_or_goes_away_is_told() -> None:
    async def breaks(writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()
        raise ConnectionError

    made, connections = client()
    async with made:
        async with serving(breaks) as (url, _):
            with pytest.raises(httpx2.TransportError):
                await made.get(url)
        with pytest.raises(httpx2.ConnectError):
            await made.get(url)
        assert [pool.requests for pool in connections._pools] == [0]  # pyright: ignore[reportPrivateUsage]


async def test_tls_is_checked_and_read_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hangs(writer: asyncio.StreamWriter) -> None:
        await told(writer)
        await asyncio.sleep(30)

    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    async with serving(hangs, context) as (url, _):
        stranger, _ = client()
        async with stranger:
            with pytest.raises(httpx2.ConnectError, match="certificate"):
                await stranger.get(url)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
        made, _ = client(read=0.3)
        got: list[bytes] = []
        async with made:
            with pytest.raises(httpx2.ReadTimeout):
                await read(made, url, got)
        assert got == [b"hi"]
