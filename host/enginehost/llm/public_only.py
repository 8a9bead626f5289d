"""Requests that reach public addresses only, whatever a name resolves to at the moment of connecting."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterable
from ipaddress import IPv6Address, ip_address
from typing import Any

import anyio
import httpcore2
import httpx2


class PublicOnly(httpx2.AsyncBaseTransport):
    """A transport for a host that allows no private networks."""

    def __init__(self) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=httpx2.create_ssl_context(), max_connections=None, network_backend=_Network()
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send, as httpx2's own transport does."""
        url = httpcore2.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        content: Any = request.stream
        asked = httpcore2.Request(
            request.method, url, headers=request.headers.raw, content=content, extensions=request.extensions
        )
        try:
            answer = await self._pool.handle_async_request(asked)
        except Exception as error:
            raise _as_httpx(error) from error
        return httpx2.Response(answer.status, headers=answer.headers, stream=_Body(answer))

    async def aclose(self) -> None:
        """Close all connections."""
        await self._pool.aclose()


class _Network(httpcore2.AsyncNetworkBackend):
    def __init__(self) -> None:
        self._inner: Any = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        address = await public_address(host, port)
        return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        raise httpcore2.ConnectError("a local socket is in no public network")

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class _Body(httpx2.AsyncByteStream):
    def __init__(self, answer: httpcore2.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._answer.aiter_stream():
                yield chunk
        except Exception as error:
            raise _as_httpx(error) from error

    async def aclose(self) -> None:
        await self._answer.aclose()


async def public_address(host: str, port: int) -> str:
    """The first public address of a host. Raises ``httpcore2.ConnectError`` where there is none."""
    try:
        found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise httpcore2.ConnectError("no such host") from error
    for entry in found:
        address = str(entry[4][0]).partition("%")[0]
        if is_public(address):
            return address
    raise httpcore2.ConnectError(
        "its address is in a private network, which the setting private_networks does not allow"
    )


def is_public(address: str) -> bool:
    """Whether an IP address is a global unicast one, also when IPv6 wraps an IPv4 address."""
    ip = ip_address(address)
    if isinstance(ip, IPv6Address):
        teredo = ip.teredo[1] if ip.teredo else None
        ip = ip.ipv4_mapped or ip.sixtofour or teredo or ip
    return ip.is_global and not ip.is_multicast and not address.startswith("64:ff9b:")


def _as_httpx(error: Exception) -> Exception:
    """httpcore2's error as httpx2 names it."""
    kind = getattr(httpx2, type(error).__name__, None)
    if type(error).__module__.startswith("httpcore2") and kind is not None:
        return kind(str(error))
    return error
