"""Lets requests from the bus in, each once, and refuses the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from enginehost.caller import Caller
from enginehost.databus.answering import Answering, CallPath
from enginehost.databus.guard import Guard
from enginehost.databus.identity import Identity
from enginehost.databus.metadata import (
    CANCEL,
    CREDIT,
    GO,
    MOST_CREDIT,
    OTHER_START,
    STATUS,
    UNKNOWN_CONTROL,
    UNKNOWN_ID,
    RequestMetadata,
)
from enginehost.databus.port import ExecutionRequest, Transport
from enginehost.databus.refusals import Refusals
from enginehost.databus.replies import Replies
from enginehost.databus.running import Crowd, Ended, Known, Running, known_as
from enginehost.databus.seen import Seen
from enginehost.databus.signing import VerifiedRequest
from enginehost.databus.types import ID_BOUND
from enginehost.errors import (
    EngineHostError,
    EngineUnavailable,
    InvalidRequest,
    OutcomeUnknown,
    Overloaded,
    TooLarge,
)
from enginehost.values import LARGE, aside

METADATA_BOUND = 64 * 1024
"""Bytes of a request's metadata: it is read on the event loop."""

GONE_SECONDS = 1.5
"""How long a requester that went out of sight may take to be heard of again."""

CANCELLED_PATIENCE = 1.0
"""Seconds in which cancelled calls may say that they were."""


