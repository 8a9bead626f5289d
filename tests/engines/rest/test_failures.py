import asyncio
import base64
import datetime
import html
import json
import os
import socket
import ssl
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import httpcore2
import pytest

from enginehost import Host
from enginehost.engine import HostAccess
from enginehost.errors import (
    CallTimeout,
    EngineHostError,
    EngineUnavailable,
    ExecutionFailed,
    InvalidArguments,
    TooLarge,
)
from enginehost.redaction import Redactor
from enginehost.safe_text import make_safe
from enginehost_engines.rest import RestEngine, StreamRestEngine, transport
from enginehost_engines.rest.guard import PublicOnly, is_public
from enginehost_engines.rest.unreadable import unreadable


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
    async def endless(seen: Any, writer: Any) -> None:
        writer.write(b"HTTP/1.1 500 X\r\nContent-Type: text/plain\r\nContent-Length: 99999999999\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    server.answer = endless
    with pytest.raises(ExecutionFailed, match="answered 500"):
        await make().execute({}, kit.call())


async def test_a_value_that_its_place_cannot_carry_is_told_with_function_and_pointer(
    make: Any, server: Any, kit: Any
) -> None:
    for kind in (RestEngine, StreamRestEngine):
        engine = make(kind, parameters=["id"], URL=f"{server.url}/things/{{id}}")
        with pytest.raises(InvalidArguments, match=r"^f at /id: may not hold a slash") as refused:
            await _exhaust(engine.execute({"id": "a/b"}, kit.call()))
        assert refused.value.detail["errors"][0]["pointer"] == "/id"
    assert not server.seen


async def test_an_answer_over_the_limit_names_the_key(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.plain(b"x" * 100, "text/plain")
    for kind in (RestEngine, StreamRestEngine):
        with pytest.raises(TooLarge, match=r"^f: .*\(MAX_RESPONSE_BYTES\) may have 10 bytes"):
            await _exhaust(make(kind, MAX_RESPONSE_BYTES=10).execute({}, kit.call()))


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


async def _silent(seen: Any, writer: Any) -> None:
    await asyncio.sleep(3600)


async def test_a_silent_endpoint_is_given_up_at_the_deadline(make: Any, server: Any, kit: Any) -> None:
    server.answer = _silent
    with pytest.raises(CallTimeout, match=r"f: 127\.0\.0\.1:\d+ did not answer within 0\.2 s \(READ_TIMEOUT"):
        await make(READ_TIMEOUT_SECONDS=0.2).execute({}, kit.call(60))
    with pytest.raises(CallTimeout, match="what was left of the call"):
        await make().execute({}, kit.call(0.2))


async def _drip(seen: Any, writer: Any) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100000\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"x\n")
        await writer.drain()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("answer", [_silent, _drip])
async def test_in_a_host_the_caller_reads_whose_limit_passed(
    server: Any, tmp_path: Path, answer: Any
) -> None:
    server.answer = answer
    text = f"ENGINE_CLASS = REST\nURL = {server.url}/\nTIMEOUT_SECONDS = 0.3\nFUNCTION_DESCRIPTION = d\n"
    (tmp_path / "one.smss").write_text(text + "FUNCTION_NAME = one\n")
    (tmp_path / "many.smss").write_text(
        text.replace("REST", "prerna.engine.impl.function.StreamRESTFunctionEngine")
        + "FUNCTION_NAME = many\n"
    )
    async with Host(tmp_path, None) as host:
        for name in ("one", "many"):
            with pytest.raises(CallTimeout) as late:
                await host.call(name)
            assert late.value.message == f"{name} did not answer within 0.3 s (its TIMEOUT_SECONDS)"


async def test_an_endpoint_that_drips_is_given_up_at_the_deadline(make: Any, server: Any, kit: Any) -> None:
    server.answer = _drip
    with pytest.raises(CallTimeout):
        await make().execute({}, kit.call(0.3))
    with pytest.raises(CallTimeout):
        await _exhaust(make(StreamRestEngine).execute({}, kit.call(0.3)))


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
    async def broken(seen: Any, writer: Any) -> None:
        writer.write(raw)
        writer.close()

    server.answer = broken
    for kind in (RestEngine, StreamRestEngine):
        engine = make(kind)
        with pytest.raises(ExecutionFailed) as failed:
            await _exhaust(engine.execute({}, kit.call()))
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
    async def answer(seen: Any, writer: Any) -> None:
        writer.write(raw)
        writer.close()

    server.answer = answer
    for kind in (RestEngine, StreamRestEngine):
        server.seen.clear()
        engine = make(kind, RETRIES=3, RETRY_BACKOFF_SECONDS=0.01, BREAKER_FAILURES=1)
        with pytest.raises(ExecutionFailed) as failed:
            await _exhaust(engine.execute({}, kit.call()))
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


@pytest.mark.parametrize(
    ("status", "sent", "rule", "method"),
    [
        (301, "GET", "same-origin", "GET"),
        (302, "HEAD", "same-origin", "HEAD"),
        (308, "GET", "same-origin", "GET"),
        (303, "POST", "same-origin", "GET"),
        (303, "PATCH", "any-method", "GET"),
        (307, "POST", "any-method", "POST"),
        (308, "POST", "any-method", "POST"),
        (302, "PUT", "any-method", "PUT"),
        (302, "POST", "any-method", "GET"),
    ],
)
async def test_a_redirect_on_the_same_host_is_followed(
    make: Any, server: Any, kit: Any, status: int, sent: str, rule: str, method: str
) -> None:
    server.answer = kit.redirect_once
    url = f"{server.url}/a/{status}-there%20%C3%A9"
    keys = {"HTTP_METHOD": sent, "AUTH_TOKEN": "t", "FOLLOW_REDIRECTS": rule}
    engine = make(parameters=["q"], URL=url, PARAMETER_PLACEMENT={"q": "header:Q"}, **keys)
    await engine.execute({"q": "1"}, kit.call())
    assert (server.last.method, server.last.target) == (method, b"/a/there%20%C3%A9")
    assert server.last.header("authorization") == b"Bearer t"
    assert server.last.header("q") == b"1"


async def test_a_body_goes_along_only_where_the_method_does(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.redirect_once
    for status, method, body in ((307, "POST", b'{"q":1}'), (302, "GET", b"")):
        keys = {"HTTP_METHOD": "POST", "FOLLOW_REDIRECTS": "any-method"}
        engine = make(parameters=["q"], URL=f"{server.url}/a/{status}-there", **keys)
        assert await engine.execute({"q": 1}, kit.call()) == "there"
        assert (server.last.method, server.last.body) == (method, body)
        assert (server.last.header("content-type") is None) == (method == "GET")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_what_changes_something_is_not_sent_twice_unless_the_file_says_so(
    make: Any, server: Any, kit: Any, method: str, status: int
) -> None:
    server.answer = kit.redirect_once
    with pytest.raises(
        ExecutionFailed, match=f"answered {status}, a redirect that FOLLOW_REDIRECTS = same-o"
    ):
        await make(URL=f"{server.url}/a/{status}-there", HTTP_METHOD=method).execute({}, kit.call())
    assert len(server.seen) == 1


async def test_no_redirect_is_followed_where_the_file_forbids_it(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.redirect_once
    with pytest.raises(ExecutionFailed, match="answered 303, a redirect that FOLLOW_REDIRECTS = never"):
        await make(URL=f"{server.url}/a/303-there", FOLLOW_REDIRECTS="never").execute({}, kit.call())
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("http://evil.example/hush", "to http://evil.example,"),
        ("//u:hush@evil.example/x?hush=1#hush", "to http://evil.example,"),
        ("http://127.0.0.1:1/", "to http://127.0.0.1:1,"),
        ("https://127.0.0.1/", "to https://127.0.0.1,"),
        ("ftp://127.0.0.1/", "that leads nowhere"),
        ("http://[", "that leads nowhere"),
        ("", "that leads nowhere"),
    ],
)
async def test_a_redirect_elsewhere_is_not_followed(
    make: Any, server: Any, kit: Any, location: str, told: str
) -> None:
    server.answer = kit.plain(b"", "", 302, Location=location)
    with pytest.raises(ExecutionFailed, match=f"answered 302, a redirect {told}") as failed:
        await make().execute({}, kit.call())
    assert len(server.seen) == 1
    assert "hush" not in json.dumps(failed.value.to_json())


async def test_redirects_in_a_circle_end(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.plain(b"", "", 302, Location="/path")
    with pytest.raises(ExecutionFailed, match="redirect"):
        await make().execute({}, kit.call())
    assert len(server.seen) == transport.MOST_REDIRECTS + 1


async def test_a_private_address_is_refused_where_the_host_says_so(make: Any, server: Any, kit: Any) -> None:
    access = HostAccess(private_networks=False)
    for host in ("127.0.0.1", "localhost"):
        with pytest.raises(EngineUnavailable, match="private network"):
            await make(access=access, URL=f"http://{host}:{server.port}/").execute({}, kit.call())
    assert server.opened == 0


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1111", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.0.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:8.8.8.8", True),
        ("2002:7f00:1::", False),
        ("64:ff9b::a00:1", False),
        ("64:ff9b::808:808", True),
    ],
)
def test_private_addresses_are_recognised_in_every_dress(address: str, public: bool) -> None:
    assert is_public(address) is public


