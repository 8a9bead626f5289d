"""What goes wrong on the way, told without secrets: host and port, what happened, and the status.

No text here holds a path, a query, a header or a library's message; those stay in ``__cause__``, for the log.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpcore2
import httpx2

from enginehost.errors import CallTimeout, EngineHostError, EngineUnavailable, ExecutionFailed
from enginehost_engines.rest.guard import AddressRefused
from enginehost_engines.rest.retries import may_pass
from enginehost_engines.rest.unreadable import unreadable
from enginehost_engines.rest.url import DEFAULT_PORTS, Origin

EXCERPT = 500
"""The most characters of a body that an error repeats."""

_RETRY_MAY_HELP = frozenset({408, 425, 429, 500, 502, 503, 504})
_BLANKS = re.compile(r"\s+")
_SHORTEST_SECRET = 4

TRANSPORT_ERRORS = (
    httpcore2.TimeoutException,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    httpcore2.UnsupportedProtocol,
    httpx2.TransportError,
    httpx2.DecodingError,
)
"""Everything that sending and reading can raise."""


def transport_failure(
    error: Exception, host: str, timeouts: Mapping[str, float], limits: Mapping[str, str]
) -> EngineHostError:
    """What callers get for one of :data:`TRANSPORT_ERRORS`; ``limits`` has who set the ``timeouts``."""
    if isinstance(error, httpcore2.TimeoutException):
        return _timeout(error, host, timeouts, limits)
    if isinstance(error, httpcore2.ConnectError):
        return _unreachable(host, *_connect_reason(error), retry_may_help=may_pass(error))
    if isinstance(error, httpcore2.ProxyError):
        hint = "see PROXY_URL, and HTTPS_PROXY and NO_PROXY where the host runs"
        return _unreachable(host, "the proxy refused", hint, retry_may_help=True)
    if isinstance(error, httpx2.DecodingError):
        return ExecutionFailed(f"{host} sent a body that its Content-Encoding does not fit")
    if (found := unreadable(error)) is not None:
        what, hint = found
        return ExecutionFailed(f"{host} sent {what}", detail={"hint": hint, "retry_may_help": False})
    return ExecutionFailed(f"{host} broke the connection off", detail={"retry_may_help": True})


def _timeout(
    error: httpcore2.TimeoutException, host: str, timeouts: Mapping[str, float], limits: Mapping[str, str]
) -> CallTimeout:
    full = isinstance(error, httpcore2.PoolTimeout)
    which = "connect" if full or isinstance(error, httpcore2.ConnectTimeout) else "read"
    waited = "no connection became free (MAX_CONNECTIONS_PER_HOST, MAX_CONNECTIONS)" if full else ""
    failure = CallTimeout(host, timeouts[which], waited, limit=limits[which])
    failure.detail["retry_may_help"] = True
    return failure


def cause_of(error: Exception) -> str:
    """One of :data:`TRANSPORT_ERRORS` in a few words."""
    if isinstance(error, httpcore2.ConnectTimeout):
        return "connecting took too long"
    if isinstance(error, httpcore2.PoolTimeout):
        return "no connection became free"
    if isinstance(error, httpcore2.TimeoutException):
        return "it did not answer in time"
    if isinstance(error, httpcore2.ConnectError):
        return _connect_reason(error)[0]
    if (found := unreadable(error)) is not None:
        return f"it sent {found[0]}"
    return "the proxy refused" if isinstance(error, httpcore2.ProxyError) else "it broke the connection off"


def _unreachable(host: str, reason: str, hint: str, *, retry_may_help: bool) -> EngineUnavailable:
    error = EngineUnavailable(f"could not connect to {host}: {reason}", reason=reason)
    error.detail |= {"hint": hint, "retry_may_help": retry_may_help}
    return error


def _connect_reason(error: BaseException) -> tuple[str, str]:
    """Why no connection came about, and what to do."""
    while True:
        if isinstance(error, AddressRefused):
            reason = "its address is in a private network, which this host does not allow"
            return reason, "the setting private_networks allows it"
        if isinstance(error, ssl.SSLCertVerificationError):
            reason = f"its certificate is not trusted ({error.verify_message})"
            return reason, "TLS_CA_FILE names an authority to trust, SSL_CERT_FILE those of the whole host"
        if isinstance(error, ssl.SSLError):
            return "no TLS connection came about", "does the service speak https at this port?"
        if isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN:
            return (
                "its name cannot be looked up now",
                "see whether the name servers of the host's machine work",
            )
        if isinstance(error, socket.gaierror):
            return "no such host", "correct the address in the file"
        if isinstance(error, ConnectionRefusedError):
            return (
                "connection refused",
                "start the service that listens there, or correct the address in the file",
            )
        following = error.__cause__ or error.__context__
        if following is None:
            return "not reachable", "see whether the service runs and a network leads to it"
        error = following


def redirect_failure(origin: Origin, status: int, location: str, rule: str) -> ExecutionFailed:
    """The error for a redirect that ``FOLLOW_REDIRECTS = rule`` does not follow.

    Of where it leads only the origin is told.
    """
    target, hint = _origin_of(origin, location), ""
    if target is None:
        what = "a redirect that leads nowhere"
    elif target == origin:
        what, hint = f"a redirect that FOLLOW_REDIRECTS = {rule} does not follow", _WHICH_FOLLOWS[rule]
    else:
        what = f"a redirect to {target.scheme}://{target.authority}, and none to another origin is followed"
        hint = "if the service is there now, write that into the file; REDIRECT_HOSTS allows further hosts"
    detail = {"status": status} | ({"hint": hint} if hint else {})
    return ExecutionFailed(f"{origin.authority} answered {status}, {what}", detail=detail)


_WHICH_FOLLOWS = {
    "never": "same-origin follows those of GET and HEAD, any-method all",
    "same-origin": "any-method follows it, and repeats what was sent",
    "any-method": "it leads in a circle, or too far",
}
"""What to do where a redirect within the origin is not followed, by the rule of the file."""


def _origin_of(here: Origin, location: str) -> Origin | None:
    """The origin that ``Location`` leads to."""
    try:
        there = urlsplit(urljoin(f"{here.scheme}://{here.authority}/", location))
        port = there.port or DEFAULT_PORTS.get(there.scheme)
    except ValueError:
        return None
    if not location or not there.hostname or port is None:
        return None
    return Origin(there.scheme, there.hostname, port)


def status_failure(
    host: str, status: int, body: str, secrets: Iterable[str], wait: float | None = None
) -> ExecutionFailed:
    """The error for an answer that is no success: its status and a short, secret-free part of its body.

    ``wait``: the seconds after which the service wants to be asked again.
    """
    text = excerpt(body, secrets)
    detail: dict[str, Any] = {"status": status, "retry_may_help": status in _RETRY_MAY_HELP}
    if wait is not None:
        detail["retry_after"] = round(wait, 3)
    return ExecutionFailed(f"{host} answered {status}" + (f": {text}" if text else ""), detail=detail)


def excerpt(body: str, secrets: Iterable[str]) -> str:
    """The first characters of a body on one line, without the secrets that a service may repeat."""
    for secret in sorted({s for s in secrets if len(s) >= _SHORTEST_SECRET}, key=len, reverse=True):
        body = body.replace(secret, "***")
    line = "".join(char if char.isprintable() else " " for char in _BLANKS.sub(" ", body).strip())
    return line if len(line) <= EXCERPT else f"{line[: EXCERPT - 1]}…"
