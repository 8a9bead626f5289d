"""The server's own life: where it listens, and how it stops."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections import Counter
from typing import Any

import pytest

from enginehost.errors import ConfigError
from enginehost.host import Host
from enginehost.serve import HttpServer
from enginehost.settings import HostSettings

IN_FLIGHT = 1000


def request(name: str, body: bytes = b"{}") -> bytes:
    head = f"POST /v1/functions/{name} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body


async def answers(served: Any, name: str, count: int) -> list[asyncio.Task[bytes]]:
    tasks = [asyncio.create_task(served.raw(request(name))) for _ in range(count)]
    await served.sleeper.until(lambda: served.sleeper.running == count)
    return tasks


def statuses(found: list[bytes]) -> Counter[bytes]:
    return Counter(answer.split(b" ", 2)[1] if answer else b"nothing" for answer in found)


async def test_a_thousand_calls_in_flight_are_all_answered_when_the_host_stops(serve: Any) -> None:
    async with serve() as served:
        tasks = await answers(served, "sleep", IN_FLIGHT)
        stopping = asyncio.create_task(served.host.stop(20))
        refused = await served.call("add", {"a": 1, "b": 2})
        assert refused.status_code == 503
        served.sleeper.go.set()
        await stopping
        await served.server.stop()
        assert statuses(await asyncio.gather(*tasks)) == {b"200": IN_FLIGHT}


async def test_calls_that_outlive_the_drain_time_are_told_that_they_may_have_run(serve: Any) -> None:
    async with serve() as served:
        tasks = await answers(served, "sleep", IN_FLIGHT)
        await served.host.stop(0.05)
        await served.server.stop()
        found = await asyncio.gather(*tasks)
        assert statuses(found) == {b"502": IN_FLIGHT}
        assert all(b"the host stopped before the call ended" in answer for answer in found)
        assert served.sleeper.cancelled == IN_FLIGHT


async def test_the_server_alone_stops_as_gently(serve: Any) -> None:
    async with serve() as served:
        tasks = await answers(served, "sleep", 50)
        stopping = asyncio.create_task(served.server.stop(20))
        served.sleeper.go.set()
        await stopping
        assert statuses(await asyncio.gather(*tasks)) == {b"200": 50}
        tasks = []


async def test_the_server_alone_ends_calls_and_streams_with_an_answer(serve: Any) -> None:
    async with serve() as served:
        tasks = await answers(served, "sleep", 50)
        stream = asyncio.create_task(
            served.raw(request("sleep_stream").replace(b"Host:", b"Accept: text/event-stream\r\nHost:"))
        )
        await served.sleeper.until(lambda: served.sleeper.running == 51)
        await served.server.stop(0)
        assert statuses(await asyncio.gather(*tasks)) == {b"502": 50}
        streamed = await stream
        assert b"event: item" in streamed
        assert b"event: error" in streamed
        assert streamed.endswith(b"0\r\n\r\n")


async def _unread_streams(served: Any, count: int) -> list[socket.socket]:
    """Clients that ask for a stream and read nothing of it, once the server can send no more to them."""
    asked = request("flood").replace(b"Host:", b"Accept: text/event-stream\r\nHost:")
    clients = [socket.create_connection(served.place, timeout=20) for _ in range(count)]
    for client in clients:
        client.sendall(asked)
    async with asyncio.timeout(20):
        while sum(one.flow.write_paused for one in served.server._server.server_state.connections) < count:
            await asyncio.sleep(0.01)
    return clients


@pytest.mark.parametrize("with_host", [True, False], ids=["host and server", "server alone"])
async def test_readers_that_have_stopped_reading_hold_up_no_stop(
    serve: Any, caplog: pytest.LogCaptureFixture, with_host: bool
) -> None:
    async def flood(parameters: Any, call: Any) -> Any:
        while True:
            yield "x" * 10_000

    async with serve() as served:
        await served.add("flood", flood)
        clients = await _unread_streams(served, 3)
        waiting = await answers(served, "sleep", 3)
        began = time.monotonic()
        if with_host:
            await served.host.stop(0.05)
        await served.server.stop(0.5)
        assert time.monotonic() - began < 2.0
        assert statuses(await asyncio.gather(*waiting)) == {b"502": 3}
        for client in clients:
            client.close()
    assert not [one for one in caplog.messages if "ASGI" in one]


async def test_after_the_stop_nothing_listens(serve: Any) -> None:
    async with serve() as served:
        await served.server.stop()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*served.place)
        await served.server.stop()


async def test_small_answers_are_sent_at_once_and_whole(served: Any) -> None:
    reader, writer = await asyncio.open_connection(*served.place)
    for _ in range(20):
        writer.write(request("add", b'{"a": 1, "b": 2}'))
        async with asyncio.timeout(20):
            answer = await reader.read(65536)
        assert answer.endswith(b'\r\n\r\n{"result":3}')
    # TCP would keep the second piece of what is sent in pieces until the first one is acknowledged
    connections = [one.transport for one in served.server._server.server_state.connections]
    assert connections
    for connection in connections:
        found = connection.get_extra_info("socket")
        assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    writer.close()


async def test_a_taken_port_is_an_error_that_says_so(serve: Any) -> None:
    async with serve() as served:
        with pytest.raises(ConfigError, match=r"HTTP cannot listen on 127\.0\.0\.1:"):
            await HttpServer(served.host, served.server.address).start()


async def test_the_server_leaves_signals_to_the_host() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    async with Host(None, None, settings=HostSettings()) as host:
        server = HttpServer(host, "localhost:0")
        await server.start()
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
        assert not server.url.endswith(":0")
        await server.stop()


async def test_malformed_http_is_refused_and_the_server_lives_on(served: Any) -> None:
    for junk in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        b"GET\r\n\r\n",
        b"POST /v1/functions/add HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/functions/add HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
        b"Content-Length: 2\r\n\r\n{}",
        b"POST /v1/functions/add HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /v1/functions/add HTTP/1.1\r\nHost: a\nb: c\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
    ):
        answer = await served.raw(junk, until_close=False)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 4"), junk
    assert (await served.call("add", {"a": 1, "b": 2})).json() == {"result": 3}


async def test_http_1_0_is_answered(served: Any) -> None:
    answer = await served.raw(b"GET /healthz HTTP/1.0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")
