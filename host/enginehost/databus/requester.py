"""Calls functions of other hosts: one provider runs each call, another one where that one went before.

The promise: at most once per request id and start of a provider, and never a silent loss. Whoever cannot
know whether a call ran says so (:class:`OutcomeUnknown`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from random import getrandbits
from typing import Any

from enginehost.databus.exchange import FIRST_CREDIT, Ask, Exchange, Incoming, ProviderGone
from enginehost.databus.metadata import CANCEL, CREDIT, GO, ReplyMetadata, partition_of
from enginehost.databus.moving import NotRun, first_that_runs
from enginehost.databus.outcome import failed, items_in, unanswered
from enginehost.databus.outgoing import Outgoing, Proof
from enginehost.databus.port import ExecutionReply, Transport
from enginehost.databus.presence import REACH_SECONDS, Presence
from enginehost.databus.reminders import Reminders
from enginehost.databus.replicas import Provider, Replica
from enginehost.errors import CallTimeout, EngineUnavailable, OutcomeUnknown, Unauthorized

log = logging.getLogger("enginehost.databus")

_PLAIN_END = b'"sequence":1,"final":true}'
_PLAIN = ReplyMetadata(sequence=1)
"""What almost every reply says: it is the only one, and good."""
_HELD = {"ack": True, "hold": True}
"""What is said where several could run a call that must not run twice: an acknowledgement may get lost with
its provider, so that none runs before it has come."""


class Requester:
    """Sends requests and takes their replies, in the partition of this program's ``incarnation``."""

    def __init__(self, transport: Transport, incarnation: str, proof: Proof | None = None) -> None:
        self.foreign = 0
        """Replies that were no answer to a request of ours: late ones, and forged ones."""
        self.forged = 0
        """Replies of somebody else than the one that was asked, or with a wrong signature."""
        self._transport = transport
        self._partition = partition_of(incarnation)
        self._proof = proof
        self._exchanges: dict[str, Exchange] = {}
        self._outgoing = Outgoing(transport, incarnation, proof)
        self._reminders = Reminders(self._exchanges, self._outgoing)
        self._presence = Presence(transport, self._outgoing, self._reminders)
        self._closed = False

    @property
    def in_flight(self) -> int:
        """Requests that wait for their final reply."""
        return len(self._exchanges)

    async def start(self) -> None:
        """Take replies from now on."""
        await self._transport.listen(self._received, self._partition, self._left)

    async def close(self) -> None:
        """Every call that still waits ends with :class:`OutcomeUnknown`."""
        self._closed = True
        for exchange in list(self._exchanges.values()):
            exchange.lose()
        self._reminders.close()
        await self._outgoing.close()

    async def call(self, ask: Ask, replicas: Sequence[Replica]) -> bytes:
        """The result as JSON. Raises what the function raised there, and what this module promises."""
        return await first_that_runs(ask, replicas, self._answered)

    async def stream(self, ask: Ask, replicas: Sequence[Replica]) -> AsyncGenerator[Any, None]:
        """The items as they come. Another replica is asked only before the first one."""
        exchange, items = await first_that_runs(ask, replicas, self._begun)
        try:
            while True:
                while items.replies:
                    reply, metadata = items.replies.popleft()
                    for item in await items_in(ask.name, reply, metadata):
                        yield item
                        items.taken += 1
                        if more := items.more():
                            self._outgoing.tell(exchange, CREDIT, more)
                if items.torn:
                    raise OutcomeUnknown(f"{ask.name}: items of the stream were lost on the way")
                if exchange.answer.done():
                    try:
                        await self._final(exchange, moved=False)
                    except NotRun as went:
                        raise went.error from None
                    return
                items.wake.clear()
                await _until(items.wake, ask)
        finally:
            self._leave(exchange)

    async def reaches(self, provider: Provider, patience: float = REACH_SECONDS) -> bool:
        """Whether the provider takes requests, which may take a moment to find out the first time."""
        return await self._presence.reaches(provider, patience)

    def gone(self, provider: Provider) -> None:
        """The provider is not heard of any more."""
        self._presence.gone(provider)

    def _left(self, participant: str) -> None:
        """A participant takes no requests any more."""
        for exchange in [one for one in self._exchanges.values() if one.provider.participant == participant]:
            exchange.provider.reached = False
            self._presence.missed(exchange)

    # One call

    async def _answered(self, ask: Ask, replica: Replica, ack: bool) -> bytes:
        started = time.monotonic()
        replica.asked(started)
        try:
            exchange = await self._open(ask, replica, dict(_HELD) if ack else {})
            try:
                reply = await self._final(exchange, moved=ack)
            except asyncio.CancelledError:
                self._outgoing.tell(exchange, CANCEL)
                raise
            finally:
                self._leave(exchange)
        finally:
            replica.outstanding -= 1
        now = time.monotonic()
        replica.answered(now - started, now)
        return reply.result

    async def _begun(self, ask: Ask, replica: Replica, ack: bool) -> tuple[Exchange, Incoming]:
        """A stream that has answered for the first time."""
        items = Incoming()
        wanted = {"stream": True, "batch": True, "credit": FIRST_CREDIT} | (_HELD if ack else {})
        replica.asked(time.monotonic())
        try:
            exchange = await self._open(ask, replica, wanted, items)
            try:
                while not (items.replies or exchange.answer.done() or exchange.accepted):
                    items.wake.clear()
                    await _until(items.wake, ask)
                if exchange.answer.done() and not items.replies:
                    await self._final(exchange, moved=ack)
            except BaseException:
                self._leave(exchange)
                raise
        finally:
            replica.outstanding -= 1
        return exchange, items

    async def _open(
        self, ask: Ask, replica: Replica, wanted: dict[str, Any], items: Incoming | None = None
    ) -> Exchange:
        provider = replica.provider
        if not provider.reached and not await self._presence.reaches(provider):
            unreachable = f"{ask.name}: its provider {provider.host_id} takes no requests"
            raise NotRun(EngineUnavailable(unreachable, reason="unreachable"), vanished=provider.gone)
        request_id = f"{getrandbits(128):032x}"
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        exchange = Exchange(request_id, replica.function_id, provider, ask, answer, wanted, items=items)
        request = self._outgoing.request(exchange)
        self._exchanges[request_id] = exchange
        provider.exchanges.add(exchange)
        try:
            self._reminders.later(exchange)
            if not await self._outgoing.send(request, provider):
                behind = f"{ask.name}: its provider does not take its requests"
                raise NotRun(EngineUnavailable(behind, reason="behind"), vanished=provider.gone)
        except BaseException as failure:
            if isinstance(failure, asyncio.CancelledError):
                self._outgoing.tell(exchange, CANCEL)
            self._leave(exchange)
            raise
        return exchange

    async def _final(self, exchange: Exchange, *, moved: bool) -> ExecutionReply:
        """The final reply where it is a good one.

        ``moved``: that nothing was accepted is known, so that another replica may be asked.
        """
        try:
            reply, metadata = await exchange.answer
        except ProviderGone:
            raise unanswered(exchange, moved=moved, closed=self._closed) from None
        if reply.status:
            raise failed(exchange, reply, metadata, moved=moved)
        return reply

    def _leave(self, exchange: Exchange) -> None:
        if self._exchanges.pop(exchange.request_id, None) is None:
            return
        exchange.provider.exchanges.discard(exchange)
        if exchange.items is not None and not exchange.answer.done():
            self._outgoing.tell(exchange, CANCEL)
        if exchange.answer.done() and not exchange.answer.cancelled():
            exchange.answer.exception()  # it has been seen, also where nobody asks any more

    # What comes

    def _received(self, replies: Sequence[ExecutionReply]) -> None:
        for reply in replies:
            exchange = self._exchanges.get(reply.request_id)
            if exchange is None:
                self.foreign += 1
                continue
            try:
                self._check(reply, exchange.provider)
            except Unauthorized as wrong:
                self.forged += 1
                log.warning("a reply on the databus was refused: %s", wrong.message)
                continue
            plain = reply.status == 0 and reply.metadata.endswith(_PLAIN_END)
            metadata = _PLAIN if plain else ReplyMetadata.read(reply.metadata)
            exchange.take(reply, metadata)
            if metadata.accepted and "hold" in exchange.wanted:
                self._outgoing.tell(exchange, GO)

    def _check(self, reply: ExecutionReply, provider: Provider) -> None:
        if reply.participant and reply.participant != provider.participant:
            raise Unauthorized("it is not from the program that was asked")
        if self._proof is not None:
            self._proof.reply(reply, provider)


async def _until(wake: asyncio.Event, ask: Ask) -> None:
    """Wait for the next reply of a stream, as long as an answer is of use."""
    if ask.until is None:
        await wake.wait()
        return
    left = ask.until - time.monotonic()
    try:
        async with asyncio.timeout(left):
            await wake.wait()
    except TimeoutError:
        raise CallTimeout(ask.name, max(left, 0.001)) from None
