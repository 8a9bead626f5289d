"""Where the host listens: ``host:port`` as people write it."""

from __future__ import annotations

import errno
import ipaddress
import re
from urllib.parse import urlsplit

_ADDRESS = re.compile(r"(?:\[(?P<v6>[^\[\]]*)\]|(?P<host>[^:\[\]\s/]*)):(?P<port>[0-9]{1,5})")


def parse_address(text: str) -> tuple[str, int]:
    """``host:port``, ``[v6]:port``, ``:port`` or ``port`` as host and port; no host is ``127.0.0.1``.

    Port 0 is one the system chooses. Raises :class:`ValueError` with the reason.
    """
    text = text.strip()
    found = _ADDRESS.fullmatch(text if ":" in text else f":{text}")
    if found is None:
        raise ValueError(f"{text!r} is no address: write HOST:PORT, such as 127.0.0.1:8484 or [::1]:8484")
    host, port = found["host"] or "127.0.0.1", int(found["port"])
    if found["v6"] is not None:
        try:
            host = str(ipaddress.IPv6Address(found["v6"]))
        except ValueError:
            raise ValueError(f"[{found['v6']}] is no IPv6 address") from None
    if port > 65535:
        raise ValueError(f"port {port} does not exist: ports end at 65535")
    if host == "*":
        raise ValueError("write 0.0.0.0 for every IPv4 interface")
    return host, port


_PEER = re.compile(r"(?:\[(?P<v6>[^\[\]]+)\]|(?P<host>[^:\[\]]+))(?::(?P<port>[0-9]{1,5}))?", re.ASCII)
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}\.?\Z)(?:{_LABEL}\.)*(?![0-9]+\.?\Z){_LABEL}\.?", re.IGNORECASE | re.ASCII)
"""A host name (RFC 1123): its last part is no number, or it is meant to be an address."""


def parse_peer(text: str) -> tuple[str, int | None]:
    """A host name or address, with or without ``:PORT``, as host and port.

    Raises :class:`ValueError` with the reason. A name is not looked up.
    """
    host, port = text, None
    if not _is_ip(text):
        found = _PEER.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is no host name or address, with or without :PORT")
        host = found["v6"] or found["host"]
        port = int(found["port"]) if found["port"] else None
        if found["v6"] and not _is_ip(host):
            raise ValueError(f"[{host}] is no IPv6 address")
    if port is not None and not 1 <= port <= 65535:
        raise ValueError(f"port {port} of {text!r} does not exist: ports are 1 to 65535")
    if _is_ip(host):
        if ipaddress.ip_address(host).is_unspecified:
            raise ValueError(f"{host} stands for every interface of this machine, and is no peer's address")
    elif not _NAME.fullmatch(host):
        raise ValueError(f"{text!r} is no host name or address, with or without :PORT")
    return host, port


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def binding_hint(error: OSError) -> str:
    """What to do where an address cannot be listened on."""
    reason = {
        errno.EADDRINUSE: "another host may run there; ",
        errno.EACCES: "ports below 1024 need a privilege (CAP_NET_BIND_SERVICE); ",
        errno.EADDRNOTAVAIL: "this machine has no such address; ",
    }.get(error.errno or 0, "")
    return (
        f"{reason}choose another with --http HOST:PORT, or ENGINEHOST_HTTP__ADDRESS=HOST:PORT "
        "(port 0 is a free one)"
    )


def format_address(host: str, port: int) -> str:
    """The inverse of :func:`parse_address`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def own_side(host: str) -> str:
    """The host by which this machine itself reaches what listens on ``host``."""
    everywhere = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound
    return everywhere.get(host, host)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches ``host``; a name other than ``localhost`` is taken for reachable."""
    if host.lower() == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def is_safe_url(url: str) -> bool:
    """Whether keys may be fetched from ``url``: https, or http that stays on this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))
