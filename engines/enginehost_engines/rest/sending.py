"""From a request to an answer worth reading: credentials, repetitions, and the circuit breaker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import anyio
import httpcore2
import httpx2

from enginehost_engines.rest.failures import TRANSPORT_ERRORS, cause_of
from enginehost_engines.rest.retries import LONGEST_WAIT, Retries, may_pass, not_sent

if TYPE_CHECKING:
    import logging

    from enginehost.breaker import Breaker
    from enginehost_engines.rest.proof import Proof, Prover
    from enginehost_engines.rest.request import Message
    from enginehost_engines.rest.transport import Client

_AWAY = frozenset({502, 503, 504})
"""Statuses that say that the service cannot answer at all."""

Timeouts = Callable[[], dict[str, float]]
"""Gives the timeouts for a request that begins now."""

_PATIENT_SECONDS = 5.0
"""A silence that ends earlier, because a call had no more time, says nothing of the service."""


@dataclass(frozen=True, slots=True)
class Way:
    """One engine's way to its service. ``own_timeouts`` are those that its file sets."""

    client: Client
    redirects: str
    hosts: frozenset[str]
    breaker: Breaker
    retries: Retries
    prover: Prover | None
    own_timeouts: tuple[float | None, ...]
    log: logging.Logger

    async def close(self) -> None:
        """Give the connections back."""
        await self.client.close()

    def secrets(self) -> Iterator[str]:
        """Credentials that no error may repeat."""
        if self.prover is not None:
            yield from self.prover.secrets()

    async def send(
        self, message: Message, timeouts: Timeouts, remaining: Callable[[], float | None]
    ) -> httpx2.Response:
        """The answer, whatever its status, with its body still to be read; the caller closes it.

        Raises as httpcore2 does, and :class:`~enginehost.errors.EngineUnavailable` while the circuit is open.
        Nothing is waited for that would come after the deadline.
        """
        for done in count(1):
            try:
                response = await self._guarded(message, timeouts(), remaining)
            except TRANSPORT_ERRORS as error:
                pause = self.retries.after_error(error, done)
                if pause is None or not _fits(pause, remaining()):
                    raise
                told = cause_of(error)
            else:
                if response.is_success:
                    return response
                pause = self.retries.after_status(response.status_code, response.headers, done)
                if pause is None or not _fits(pause, remaining()):
                    return response
                told = f"it answered {response.status_code}"
                await response.aclose()
            self.log.info("try %d of %d: %s; the next in %.2f s", done, self.retries.most + 1, told, pause)
            await anyio.sleep(pause)
        raise AssertionError("count() has no end")

    async def _guarded(
        self, message: Message, timeouts: dict[str, float], remaining: Callable[[], float | None]
    ) -> httpx2.Response:
        """One try, if the breaker lets it pass; it learns how that ended."""
        breaker = self.breaker
        alone = breaker.enter()
        try:
            proof = await self.prover.proof() if self.prover is not None else None
            begun = time.monotonic()
            try:
                response = await self._proved(message, timeouts, proof)
            except TRANSPORT_ERRORS as error:
                if self._tells_of_the_service(error, timeouts):
                    breaker.failed(cause_of(error))
                raise
            except anyio.get_cancelled_exc_class():
                if remaining() == 0.0 and time.monotonic() - begun >= _PATIENT_SECONDS:
                    breaker.failed("it did not answer in time")
                raise
        finally:
            if alone:
                breaker.left()
        if response.status_code in _AWAY:
            breaker.failed(f"it answered {response.status_code}")
        else:
            breaker.failures = 0
        return response

    async def _proved(
        self, message: Message, timeouts: dict[str, float], proof: Proof | None
    ) -> httpx2.Response:
        """With credentials; where the service does not take them, once more with others."""
        response = await self.client.send(message, timeouts, self.redirects, proof, self.hosts)
        if response.status_code != 401 or self.prover is None or proof is None:
            return response
        try:
            other = await self.prover.proof(proof)
        except BaseException:
            await response.aclose()
            raise
        if other is proof:
            return response
        await response.aclose()
        return await self.client.send(message, timeouts, self.redirects, other, self.hosts)

    def _tells_of_the_service(self, error: Exception, timeouts: dict[str, float]) -> bool:
        """Whether a failure counts: not that of a caller in a hurry, nor a full pool, nor a wrong address."""
        if isinstance(error, httpcore2.PoolTimeout):
            return False
        if isinstance(error, httpcore2.TimeoutException):
            which = "connect" if not_sent(error) else "read"
            return timeouts[which] >= _PATIENT_SECONDS or timeouts[which] in self.own_timeouts
        return may_pass(error)


def _fits(pause: float, remaining: float | None) -> bool:
    return pause < (LONGEST_WAIT if remaining is None else remaining)
