"""Where the host is, and who asks."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from enginehost.engine import current_call

URL, TOKEN = "ENGINEHOST_URL", "ENGINEHOST_TOKEN"
DEFAULT_URL = "http://127.0.0.1:8484"
CONNECT_SECONDS = 5.0
MOST_KEPT = 20
"""Connections that are kept for later requests."""


@dataclass(frozen=True, slots=True)
class Place:
    """A host's address, and what a client does by itself. The token is in no ``repr``.

    ``retries``: how often a request that has not run is sent again. ``timeout``: seconds for calls that say
    none.
    """

    url: str
    token: str = field(default="", repr=False)
    retries: int = 2
    timeout: float | None = None

    def options(self) -> dict[str, Any]:
        """What the HTTP library is told."""
        import httpx2

        return {
            "base_url": self.url,
            "headers": {"authorization": f"Bearer {self.token}"} if self.token else {},
            "timeout": httpx2.Timeout(None, connect=CONNECT_SECONDS),
            "limits": httpx2.Limits(max_connections=None, max_keepalive_connections=MOST_KEPT),
            "trust_env": not _is_here(urlsplit(self.url).hostname or ""),  # no proxy leads to this machine
        }


def waits(seconds: float | None) -> Any:
    """How long a request waits: to connect, and for anything to come."""
    import httpx2

    return httpx2.Timeout(seconds, connect=CONNECT_SECONDS, pool=None)


def place_of(url: str | None, token: str | None, retries: int, timeout: float | None) -> Place:
    """The place that is meant: what is given, else what the environment says.

    Raises ``ValueError`` for what cannot be one; its text has no token.
    """
    given = url or os.environ.get(URL) or DEFAULT_URL
    parts = urlsplit(given if "://" in given else f"http://{given}")
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"a host is told who asks by a token, not in its URL: use token= or {TOKEN}")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{given!r} is no URL of a host; one is {DEFAULT_URL}")
    said = os.environ.get(TOKEN, "") if token is None else token
    if not (said.isascii() and said.isprintable() and " " not in said):
        raise ValueError("a token is made of printable ASCII characters without blanks")
    if retries < 0:
        raise ValueError(f"retries must be at least 0, not {retries}")
    return Place(parts.geturl().rstrip("/"), said, retries, checked_timeout(timeout))


def checked_timeout(timeout: float | None) -> float | None:
    """``timeout`` itself. Raises ``ValueError`` for what is no time to wait."""
    if timeout is not None and not 0 < timeout < float("inf"):
        raise ValueError(f"timeout must be a number of seconds above 0, not {timeout!r}")
    return timeout


def trace_headers() -> dict[str, str]:
    """W3C Trace Context of what runs here: an OpenTelemetry span, or the call of a host that this serves."""
    # where nobody has imported it, nobody has a span: importing it would cost more than a call
    if "opentelemetry.trace" in sys.modules:
        from opentelemetry import propagate, trace

        if trace.get_current_span().get_span_context().is_valid:
            headers: dict[str, str] = {}
            propagate.inject(headers)
            return headers
    call = current_call()
    if call is None or not call.trace:
        return {}
    return {"traceparent": f"00-{call.trace:032x}-{call.span:016x}-01"}


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
