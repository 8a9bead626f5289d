"""What a caller reads of a call that failed, what it never reads, and what a failure leaves behind."""

import asyncio
import base64
import html
import json
import socket
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from enginehost.errors import EngineHostError, EngineUnavailable, ExecutionFailed, InvalidArguments, TooLarge
from enginehost.redaction import Redactor
from enginehost.safe_text import make_safe
from enginehost_engines.rest import RestEngine, StreamRestEngine

from .conftest import exhaust, stay_silent


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 429, 500, 503, 599])
async def test_a_status_that_is_no_success_is_told_with_a_short_excerpt(
    make: Any, server: Any, kit: Any, status: int
) -> None:
    server.answer = kit.plain(b'{"error":\r\n  "no such city"}' + b" long" * 1000, status=status)
    with pytest.raises(ExecutionFailed) as failed:
        await make(parameters=["q"]).execute({"q": "private-value"}, kit.call())
    assert failed.value.detail["status"] == status
    assert failed.value.detail["retry_may_help"] == (status in (429, 500, 503))
    start = f"f: 127.0.0.1:{server.port} answered {status}: "
    assert failed.value.message.startswith(f'{start}{{"error": "no such city"}} long')
    assert len(failed.value.message) <= len(start) + 500
    assert "private-value" not in failed.value.message


async def test_secrets_that_a_service_repeats_are_masked(make: Any, server: Any, kit: Any) -> None:
    secrets = {
        "api_key_value": "hush-api-key",
        "header": "hush-header",
        "query": "hush query",
        "bound": "hush-bound",
    }
    server.answer = kit.plain(" ".join(secrets.values()).encode(), "text/plain", status=403)
    engine = make(
        parameters=["q"],
        URL=f"{server.url}/p?key=hush%20query",
        HEADERS={"X-Secret": secrets["header"]},
        API_KEY_VALUE=secrets["api_key_value"],
        bind={"tenant": "x"},
    )
    with pytest.raises(ExecutionFailed) as failed:
        await engine.execute({"q": 1, "tenant": secrets["bound"]}, kit.call())
    assert failed.value.message == f"f: 127.0.0.1:{server.port} answered 403: *** *** *** ***"


@pytest.mark.parametrize(
    "spelled",
    [
        lambda secret: json.dumps({"error": secret}),
        lambda secret: json.dumps({"error": secret}).replace("/", "\\/"),
        lambda secret: json.dumps({"error": secret}).replace("/", "\\u002f"),
        lambda secret: json.dumps(json.dumps({"error": secret})),
        repr,
        lambda secret: f"no route /bot{quote(secret, safe='')}/send",
        lambda secret: html.escape(secret),
        lambda secret: base64.b64encode(f"x:{secret}".encode()).decode(),
        lambda secret: "x" * 495 + secret,
        lambda secret: "x " * 4090 + secret,
    ],
)
@pytest.mark.parametrize("place", ["url", "body", "credential", "query"])
async def test_no_spelling_and_no_cut_shows_a_secret_of_the_file(
    make: Any, server: Any, kit: Any, spelled: Any, place: str
) -> None:
    secret = "4242:AA/b\"c'd&e<f>-ghijk"
    known = Redactor()
    keys: dict[str, Any] = {
        "url": {"URL": f"{server.url}/bot{quote(secret, safe='')}/send"},
        "body": {"BODY_CONSTANTS": {"deep": [{"note": secret}]}, "HTTP_METHOD": "POST"},
        "credential": {"AUTH_TOKEN": secret},
        "query": {"URL": f"{server.url}/p?token={quote(secret, safe='')}"},
    }[place]
    if place == "url":
        known.add(secret)  # the host took it from ${secret:…}
    server.answer = kit.plain(spelled(secret).encode(), "text/plain", status=403)
    with pytest.raises(ExecutionFailed) as failed:
        await make(redactor=known, **keys).execute({}, kit.call())
    error = failed.value
    make_safe(error, known, own=False)
    told = json.dumps(error.to_json())
    for start in range(len(secret) - 5):
        assert secret[start : start + 6] not in told
    assert "ghijk" not in told
    assert base64.b64encode(secret[3:12].encode()).decode()[2:10] not in told


