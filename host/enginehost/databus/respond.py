"""Answers calls from the bus: each request once, on the host's one call path."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from enginehost.caller import Caller, anonymous
from enginehost.databus.capability import shorten
from enginehost.databus.identity import Identity
from enginehost.databus.port import ExecutionReply, ExecutionRequest, Transport
from enginehost.databus.refusals import Refusals
from enginehost.databus.types import ID_BOUND, PROSE_BOUND
from enginehost.engine import Call
from enginehost.errors import (
    EngineHostError,
    EngineUnavailable,
    InvalidRequest,
    OutcomeUnknown,
    Overloaded,
    TooLarge,
)
from enginehost.json_arguments import read_object
from enginehost.trace_context import NO_TRACE, TraceContext, read_trace
from enginehost.values import LARGE, MalformedJson, aside, decode, encode

log = logging.getLogger("enginehost.databus")

BUS_CALLER = anonymous("databus")
"""Who calls from the bus: its requests carry no proof."""

IDS_KEPT = 16_384
"""Request ids remembered, so that a request that arrives twice runs once."""

ECHO_BOUND = 4_096
"""Characters of an id that are sent back: one that is longer than may be is refused, and kept until then."""

CANCELLED_PATIENCE = 1.0
"""Seconds in which cancelled calls may say that they were."""


class CallPath(Protocol):
    """What answering needs of a host: its one call path, as faces use it."""

    def new_call(self, name: str, caller: Caller | None = None, arrived: TraceContext = NO_TRACE) -> Call:
        """``Host.new_call``."""
        ...

    def call_json(
        self, call: Call, arguments: Mapping[str, Any], *, timeout: float | None = None
    ) -> Awaitable[bytes]:
        """``Host.call_json``."""
        ...

    def refuse(self, call: Call, error: EngineHostError) -> None:
        """``Host.refuse``."""
        ...


@dataclass(frozen=True, slots=True)
class RequestMetadata:
    """What we read of a request's ``metadata``; a peer may leave all of it out, or put other things there.

    ``timeout`` in seconds; ``trace`` is what ``traceparent`` and ``tracestate`` say, as W3C Trace Context
    has them; ``incarnation`` is the host's start that the requester means.
    """

    timeout: float | None = None
    trace: TraceContext = NO_TRACE
    incarnation: str = ""

    @classmethod
    def read(cls, text: str) -> RequestMetadata:
        """The metadata in ``text``; what is not understood counts as not said."""
        try:
            found = decode(_bytes(text)) if text else {}
        except MalformedJson:
            return cls()
        if not isinstance(found, dict):
            return cls()
        timeout: Any = found.get("timeout")
        incarnation: Any = found.get("incarnation")
        traceparent, tracestate = (str(found.get(name, "")) for name in ("traceparent", "tracestate"))
        return cls(
            timeout=float(timeout) if type(timeout) in (int, float) and 0 < timeout < 1e9 else None,
            trace=read_trace(traceparent, tracestate),
            incarnation=incarnation if isinstance(incarnation, str) else "",
        )


class Responder:
    """Runs requests as tasks and replies.

    Requests for ids that ``name_of`` does not know are other hosts' and stay unanswered. A request id
    that was seen from the same writer is not run again; one that was refused unseen may be sent again.
    One participant may have three quarters of ``max_in_flight`` calls running: some room is left to others.
    """

    def __init__(
        self,
        host: CallPath,
        transport: Transport,
        identity: Identity,
        name_of: Callable[[str], str | None],
        *,
        max_in_flight: int,
        max_request_bytes: int,
    ) -> None:
        self.answered = 0
        self.lost = 0
        self._host = host
        self._transport = transport
        self._identity = identity
        self._name_of = name_of
        self._max_in_flight = max_in_flight
        self._share = max_in_flight - max_in_flight // 4
        self._max_request_bytes = max_request_bytes
        self._calls = _Crowd()
        self._refusals = Refusals(self._send)
        self._seen: dict[tuple[str, str], None] = {}
        self._stopping = False

    @property
    def in_flight(self) -> int:
        """Requests that run now."""
        return len(self._calls.tasks)

    async def receive(self, requests: Sequence[ExecutionRequest]) -> None:
        """Start what can be started; refuse the rest.

        Waits for nobody but, for a moment, a participant that takes its replies and has many refusals coming.
        """
        for request in requests:
            name = self._name_of(request.function_id)
            if name is None or (request.source, request.request_id) in self._seen:
                continue
            if refusal := self._refusal(request):
                self._record(name, refusal)
                await self._refuse(request, refusal)
                continue
            self._remember(request)
            self._calls.start(self._answer(request, name), _who(request))

    async def close(self, drain: float) -> None:
        """Refuse new requests; give running ones ``drain`` seconds, then cancel and say so."""
        self._stopping = True
        await _wait(self._calls.tasks, drain)
        for task in self._calls.tasks:
            task.cancel()
        await _wait(self._calls.tasks | self._refusals.tasks, CANCELLED_PATIENCE)
        for task in self._refusals.tasks:
            task.cancel()

    async def _refuse(self, request: ExecutionRequest, refusal: EngineHostError) -> None:
        # without the request itself: its parameters may be large
        reply = self._made(request, b"", refusal, time.perf_counter())
        if not await self._refusals.put(reply, request.source, _who(request)):
            self.lost += 1

    def _record(self, name: str, refusal: EngineHostError, arrived: TraceContext = NO_TRACE) -> None:
        self._host.refuse(self._host.new_call(name, BUS_CALLER, arrived), refusal)

    def _refusal(self, request: ExecutionRequest) -> EngineHostError | None:
        if self._stopping:
            return EngineUnavailable("the host is stopping", state="closing")
        if len(self._calls.tasks) >= self._max_in_flight:
            return Overloaded(f"{self._max_in_flight} calls from the databus run already")
        if self._calls.of(_who(request)) >= self._share:
            return Overloaded(f"{self._share} calls of this participant run already")
        if not 0 < len(_bytes(request.request_id)) <= ID_BOUND:
            return InvalidRequest(f"request_id must have 1 to {ID_BOUND} bytes")
        if (size := len(_bytes(request.parameters))) > self._max_request_bytes:
            return TooLarge("parameters", limit=self._max_request_bytes, size=size)
        return None

    def _remember(self, request: ExecutionRequest) -> None:
        self._seen[request.source, request.request_id] = None
        if len(self._seen) > IDS_KEPT:
            del self._seen[next(iter(self._seen))]

    async def _answer(self, request: ExecutionRequest, name: str) -> None:
        started = time.perf_counter()
        try:
            result = await self._run(request, name)
        except EngineHostError as failure:
            await self._reply(request, b"", failure, started)
        except asyncio.CancelledError:
            await self._reply(request, b"", OutcomeUnknown("the host stopped before the call ended"), started)
            raise
        else:
            await self._reply(request, result, None, started)

    async def _run(self, request: ExecutionRequest, name: str) -> bytes:
        metadata = RequestMetadata.read(request.metadata)
        try:
            arguments, large = await self._arguments(request, metadata)
        except EngineHostError as refusal:
            self._record(name, refusal, metadata.trace)
            raise
        call = self._host.new_call(name, BUS_CALLER, metadata.trace)
        if large:
            call.large = True
        return await self._host.call_json(call, arguments, timeout=metadata.timeout)

    async def _arguments(
        self, request: ExecutionRequest, metadata: RequestMetadata
    ) -> tuple[dict[str, Any], bool]:
        """The arguments, and whether they are large."""
        if metadata.incarnation not in ("", self._identity.incarnation):
            raise EngineUnavailable("the host that was meant has been restarted", reason="incarnation")
        text = _bytes(request.parameters)
        if len(text) < LARGE:
            return read_object(text, "parameters"), False
        return await aside(read_object, text, "parameters"), True

    async def _reply(
        self, request: ExecutionRequest, result: bytes, failure: EngineHostError | None, started: float
    ) -> None:
        if await self._send(self._made(request, result, failure, started), request.source):
            self._refusals.took(_who(request))

    async def _send(self, reply: ExecutionReply, source: str) -> bool:
        sent = await self._transport.reply(reply, source)
        if sent:
            self.answered += 1
        else:
            self.lost += 1
            log.warning("a reply on the databus was given up: its readers do not take it")
        return sent

    def _made(
        self, request: ExecutionRequest, result: bytes, failure: EngineHostError | None, started: float
    ) -> ExecutionReply:
        return ExecutionReply(
            request_id=request.request_id[:ECHO_BOUND],
            function_id=request.function_id,
            result=result.decode(),
            status=failure.row.bus if failure else 0,
            error_message=shorten(failure.message, PROSE_BOUND) if failure else "",
            timestamp=time.time_ns() // 1_000_000,
            metadata=self._metadata(failure, started),
        )

    def _metadata(self, failure: EngineHostError | None, started: float) -> str:
        body: dict[str, Any] = {
            "provider": self._identity.host_id,
            "incarnation": self._identity.incarnation,
            "duration_ms": round((time.perf_counter() - started) * 1e3, 3),
            "final": True,
        }
        if failure is None:
            return encode(body).decode()
        text = encode(body | {"error": failure.to_json()})
        if len(text) > PROSE_BOUND:
            text = encode(body | {"error": {"code": failure.code, "message": shorten(failure.message, 1024)}})
        return text.decode()


class _Crowd:
    """Running tasks, counted by the participant for which they run."""

    def __init__(self) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        self._of: Counter[str] = Counter()

    def of(self, participant: str) -> int:
        return self._of[participant]

    def start(self, work: Coroutine[Any, Any, None], participant: str) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        self._of[participant] += 1
        task.add_done_callback(lambda done: self._ended(done, participant))

    def _ended(self, task: asyncio.Task[None], participant: str) -> None:
        self.tasks.discard(task)
        self._of[participant] -= 1
        if not self._of[participant]:
            del self._of[participant]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a reply on the databus failed", exc_info=error)


def _bytes(text: str) -> bytes:
    """``text`` of a peer as it came, also where that was no UTF-8."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:  # lone surrogates that are no bytes: a JSON reader refuses them in this form
        return text.encode(errors="surrogatepass")


def _who(request: ExecutionRequest) -> str:
    return request.participant or request.source


async def _wait(tasks: set[asyncio.Task[None]], seconds: float) -> None:
    if tasks:
        await asyncio.wait(tuple(tasks), timeout=seconds)
