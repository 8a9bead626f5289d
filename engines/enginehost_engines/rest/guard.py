"""Connections that never reach a private network, whatever a name resolves to at the moment of connecting."""

from __future__ import annotations

import socket
from collections.abc import Iterable

import anyio
import httpcore2

from enginehost.public_addresses import is_public
from enginehost_engines.rest.network import Network


class AddressRefused(httpcore2.ConnectError):
    """The host has no address outside private networks."""


class PublicOnly(httpcore2.AsyncNetworkBackend):
    """Resolves a host itself and connects to what it resolved, so that no second look-up can differ."""

    def __init__(self, inner: httpcore2.AsyncNetworkBackend | None = None) -> None:
        self._inner = inner or Network()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the first public address that answers; ``timeout`` is for all together."""
        failure: Exception = AddressRefused("only private addresses")
        try:
            with anyio.fail_after(timeout):
                for address in await _addresses(host, port):
                    if not is_public(address):
                        continue
                    try:
                        return await self._inner.connect_tcp(
                            address, port, local_address=local_address, socket_options=socket_options
                        )
                    except httpcore2.ConnectError as error:
                        failure = error
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout from error
        raise failure

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """A local socket is no public address."""
        raise AddressRefused("a local socket")

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await anyio.sleep(seconds)


async def _addresses(host: str, port: int) -> list[str]:
    try:
        found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise httpcore2.ConnectError("name not found") from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
