"""Which IP addresses are in no private network."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

_NAT64 = ip_network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """Whether an IP address is a global unicast one, also when IPv6 wraps an IPv4 address."""
    ip = ip_address(address)
    inner = _wrapped(ip) if isinstance(ip, IPv6Address) else None
    ip = inner or ip
    return ip.is_global and not ip.is_multicast


def _wrapped(ip: IPv6Address) -> IPv4Address | None:
    if ip in _NAT64:
        return IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
