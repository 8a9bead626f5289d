"""A call that did not run where it was asked is asked of another provider."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from enginehost.databus.exchange import Ask
from enginehost.databus.replicas import AVOID_SECONDS, Replica, choose
from enginehost.errors import EngineHostError, EngineUnavailable

BACK_SECONDS = 2.5
"""How long a call that did not run waits for a provider that has vanished: one that was cut off, or this
program that stood still, is there again in less."""
LOOK_SECONDS = 0.01
MOST_AGAIN = 3
"""How often one call asks providers again that went out of sight and are still offered."""

T = TypeVar("T")


class NotRun(Exception):
    """The call did not run there (or may run again): another replica may be asked.

    ``vanished``: its provider went, and may be back in a moment.
    """

    def __init__(self, error: EngineHostError, *, vanished: bool = False) -> None:
        super().__init__(error.message)
        self.error = error
        self.vanished = vanished


async def first_that_runs(
    ask: Ask, replicas: Sequence[Replica], how: Callable[[Ask, Replica, bool], Awaitable[T]]
) -> T:
    """What ``how`` gives for the first replica where it does not raise :class:`NotRun`.

    ``replicas`` may change meanwhile. Raises the error of the last one that was asked. ``how`` is also told
    whether the provider has to say that it has accepted the call.
    """
    tried: set[Replica] = set()
    again = MOST_AGAIN
    failure: NotRun | None = None
    while (replica := await _next(ask, replicas, tried, failure)) is not None:
        tried.add(replica)
        try:
            return await how(ask, replica, len(replicas) > 1 and not ask.repeatable)
        except NotRun as moved:
            failure = moved
            replica.avoid_until = time.monotonic() + AVOID_SECONDS
            if moved.vanished and not replica.provider.gone and again:
                again -= 1
                tried.discard(replica)  # it is still offered: it was out of sight for a moment
    if failure is not None:
        raise failure.error
    raise EngineUnavailable(
        f"nobody on the databus offers {ask.name} now", state="failed", reason="no-provider"
    )


async def _next(
    ask: Ask, replicas: Sequence[Replica], tried: set[Replica], failure: NotRun | None
) -> Replica | None:
    """The next replica to ask; where the last one vanished, it may appear anew within a moment."""
    now = time.monotonic()
    until = now + BACK_SECONDS if failure is not None and failure.vanished else now
    if ask.until is not None:
        until = min(until, ask.until)
    while (replica := choose(replicas, tried, now)) is None and now < until:
        await asyncio.sleep(LOOK_SECONDS)
        now = time.monotonic()
    return replica
