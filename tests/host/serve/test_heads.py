"""The head of a request is bounded in size and in time, whichever parser reads it."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from enginehost.serve import heads, server
from enginehost.serve.heads import MOST_HEAD_BYTES
from enginehost.serve.protocol import H11Connection, HttpToolsConnection

BODY = b'{"a":1,"b":2}'
SOON = 0.2
"""Seconds a head may take in these tests."""


def head(filler: int = 0, length: int = len(BODY)) -> bytes:
    """The head of a call of ``add``; with ``filler``, of exactly so many bytes."""
    start = (
        b"POST /v1/functions/add HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n" % length
    )
    more = max(0, filler - len(start) - len(b"X: \r\n\r\n"))
    return start + (b"X: %b\r\n" % (b"x" * more) if filler else b"") + b"\r\n"


async def status(reader: asyncio.StreamReader) -> int:
    """The status of the next answer, which is read to its end."""
    async with asyncio.timeout(20):
        lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        length = next(line for line in lines if line.lower().startswith(b"content-length:"))
        await reader.readexactly(int(length.partition(b":")[2]))
    return int(lines[0].split()[1])


async def closed(reader: asyncio.StreamReader) -> bytes:
    """What comes until the server closes."""
    async with asyncio.timeout(20):
        return await reader.read()


@pytest.fixture(params=[HttpToolsConnection, H11Connection], ids=lambda parser: parser.__name__)
def parser(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
async def served(parser: Any, serve: Any, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    monkeypatch.setattr(server, "HttpProtocol", parser)
    async with serve() as running:
        yield running


@asynccontextmanager
async def connected(served: Any) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(*served.place, limit=1 << 20)
    try:
        yield reader, writer
    finally:
        writer.close()


class Timer:
    """What ``call_later`` gives: runs ``work`` unless it was cancelled."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.work = work
        self.runs = True

    def cancel(self) -> None:
        self.runs = False


class Clock:
    """The time that heads may take, which passes when a test says so."""

    def __init__(self, call_later: Callable[..., Any]) -> None:
        self._call_later = call_later
        self._timers: list[Timer] = []

    def call_later(self, seconds: float, work: Callable[..., object], *arguments: Any) -> Any:
        if seconds != heads.HEAD_SECONDS:
            return self._call_later(seconds, work, *arguments)
        self._timers.append(Timer(lambda: work(*arguments)))
        return self._timers[-1]

    @property
    def running(self) -> int:
        return sum(timer.runs for timer in self._timers)

    async def until(self, running: int) -> None:
        """Wait until so many heads are being waited for."""
        async with asyncio.timeout(20):
            while self.running != running:
                await asyncio.sleep(0)

    def strike(self) -> None:
        """Let the time of all heads that are being waited for be over."""
        due, self._timers = [timer for timer in self._timers if timer.runs], []
        for timer in due:
            timer.work()


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    loop = asyncio.get_running_loop()
    clock = Clock(loop.call_later)
    monkeypatch.setattr(loop, "call_later", clock.call_later)
    return clock


async def test_the_largest_head_is_taken_on_every_request_of_a_connection(served: Any) -> None:
    async with connected(served) as (reader, writer):
        for _ in range(3):
            writer.write(head(MOST_HEAD_BYTES) + BODY)
            assert await status(reader) == 200


@pytest.mark.parametrize("earlier", [0, 1], ids=["first", "second"])
@pytest.mark.parametrize("size", [MOST_HEAD_BYTES + 1, 300_000])
async def test_a_larger_head_is_refused_and_the_connection_closed(
    served: Any, size: int, earlier: int
) -> None:
    async with connected(served) as (reader, writer):
        for _ in range(earlier):
            writer.write(head() + BODY)
            assert await status(reader) == 200
        writer.write(head(size) + BODY)
        answer = await closed(reader)
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert b"connection: close" in answer
    assert answer.endswith(b"}")
    assert b'"status":431' in answer


async def test_a_head_without_end_is_refused_while_it_is_sent(served: Any) -> None:
    def endless() -> bytes:
        with socket.create_connection(served.place, timeout=20) as client:
            client.sendall(head()[:-2])
            sent = 0
            client.setblocking(False)
            while sent < 10 * MOST_HEAD_BYTES:  # reads as it sends, as a client that would go on forever
                try:
                    client.sendall(b"X: 1234567890\r\n")
                    sent += 15
                except BlockingIOError:
                    pass
                try:
                    if found := client.recv(1024):
                        return found
                except BlockingIOError:
                    pass
        return b""

    assert (await asyncio.to_thread(endless)).startswith(b"HTTP/1.1 431 ")


async def test_a_head_that_trickles_in_is_given_up(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads, "HEAD_SECONDS", SOON)
    async with connected(served) as (reader, writer):
        waiting = asyncio.create_task(closed(reader))
        for byte in head() * 100:
            if waiting.done():
                break
            writer.write(bytes([byte]))
            await asyncio.wait({waiting}, timeout=SOON / 10)
        assert await waiting == b""


async def test_the_next_head_of_a_connection_may_not_trickle_either(
    served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heads, "HEAD_SECONDS", SOON)
    async with connected(served) as (reader, writer):
        writer.write(head() + BODY)
        assert await status(reader) == 200
        writer.write(head()[:10])
        assert await closed(reader) == b""


