"""How often a request is sent, and what its answer means: the same for both clients, without any I/O.

A client runs :func:`talk` by doing what it yields: to send (:class:`Send`), or to wait so many seconds.
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator
from typing import NamedTuple, TypeVar

from enginehost.client.asks import Answer, Ask
from enginehost.client.faults import HostUnreachable, error_in
from enginehost.errors import CallTimeout, EngineHostError, EngineUnavailable, Overloaded

T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
"""Seconds between tries to reach a host."""
_MOST_RETRY_AFTER = 30.0
"""A host that asks for more than that is not waited for."""
_LASTING = frozenset({"failed", "conflict"})
"""States of an engine that do not pass by themselves."""


class Send(NamedTuple):
    """Send it. ``left``: seconds to the deadline."""

    left: float | None


Outcome = Answer | EngineHostError | None
"""What came of it; ``None`` after a wait."""


def talk(ask: Ask[T], url: str, retries: int) -> Generator[Send | float, Outcome, T]:
    """Send ``ask`` until it is answered, as far as that cannot make anything run twice.

    Raises what the host answers, and the errors of the connection.
    """
    until = time.monotonic() + ask.timeout if ask.timeout else None
    failures = 0
    while True:
        left = None if until is None else until - time.monotonic()
        if left is not None and left <= 0:
            raise CallTimeout(ask.shown, ask.timeout or 0.0, limit="the caller's timeout")
        outcome = yield Send(left)
        if isinstance(outcome, Answer) and outcome.good:
            return ask.take(outcome)
        error = error_in(outcome, url) if isinstance(outcome, Answer) else outcome
        assert error is not None  # noqa: S101 - a sent request has an outcome
        pause = None if ask.once or failures >= retries else pause_after(error, failures)
        if pause is None or (until is not None and time.monotonic() + pause >= until):
            raise error
        failures += 1
        yield pause


def pause_after(error: EngineHostError, failures: int) -> float | None:
    """Seconds until a request that failed so may be sent again; ``None``: never.

    Only what has not run is: no host was reached, or the host refused it before, and says when to come back.
    """
    if isinstance(error, HostUnreachable):
        return backoff(failures)
    if not isinstance(error, Overloaded | EngineUnavailable) or error.detail.get("state") in _LASTING:
        return None
    after = error.detail.get("retry_after")
    if not isinstance(after, int | float) or not 0 <= after <= _MOST_RETRY_AFTER:
        return None
    return float(after)


def backoff(failures: int) -> float:
    """Seconds before the next try, after so many failures in a row."""
    most = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(failures, 10))
    return most * (0.5 + random.random() / 2)  # noqa: S311 - only spreads those who come back
