"""Answers calls from the bus: each request once, on the host's one call path."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
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
from enginehost.values import MalformedJson, decode, encode

log = logging.getLogger("enginehost.databus")

BUS_CALLER = anonymous("databus")
"""Who calls from the bus: its requests carry no proof."""

IDS_KEPT = 16_384
"""Request ids remembered, so that a request that arrives twice runs once."""

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
    ) -> None:
        self.answered = 0
        self.lost = 0
        self._call_json = call_json
        self._transport = transport
        self._identity = identity
        self._name_of = name_of
        self._max_in_flight = max_in_flight
        self._max_request_bytes = max_request_bytes
        self._tasks: set[asyncio.Task[None]] = set()
        self._seen: dict[tuple[str, str], None] = {}
        self._stopping = False

    @property
    def in_flight(self) -> int:
        """Requests that run now."""
        return len(self._tasks)

    async def receive(self, requests: Sequence[ExecutionRequest]) -> None:
        """Start what can be started; refuse the rest. Returns when room for more may be there."""
        for request in requests:
            name = self._name_of(request.function_id)
            if name is None or (request.source, request.request_id) in self._seen:
                continue
            if refusal := self._refusal(request):
                await self._reply(request, b"", refusal, time.perf_counter())
                continue
            self._remember(request)
            task = asyncio.get_running_loop().create_task(self._answer(request, name))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self, drain: float) -> None:
        """Refuse new requests; give running ones ``drain`` seconds, then cancel and say so."""
        self._stopping = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=drain)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CANCELLED_PATIENCE)

    def _refusal(self, request: ExecutionRequest) -> EngineHostError | None:
        if self._stopping:
            return EngineUnavailable("the host is stopping", state="closing")
        if len(self._tasks) >= self._max_in_flight:
            return Overloaded(f"{self._max_in_flight} calls from the databus run already")
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
        if metadata.incarnation not in ("", self._identity.incarnation):
            raise EngineUnavailable("the host that was meant has been restarted", reason="incarnation")
        return await self._call_json(
            name,
            _arguments(request.parameters),
            caller=BUS_CALLER,
            timeout=metadata.timeout,
            trace=metadata.trace,
            parent=metadata.parent,
        )

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


def _arguments(parameters: str) -> dict[str, Any]:
    """The arguments in ``parameters``: a JSON object, or nothing for none."""
    arguments = decode(parameters.encode()) if parameters.strip() else {}
    if not isinstance(arguments, dict):
        raise InvalidRequest("parameters must be a JSON object")
    return arguments