async def test_the_address_that_was_checked_is_the_one_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    class Inner(PublicOnly):
        async def connect_tcp(self, host: str, *args: Any, **kwargs: Any) -> Any:
            tried.append(host)
            return "stream"

    async def resolve(*_: Any, **__: Any) -> Any:
        return [(0, 0, 0, "", (address, 80)) for address in ("10.0.0.1", "93.184.215.14", "8.8.8.8")]

    monkeypatch.setattr(anyio, "getaddrinfo", resolve)
    assert await PublicOnly(Inner()).connect_tcp("rebind.example", 80) == "stream"
    assert tried == ["93.184.215.14"]


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A key and a certificate for 127.0.0.1 that no authority knows."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "both.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


async def test_tls_is_verified(
    make: Any, kit: Any, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n42")
        await writer.drain()
        writer.close()

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    listening = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    port = listening.sockets[0].getsockname()[1]
    transport._tls.cache_clear()
    try:
        engine = make(URL=f"https://127.0.0.1:{port}/")
        with pytest.raises(EngineUnavailable, match="certificate is not trusted"):
            await engine.execute({}, kit.call())
        await engine.close()
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        transport._tls.cache_clear()
        assert await engine.execute({}, kit.call()) == 42
        with pytest.raises(EngineUnavailable, match="certificate is not trusted"):
            await make(URL=f"https://localhost:{port}/").execute({}, kit.call())
    finally:
        transport._tls.cache_clear()
        listening.close()


async def _exhaust(answer: Any) -> None:
    if not hasattr(answer, "__aiter__"):
        await answer
        return
    async for _ in answer:
        pass


async def test_every_failure_is_an_error_of_the_host(make: Any, server: Any, kit: Any) -> None:
    async def garbage(seen: Any, writer: Any) -> None:
        writer.write(os.urandom(200))
        writer.close()

    server.answer = garbage
    for _ in range(20):
        with pytest.raises(EngineHostError):
            await make().execute({}, kit.call())


async def test_redirects_lead_to_hosts_that_the_file_allows_and_take_nothing_along(
    make: Any, server: Any, kit: Any
) -> None:
    async def lead(seen: Any, writer: Any) -> None:
        if seen.target == b"/there":
            await kit.plain(b'"there"')(seen, writer)
        else:
            status = int(seen.target.rpartition(b"/")[2])
            await kit.plain(b"", "", status, Location=f"http://localhost:{server.port}/there")(seen, writer)

    server.answer = lead
    keys: dict[str, Any] = {
        "HEADERS": {"X-Key": "hush", "Cookie": "hush=1"},
        "AUTH_TOKEN": "hush",
        "PARAMETER_PLACEMENT": {"q": "header:Q"},
    }
    hosts = ["LocalHost", "x.example"]
    for method, status in (("GET", 302), ("GET", 307), ("POST", 303)):
        url = f"{server.url}/a/{status}"
        engine = make(parameters=["q"], URL=url, HTTP_METHOD=method, REDIRECT_HOSTS=hosts, **keys)
        assert await engine.execute({"q": "hush"}, kit.call()) == "there"
        assert server.last.header("host") == f"localhost:{server.port}".encode()
        assert {name.lower() for name, _ in server.last.headers} == {
            *(b"host", b"accept", b"accept-encoding", b"user-agent")
        }
    never: list[dict[str, Any]] = [
        {"REDIRECT_HOSTS": ["x.example"]},
        {"REDIRECT_HOSTS": hosts, "HTTP_METHOD": "POST", "FOLLOW_REDIRECTS": "any-method"},
        {"REDIRECT_HOSTS": hosts, "FOLLOW_REDIRECTS": "never"},
    ]
    for rule in never:
        seen = len(server.seen)
        with pytest.raises(ExecutionFailed, match="a redirect"):
            await make(parameters=["q"], URL=f"{server.url}/a/307", **keys, **rule).execute(
                {"q": 1}, kit.call()
            )
        assert len(server.seen) == seen + 1


def test_no_redirect_leads_from_https_to_http() -> None:
    from httpx2 import Response

    from enginehost_engines.rest.redirects import following_of
    from enginehost_engines.rest.request import Message
    from enginehost_engines.rest.url import Origin

    message = Message("GET", Origin("https", "a.example", 443), b"/", (), b"")
    for location, host in (("http://b.example/", None), ("https://b.example:8443/", b"b.example:8443")):
        answer = Response(302, headers={"Location": location})
        following = following_of(message, answer, "same-origin", frozenset({"b.example"}))
        assert (dict(following.headers)[b"Host"] if following else None) == host


async def test_an_answer_longer_than_it_says_is_nobody_elses(make: Any, server: Any, kit: Any) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"

    async def lie(seen: Any, writer: Any) -> None:
        writer.write(head % (1, b"1") + head % (6, b'"evil"'))

    server.answer = lie
    one, two = make(), make()
    for engine in (one, two, one, two):
        assert await engine.execute({}, kit.call()) == 1


async def test_an_answer_without_end_is_given_up_at_its_limit(make: Any, server: Any, kit: Any) -> None:
    async def endless(seen: Any, writer: Any) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            await writer.drain()

    server.answer = endless
    with pytest.raises(TooLarge):
        await make(MAX_RESPONSE_BYTES=2**20).execute({}, kit.call())
    assert server.closed.acquire(timeout=10)


async def test_whatever_goes_wrong_leaves_no_socket_no_task_and_no_place_behind(
    make: Any, server: Any, kit: Any, free_tcp_port: int
) -> None:
    def counted() -> tuple[int, int]:
        """Sockets whose other end is the server, and tasks."""
        rows = [row.split() for row in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
        held = [row for row in rows if row[2].endswith(f":{server.port:04X}") and row[9] != "0"]
        return len(held), len(asyncio.all_tasks())

    async def close(seen: Any, writer: Any) -> None:
        writer.close()

    async def halt(seen: Any, writer: Any) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab")

    async def trouble(**keys: Any) -> None:
        engine = make(BREAKER_FAILURES=0, RETRIES=1, RETRY_BACKOFF_SECONDS=0.01, **keys)
        for answer in (close, halt, _silent, kit.plain(b"", status=503), kit.plain(b"{", status=200)):
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
