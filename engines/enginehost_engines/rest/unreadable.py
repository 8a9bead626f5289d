"""What a service sends that is no answer: headers without an end, or no HTTP.

Another try would bring the same, and no connection broke.
"""

from __future__ import annotations

import httpcore2

HEADERS_KIB = {"HTTP/1.1": 100, "HTTP/2": 64}
"""The most that the headers of an answer may have, as the libraries that read them have it."""

_TOO_LONG = 431
"""What h11 would answer to somebody who sent it that much."""


def unreadable(error: BaseException) -> tuple[str, str] | None:
    """What it is, as in "it sent …", and what to do; ``None`` for any other failure."""
    inner = error.args[0] if isinstance(error, httpcore2.ProtocolError) and error.args else None
    if not isinstance(inner, Exception) or str(inner).startswith("peer "):  # it closed the connection
        return None
    if getattr(inner, "error_status_hint", None) == _TOO_LONG:
        return _headers("HTTP/1.1")
    if type(inner).__name__ == "DenialOfServiceError":  # h2 is not always installed
        return _headers("HTTP/2")
    return "what is no HTTP", "does the service speak this protocol, http or https, at this port?"


def _headers(version: str) -> tuple[str, str]:
    return (
        f"headers of more than {HEADERS_KIB[version]} KiB, the most there may be",
        "let the service send fewer or shorter ones",
    )
