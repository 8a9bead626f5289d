"""Calls functions of other hosts: one provider runs each call, another one where that one went before.

The promise: at most once per request id and start of a provider, and never a silent loss. Whoever cannot
know whether a call ran says so (:class:`OutcomeUnknown`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import suppress
from random import getrandbits
from typing import Any, Protocol

from enginehost.databus.exchange import FIRST_CREDIT, Ask, Exchange, Incoming, ProviderGone, items_of
from enginehost.databus.metadata import (
    CANCEL,
    CREDIT,
    OTHER_START,
    STATUS,
    UNKNOWN_ID,
    ReplyMetadata,
    partition_of,
)
from enginehost.databus.port import ExecutionReply, ExecutionRequest, Transport
from enginehost.databus.replicas import AVOID_SECONDS, Provider, Replica, choose
from enginehost.errors import (
    ERROR_TABLE,
    CallTimeout,
    EngineHostError,
    EngineUnavailable,
    OutcomeUnknown,
    Overloaded,
    ResultInvalid,
    Unauthorized,
    error_from_json,
)
from enginehost.values import LARGE, MalformedJson, aside, decode, encode

log = logging.getLogger("enginehost.databus")

REACH_SECONDS = 3.0
"""How long a first call waits until its provider is connected."""

BACK_SECONDS = 2.5
"""How long a call that did not run waits for a provider that has vanished: one that was cut off, or this
program that stood still, is there again in less."""
LOOK_SECONDS = 0.01
MOST_AGAIN = 3
"""How often one call asks providers again that went out of sight and are still offered."""

MISSED_SECONDS = 1.5
"""How long a call that may have run waits for a provider that went out of sight."""

REMIND_SECONDS = 1.0
"""After so long without a word the provider is asked again, later twice as long each time.

Of two that stood still or were cut off for about two seconds, one may take the other for gone and the other
not; what is sent then is lost without anybody's notice. The provider runs no request twice.
"""
REMIND_LARGE_SECONDS = 5.0
REMIND_MOST_SECONDS = 8.0
_REMIND_LOOK_SECONDS = 0.5

_PLAIN_END = b'"sequence":1,"final":true}'
_PLAIN = ReplyMetadata(sequence=1)
"""What almost every reply says: it is the only one, and good."""

_NOT_MEANT = (OTHER_START, UNKNOWN_ID)
_REFUSED = (Overloaded, EngineUnavailable)
_BY_STATUS = {row.bus: code for code, row in ERROR_TABLE.items()}


class Proof(Protocol):
    """Signs what is sent, and looks at signatures of what comes (``guard.py``)."""

    def request(self, request: ExecutionRequest, provider: Provider) -> ExecutionRequest:
        """The request, signed for the provider where this host signs."""
        ...

    def reply(self, reply: ExecutionReply, provider: Provider) -> None:
        """Raise :class:`Unauthorized` where the reply is not the provider's own."""
        ...


class NotRun(Exception):
    """The call did not run there (or may run again): another replica may be asked.

    ``vanished``: its provider went, and may be back in a moment.
    """

    def __init__(self, error: EngineHostError, *, vanished: bool = False) -> None:
        super().__init__(error.message)
        self.error = error
        self.vanished = vanished


