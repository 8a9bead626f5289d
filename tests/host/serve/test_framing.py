"""What is no HTTP, or HTTP that the host does not speak, is told so in its turn by either parser."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from enginehost.serve import server
from enginehost.serve.protocol import H11Connection, HttpToolsConnection

HOST = b"Host: localhost\r\n"
JSON = b"Content-Type: application/json\r\n"
ADDED = b"d\r\n" + b'{"a":1,"b":2}' + b"\r\n0\r\n\r\n"
GARBAGE = b"GARBAGE\r\n\r\n"


def call(
    name: bytes = b"add", more: bytes = b"", body: bytes = b'{"a":1,"b":2}', http: bytes = b"1.1"
) -> bytes:
    head = b"POST /v1/functions/%b HTTP/%b\r\n%b%b%b" % (name, http, HOST, JSON, more)
    return head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def chunked(body: bytes, coding: bytes = b"chunked") -> bytes:
    head = b"POST /v1/functions/add HTTP/1.1\r\n%b%b" % (HOST, JSON)
    return head + b"Transfer-Encoding: %b\r\n\r\n%b" % (coding, body)


def statuses(answer: bytes) -> list[int]:
    return [int(found) for found in re.findall(rb"HTTP/1\.1 (\d+)", answer)]


@pytest.fixture(params=[HttpToolsConnection, H11Connection], ids=lambda parser: parser.__name__)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(server, "HttpProtocol", request.param)
    return request.param


class Heard:
    """Tells when a server has dealt with what it was sent."""

    def __init__(self, take: Callable[[Any, bytes], None]) -> None:
        self._take = take
        self._within = False
        self._rest = 0
        self._over = asyncio.Event()

    def expect(self, data: bytes) -> None:
        """From now on it is about ``data``, which is sent next."""
        self._rest = len(data)
        self._over.clear()

    async def all(self) -> None:
        """Wait until it has taken the data, or reads no more of it before it has answered."""
        await self._over.wait()

    def take(self, connection: Any, data: bytes) -> None:
        whole, self._within = not self._within, True  # it may hand itself a large piece in small ones
        self._take(connection, data)
        if whole:
            self._within = False
            self._rest -= len(data)
            if self._rest <= 0 or connection.flow.read_paused:
                self._over.set()


@pytest.fixture
async def heard(parser: Any, monkeypatch: pytest.MonkeyPatch) -> Heard:
    heard = Heard(parser.data_received)
    monkeypatch.setattr(parser, "data_received", lambda connection, data: heard.take(connection, data))
    return heard


@pytest.fixture
async def served(parser: Any, serve: Any) -> AsyncIterator[Any]:
    async with serve() as running:
        yield running


async def test_calls_before_garbage_are_answered_and_then_the_garbage(served: Any) -> None:
    for sent, told in (
        (call() + GARBAGE, [200, 400]),
        (call() + call() + GARBAGE + call(), [200, 200, 400]),
        (call() + b"GET /\xc3\xa9 HTTP/1.1\r\n\r\n", [200, 400]),
        (call() + chunked(b"zz\r\n"), [200, 400]),
        (call(more=b"Connection: close\r\n") + GARBAGE, [200]),
    ):
        answer = await served.raw(sent)
        assert statuses(answer) == told, sent
        assert answer.count(b'{"result":3}') == told.count(200)


@pytest.mark.parametrize(
    ("later", "told"),
    [
        (GARBAGE, [200, 400]),
        (call() + GARBAGE, [200, 200, 400]),
        (chunked(b"-1\r\n"), [200, 400]),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 200_000, [200, 431]),
    ],
    ids=["garbage", "a call and garbage", "a bad chunk", "a long head"],
)
async def test_a_call_that_runs_is_answered_whatever_comes_behind_it(
    served: Any, parser: Any, heard: Heard, later: bytes, told: list[int]
) -> None:
    async with asyncio.timeout(20):
        reader, writer = await asyncio.open_connection(*served.place)
        writer.write(call(b"sleep", body=b"{}"))
        await served.sleeper.until(lambda: served.sleeper.running == 1)
        heard.expect(later)
        writer.write(later)
        await heard.all()
        served.sleeper.go.set()
        found = statuses(await reader.read())
        writer.close()
    assert served.sleeper.cancelled == 0
    h11_has_a_bound_of_its_own = parser is H11Connection and told[-1] == 431
    assert found == ([200, 400] if h11_has_a_bound_of_its_own else told)


@pytest.mark.parametrize("size", [b"zz", b"-7", b"0x7", b"", b"7 7"])
async def test_a_chunk_without_a_good_size_is_refused_under_the_id_of_its_call(
    parser: Any, serve: Any, tmp_path: Path, size: bytes
) -> None:
    audit = tmp_path / "audit.jsonl"
    async with serve(audit={"path": str(audit)}) as served:
        at_once = await served.raw(chunked(size + b"\r\n"))
        later = await served.raw(chunked(b"1\r\n{\r\n" + size + b"\r\n"))
    ids: list[str] = []
    for answer in (at_once, later):
        head, _, body = answer.partition(b"\r\n\r\n")
        problem = json.loads(body)
        assert statuses(head) == [400]
        assert (problem["code"], problem["detail"]) == (
            "invalid_request",
            "the body of this request is not valid HTTP",
        )
        ids.append(problem["instance"])
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [(line["call_id"], line["outcome"]) for line in lines] == [(one, "invalid_request") for one in ids]


async def test_a_request_that_was_answered_early_gets_no_second_answer(served: Any) -> None:
    async with asyncio.timeout(20):
        reader, writer = await asyncio.open_connection(*served.place)
        writer.write(chunked(b"2\r\n{}\r\n").replace(b"application/json", b"text/plain"))
        answer = await reader.readuntil(b"}}")
        writer.write(b"zz\r\n")
        assert await reader.read() == b""
        writer.close()
    assert statuses(answer) == [415]


@pytest.mark.parametrize("coding", [b"xchunked", b"gzip, chunked", b"gzip"])
async def test_another_transfer_coding_than_chunked_is_refused(
    served: Any, parser: Any, coding: bytes
) -> None:
    (status,) = statuses(await served.raw(chunked(ADDED, coding)))
    assert status == 501 or (status == 400 and parser is H11Connection)  # h11 knows no other and says 400
    twice = await served.raw(chunked(ADDED, b"gzip\r\nConnection: close\r\nTransfer-Encoding: chunked"))
    assert statuses(twice) == [400]
    assert statuses(await served.raw(chunked(ADDED, b"Chunked\r\nConnection: close"))) == [200]


async def test_other_versions_of_http_are_not_taken_for_this_one(served: Any) -> None:
    for sent, status in (
        (call(http=b"1.0"), 200),
        (call(http=b"2.0"), 505),
        (call(http=b"0.9"), 400),
        (b"GET /v1/functions\r\n\r\n", 400),
    ):
        answer = await served.raw(sent)
        assert statuses(answer) == [status], sent
        assert status == 200 or b"application/problem+json" in answer


@pytest.mark.parametrize("closes", [b"", b"Connection: close\r\n"], ids=["stays", "closes"])
async def test_an_answer_has_the_same_head_from_either_parser(served: Any, closes: bytes) -> None:
    last = call(more=b"Connection: close\r\n")
    answer = (await served.raw(last if closes else call() + last)).lower()
    heads, bodies = re.subn(rb'\{"result":3\}', b"", answer)
    assert bodies == (1 if closes else 2)
    shown = [re.sub(rb": .*", b"", line) for line in heads.split(b"\r\n\r\n")[0].split(b"\r\n")[1:]]
    assert shown == [
        *(b"date", b"content-type", b"x-call-id", b"content-length"),
        *([b"connection"] if closes else []),
    ]
    assert answer.count(b"connection: close") == 1


async def test_who_expects_to_be_asked_for_the_body_is(served: Any) -> None:
    async with asyncio.timeout(20):
        reader, writer = await asyncio.open_connection(*served.place)
        head, _, body = call(more=b"Expect: 100-continue\r\nConnection: close\r\n").rpartition(b"\r\n\r\n")
        writer.write(head + b"\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(body)
        assert statuses(answer := await reader.read()) == [200]
        assert answer.endswith(b'{"result":3}')
        writer.close()
