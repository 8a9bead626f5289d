"""Which pages may talk to the host: checks of ``Host`` and ``Origin``, answers to CORS preflights.

A browser lets any page send requests to a server on the user's own machine. ``Host`` gives away a page
that let its own name point to us (DNS rebinding), ``Origin`` one that sends from elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv6Address

from enginehost.address import is_loopback
from enginehost.errors import Forbidden, InvalidRequest
from enginehost.serve.problem import HeaderList, HttpRefusal

_MOST_KNOWN = 1000
_CLOSE = {"connection": "close"}
_ONCE = (
    b"host",
    b"origin",
    b"authorization",
    b"content-type",
    b"content-encoding",
    b"transfer-encoding",
    b"request-timeout",
    b"x-request-timeout",
)
_LISTS = (b"accept", b"tracestate", b"traceparent")
"""Headers of which several are one list (RFC 9110, 5.3); of ``traceparent`` that makes one to ignore."""
_SCHEMES = (b"http", b"https")
"""The host's own page has one of these: https where a proxy before it speaks TLS."""
_AUTHORITY = re.compile(
    rb"(?:\[(?P<v6>[0-9A-Fa-f:.]{2,45})\]|[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?)(?::(?P<port>[0-9]{0,5}))?"
)
_PREFLIGHT: HeaderList = [
    (b"access-control-allow-methods", b"GET, POST, DELETE"),
    (
        b"access-control-allow-headers",
        b"authorization, content-type, last-event-id, request-timeout, traceparent, tracestate",
    ),
    (b"access-control-max-age", b"600"),
]


class Gate:
    """The checks for a server bound to ``address`` (a host name or IP address, without port).

    On a loopback address only names of this machine pass, and ``allowed_hosts``; elsewhere the names in
    ``allowed_hosts`` if there are any. ``*`` allows every name.
    """

    def __init__(self, address: str, allowed_hosts: Iterable[str], allowed_origins: Iterable[str]) -> None:
        self._allowed = {host_name(host) for host in allowed_hosts}
        self._origins = {origin.rstrip("/").lower().encode() for origin in allowed_origins}
        self._any_host = "*" in self._allowed or not (self._allowed or is_loopback(address))
        self._known: set[bytes] = set()
        """Values of ``Host`` that passed before."""

    def check(self, headers: Mapping[bytes, bytes]) -> bytes | None:
        """The foreign origin to which the answer is opened, if there is one.

        Raises :class:`Forbidden`, and :class:`InvalidRequest` for a ``Host`` that is none. A request without
        ``Host`` (HTTP/1.0) comes from no browser.
        """
        host = headers.get(b"host")
        if host is not None and host not in self._known:
            self._check_host(host)
        origin = headers.get(b"origin")
        if origin is None or _is_own(origin, host):
            return None
        if origin.lower() not in self._origins:
            raise Forbidden("pages of another origin may not use this host (setting http.allowed_origins)")
        return origin

    def _check_host(self, host: bytes) -> None:
        name = _named(host)
        local = is_loopback(name) or name.endswith(".localhost")
        if not (self._any_host or local or name in self._allowed):
            raise Forbidden("this host does not answer to that name (setting http.allowed_hosts)")
        if len(self._known) < _MOST_KNOWN:
            self._known.add(host)


def host_name(authority: str) -> str:
    """The host of ``host[:port]``, in lower case, without brackets and a final dot."""
    if authority.startswith("["):
        return authority[1:].partition("]")[0].lower()
    name = authority if authority.count(":") > 1 else authority.partition(":")[0]
    return name.rstrip(".").lower()


def _named(host: bytes) -> str:
    """The host that a ``Host`` header names (RFC 9110, 7.2). Raises :class:`InvalidRequest`.

    Strict, so that no two readers of one header find two names in it.
    """
    found = _AUTHORITY.fullmatch(host)
    if found is None or int(found["port"] or 0) > 65_535:
        raise InvalidRequest("the Host header must be a host name or an IP address, and perhaps a port")
    name = host.decode("ascii")
    try:
        return host_name(name) if found["v6"] is None else str(IPv6Address(found["v6"].decode("ascii")))
    except ValueError:
        raise InvalidRequest("the Host header holds no IPv6 address between its brackets") from None


def _is_own(origin: bytes, host: bytes | None) -> bool:
    scheme, _, authority = origin.partition(b"://")
    return authority == host and scheme in _SCHEMES


def header_fields(fields: Sequence[tuple[bytes, bytes]], version: str) -> dict[bytes, bytes]:
    """The headers of a request by name. ``version`` is that of HTTP.

    Raises :class:`InvalidRequest` where one that decides something stands twice, and, as RFC 9112 wants it,
    where HTTP/1.1 comes without ``Host`` (3.2), another version comes (2.3), or a body is sent in another
    transfer coding than chunked (6.1).
    """
    headers = dict(fields)
    if len(headers) != len(fields):
        _look_at_repeated(headers, fields)
    if version != "1.1":
        _check_version(version)
    elif b"host" not in headers:
        raise InvalidRequest("a request of HTTP/1.1 needs a Host header")
    if b"transfer-encoding" in headers and headers[b"transfer-encoding"].lower() != b"chunked":
        raise HttpRefusal(501, "a body may be sent in the transfer coding chunked and in no other", _CLOSE)
    return headers


def _look_at_repeated(headers: dict[bytes, bytes], fields: Sequence[tuple[bytes, bytes]]) -> None:
    for name in _ONCE:
        if sum(field == name for field, _ in fields) > 1:
            raise InvalidRequest(f"the header {name.decode()} stands twice")
    for name in _LISTS:
        if name in headers:
            headers[name] = b", ".join(value for field, value in fields if field == name)


def _check_version(version: str) -> None:
    if version == "0.9":
        raise HttpRefusal(400, "the first line of a request has to end with HTTP/1.1", _CLOSE)
    if version != "1.0":
        raise HttpRefusal(505, "this host speaks HTTP/1.1", _CLOSE)


def cors(origin: bytes | None) -> HeaderList:
    """The headers that let an allowed foreign page read the answer."""
    if origin is None:
        return []
    return [
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", b"x-call-id, retry-after"),
        (b"vary", b"origin"),
    ]


def preflight(origin: bytes | None) -> HeaderList:
    """The headers that answer an ``OPTIONS`` request."""
    return [*cors(origin), *(_PREFLIGHT if origin else [(b"allow", b"GET, HEAD, POST, DELETE, OPTIONS")])]