async def test_a_binary_error_body_is_not_repeated(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.plain(b"\x00\x01", "image/png", status=500)
    with pytest.raises(ExecutionFailed) as failed:
        await make().execute({}, kit.call())
    assert failed.value.message == f"f: 127.0.0.1:{server.port} answered 500"


async def test_an_endless_error_body_is_not_read_to_its_end(make: Any, server: Any, kit: Any) -> None:
    head = b"HTTP/1.1 500 X\r\nContent-Type: text/plain\r\nContent-Length: 99999999999"
    server.answer = kit.endless(head, b"x" * 65536)
    with pytest.raises(ExecutionFailed, match="answered 500"):
        await make().execute({}, kit.call())


async def test_a_value_that_its_place_cannot_carry_is_told_with_function_and_pointer(
    make: Any, server: Any, kit: Any
) -> None:
    for kind in (RestEngine, StreamRestEngine):
        engine = make(kind, parameters=["id"], URL=f"{server.url}/things/{{id}}")
        with pytest.raises(InvalidArguments, match=r"^f at /id: may not hold a slash") as refused:
            await exhaust(engine.execute({"id": "a/b"}, kit.call()))
        assert refused.value.detail["errors"][0]["pointer"] == "/id"
    assert not server.seen


async def test_an_answer_over_the_limit_names_the_key(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.plain(b"x" * 100, "text/plain")
    for kind in (RestEngine, StreamRestEngine):
        with pytest.raises(TooLarge, match=r"^f: .*\(MAX_RESPONSE_BYTES\) may have 10 bytes"):
            await exhaust(make(kind, MAX_RESPONSE_BYTES=10).execute({}, kit.call()))


async def test_a_refused_connection_names_function_host_and_port_only(
    make: Any, kit: Any, free_tcp_port: int
) -> None:
    engine = make(parameters=["q"], URL=f"http://127.0.0.1:{free_tcp_port}/secret-path?k=secret")
    with pytest.raises(EngineUnavailable) as failed:
        await engine.execute({"q": "secret"}, kit.call())
    assert failed.value.message == f"f: could not connect to 127.0.0.1:{free_tcp_port}: connection refused"
    assert "start the service" in failed.value.detail["hint"]


async def test_an_unknown_host_is_told_so(make: Any, kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(EngineUnavailable, match=r"could not connect to no-such-host\.invalid: no such host"):
        await make(URL="http://no-such-host.invalid/x").execute({}, kit.call())


async def test_whatever_goes_wrong_leaves_no_socket_no_task_and_no_place_behind(
    make: Any, server: Any, kit: Any, free_tcp_port: int
) -> None:
    def counted() -> tuple[int, int]:
        """Sockets whose other end is the server, and tasks."""
        rows = [row.split() for row in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
        held = [row for row in rows if row[2].endswith(f":{server.port:04X}") and row[9] != "0"]
        return len(held), len(asyncio.all_tasks())

    async def halt(seen: Any, writer: Any) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab")

    answers = (kit.raw(b""), halt, stay_silent, kit.plain(b"", status=503), kit.plain(b"{", status=200))

    async def trouble(**keys: Any) -> None:
        engine = make(BREAKER_FAILURES=0, RETRIES=1, RETRY_BACKOFF_SECONDS=0.01, **keys)
        for answer in answers:
            server.answer = answer
            calls = [asyncio.create_task(engine.execute({}, kit.call(0.05))) for _ in range(3)]
            await asyncio.sleep(0.01)
            calls[0].cancel()
            for outcome in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(outcome, EngineHostError | asyncio.CancelledError)
        if engine._way is not None:
            assert {place._value for place in engine._way.client._shared.places.values()} <= {100}
        await engine.close()

    token = {"AUTH_TOKEN_URL": f"{server.url}/token", "AUTH_CLIENT_ID": "a", "AUTH_CLIENT_SECRET": "b"}
    cases: list[dict[str, Any]] = [{}, {"URL": f"http://127.0.0.1:{free_tcp_port}/"}, token]
    before = counted()
    assert before[0] == 0
    for keys in cases:
        await trouble(**keys)
    assert counted() == before
