"""Requests that reach public addresses only, whatever a name resolves to at the moment of connecting."""

from __future__ import annotations

import socket

import anyio
import httpcore2

from enginehost.llm.network import Network
from enginehost.public_addresses import is_public


class PublicNetwork(Network):
    """The network of a host that allows no private ones."""

    async def address(self, host: str, port: int) -> str:
        """See :func:`public_address`."""
        return await public_address(host, port)


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
