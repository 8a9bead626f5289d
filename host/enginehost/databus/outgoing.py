"""What a requester sends: requests, and words about running calls."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from typing import Any, Protocol

from enginehost.databus.exchange import Ask, Exchange
from enginehost.databus.metadata import partition_of
from enginehost.databus.port import ExecutionReply, ExecutionRequest, Transport
from enginehost.databus.replicas import Provider
from enginehost.errors import CallTimeout
from enginehost.values import LARGE, aside, encode

log = logging.getLogger("enginehost.databus")


class Proof(Protocol):
    """Signs what is sent, and looks at signatures of what comes (``proof.py``)."""

    def request(self, request: ExecutionRequest, provider: Provider) -> ExecutionRequest:
        """The request, signed for the provider where this host signs."""
        ...

    def reply(self, reply: ExecutionReply, provider: Provider) -> None:
        """Raise :class:`Unauthorized` where the reply is not the provider's own."""
        ...


class Outgoing:
    """Makes and signs requests of the program that was started as ``incarnation``, and sends them.

    It also owns the tasks for which nobody waits.
    """

    def __init__(self, transport: Transport, incarnation: str, proof: Proof | None) -> None:
        self._transport = transport
        self._incarnation = incarnation
        self._partition = partition_of(incarnation)
        self._proof = proof
        self._tasks: set[asyncio.Task[Any]] = set()

    def request(self, exchange: Exchange) -> ExecutionRequest:
        """The request, not yet signed. Raises :class:`CallTimeout` where no answer is of use any more."""
        ask, provider = exchange.ask, exchange.provider
        said: dict[str, Any] = {
            "from": self._incarnation,
            "reply_partition": self._partition,
            **exchange.wanted,
        }
        if not provider.incarnation:  # it knows the types alone, and answers where everybody reads
            del said["reply_partition"]
        else:
            said["incarnation"] = provider.incarnation
        if ask.until is not None:
            left = ask.until - time.monotonic()
            if left <= 0:
                raise CallTimeout(ask.name, 0.001)
            said["timeout"] = round(left, 6)
        _say_for_whom(said, ask)
        return _with(exchange, ask.parameters, said)

    async def send(self, request: ExecutionRequest, provider: Provider) -> bool:
        """Sign and send a request; whether the provider takes it."""
        if self._proof is not None:
            sign = self._proof.request
            large = len(request.parameters) >= LARGE
            request = await aside(sign, request, provider) if large else sign(request, provider)
        return await self._transport.send(request, provider.partition)

    def send_again(self, exchange: Exchange) -> None:
        """Send the request once more; nobody waits for it. Raises :class:`CallTimeout`."""
        self._start(self.request(exchange), exchange.provider)

    def tell(self, exchange: Exchange, control: str, credit: int = 0) -> None:
        """Send a word about a running call; nobody waits for it."""
        provider = exchange.provider
        if provider.gone or not provider.incarnation:
            return
        said = {"from": self._incarnation, "incarnation": provider.incarnation, "control": control}
        said |= {"credit": credit} if credit else {}
        self._start(_with(exchange, b"", said), provider)

    def watch_over(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run ``work`` as a task, until :meth:`close`."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def close(self) -> None:
        """End what still runs."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=1.0)

    def _start(self, request: ExecutionRequest, provider: Provider) -> None:
        if self._proof is not None:
            request = self._proof.request(request, provider)
        self.watch_over(self._transport.send(request, provider.partition))

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.warning("a word about a running call could not be sent: %s", task.exception())


def _say_for_whom(said: dict[str, Any], ask: Ask) -> None:
    if ask.caller:
        said["caller"] = ask.caller
    if ask.agents:
        said["agents"] = ask.agents
    if ask.decide is not None:
        said["decide"] = ask.decide
    if ask.question:
        said["question"] = ask.question
    trace = ask.trace
    if trace.trace:
        flags = "01" if trace.sampled else "00"
        said["traceparent"] = f"00-{trace.trace:032x}-{trace.parent:016x}-{flags}"
        if trace.state:
            said["tracestate"] = trace.state


def _with(exchange: Exchange, parameters: bytes, said: dict[str, Any]) -> ExecutionRequest:
    now = time.time_ns() // 1_000_000
    return ExecutionRequest(exchange.request_id, exchange.function_id, parameters, now, encode(said))
