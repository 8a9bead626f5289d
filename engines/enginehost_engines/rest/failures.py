"""What goes wrong on the way, told without secrets: the host's name, what happened, and the status.

No text here holds a URL, a header or a library's message; those stay in ``__cause__``, for the log.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterable

import httpcore2
import httpx2

from enginehost.errors import CallTimeout, EngineHostError, EngineUnavailable, ExecutionFailed
from enginehost_engines.rest.guard import AddressRefused

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


def transport_failure(error: Exception, host: str, timeouts: dict[str, float]) -> EngineHostError:
    """The error that callers see for one of :data:`TRANSPORT_ERRORS`."""
    if isinstance(error, httpcore2.ConnectTimeout | httpcore2.PoolTimeout):
        return CallTimeout(host, timeouts["connect"])
    if isinstance(error, httpcore2.TimeoutException):
        return CallTimeout(host, timeouts["read"])
    if isinstance(error, httpcore2.ConnectError):
        reason = _connect_reason(error)
        return EngineUnavailable(f"could not connect to {host}: {reason}", reason=reason)
    if isinstance(error, httpcore2.ProxyError):
        return EngineUnavailable(
            f"could not connect to {host}: the proxy refused", reason="the proxy refused"
        )
    if isinstance(error, httpx2.DecodingError):
        return ExecutionFailed(f"{host} sent a body that its Content-Encoding does not fit")
    return ExecutionFailed(f"{host} broke the connection off", detail={"retry_may_help": True})


def _connect_reason(error: BaseException) -> str:
    while True:
        if isinstance(error, AddressRefused):
            return "its address is in a private network, which this host does not allow"
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({error.verify_message})"
        if isinstance(error, ssl.SSLError):
            return "no TLS connection came about"
        if isinstance(error, socket.gaierror):
            return "no such host"
        if isinstance(error, ConnectionRefusedError):
            return "connection refused"
        following = error.__cause__ or error.__context__
        if following is None:
            return "not reachable"
        error = following


def status_failure(host: str, status: int, body: str, secrets: Iterable[str]) -> ExecutionFailed:
    """The error for an answer that is no success: its status and a short, secret-free part of its body."""
    if 300 <= status < 400:
        return ExecutionFailed(
            f"{host} answered {status}, a redirect that is not followed", detail={"status": status}
        )
    text = excerpt(body, secrets)
    return ExecutionFailed(
        f"{host} answered {status}" + (f": {text}" if text else ""),
        detail={"status": status, "retry_may_help": status in _RETRY_MAY_HELP},
    )


def excerpt(body: str, secrets: Iterable[str]) -> str:
    """The first characters of a body on one line, without the secrets that a service may repeat."""
    for secret in sorted({s for s in secrets if len(s) >= _SHORTEST_SECRET}, key=len, reverse=True):
        body = body.replace(secret, "***")
    line = "".join(char if char.isprintable() else " " for char in _BLANKS.sub(" ", body).strip())
    return line if len(line) <= EXCERPT else f"{line[: EXCERPT - 1]}…"
