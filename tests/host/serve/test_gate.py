"""Whose pages may talk to a host."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.errors import Forbidden, InvalidRequest
from enginehost.serve.gate import Gate, header_fields, host_name
from enginehost.serve.request import trace_of
from enginehost.trace_context import NO_TRACE

CALL = {"content-type": "application/json"}


@pytest.mark.parametrize(
    "host",
    [
        b"localhost",
        b"localhost:1",
        b"LOCALHOST:8484",
        b"127.0.0.1:8484",
        b"[::1]:8484",
        b"127.9.9.9",
        b"app.localhost:1",
        b"localhost.:5",
        None,
    ],
)
def test_this_machine_goes_by_all_its_names(host: bytes | None) -> None:
    assert Gate("127.0.0.1", (), ()).check({} if host is None else {b"host": host}) is None


@pytest.mark.parametrize(
    "host",
    [
        b"evil.example",
        b"evil.example:8484",
        b"127.0.0.1.evil.example",
        b"localhost.evil.example",
        b"192.168.1.5",
        b"0.0.0.0:8484",
        b"127.1",
        b"2130706433",
        b"[::2]:1",
        b"[::]",
    ],
)
def test_a_name_that_was_rebound_to_this_machine_is_refused(host: bytes) -> None:
    with pytest.raises(Forbidden):
        Gate("127.0.0.1", ("good.example",), ()).check({b"host": host})


@pytest.mark.parametrize("allowed", ["good.example", "*"])
@pytest.mark.parametrize(
    "host",
    [
        b"",
        b"[::1",
        b"::1]",
        b"[]",
        b"[evil]:1",
        b"[::1]evil.com",
        b"[::1%evil.com]",
        b"[:::1]",
        b"::1",
        b"localhost@evil.example",
        b"127.0.0.1:80@evil.com",
        b"127.0.0.1:abc",
        b"127.0.0.1:65536",
        b"localhost:1:2",
        b"localhost/evil",
        b"localhost, evil.example",
        b".localhost",
        b"a..localhost",
        b" localhost",
        b"localhost\n",
        b"localhost\0",
        b"\xff",
    ],
)
def test_a_host_header_that_is_none_is_refused(host: bytes, allowed: str) -> None:
    with pytest.raises(InvalidRequest):
        Gate("127.0.0.1", (allowed,), ()).check({b"host": host})


@pytest.mark.parametrize(
    "name",
    [b"host", b"origin", b"authorization", b"content-type", b"transfer-encoding", b"request-timeout"],
)
def test_a_header_that_decides_may_stand_once(name: bytes) -> None:
    fields = [(b"host", b"localhost"), (b"x", b"1"), (b"x", b"2")]
    assert header_fields(fields, "1.1")[b"host"] == b"localhost"
    twice = [*fields, (name, b"localhost")] if name == b"host" else [*fields, (name, b"a"), (name, b"a")]
    with pytest.raises(InvalidRequest, match="twice"):
        header_fields(twice, "1.1")


def test_a_header_that_is_a_list_may_stand_twice_and_two_traces_are_none():
    parent = b"00-" + b"1" * 32 + b"-" + b"1" * 16 + b"-01"
    fields = [(b"host", b"h"), *((name, parent) for name in (b"traceparent", b"tracestate") * 2)]
    headers = header_fields(fields, "1.1")
    assert headers[b"tracestate"] == parent + b", " + parent
    assert trace_of(headers) == NO_TRACE


@pytest.mark.parametrize(
    ("origin", "own"),
    [
        (b"http://localhost:1", True),
        (b"https://localhost:1", True),
        (b"evil://localhost:1", False),
        (b"localhost:1", False),
        (b"://localhost:1", False),
        (b"http://http://localhost:1", False),
        (b"http://localhost", False),
    ],
)
def test_the_hosts_own_page_speaks_http(origin: bytes, own: bool) -> None:
    headers = {b"host": b"localhost:1", b"origin": origin}
    if own:
        assert Gate("127.0.0.1", (), ()).check(headers) is None
    else:
        with pytest.raises(Forbidden):
            Gate("127.0.0.1", (), ()).check(headers)


async def test_a_request_whose_host_is_unclear_is_refused_with_400(served: Any) -> None:
    async def answer(head: bytes) -> bytes:
        return (await served.raw(b"GET /v1/functions " + head + b"Connection: close\r\n\r\n"))[9:12]

    assert await answer(b"HTTP/1.1\r\nHost: localhost\r\n") == b"200"
    assert await answer(b"HTTP/1.0\r\n") == b"200"
    assert await answer(b"HTTP/1.1\r\n") == b"400"
    assert await answer(b"HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n") == b"400"
    origins = b"Origin: http://localhost\r\n" * 2
    assert await answer(b"HTTP/1.1\r\nHost: localhost\r\n" + origins) == b"400"
    for host in (b"[::1]evil.com", b"[::1", b"", b"localhost:http"):
        assert await answer(b"HTTP/1.1\r\nHost: " + host + b"\r\n") == b"400"


def test_allowed_hosts_pass_with_any_port() -> None:
    gate = Gate("127.0.0.1", ("good.example",), ())
    assert gate.check({b"host": b"good.example:1"}) is None
    assert Gate("0.0.0.0", (), ()).check({b"host": b"any.example"}) is None
    assert Gate("127.0.0.1", ("*",), ()).check({b"host": b"any.example"}) is None
    with pytest.raises(Forbidden):
        Gate("0.0.0.0", ("good.example",), ()).check({b"host": b"any.example"})


@given(st.binary(max_size=40), st.none() | st.binary(max_size=40))
@settings(max_examples=200)
def test_no_header_crashes_the_gate(host: bytes, origin: bytes | None) -> None:
    headers = {b"host": host} if origin is None else {b"host": host, b"origin": origin}
    with suppress(Forbidden, InvalidRequest):
        Gate("127.0.0.1", (), ()).check(headers)


@pytest.mark.parametrize(
    ("authority", "name"), [("a:1", "a"), ("A.", "a"), ("[::1]:2", "::1"), ("::1", "::1"), ("", "")]
)
def test_the_host_of_an_authority(authority: str, name: str) -> None:
    assert host_name(authority) == name


async def test_a_page_of_another_origin_reads_nothing(served: Any) -> None:
    paths = ("/v1/functions", "/v1/functions/add", "/v1/tools", "/openapi.json", "/docs", "/metrics")
    for origin in ("https://evil.example", "null", "http://localhost:1", "file://"):
        for path in paths:
            response = await served.client.get(path, headers={"origin": origin})
            assert response.status_code == 403, (origin, path)
            assert "access-control-allow-origin" not in response.headers


async def test_a_page_of_another_origin_cannot_call(served: Any) -> None:
    ran = False

    async def run(parameters: dict[str, Any], call: Any) -> None:
        nonlocal ran
        ran = True

    await served.add("touch", run)
    for headers in ({"origin": "https://evil.example"}, {"origin": "null"}, {"host": "evil.example"}):
        response = await served.call("touch", headers=headers)
        assert response.status_code == 403
    preflight = await served.client.options(
        "/v1/functions/touch",
        headers={"origin": "https://evil.example", "access-control-request-method": "POST"},
    )
    assert preflight.status_code == 403
    assert not ran


async def test_the_hosts_own_page_may_call(served: Any) -> None:
    response = await served.call("add", {"a": 1, "b": 2}, headers={"origin": served.server.url})
    assert response.json() == {"result": 3}
    assert "access-control-allow-origin" not in response.headers


async def test_an_allowed_origin_may_call_and_read_everything(serve: Any) -> None:
    origin = "https://app.example"
    async with serve(http={"allowed_origins": [origin]}) as served:
        preflight = await served.client.options(
            "/v1/functions/add", headers={"origin": origin, "access-control-request-method": "POST"}
        )
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-origin"] == origin
        assert "authorization" in preflight.headers["access-control-allow-headers"]
        for response in (
            await served.call("add", {"a": 1, "b": 2}, headers={"origin": origin}),
            await served.call("add", {}, headers={"origin": origin}),
            await served.call("count", {}, headers={"origin": origin, "accept": "text/event-stream"}),
            await served.client.get("/v1/functions", headers={"origin": origin}),
            await served.client.get("/nothing", headers={"origin": origin}),
        ):
            assert response.headers["access-control-allow-origin"] == origin
            assert "origin" in response.headers["vary"]


async def test_probes_answer_under_any_name(served: Any) -> None:
    for path in ("/healthz", "/readyz"):
        response = await served.client.get(path, headers={"host": "10.0.0.7:8484"})
        assert response.status_code == 200
    assert (await served.client.get("/v1/functions", headers={"host": "10.0.0.7:8484"})).status_code == 403
