"""Answers that break off, are no HTTP, have no end or more than they say: told, and nobody else's trouble."""

import os
from typing import Any

import httpcore2
import pytest

from enginehost.errors import EngineHostError, ExecutionFailed, TooLarge
from enginehost_engines.rest import RestEngine, StreamRestEngine
from enginehost_engines.rest.unreadable import unreadable

from .conftest import exhaust


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    ],
)
async def test_a_connection_that_breaks_is_told_without_details(
    make: Any, server: Any, kit: Any, raw: bytes
) -> None:
    server.answer = kit.raw(raw)
    for kind in (RestEngine, StreamRestEngine):
        engine = make(kind)
        with pytest.raises(ExecutionFailed) as failed:
            await exhaust(engine.execute({}, kit.call()))
        assert failed.value.message == f"f: 127.0.0.1:{server.port} broke the connection off"


LONG = b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"y" * 1000) for n in range(200))


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (b"nonsense\r\n\r\n", "what is no HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\n", "what is no HTTP"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
            "what is no HTTP",
        ),
        (LONG + b"Content-Length: 0\r\n\r\n", "headers of more than 100 KiB, the most there may be"),
    ],
)
async def test_what_is_no_answer_is_told_as_such_and_not_asked_for_again(
    make: Any, server: Any, kit: Any, raw: bytes, what: str
) -> None:
    server.answer = kit.raw(raw)
    for kind in (RestEngine, StreamRestEngine):
        server.seen.clear()
        engine = make(kind, RETRIES=3, RETRY_BACKOFF_SECONDS=0.01, BREAKER_FAILURES=1)
        with pytest.raises(ExecutionFailed) as failed:
            await exhaust(engine.execute({}, kit.call()))
        assert failed.value.message == f"f: 127.0.0.1:{server.port} sent {what}"
        assert failed.value.detail["retry_may_help"] is False
        assert failed.value.detail["hint"]
        assert (len(server.seen), engine.trouble) == (1, "")


def test_headers_that_http2_refuses_are_told_as_such() -> None:
    exceptions = pytest.importorskip("h2.exceptions")
    told = unreadable(httpcore2.LocalProtocolError(exceptions.DenialOfServiceError("too long")))
    assert told is not None
    assert told[0].startswith("headers of more than 64 KiB")
    assert unreadable(httpcore2.RemoteProtocolError("Server disconnected")) is None


async def test_every_failure_is_an_error_of_the_host(make: Any, server: Any, kit: Any) -> None:
    for _ in range(20):
        server.answer = kit.raw(os.urandom(200))
        with pytest.raises(EngineHostError):
            await make().execute({}, kit.call())


async def test_an_answer_longer_than_it_says_is_nobody_elses(make: Any, server: Any, kit: Any) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"

    async def lie(seen: Any, writer: Any) -> None:
        writer.write(head % (1, b"1") + head % (6, b'"evil"'))

    server.answer = lie
    one, two = make(), make()
    for engine in (one, two, one, two):
        assert await engine.execute({}, kit.call()) == 1


async def test_an_answer_without_end_is_given_up_at_its_limit(make: Any, server: Any, kit: Any) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked"
    server.answer = kit.endless(head, b"10000\r\n" + b"x" * 65536 + b"\r\n")
    with pytest.raises(TooLarge):
        await make(MAX_RESPONSE_BYTES=2**20).execute({}, kit.call())
    assert server.closed.acquire(timeout=10)
