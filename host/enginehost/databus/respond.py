"""Answers calls from the bus: each request once, on the host's one call path."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from enginehost.caller import Caller, anonymous
from enginehost.databus.capability import shorten
from enginehost.databus.identity import Identity
from enginehost.databus.port import ExecutionReply, ExecutionRequest, Transport
from enginehost.databus.types import ID_BOUND, PROSE_BOUND
from enginehost.errors import (
    CallCancelled,
    EngineHostError,
    EngineUnavailable,
    InvalidRequest,
    Overloaded,
    TooLarge,
)
from enginehost.json_arguments import read_object
from enginehost.values import MalformedJson, decode, encode

log = logging.getLogger("enginehost.databus")

BUS_CALLER = anonymous("databus")
"""Who calls from the bus: its requests carry no proof."""

IDS_KEPT = 16_384
"""Request ids remembered, so that a request that arrives twice runs once."""

REFUSALS_WAITING = 64
"""Refusals that may wait for one participant to be reached; further ones are lost to it, and counted."""

CANCELLED_PATIENCE = 1.0
"""Seconds in which cancelled calls may say that they were."""

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")


class CallJson(Protocol):
    """``Host.call_json``."""

    def __call__(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        caller: Caller,
        timeout: float | None = None,
        trace: int = 0,
        parent: int = 0,
    ) -> Awaitable[bytes]:
        """Run a function; its result as JSON."""
        ...


class Refused(Protocol):
    """``Host.refuse`` for callers from the bus: writes down a call that is refused before it is made."""

    def __call__(self, name: str, error: EngineHostError, /, *, trace: int = 0, parent: int = 0) -> object:
        """Record it."""
        ...


@dataclass(frozen=True, slots=True)
class RequestMetadata:
    """What we read of a request's ``metadata``; a peer may leave all of it out, or put other things there.

    ``timeout`` in seconds; ``traceparent`` as W3C Trace Context has it (``trace`` and ``parent``);
    ``incarnation`` is the host's start that the requester means.
    """

    timeout: float | None = None
    trace: int = 0
    parent: int = 0
    incarnation: str = ""

    @classmethod
    def read(cls, text: str) -> RequestMetadata:
        """The metadata in ``text``; what is not understood counts as not said."""
        try:
            found = decode(text.encode()) if text else {}
        except MalformedJson:
            return cls()
        if not isinstance(found, dict):
            return cls()
        timeout: Any = found.get("timeout")
        incarnation: Any = found.get("incarnation")
        traced = _TRACEPARENT.fullmatch(str(found.get("traceparent", "")))
        return cls(
            timeout=float(timeout) if type(timeout) in (int, float) and 0 < timeout < 1e9 else None,
            trace=int(traced[1], 16) if traced else 0,
            parent=int(traced[2], 16) if traced else 0,
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
        call_json: CallJson,
        transport: Transport,
        identity: Identity,
        name_of: Callable[[str], str | None],
        *,
        max_in_flight: int,
        max_request_bytes: int,
        refused: Refused | None = None,
    ) -> None:
        self.answered = 0
        self.lost = 0
        self._call_json = call_json
        self._transport = transport
        self._identity = identity
        self._name_of = name_of
        self._refused = refused
        self._max_in_flight = max_in_flight
        self._share = max_in_flight - max_in_flight // 4
        self._max_request_bytes = max_request_bytes
        self._calls = _Crowd()
        self._refusals = _Crowd()
        self._seen: dict[tuple[str, str], None] = {}
        self._stopping = False

    @property
    def in_flight(self) -> int:
        """Requests that run now."""
        return len(self._calls.tasks)

    async def receive(self, requests: Sequence[ExecutionRequest]) -> None:
        """Start what can be started; refuse the rest. Waits for nobody, so that nobody holds up others."""
        for request in requests:
            name = self._name_of(request.function_id)
            if name is None or (request.source, request.request_id) in self._seen:
                continue
            if refusal := self._refusal(request):
                self._record(name, refusal)
                self._refuse(request, refusal)
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

    def _refuse(self, request: ExecutionRequest, refusal: EngineHostError) -> None:
        if self._refusals.of(_who(request)) >= REFUSALS_WAITING:
            self.lost += 1
            return
        self._refusals.start(self._reply(request, b"", refusal, time.perf_counter()), _who(request))

    def _record(self, name: str, refusal: EngineHostError, *, trace: int = 0, parent: int = 0) -> None:
        if self._refused is not None:
            self._refused(name, refusal, trace=trace, parent=parent)

    def _refusal(self, request: ExecutionRequest) -> EngineHostError | None:
        if self._stopping:
            return EngineUnavailable("the host is stopping", state="closing")
        if len(self._calls.tasks) >= self._max_in_flight:
            return Overloaded(f"{self._max_in_flight} calls from the databus run already")
        if self._calls.of(_who(request)) >= self._share:
            return Overloaded(f"{self._share} calls of this participant run already")
        if not 0 < len(request.request_id.encode()) <= ID_BOUND:
            return InvalidRequest(f"request_id must have 1 to {ID_BOUND} bytes")
        if (size := len(request.parameters.encode())) > self._max_request_bytes:
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
            await self._reply(request, b"", CallCancelled("the host stopped before the call ended"), started)
            raise
        else:
            await self._reply(request, result, None, started)

    async def _run(self, request: ExecutionRequest, name: str) -> bytes:
        metadata = RequestMetadata.read(request.metadata)
        try:
            arguments = self._arguments(request, metadata)
        except EngineHostError as refusal:
            self._record(name, refusal, trace=metadata.trace, parent=metadata.parent)
            raise
        return await self._call_json(
            name,
            arguments,
            caller=BUS_CALLER,
            timeout=metadata.timeout,
            trace=metadata.trace,
            parent=metadata.parent,
        )

    def _arguments(self, request: ExecutionRequest, metadata: RequestMetadata) -> dict[str, Any]:
        if metadata.incarnation not in ("", self._identity.incarnation):
            raise EngineUnavailable("the host that was meant has been restarted", reason="incarnation")
        return read_object(request.parameters.strip().encode(), "parameters")

    async def _reply(
        self, request: ExecutionRequest, result: bytes, failure: EngineHostError | None, started: float
    ) -> None:
        reply = ExecutionReply(
            request_id=request.request_id,
            function_id=request.function_id,
            result=result.decode(),
            status=failure.row.bus if failure else 0,
            error_message=shorten(failure.message, PROSE_BOUND) if failure else "",
            timestamp=time.time_ns() // 1_000_000,
            metadata=self._metadata(failure, started),
        )
        if await self._transport.reply(reply, request.source):
            self.answered += 1
        else:
            self.lost += 1
            log.warning("a reply on the databus was given up: its readers do not take it")

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


def _who(request: ExecutionRequest) -> str:
    return request.participant or request.source


async def _wait(tasks: set[asyncio.Task[None]], seconds: float) -> None:
    if tasks:
        await asyncio.wait(tuple(tasks), timeout=seconds)