class Requester:
    """Sends requests and takes their replies, in the partition of this program's ``incarnation``."""

    def __init__(self, transport: Transport, incarnation: str, proof: Proof | None = None) -> None:
        self.foreign = 0
        """Replies that were no answer to a request of ours: late ones, and forged ones."""
        self.forged = 0
        """Replies of somebody else than the one that was asked, or with a wrong signature."""
        self._transport = transport
        self._incarnation = incarnation
        self._partition = partition_of(incarnation)
        self._proof = proof
        self._exchanges: dict[str, Exchange] = {}
        self._telling: set[asyncio.Task[Any]] = set()
        self._reminding: asyncio.Task[None] | None = None
        self._listening = False
        self._closed = False

    @property
    def in_flight(self) -> int:
        """Requests that wait for their final reply."""
        return len(self._exchanges)

    async def start(self) -> None:
        """Take replies from now on."""
        await self._transport.listen(self._received, self._partition, self._left)
        self._listening = True

    async def close(self) -> None:
        """Every call that still waits ends with :class:`OutcomeUnknown`."""
        self._closed = True
        for exchange in list(self._exchanges.values()):
            exchange.lose()
        for task in (self._reminding, *self._telling):
            if task is not None:
                task.cancel()
        if self._telling:
            await asyncio.wait(tuple(self._telling), timeout=1.0)

    async def call(self, ask: Ask, replicas: Sequence[Replica]) -> bytes:
        """The result as JSON. Raises what the function raised there, and what this module promises."""
        return await self._first_that_runs(ask, replicas, self._answered)

    async def stream(self, ask: Ask, replicas: Sequence[Replica]) -> AsyncGenerator[Any, None]:
        """The items as they come. Another replica is asked only before the first one."""
        opened = await self._first_that_runs(ask, replicas, self._begun)
        exchange, items = opened
        try:
            while True:
                while items.replies:
                    reply, metadata = items.replies.popleft()
                    for item in await _items(ask, reply, metadata):
                        yield item
                        items.taken += 1
                        if more := items.more():
                            self._tell(exchange, CREDIT, more)
                if items.torn:
                    raise OutcomeUnknown(f"{ask.name}: items of the stream were lost on the way")
                if exchange.answer.done():
                    try:
                        await self._final(ask, exchange, moved=False)
                    except NotRun as went:
                        raise went.error from None
                    return
                items.wake.clear()
                await _until(items.wake, ask)
        finally:
            self._leave(exchange)

    def gone(self, provider: Provider) -> None:
        """The provider is not heard of any more."""
        if provider.gone:
            return
        provider.gone = True
        if provider.reaching is not None:
            provider.reaching.cancel()
        for exchange in tuple(provider.exchanges):
            self._out_of_sight(exchange)
        if provider.incarnation:
            self._transport.forget(provider.partition)

    def _left(self, participant: str) -> None:
        """A participant takes no requests any more."""
        for exchange in [one for one in self._exchanges.values() if one.provider.participant == participant]:
            exchange.provider.reached = False
            self._out_of_sight(exchange)

    def _out_of_sight(self, exchange: Exchange) -> None:
        """A call that may be asked of somebody else is, at once; another one waits a moment for a return.

        A provider on a machine that is too busy for a while has not lost its calls.
        """
        moves = exchange.ask.repeatable or (exchange.wanted.get("ack") and not exchange.accepted)
        if moves or not exchange.provider.incarnation:
            exchange.lose()
        elif not exchange.missed:
            exchange.missed = True
            self._watch_over(self._sought(exchange))

    async def _sought(self, exchange: Exchange) -> None:
        until = time.monotonic() + MISSED_SECONDS
        while time.monotonic() < until and not exchange.answer.done():
            await asyncio.sleep(LOOK_SECONDS)
            if await self.reaches(exchange.provider, 0.1):
                exchange.missed = False
                self._ask_again(exchange)
                return
        exchange.lose()

    def _watch_over(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._telling.add(task)
        task.add_done_callback(self._told)

    async def reaches(self, provider: Provider, patience: float = REACH_SECONDS) -> bool:
        """Whether the provider takes requests, which may take a moment to find out the first time."""
        if provider.reached or provider.gone:
            return not provider.gone
        if provider.reaching is None:
            work = self._transport.reach(provider.partition, provider.participant, patience)
            provider.reaching = asyncio.ensure_future(work)
        task = provider.reaching
        try:
            provider.reached = await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():
                raise
        finally:
            if task.done():
                provider.reaching = None
        return provider.reached and not provider.gone

    # One call

    async def _first_that_runs(
        self, ask: Ask, replicas: Sequence[Replica], how: Callable[[Ask, Replica, bool], Any]
    ) -> Any:
        tried: set[Replica] = set()
        again = MOST_AGAIN
        failure = NotRun(
            EngineUnavailable(
                f"nobody on the databus offers {ask.name} now", state="failed", reason="no-provider"
            )
        )
        while (replica := await self._next(ask, replicas, tried, failure)) is not None:
            tried.add(replica)
            try:
                return await how(ask, replica, len(replicas) > 1 and not ask.repeatable)
            except NotRun as moved:
                failure = moved
                replica.avoid_until = time.monotonic() + AVOID_SECONDS
                if moved.vanished and not replica.provider.gone and again:
                    again -= 1
                    tried.discard(replica)  # it is still offered: it was out of sight for a moment
        raise failure.error

    async def _next(
        self, ask: Ask, replicas: Sequence[Replica], tried: set[Replica], failure: NotRun
    ) -> Replica | None:
        """The next replica to ask; where the last one vanished, it may appear anew within a moment."""
        now = time.monotonic()
        until = now + BACK_SECONDS if failure.vanished else now
        if ask.until is not None:
            until = min(until, ask.until)
        while (replica := choose(replicas, tried, now)) is None and now < until:
            await asyncio.sleep(LOOK_SECONDS)
            now = time.monotonic()
        return replica

    async def _answered(self, ask: Ask, replica: Replica, ack: bool) -> bytes:
        started = time.monotonic()
        replica.asked(started)
        try:
            exchange = await self._open(ask, replica, {"ack": True} if ack else {})
            try:
                reply = await self._final(ask, exchange, moved=ack)
            except asyncio.CancelledError:
                self._tell(exchange, CANCEL)
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
        wanted = {"stream": True, "batch": True, "credit": FIRST_CREDIT} | ({"ack": True} if ack else {})
        replica.asked(time.monotonic())
        try:
            exchange = await self._open(ask, replica, wanted, items)
            try:
                while not (items.replies or exchange.answer.done() or exchange.accepted):
                    items.wake.clear()
                    await _until(items.wake, ask)
                if exchange.answer.done() and not items.replies:
                    await self._final(ask, exchange, moved=ack)
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
        if not provider.reached and not await self.reaches(provider):
            unreachable = f"{ask.name}: its provider {provider.host_id} takes no requests"
            raise NotRun(EngineUnavailable(unreachable, reason="unreachable"), vanished=provider.gone)
        request_id = f"{getrandbits(128):032x}"
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        exchange = Exchange(request_id, replica.function_id, provider, ask, answer, wanted, items=items)
        request = self._request(exchange)
        self._exchanges[request_id] = exchange
        provider.exchanges.add(exchange)
        try:
            if self._proof is not None:
                request = await self._signed(request, provider)
            self._remind_later(exchange)
            if not await self._transport.send(request, provider.partition):
                behind = f"{ask.name}: its provider does not take its requests"
                raise NotRun(EngineUnavailable(behind, reason="behind"), vanished=provider.gone)
        except BaseException as failure:
            if isinstance(failure, asyncio.CancelledError):
                self._tell(exchange, CANCEL)
            self._leave(exchange)
            raise
        return exchange

    async def _signed(self, request: ExecutionRequest, provider: Provider) -> ExecutionRequest:
        assert self._proof is not None  # noqa: S101 - the caller asked
        if len(request.parameters) < LARGE:
            return self._proof.request(request, provider)
        return await aside(self._proof.request, request, provider)

    def _request(self, exchange: Exchange) -> ExecutionRequest:
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
        if ask.caller:
            said["caller"] = ask.caller
        trace = ask.trace
        if trace.trace:
            flags = "01" if trace.sampled else "00"
            said["traceparent"] = f"00-{trace.trace:032x}-{trace.parent:016x}-{flags}"
            if trace.state:
                said["tracestate"] = trace.state
        return ExecutionRequest(
            exchange.request_id,
            exchange.function_id,
            ask.parameters,
            time.time_ns() // 1_000_000,
            encode(said),
        )

    async def _final(self, ask: Ask, exchange: Exchange, *, moved: bool) -> ExecutionReply:
        """The final reply where it is a good one.

        ``moved``: that nothing was accepted is known, so that another replica may be asked.
        """
        unrun = moved or ask.repeatable
        try:
            reply, metadata = await exchange.answer
        except ProviderGone:
            host = exchange.provider.host_id
            if self._closed:
                left = (
                    f"{ask.name}: this program left the databus before the answer came; the call may have run"
                )
                raise OutcomeUnknown(left) from None
            if ask.repeatable or (moved and not exchange.accepted):
                gone = EngineUnavailable(f"{ask.name}: its provider {host} went", reason="gone")
                raise NotRun(gone, vanished=True) from None
            raise OutcomeUnknown(
                f"{ask.name}: its provider {host} went before it answered; the call may have run"
            ) from None
        if reply.status == 0:
            return reply
        error = _error(reply, metadata)
        if error.detail.get("reason") in _NOT_MEANT:
            raise NotRun(error, vanished=True)
        if isinstance(error, _REFUSED) and unrun and (ask.repeatable or not exchange.accepted):
            raise NotRun(error)
        raise error

    def _leave(self, exchange: Exchange) -> None:
        if self._exchanges.pop(exchange.request_id, None) is None:
            return
        exchange.provider.exchanges.discard(exchange)
        if exchange.items is not None and not exchange.answer.done():
            self._tell(exchange, CANCEL)
        if exchange.answer.done() and not exchange.answer.cancelled():
            exchange.answer.exception()  # it has been seen, also where nobody asks any more

    def _tell(self, exchange: Exchange, control: str, credit: int = 0) -> None:
        """Send a word about a running call; nobody waits for it."""
        provider = exchange.provider
        if provider.gone or not provider.incarnation:
            return
        said = {"from": self._incarnation, "incarnation": provider.incarnation, "control": control}
        said |= {"credit": credit} if credit else {}
        now = time.time_ns() // 1_000_000
        request = ExecutionRequest(exchange.request_id, exchange.function_id, b"", now, encode(said))
        self._start_sending(request, provider)

    def _start_sending(self, request: ExecutionRequest, provider: Provider) -> None:
        if self._proof is not None:
            request = self._proof.request(request, provider)
        self._watch_over(self._transport.send(request, provider.partition))

    def _told(self, task: asyncio.Task[Any]) -> None:
        self._telling.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.warning("a word about a running call could not be sent: %s", task.exception())

    # What was not heard

    def _remind_later(self, exchange: Exchange) -> None:
        if not exchange.provider.incarnation:
            return  # it may not know requests that come twice
        seconds = REMIND_LARGE_SECONDS if len(exchange.ask.parameters) >= LARGE else REMIND_SECONDS
        seconds = min(REMIND_MOST_SECONDS, seconds * 2**exchange.reminders)
        exchange.remind_at = time.monotonic() + seconds
        exchange.reminders += 1
        if self._reminding is None or self._reminding.done():
            self._reminding = asyncio.get_running_loop().create_task(self._remind())

    async def _remind(self) -> None:
        while self._exchanges:
            await asyncio.sleep(_REMIND_LOOK_SECONDS)
            now = time.monotonic()
            for exchange in tuple(self._exchanges.values()):
                if 0.0 < exchange.remind_at <= now and not exchange.answer.done():
                    self._ask_again(exchange)

    def _ask_again(self, exchange: Exchange) -> None:
        """Send the request once more, or, where it was accepted, ask what has become of it."""
        if exchange.accepted:
            self._tell(exchange, STATUS)
        else:
            exchange.wanted["ack"] = True
            with suppress(CallTimeout):
                self._start_sending(self._request(exchange), exchange.provider)
        self._remind_later(exchange)

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
            exchange.take(reply, _PLAIN if plain else ReplyMetadata.read(reply.metadata))

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


async def _items(ask: Ask, reply: ExecutionReply, metadata: ReplyMetadata) -> list[Any]:
    large = len(reply.result) >= LARGE
    try:
        value = await aside(decode, reply.result) if large else decode(reply.result)
    except MalformedJson as wrong:
        raise no_json(ask.name, wrong) from None
    return items_of(value, metadata)


def no_json(name: str, wrong: MalformedJson) -> ResultInvalid:
    """The error for an answer that cannot be read: it is the provider's fault, not the caller's."""
    return ResultInvalid(f"{name}: its provider answered with what is no JSON: {wrong.message}")


def _error(reply: ExecutionReply, metadata: ReplyMetadata) -> EngineHostError:
    """What the provider answered instead of a result."""
    if metadata.error:
        return error_from_json(metadata.error)
    code = _BY_STATUS.get(reply.status, "execution_failed")
    message = reply.error_message or f"its provider answered with status {reply.status}"
    return error_from_json({"code": code, "message": message})