async def test_a_head_in_pieces_is_taken_and_its_body_may_take_longer(served: Any, clock: Clock) -> None:
    async with connected(served) as (reader, writer):
        writer.write(head()[:20])
        await clock.until(running=1)
        writer.write(head()[20:] + BODY[:3])
        await clock.until(running=0)
        clock.strike()
        writer.write(BODY[3:])
        assert await status(reader) == 200


async def test_a_call_that_runs_is_answered_though_the_next_head_is_late(
    served: Any, parser: Any, clock: Clock
) -> None:
    looks_ahead = parser is HttpToolsConnection  # h11 looks at the next request after the answer
    async with connected(served) as (reader, writer):
        writer.write(head(length=2).replace(b"/add", b"/sleep") + b"{}" + head()[:10])
        await served.sleeper.until(lambda: served.sleeper.running == 1)
        await clock.until(running=int(looks_ahead))
        clock.strike()
        served.sleeper.go.set()
        assert await status(reader) == 200
        if looks_ahead:
            clock.strike()
            assert await closed(reader) == b""


@pytest.mark.parametrize("sent", [b"", b"\r\n"], ids=["nothing", "blank lines"])
async def test_a_connection_without_a_request_is_not_kept(
    serve: Any, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(server, "_KEEP_ALIVE_SECONDS", SOON)
    monkeypatch.setattr(heads, "HEAD_SECONDS", SOON)
    async with serve() as served, connected(served) as (reader, writer):
        writer.write(sent)
        assert await closed(reader) == b""


async def test_blank_lines_after_an_answer_do_not_keep_a_connection(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_KEEP_ALIVE_SECONDS", SOON)
    async with serve() as served, connected(served) as (reader, writer):
        writer.write(head() + BODY)
        assert await status(reader) == 200
        writer.write(b"\r\n")
        assert await closed(reader) == b""


async def test_a_large_body_is_no_head(served: Any) -> None:
    body = b'{"a":1,"b":2%b}' % (b" " * 500_000)
    async with connected(served) as (reader, writer):
        for _ in range(2):
            writer.write(head(length=len(body)) + body)
            assert await status(reader) == 200


CHUNKED = head().replace(b"Content-Length: %d" % len(BODY), b"Transfer-Encoding: chunked")
WHOLE = b"%x\r\n%b\r\n" % (len(BODY), BODY)


def _sent_until_refused(place: tuple[str, int], start: bytes, piece: bytes) -> tuple[int, bytes]:
    """How many bytes are taken of ``start`` and of pieces without end, and what is answered."""
    with socket.create_connection(place, timeout=20) as client:
        client.sendall(start)
        sent, answer = 0, b""
        with suppress(OSError):
            while sent < 500 * MOST_HEAD_BYTES and not answer:
                client.sendall(piece)
                sent += len(piece)
                if select.select([client], [], [], 0)[0]:
                    answer = client.recv(65536)
                    break
        with suppress(OSError):
            answer = answer or client.recv(65536)
    return sent, answer


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (WHOLE + b"0\r\nX: ", b"a" * 4096),
        (WHOLE + b"0\r\n", b"X: y\r\n" * 700),
        (b"1;", b"a" * 4096),
        (b"", (b"1;%b\r\n \r\n" % (b"x" * 200)) * 20),
        (b"", b"0" * 4096),
    ],
    ids=["one trailer", "many trailers", "one extension", "many extensions", "zeros of a size"],
)
async def test_what_frames_a_body_is_bounded_as_a_head_is(served: Any, start: bytes, piece: bytes) -> None:
    sent, answer = await asyncio.to_thread(_sent_until_refused, served.place, CHUNKED + start, piece)
    assert sent < 100 * MOST_HEAD_BYTES  # some of it in the buffers of the system
    assert int(answer.split()[1]) in (400, 431)  # a number that is too long is no HTTP


async def test_framing_of_a_body_that_nobody_wants_is_bounded_too(served: Any) -> None:
    nowhere = CHUNKED.replace(b"/v1/functions/add", b"/nowhere")
    async with connected(served) as (reader, writer):
        writer.write(nowhere)
        assert await status(reader) == 404
        writer.write(WHOLE + b"0\r\nX: ")
        with suppress(ConnectionError):
            for _ in range(8):
                writer.write(b"a" * MOST_HEAD_BYTES)
                await writer.drain()
        with suppress(ConnectionError):
            assert await closed(reader) == b""


async def test_a_body_in_the_smallest_chunks_is_taken(served: Any) -> None:
    body = BODY + b" " * (MOST_HEAD_BYTES // 2)
    chunks = b"".join(b"00000001\r\n%c\r\n" % byte for byte in body)
    async with connected(served) as (reader, writer):
        for _ in range(2):
            writer.write(CHUNKED + chunks + b"0\r\nX: y\r\n\r\n")
            assert await status(reader) == 200


async def test_trailers_decide_nothing(served: Any) -> None:
    async with connected(served) as (reader, writer):
        writer.write(CHUNKED + WHOLE + b"0\r\nContent-Type: text/plain\r\nRequest-Timeout: -1\r\n\r\n")
        assert await status(reader) == 200


async def test_framing_that_trickles_in_is_given_up(served: Any, clock: Clock) -> None:
    async with connected(served) as (reader, writer):
        writer.write(CHUNKED + WHOLE + b"0\r\nX: y")
        answer = asyncio.create_task(closed(reader))
        async with asyncio.timeout(20):
            while not clock.running:  # until a piece has come that holds nothing else
                writer.write(b"y")
                await asyncio.sleep(0.001)
        clock.strike()
        assert (await answer).startswith(b"HTTP/1.1 408 ")