class Responder:
    """Runs requests as tasks and replies.

    Requests for ids that ``name_of`` does not know are other hosts' and stay unanswered. A request id
    that was seen from the same requester is not run again; one that was refused unseen may be sent again.
    One participant may have three quarters of ``max_in_flight`` calls running: some room is left to others.
    ``guard`` verifies signatures and signs; without one every caller is anonymous.
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
        guard: Guard | None = None,
    ) -> None:
        self.replies = Replies(transport, identity, guard)
        self._answering = Answering(host, self.replies, name_of)
        self._host = host
        self._identity = identity
        self._guard = guard
        self._name_of = name_of
        self._max_in_flight = max_in_flight
        self._share = max_in_flight - max_in_flight // 4
        self._max_request_bytes = max_request_bytes
        self._crowd = Crowd()
        self._refusals = Refusals(self.replies.send)
        self._seen = Seen()
        self._stopping = False
        self._leaving: dict[str, asyncio.TimerHandle] = {}

    @property
    def in_flight(self) -> int:
        """Requests that run now."""
        return len(self._crowd)

    async def receive(self, requests: Sequence[ExecutionRequest]) -> None:
        """Start what can be started; refuse the rest.

        Waits for nobody but, for a moment, a participant that takes its replies and has many refusals coming.
        """
        for request in requests:
            if self._leaving and (leaving := self._leaving.pop(request.participant, None)) is not None:
                leaving.cancel()
            fits = len(request.metadata) <= METADATA_BOUND
            metadata = RequestMetadata.read(request.metadata) if fits else RequestMetadata()
            name = self._name_of(request.function_id)
            if name is None:
                if metadata.incarnation == self._identity.incarnation and not metadata.control:
                    await self._say_unknown(request, metadata)
            elif metadata.control == STATUS:
                await self._again(request, metadata, known_as(request, metadata), name)
            elif metadata.control == UNKNOWN_CONTROL:
                await self._receive(Running(request, metadata, name))
            elif metadata.control:
                self._control(request, metadata)
            elif (known := known_as(request, metadata)) not in self._seen:
                await self._receive(Running(request, metadata, name))
            elif metadata.requester:
                await self._again(request, metadata, known, name)

    async def _say_unknown(self, request: ExecutionRequest, metadata: RequestMetadata) -> None:
        """This host is meant, and has no function with that id (any more): it has taken another id."""
        running = Running(request, metadata, request.function_id[:ID_BOUND])
        unknown = EngineUnavailable("the host that was meant has no function of that id", reason=UNKNOWN_ID)
        await self._refusals.put(self.replies.failure(running.to, unknown), running.to)

    async def _again(
        self, request: ExecutionRequest, metadata: RequestMetadata, known: Known, name: str
    ) -> None:
        """A host or client like us has heard nothing: it is told once more, at its first address."""
        if not self._answering.again(self._crowd.find(known), known) and metadata.control:
            lost = OutcomeUnknown(f"nothing is known of such a call of {name}, or nothing any more")
            running = Running(request, metadata, name)
            await self._refusals.put(self.replies.failure(running.to, lost), running.to)

    def gone(self, participant: str) -> None:
        """End what runs for requesters that left, unless they are heard of again within a moment.

        That is all streams, and the calls of hosts and clients like us. The calls of peers that know only the
        types run on.
        """
        if participant not in self._leaving and self._crowd.of(participant):
            loop = asyncio.get_running_loop()
            self._leaving[participant] = loop.call_later(GONE_SECONDS, self._left, participant)

    def _left(self, participant: str) -> None:
        del self._leaving[participant]
        for running in self._crowd.of(participant):
            if running.metadata.requester or running.metadata.stream:
                running.end(Ended.GONE)

    async def close(self, drain: float) -> None:
        """Refuse new requests; give running ones ``drain`` seconds, then cancel and say so."""
        self._stopping = True
        for leaving in self._leaving.values():
            leaving.cancel()
        await _wait(self._crowd.tasks, drain)
        for running in tuple(self._crowd.all):
            running.end(Ended.STOPPED)
        await _wait(self._crowd.tasks | self._refusals.tasks, CANCELLED_PATIENCE)
        for task in self._crowd.tasks | self._refusals.tasks:
            task.cancel()

    async def _receive(self, running: Running) -> None:
        signed = running.metadata.key and self._guard is not None
        if refusal := self._refusal(running.request, running.metadata):
            await self._refuse(running, refusal)
        elif signed and len(running.request.parameters) >= LARGE:
            self._crowd.start(running, self._verify_and_answer)
        else:
            try:
                self._let_in(running, self._verified(running.request, running.metadata))
            except EngineHostError as failure:
                await self._refuse(running, failure)
            else:
                self._crowd.start(running, self._answer)

    def _refusal(self, request: ExecutionRequest, metadata: RequestMetadata) -> EngineHostError | None:
        if self._stopping:
            return EngineUnavailable("the host is stopping", state="closing")
        if len(self._crowd) >= self._max_in_flight:
            return Overloaded(f"{self._max_in_flight} calls from the databus run already")
        if self._crowd.share(request.participant or request.source) >= self._share:
            return Overloaded(f"{self._share} calls of this participant run already")
        if not 0 < len(request.request_id.encode(errors="replace")) <= ID_BOUND:
            return InvalidRequest(f"request_id must have 1 to {ID_BOUND} bytes")
        if (size := len(request.parameters)) > self._max_request_bytes:
            return TooLarge("parameters", limit=self._max_request_bytes, size=size)
        if (size := len(request.metadata)) > METADATA_BOUND:
            return TooLarge("metadata", limit=METADATA_BOUND, size=size)
        if metadata.control == UNKNOWN_CONTROL:
            return InvalidRequest(f"control has to be {CANCEL}, {CREDIT}, {GO} or {STATUS}")
        if metadata.incarnation not in ("", self._identity.incarnation):
            return EngineUnavailable("the host that was meant has been restarted", reason=OTHER_START)
        return None

    async def _refuse(self, running: Running, refusal: EngineHostError) -> None:
        self._host.refuse(self._host.new_call(running.name, running.caller, running.metadata.trace), refusal)
        if not await self._refusals.put(self.replies.failure(running.to, refusal), running.to):
            self.replies.lost += 1

    def _verified(self, request: ExecutionRequest, metadata: RequestMetadata) -> VerifiedRequest | None:
        """Who signed the request; ``None`` where nobody did, or nobody here looks."""
        return self._guard.verify(request) if metadata.key and self._guard is not None else None

    def _let_in(self, running: Running, verified: VerifiedRequest | None) -> None:
        """Take the request as seen, and as that of whoever signed it. Raises what refuses it."""
        if verified is not None and self._guard is not None:
            self._guard.admit(verified)
            running.caller = verified.by.caller
            running.to.key, running.to.requester = verified.by.id, verified.sender
        said = running.metadata
        if said.on_behalf_of or said.agents:
            running.caller = _as_it_says(running.caller, said.on_behalf_of, said.agents)
        self._seen.add(running.known, running.to.participant)

    async def _verify_and_answer(self, running: Running) -> None:
        """What takes a while to verify is verified beside the event loop."""
        running.begun = True
        try:
            verified = await aside(self._verified, running.request, running.metadata)
            if running.known in self._seen:
                return  # it came twice, and the other one was verified first
            self._let_in(running, verified)
        except EngineHostError as failure:
            await self._refuse(running, failure)
        except asyncio.CancelledError:
            await self._answering.cut_short(running)
        else:
            await self._answer(running)

    async def _answer(self, running: Running) -> None:
        if await self._answering.answer(running):
            self._refusals.took(running.to.participant)

    def _control(self, request: ExecutionRequest, metadata: RequestMetadata) -> None:
        """What a requester says about its running call; of anybody else's nothing is heard."""
        running = self._crowd.find(known_as(request, metadata))
        stranger = running is None or running.to.participant != (request.participant or request.source)
        if running is None or stranger or len(request.parameters) >= LARGE:
            return
        try:
            verified = self._verified(request, metadata)
            if verified is not None and self._guard is not None:
                self._guard.admit(verified)
        except EngineHostError:
            return
        if metadata.control == CANCEL:
            running.end(Ended.CANCELLED)
        elif metadata.control == GO and running.held is not None:
            running.held.set()
        elif metadata.control == CREDIT and running.credit is not None:
            running.credit.add(metadata.credit, MOST_CREDIT)


def _as_it_says(caller: Caller, name: str, agents: Sequence[str]) -> Caller:
    """The caller, with whom it calls for and the agent that asks. Never kept: claims make none unequal."""
    claims = {**caller.claims, "on_behalf_of": name} if name else caller.claims
    return replace(caller, claims=claims, agent=agents[-1] if agents else caller.agent)


async def _wait(tasks: Collection[asyncio.Task[None]], seconds: float) -> None:
    if tasks:
        await asyncio.wait(tuple(tasks), timeout=seconds)
