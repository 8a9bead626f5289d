"""What is sent again, when, and what is not; what a caller reads of it."""

import asyncio
import logging
import socket
import time
from email.utils import formatdate
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from enginehost.errors import CallTimeout, EngineUnavailable, ExecutionFailed
from enginehost.signature import Annotations, FunctionSignature
from enginehost_engines.rest import StreamRestEngine
from enginehost_engines.rest.retries import LONGEST_WAIT, Retries, retry_after

from .conftest import stay_silent

QUICK = {"RETRIES": 3, "RETRY_BACKOFF_SECONDS": 0.01, "BREAKER_FAILURES": 0}


def then_well(kit: Any, *failures: Any) -> Any:
    """Each of the failures once, then a good answer."""
    left = list(failures)

    async def answer(seen: Any, writer: Any) -> None:
        await (left.pop(0) if left else kit.plain(b'"well"'))(seen, writer)

    return answer


async def close_early(seen: Any, writer: Any) -> None:
    writer.write(b"HTTP/1.1 200")
    writer.close()


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_a_burst_of_failures_is_outlived(
    make: Any, server: Any, kit: Any, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    server.answer = then_well(kit, *[kit.plain(b"busy", "text/plain", status)] * 3)
    with caplog.at_level(logging.INFO, "enginehost.engine"):
        assert await make(**QUICK).execute({}, kit.call()) == "well"
    assert len(server.seen) == 4
    assert f"try 1 of 4: it answered {status}; the next in 0.0" in caplog.text


@pytest.mark.parametrize("failure", [close_early, stay_silent], ids=lambda failure: failure.__name__)
async def test_a_broken_or_silent_connection_is_replaced(
    make: Any, server: Any, kit: Any, failure: Any
) -> None:
    server.answer = then_well(kit, failure)
    for kind in (StreamRestEngine,):
        engine = make(kind, READ_TIMEOUT_SECONDS=0.2, **QUICK)
        assert [item async for item in engine.execute({}, kit.call())] == ['"well"']
    assert len(server.seen) == 2


@pytest.mark.parametrize(
    ("method", "annotations", "more", "times"),
    [
        ("POST", Annotations(), {}, 1),
        ("PATCH", Annotations(), {}, 1),
        ("POST", Annotations(idempotent=True), {}, 2),
        ("POST", Annotations(read_only=True), {}, 2),
        ("POST", Annotations(), {"RETRY_METHODS": "any"}, 2),
        ("PUT", Annotations(), {}, 2),
        ("DELETE", Annotations(), {}, 2),
    ],
)
async def test_only_what_may_come_twice_is_sent_twice_with_the_same_body(
    make: Any, server: Any, kit: Any, method: str, annotations: Annotations, more: Any, times: int
) -> None:
    server.answer = then_well(kit, kit.plain(b"", status=503))
    schema = {"type": "object", "properties": {"q": {}}}
    declared = FunctionSignature("f", parameters=schema, annotations=annotations)
    engine = make(parameters=declared, HTTP_METHOD=method, **QUICK, **more)
    if times == 1:
        with pytest.raises(ExecutionFailed, match="answered 503"):
            await engine.execute({"q": "ü"}, kit.call())
    else:
        assert await engine.execute({"q": "ü"}, kit.call()) == "well"
    assert len(server.seen) == times
    assert len({(seen.target, seen.body) for seen in server.seen}) == 1


async def test_a_request_that_never_left_is_sent_again_whatever_it_asks_for(
    make: Any, kit: Any, free_tcp_port: int
) -> None:
    engine = make(HTTP_METHOD="POST", URL=f"http://127.0.0.1:{free_tcp_port}/", **QUICK | {"RETRIES": 20})

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 X\r\n\r\n")
        writer.close()

    running = asyncio.create_task(engine.execute({}, kit.call()))
    while engine._way is None or not engine._way.client._shared.pool.connections:
        await asyncio.sleep(0)
    listening = await asyncio.start_server(answer, "127.0.0.1", free_tcp_port)
    assert await running is None
    listening.close()


@pytest.mark.parametrize("status", [400, 404, 500, 501])
async def test_other_statuses_are_final(make: Any, server: Any, kit: Any, status: int) -> None:
    server.answer = kit.plain(b"", status=status)
    with pytest.raises(ExecutionFailed):
        await make(**QUICK).execute({}, kit.call())
    assert len(server.seen) == 1


async def test_without_the_key_nothing_is_sent_twice(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.plain(b"", status=503)
    with pytest.raises(ExecutionFailed):
        await make().execute({}, kit.call())
    assert len(server.seen) == 1


async def test_tries_end_and_the_last_failure_is_told(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.plain(b"busy", "text/plain", status=503)
    with pytest.raises(ExecutionFailed, match=r"answered 503: busy$"):
        await make(**QUICK).execute({}, kit.call())
    assert len(server.seen) == 4


@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_retry_after_is_waited_for(make: Any, server: Any, kit: Any, form: str) -> None:
    # a date has whole seconds: one that is 2 s away is at least 1 s away
    told = "1" if form == "seconds" else formatdate(time.time() + 2, usegmt=True)
    server.answer = then_well(kit, kit.plain(b"", status=429, Retry_After=told))
    begun = time.monotonic()
    assert await make(**QUICK).execute({}, kit.call()) == "well"
    assert time.monotonic() - begun >= 0.99


async def test_what_would_come_after_the_deadline_is_not_waited_for(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.plain(b"slow down", "text/plain", status=429, Retry_After="30")
    with pytest.raises(ExecutionFailed, match=r"answered 429: slow down$") as failed:
        await make(**QUICK).execute({}, kit.call(10))
    assert failed.value.detail == {"status": 429, "retry_may_help": True, "retry_after": 30.0}
    assert len(server.seen) == 1


async def test_tries_stay_within_the_time_of_the_call(make: Any, server: Any, kit: Any) -> None:
    server.answer = stay_silent
    with pytest.raises(CallTimeout):
        await make(READ_TIMEOUT_SECONDS=0.15, **QUICK).execute({}, kit.call(0.4))
    assert 2 <= len(server.seen) <= 3


async def test_who_goes_away_between_two_tries_leaves_nothing(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.plain(b"", status=503)
    engine = make(**QUICK | {"RETRY_BACKOFF_SECONDS": 1000.0})
    engine_call = asyncio.create_task(engine.execute({}, kit.call(1e6)))
    while not server.seen:
        await asyncio.sleep(0.001)
    engine_call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await engine_call
    assert [place._value for place in engine._way.client._shared.places.values()] == [100]


@pytest.mark.parametrize(("code", "again"), [(socket.EAI_AGAIN, 2), (socket.EAI_NONAME, 1)])
async def test_a_name_is_looked_up_again_where_that_may_help(
    make: Any, kit: Any, monkeypatch: pytest.MonkeyPatch, code: int, again: int
) -> None:
    asked = 0

    def fail(*_: Any, **__: Any) -> Any:
        nonlocal asked
        asked += 1
        raise socket.gaierror(code, "no")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(EngineUnavailable, match=r"no such host|cannot be looked up now") as failed:
        await make(URL="http://x.invalid/", **QUICK | {"RETRIES": 1}).execute({}, kit.call())
    assert asked == again
    assert failed.value.detail["retry_may_help"] is (again == 2)


@given(st.integers(1, 100), st.integers(0, 20), st.floats(0.001, 1000))
def test_waits_grow_and_stay_bounded(done: int, most: int, first: float) -> None:
    pause = Retries(most, first, repeatable=True).after_status(503, {}, done)
    assert (pause is None) == (done > most)
    assert pause is None or 0 <= pause <= min(LONGEST_WAIT, first * 2.0 ** (done - 1))


@given(st.text(max_size=40) | st.from_regex(r"\d{1,400}", fullmatch=True))
def test_any_retry_after_is_read_or_left_alone(text: str) -> None:
    seconds = retry_after({"retry-after": text})
    assert seconds is None or seconds >= 0


@given(st.integers(-(10**6), 10**6))
def test_a_date_is_read_as_the_time_until_then(offset: int) -> None:
    seconds = retry_after({"retry-after": formatdate(time.time() + offset, usegmt=True)})
    assert seconds is not None
    assert max(0, offset - 3) <= seconds <= max(0, offset + 3)


async def test_no_more_requests_than_the_file_allows_are_at_the_host_at_once(
    make: Any, server: Any, kit: Any
) -> None:
    now = most = 0

    async def count(seen: Any, writer: Any) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.01)
        now -= 1
        await kit.plain(b"1")(seen, writer)

    server.answer = count
    engine = make(MAX_CONNECTIONS_PER_HOST=3)
    async with anyio.create_task_group() as group:
        for _ in range(15):
            group.start_soon(engine.execute, {}, kit.call())
    assert (len(server.seen), most) == (15, 3)


@pytest.mark.parametrize("key", ["MAX_CONNECTIONS", "MAX_CONNECTIONS_PER_HOST"])
async def test_a_call_that_finds_no_free_connection_says_so(
    make: Any, server: Any, kit: Any, key: str
) -> None:
    server.answer = stay_silent
    engine = make(CONNECT_TIMEOUT_SECONDS=0.1, **{key: 1})
    first = asyncio.create_task(engine.execute({}, kit.call()))
    while not server.seen:
        await asyncio.sleep(0.001)
    with pytest.raises(CallTimeout, match=r"no connection became free \(MAX_CONN"):
        await engine.execute({}, kit.call())
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_proxy_of_the_file_is_used_and_none_where_private_networks_are_refused(
    make: Any, server: Any, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from enginehost.engine import HostAccess
    from enginehost.errors import ConfigError

    proxy = f"http://user:hush@127.0.0.1:{server.port}"
    await make(URL="http://api.example/x", PROXY_URL=proxy).execute({}, kit.call())
    assert server.last.target == b"http://api.example/x"
    assert server.last.header("proxy-authorization") == b"Basic dXNlcjpodXNo"
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    await make(PROXY_URL="none").execute({}, kit.call())
    assert server.last.target == b"/path"
    with pytest.raises(EngineUnavailable, match="PROXY_URL needs the setting private_networks"):
        await make(PROXY_URL=proxy, access=HostAccess(private_networks=False)).execute({}, kit.call())
    for wrong in ("socks5://h", "host:8080", "http://"):
        with pytest.raises(ConfigError, match="PROXY_URL is no URL of a proxy"):
            make(PROXY_URL=wrong)
