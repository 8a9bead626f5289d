"""One request that was let in, from its acknowledgement to its final reply."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from enginehost.agents.chain import CHAIN, DECISION, QUESTION
from enginehost.agents.facts import facts_of
from enginehost.caller import Caller
from enginehost.catalog import Entry
from enginehost.databus.agents_loops import a_place
from enginehost.databus.describing import DESCRIBE, described
from enginehost.databus.kept import Kept
from enginehost.databus.port import ExecutionReply
from enginehost.databus.replies import Replies, ReturnAddress
from enginehost.databus.running import Ended, Known, Running
from enginehost.databus.streams import MOST_ITEMS, Unreachable, give_items
from enginehost.engine import Call
from enginehost.errors import (
    CallCancelled,
    EngineHostError,
    EngineUnavailable,
    InvalidRequest,
    OutcomeUnknown,
)
from enginehost.json_arguments import read_object
from enginehost.record import Stats
from enginehost.signature import FunctionSignature
from enginehost.trace_context import NO_TRACE, TraceContext
from enginehost.values import LARGE, aside

log = logging.getLogger("enginehost.databus")

HELD_SECONDS = 10.0
"""How long a call that was acknowledged waits to hear that the acknowledgement has come."""


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

    def stream_json(
        self, call: Call, arguments: Mapping[str, Any], *, timeout: float | None = None
    ) -> AsyncGenerator[bytes, None]:
        """``Host.stream_json``."""
        ...

    def visible(self, name: str, caller: Caller) -> Entry | None:
        """``Host.visible``."""
        ...

    def stats(self, name: str) -> Stats | None:
        """``Host.stats``."""
        ...

    def refuse(self, call: Call, error: EngineHostError) -> None:
        """``Host.refuse``."""
        ...


class Answering:
    """Runs requests on the call path and replies. ``name_of`` finds functions by their ids."""

    def __init__(self, host: CallPath, replies: Replies, name_of: Callable[[str], str | None]) -> None:
        self._host = host
        self._replies = replies
        self._name_of = name_of
        self._kept = Kept()
        self._repeating: set[asyncio.Task[bool]] = set()

    def again(self, running: Running | None, known: Known) -> bool:
        """Say once more how a request stands that was let in; ``False`` where that is not known any more."""
        if running is not None:
            if not running.over:
                self._repeat(self._replies.accepted(running.to), running.to)
            return True
        kept = self._kept.again(known)
        if kept is not None:
            self._repeat(*kept)
        return kept is not None

    def _repeat(self, reply: ExecutionReply, to: ReturnAddress) -> None:
        task = asyncio.get_running_loop().create_task(self._replies.send(reply, to, last=False))
        self._repeating.add(task)
        task.add_done_callback(self._repeated)

    def _repeated(self, task: asyncio.Task[bool]) -> None:
        self._repeating.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a reply on the databus could not be sent again", exc_info=error)

    async def answer(self, running: Running) -> bool:
        """Answer a request; whether its final reply could be sent."""
        running.begun = True
        try:
            if running.ended is not None:
                raise asyncio.CancelledError
            if running.metadata.ack and not await self._accept(running):
                return False  # nobody knows that the call is here: it must not run
            if running.held is not None:
                await self._may_run(running, running.held)
            running.ran = True
            reply = await self._outcome(running)
        except EngineHostError as failure:
            reply = self._replies.failure(running.to, failure, running.sequence + 1)
        except Unreachable:
            return False
        except asyncio.CancelledError:
            return await self.cut_short(running)
        return await self._last(running, reply)

    async def _last(self, running: Running, reply: ExecutionReply) -> bool:
        running.over = True
        try:
            return await self._replies.send(reply, running.to)
        finally:  # not before: nobody is given it again while this task runs
            if running.metadata.requester:
                self._kept.add(running.known, reply, running.to)

    async def cut_short(self, running: Running) -> bool:
        """Say why a request ends that was cancelled, where there is somebody to hear it."""
        task = asyncio.current_task()
        if running.ended is None or task is None:
            raise asyncio.CancelledError
        task.uncancel()
        if running.ended is Ended.GONE:
            running.over = True
            return False
        return await self._last(
            running, self._replies.failure(running.to, _cause(running), running.sequence + 1)
        )

    async def _accept(self, running: Running) -> bool:
        return await self._replies.send(self._replies.accepted(running.to), running.to, last=False)

    async def _may_run(self, running: Running, held: asyncio.Event) -> None:
        """Wait until the requester knows that the call is here: if this host dies now, nobody asks again."""
        try:
            async with asyncio.timeout(min(HELD_SECONDS, running.metadata.timeout or HELD_SECONDS)):
                await held.wait()
        except TimeoutError:
            text = f"{running.name} did not run: its requester did not hear that it was accepted"
            raise EngineUnavailable(text, reason="not-heard") from None

    async def _outcome(self, running: Running) -> ExecutionReply:
        metadata = running.metadata
        call = self._host.new_call(running.name, running.caller, metadata.trace)
        try:
            arguments = await self._arguments(running, call)
            if metadata.agents:
                await a_place(self._host, running.name, running.caller, metadata.agents)
                CHAIN.set(metadata.agents)
            if metadata.decide is not None:
                self._decide(running, metadata.decide)
            if metadata.question:
                QUESTION.set(metadata.question)
        except EngineHostError as refusal:
            self._host.refuse(call, refusal)
            raise
        if metadata.stream:
            items = self._items(running, call, arguments)
            most = MOST_ITEMS if metadata.batch else 1
            await give_items(items, lambda batch: self._give(running, batch), call, running.credit, most)
            return self._replies.result(running.to, b"", running.sequence + 1)
        if running.name == DESCRIBE:
            return self._replies.result(running.to, self._described(running, arguments))
        result = await self._host.call_json(call, arguments, timeout=metadata.timeout)
        return self._replies.result(running.to, result)

    def _decide(self, running: Running, decided: Mapping[str, Any]) -> None:
        """A person decided about a question of the agent that is called. Raises :class:`InvalidRequest`."""
        entry = self._host.visible(running.name, running.caller)
        if entry is None or facts_of(entry.record.engine) is None:
            raise InvalidRequest(f"{running.name} is no agent: there is nothing to decide")
        DECISION.set(decided)

    async def _arguments(self, running: Running, call: Call) -> dict[str, Any]:
        text = running.request.parameters
        if len(text) < LARGE:
            return read_object(text, "parameters")
        call.large = True
        return await aside(read_object, text, "parameters")

    def _items(self, running: Running, call: Call, arguments: dict[str, Any]) -> AsyncGenerator[bytes, None]:
        if running.name == DESCRIBE:
            return _one(self._described(running, arguments))
        return self._host.stream_json(call, arguments, timeout=running.metadata.timeout)

    async def _give(self, running: Running, items: Sequence[bytes]) -> bool:
        running.sequence += 1
        several = len(items) > 1
        reply = self._replies.result(
            running.to,
            b"[" + b",".join(items) + b"]" if several else items[0],
            running.sequence,
            final=False,
            items=len(items) if several else 0,
        )
        return await self._replies.send(reply, running.to, last=False)

    def _described(self, running: Running, arguments: dict[str, Any]) -> bytes:
        def find(function_id: str) -> FunctionSignature | None:
            name = self._name_of(function_id)
            entry = self._host.visible(name, running.caller) if name is not None else None
            return None if entry is None else entry.signature

        return described(arguments, find)


def _cause(running: Running) -> EngineHostError:
    if running.ended is Ended.CANCELLED:
        return CallCancelled(f"the call of {running.name} was cancelled by its requester")
    if running.ran:
        return OutcomeUnknown("the host stopped before the call ended")
    return EngineUnavailable("the host stopped before the call began", state="closing")


async def _one(item: bytes) -> AsyncGenerator[bytes, None]:
    yield item
