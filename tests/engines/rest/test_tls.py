"""TLS with real certificates: authorities, clients that prove themselves, HTTP/2, and what is refused."""

import asyncio
import datetime
import os
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
import trustme
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived

from enginehost.errors import ConfigError, EngineHostError, EngineUnavailable
from enginehost_engines.rest import transport

Serve = Callable[..., AbstractAsyncContextManager[str]]

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path) -> str:
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    return str(tmp_path / "authority.pem")


@asynccontextmanager
async def serving(
    certificate: trustme.LeafCert, clients: trustme.CA | None = None, handler: Any = None, alpn: str = ""
) -> AsyncIterator[str]:
    """A TLS server that tells the name in the client's certificate; its URL."""

    async def tell(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                shown = writer.get_extra_info("peercert") or {}
                name = dict(part[0] for part in shown.get("subject", ())).get("commonName", "nobody")
                writer.write(ANSWER % (len(name), name.encode()))
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(context)
    if clients is not None:
        clients.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    if alpn:
        context.set_alpn_protocols([alpn])
    listening = await asyncio.start_server(handler or tell, "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
    finally:
        listening.close()


async def test_an_authority_of_the_file_is_trusted_beside_the_systems(
    make: Any, kit: Any, authority: trustme.CA, trusted: str
) -> None:
    async with serving(authority.issue_cert("127.0.0.1")) as url:
        assert await make(URL=url, TLS_CA_FILE=trusted).execute({}, kit.call()) == "nobody"
        with pytest.raises(EngineUnavailable, match="certificate is not trusted") as refused:
            await make(URL=url).execute({}, kit.call())
        assert refused.value.detail["retry_may_help"] is False
        assert refused.value.detail["hint"].startswith("TLS_CA_FILE")


async def test_tls_is_verified(
    make: Any, kit: Any, authority: trustme.CA, trusted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport._tls.cache_clear()
    try:
        async with serving(authority.issue_cert("127.0.0.1")) as url:
            engine = make(URL=url)
            with pytest.raises(EngineUnavailable, match="certificate is not trusted"):
                await engine.execute({}, kit.call())
            await engine.close()
            monkeypatch.setenv("SSL_CERT_FILE", trusted)
            transport._tls.cache_clear()
            assert await engine.execute({}, kit.call()) == "nobody"
            elsewhere = url.replace("127.0.0.1", "localhost")
            with pytest.raises(EngineUnavailable, match="certificate is not trusted"):
                await make(URL=elsewhere).execute({}, kit.call())
    finally:
        transport._tls.cache_clear()


async def test_a_certificate_that_ran_out_or_names_another_host_is_refused(
    make: Any, kit: Any, authority: trustme.CA, trusted: str
) -> None:
    yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    for certificate, reason in (
        (authority.issue_cert("127.0.0.1", not_after=yesterday), "certificate has expired"),
        (authority.issue_cert("other.example"), "IP address mismatch"),
    ):
        async with serving(certificate) as url:
            engine = make(URL=url, TLS_CA_FILE=trusted, RETRIES=3)
            with pytest.raises(EngineUnavailable, match=f"certificate is not trusted .*{reason}"):
                await engine.execute({}, kit.call())


async def test_no_tls_at_all_is_told(make: Any, server: Any, kit: Any) -> None:
    url = server.url.replace("http:", "https:")
    with pytest.raises(EngineUnavailable, match="no TLS connection came about"):
        await make(URL=url).execute({}, kit.call())


def write_client(authority: trustme.CA, folder: Path, name: str, *, apart: bool = False) -> dict[str, str]:
    """A client certificate with its key beside or in it; the keys that name them."""
    issued = authority.issue_cert("client@example", common_name=name)
    if apart:
        issued.cert_chain_pems[0].write_to_path(folder / "client.pem")
        issued.private_key_pem.write_to_path(folder / "key.pem")
        return {"AUTH_CLIENT_CERT": str(folder / "client.pem"), "AUTH_CLIENT_KEY": str(folder / "key.pem")}
    issued.private_key_and_cert_chain_pem.write_to_path(folder / "client.pem")
    return {"AUTH_CLIENT_CERT": str(folder / "client.pem")}


async def test_a_client_proves_itself_by_its_certificate_and_a_renewed_one_is_taken_up(
    make: Any, kit: Any, authority: trustme.CA, trusted: str, tmp_path: Path
) -> None:
    async with serving(authority.issue_cert("127.0.0.1"), clients=authority) as url:
        with pytest.raises(EngineHostError):
            await make(URL=url, TLS_CA_FILE=trusted).execute({}, kit.call())
        keys = write_client(authority, tmp_path, "first", apart=True)
        engine = make(URL=url, TLS_CA_FILE=trusted, AUTH="mtls", **keys)
        await engine.open()
        assert await engine.execute({}, kit.call()) == "first"
        assert {Path(path) for path in (trusted, *keys.values())} == set(engine.watched())

        write_client(authority, tmp_path, "second", apart=True)
        os.utime(keys["AUTH_CLIENT_CERT"], ns=(1, 1))  # its time differs, however coarse the clock
        renewed = make(URL=url, TLS_CA_FILE=trusted, AUTH_TOKEN="beside it", **keys)
        assert await renewed.execute({}, kit.call()) == "second"
        assert await engine.execute({}, kit.call()) == "first"


async def test_a_tls_file_that_is_broken_or_missing_keeps_an_engine_from_opening(
    make: Any, authority: trustme.CA, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("-----BEGIN CERTIFICATE-----\nhalf")
    keys = write_client(authority, tmp_path, "x", apart=True)
    other = authority.issue_cert("x@example").private_key_pem
    other.write_to_path(tmp_path / "other.pem")
    for wrong in (
        {"TLS_CA_FILE": str(broken)},
        {"AUTH_CLIENT_CERT": str(broken)},
        {"AUTH_CLIENT_CERT": keys["AUTH_CLIENT_CERT"]},
        {**keys, "AUTH_CLIENT_KEY": str(tmp_path / "other.pem")},
    ):
        engine = make(**wrong)
        with pytest.raises(ConfigError) as refused:
            await engine.open()
        assert refused.value.key == next(iter(wrong))
        assert str(tmp_path) not in refused.value.message
    with pytest.raises(ConfigError, match=r"TLS_CA_FILE: there is no file no\.pem"):
        make(TLS_CA_FILE="no.pem")
    with pytest.raises(ConfigError, match="AUTH_CLIENT_CERT is missing"):
        make(AUTH="mtls")


async def test_a_key_with_a_password_opens_with_it_only(
    make: Any, authority: trustme.CA, tmp_path: Path
) -> None:
    from cryptography.hazmat.primitives import serialization

    issued = authority.issue_cert("client@example")
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"hush"),
    )
    (tmp_path / "client.pem").write_bytes(locked + issued.cert_chain_pems[0].bytes())
    keys = {"AUTH_CLIENT_CERT": str(tmp_path / "client.pem")}
    await make(**keys, AUTH_CLIENT_KEY_PASSWORD="hush").open()
    for more in ({}, {"AUTH_CLIENT_KEY_PASSWORD": "wrong"}):
        with pytest.raises(ConfigError, match="AUTH_CLIENT_CERT"):
            await make(**keys, **more).open()


async def answer_with_h2(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers each stream with its number, in the order last to first, two at a time."""
    connection = H2Connection(H2Configuration(client_side=False))
    connection.initiate_connection()
    writer.write(connection.data_to_send())
    waiting: list[int] = []
    while data := await reader.read(65536):
        waiting += [
            event.stream_id for event in connection.receive_data(data) if isinstance(event, RequestReceived)
        ]
        if len(waiting) >= 2:
            for stream in reversed(waiting):
                connection.send_headers(stream, [(":status", "200"), ("content-type", "application/json")])
                connection.send_data(stream, b"%d" % stream, end_stream=True)
            waiting.clear()
        writer.write(connection.data_to_send())
    writer.close()


async def test_http2_carries_requests_beside_each_other_on_one_connection(
    make: Any, kit: Any, authority: trustme.CA, trusted: str
) -> None:
    connections = 0

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await answer_with_h2(reader, writer)

    async with serving(authority.issue_cert("127.0.0.1"), handler=handler, alpn="h2") as url:
        engine = make(URL=url, TLS_CA_FILE=trusted, HTTP2=True, HEADERS={"X-Y": "z"}, AUTH_TOKEN="t")
        both = await asyncio.gather(engine.execute({}, kit.call()), engine.execute({}, kit.call()))
        assert sorted(both) == [1, 3]
        await engine.close()
    assert connections == 1
    async with serving(authority.issue_cert("127.0.0.1")) as url:
        engine = make(URL=url, TLS_CA_FILE=trusted, HTTP2=True)
        assert await engine.execute({}, kit.call()) == "nobody"  # it does not speak it
        await engine.close()


async def test_an_answer_longer_than_it_says_is_nobody_elses_over_tls_too(
    make: Any, kit: Any, authority: trustme.CA, trusted: str
) -> None:
    async def lie(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            while await reader.readuntil(b"\r\n\r\n"):
                # two TLS records in one TCP segment
                records: Any = writer.transport
                records._ssl_protocol._write_appdata([ANSWER % (2, b"ok"), ANSWER % (4, b"evil")])
        writer.close()

    async with serving(authority.issue_cert("127.0.0.1"), handler=lie) as url:
        engine = make(URL=url, TLS_CA_FILE=trusted)
        assert [await engine.execute({}, kit.call()) for _ in range(5)] == ["ok"] * 5


async def test_a_renewed_certificate_needs_no_restart(
    kit: Any, authority: trustme.CA, trusted: str, tmp_path: Path
) -> None:
    from enginehost import Host

    folder = tmp_path / "smss"
    folder.mkdir()
    write_client(authority, folder, "first")
    async with serving(authority.issue_cert("127.0.0.1"), clients=authority) as url:
        (folder / "who.smss").write_text(
            f"ENGINE_CLASS=REST\nURL={url}\nFUNCTION_NAME=who\nFUNCTION_DESCRIPTION=Who calls.\n"
            f"AUTH=mtls\nAUTH_CLIENT_CERT=client.pem\nTLS_CA_FILE={trusted}\nFUNCTION_PARAMETERS=[]\n"
        )
        async with Host(folder, None) as host:
            assert await host.call("who", {}) == "first"
            assert list(host.problems()) == []
            (folder / "client.pem").write_text("half a file")
            with anyio.fail_after(20):
                while str(next(iter(host.catalog.records.values())).state) != "stale":
                    await asyncio.sleep(0.02)
            assert await host.call("who", {}) == "first"
            write_client(authority, folder, "second")
            with anyio.fail_after(20):
                while await host.call("who", {}) != "second":
                    await asyncio.sleep(0.02)
