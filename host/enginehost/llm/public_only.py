"""Requests that reach public addresses only, whatever a name resolves to at the moment of connecting."""

from __future__ import annotations

import socket
from ipaddress import IPv6Address, ip_address

import anyio
import httpcore2

from enginehost.llm.network import Network


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


def is_public(address: str) -> bool:
    """Whether an IP address is a global unicast one, also when IPv6 wraps an IPv4 address."""
    ip = ip_address(address)
    if isinstance(ip, IPv6Address):
        teredo = ip.teredo[1] if ip.teredo else None
        ip = ip.ipv4_mapped or ip.sixtofour or teredo or ip
    return ip.is_global and not ip.is_multicast and not address.startswith("64:ff9b:")
