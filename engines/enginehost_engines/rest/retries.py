"""Whether, and when, a failed request is sent again."""

from __future__ import annotations

import random
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from socket import EAI_AGAIN, gaierror

import httpcore2

from enginehost_engines.rest.guard import AddressRefused
from enginehost_engines.rest.unreadable import unreadable

LONGEST_WAIT = 60.0
"""Seconds that a call without a deadline waits between two tries, and the most that back-off asks for."""

STATUSES = frozenset({429, 502, 503, 504})
"""Statuses after which a request is sent again: the service, or what stands before it, is busy or away."""

IDEMPOTENT = frozenset({"GET", "HEAD", "PUT", "DELETE"})
"""Methods that do the same when they come twice (RFC 9110, 9.2.2)."""

_NOT_SENT = (httpcore2.ConnectError, httpcore2.ConnectTimeout, httpcore2.ProxyError)
_BROKEN = (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.RemoteProtocolError)


@dataclass(frozen=True, slots=True)
class Retries:
    """``most`` repetitions; ``repeatable``: what was sent may be sent twice.

    A request that never left (no connection came about) is repeated whatever it asks for.
    """

    most: int = 0
    first_seconds: float = 0.5
    repeatable: bool = False

    def after_error(self, error: Exception, done: int) -> float | None:
        """Seconds to wait after ``done`` tries, the last of which raised; ``None``: it is final."""
        if done > self.most:
            return None
        again = not_sent(error) or (self.repeatable and _is_broken(error))
        return self._pause(done) if again and may_pass(error) else None

    def after_status(self, status: int, headers: Mapping[str, str], done: int) -> float | None:
        """The same after an answer with ``status``; ``Retry-After`` is the least that is waited."""
        if done > self.most or not self.repeatable or status not in STATUSES:
            return None
        return (retry_after(headers) or 0.0) + self._pause(done)

    def _pause(self, done: int) -> float:
        """Back-off with full jitter: evenly from nothing to a bound that doubles with each try."""
        bound: float = min(LONGEST_WAIT, self.first_seconds * 2.0 ** min(done - 1, 30))
        return random.uniform(0.0, bound)  # noqa: S311 - spreads load, hides nothing


def not_sent(error: BaseException) -> bool:
    """Whether nothing of the request can have reached the service."""
    return isinstance(error, _NOT_SENT)


def _is_broken(error: BaseException) -> bool:
    return isinstance(error, _BROKEN) and not isinstance(error, httpcore2.PoolTimeout)


def may_pass(error: BaseException | None) -> bool:
    """Whether the same request may do better a little later: what is wrong with it stays wrong."""
    if error is not None and unreadable(error) is not None:
        return False
    while error is not None:
        if isinstance(error, AddressRefused | ssl.SSLCertVerificationError):
            return False
        if isinstance(error, gaierror):
            return error.errno == EAI_AGAIN
        error = error.__cause__ or error.__context__
    return True


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that ``Retry-After`` asks for (RFC 9110, 10.2.3), at least 0; ``None`` where there are none."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(int(text)) if len(text) < 10 else None
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError, OSError):
        return None
