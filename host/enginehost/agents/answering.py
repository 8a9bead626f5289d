"""One step: what the model answers, through the stages, into the store as it comes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

from enginehost.agents.blame import through
from enginehost.agents.contract import Stage, Turn
from enginehost.agents.durable import Durable, DurableWriting
from enginehost.agents.grouping import as_own, as_shown, shown
from enginehost.agents.ledger import added
from enginehost.agents.port import AgentHost
from enginehost.errors import EngineHostError
from enginehost.llm.message import Message, Role, Status, Type, Usage, new_id
from enginehost.llm.passage import Context
from enginehost.store.port import Fence


async def asked(host: AgentHost, turn: Turn, rows: Context) -> AsyncGenerator[Message, None]:
    """The model's answer; of the fallback model where the first fails before it has said anything."""
    spec, said = turn.spec, False
    tools, rows = shown(turn), as_shown(turn, rows)
    names = [spec.model, spec.fallback_model] if spec.fallback_model else [spec.model]
    for name in names:
        try:
            answer = host.llm(name).send(rows, stream=True, tools=tools, **spec.options)
            async with aclosing(answer):
                async for message in answer:
                    said = True
                    yield as_own(turn.groups, message)
            return
        except EngineHostError:
            if said or name == names[-1]:
                raise


@asynccontextmanager
async def staged(
    source: AsyncGenerator[Message, None], stages: Sequence[Stage], turn: Turn, redact: Callable[[str], str]
) -> AsyncGenerator[AsyncIterator[Message], None]:
    """``source`` through ``stages``; leaving closes them all at once, and so the provider's connection."""
    made: list[Any] = [source]
    for stage in stages:
        made.append(through(stage, made[-1], turn, "STAGES", redact))
    try:
        yield made[-1]
    finally:
        for one in reversed(made):
            close = getattr(one, "aclose", None)
            if close is not None:
                await close()


class Sink:
    """Writes the messages of one step.

    Text and reasoning are in the store as they come. The calls are written when the answer is whole, in one
    transaction, each with an id of ours: half an answer calls nothing. The last text says how many calls
    follow it, so that whoever takes the turn over knows whether the step was whole.
    """

    def __init__(self, store: Durable, turn: Turn, fence: Fence, step: int, upto: int) -> None:
        self.calls: list[Message] = []
        self.rows: list[Message] = []
        """What has been stored whole, as the store gave it back, for the turn's books."""
        self._store = store
        self._session, self._owner = turn.session.id, turn.session.owner
        self._fence = fence
        self._marks = {"step": step, "upto": upto}
        self._writing: DurableWriting | None = None
        self._source = ""
        """The model's id of the message that is being written."""
        self._final: Message | None = None
        """The last message as its last piece told it, still to be finished or stored."""
        self._usage: Usage | None = None
        """What a message of its own said of tokens."""

    async def put(self, message: Message) -> None:
        """Store a message, or a piece of one."""
        if message.type is Type.TOOL_CALL:
            query = dict(message.query or {}) | self._marks | {"id": new_id()}
            self.calls.append(replace(message, id="", role=Role.ASSISTANT, query=query, status=Status.DONE))
            return
        if self._writing is not None and message.id == self._source:
            if message.content:
                await self._writing.write(message.content)
            if message.whole:
                self._final = message
            return
        if message.usage is not None and message.whole and not message.content and message.type is Type.TEXT:
            self._usage = _both(self._usage, message.usage)
            return
        await self._finish()
        self._source = message.id
        if message.whole:
            self._final = message
        else:
            begun = replace(message, id="", content="", query=self._query(message), usage=None)
            self._writing = await self._store.begin(self._session, begun, self._owner, fence=self._fence)
            if message.content:
                await self._writing.write(message.content)

    async def commit(self) -> None:
        """The answer is whole (or a stage has ended it)."""
        if self._writing is None and self._final is None and not self.calls:
            self._final = Message(Role.ASSISTANT)  # an empty answer is one too
        unfinished = self._writing is not None and self._final is None
        calls, usage = self.calls, self._usage
        if usage is not None and self._writing is None and self._final is None:
            calls = self.calls = [
                replace(calls[0], usage=added(calls[0].usage or Usage(), usage)),
                *calls[1:],
            ]
        await self._finish(Status.CANCELLED if unfinished else Status.DONE, len(calls), calls)

    async def abort(self, status: Status) -> None:
        """The answer broke off: what was begun is closed with ``status``, its calls are none."""
        self.calls.clear()
        await self._finish(status)

    def _query(self, message: Message, calls: int = 0) -> dict[str, Any]:
        more = self._marks | {"calls": calls} if calls else self._marks
        return dict(message.query or {}) | more

    async def _finish(
        self, status: Status = Status.DONE, calls: int = 0, then: Sequence[Message] = ()
    ) -> None:
        """Close the last message, and store what comes after it."""
        writing, final, usage = self._writing, self._final, self._usage
        self._writing = self._final = None
        if writing is not None or final is not None:
            self._usage = None  # else it is for what comes
        whole: list[Message] = []
        if writing is not None:
            last = final or writing.message
            query, usage = self._query(last, calls), _both(last.usage, usage)
            ended = last.status if final is not None and status is Status.DONE else status
            await writing.finish(ended, usage=usage, provider=last.provider, query=query)
            self.rows.append(replace(writing.message, status=ended, usage=usage, query=query))
        elif final is not None:
            whole.append(
                replace(final, id="", query=self._query(final, calls), usage=_both(final.usage, usage))
            )
        if whole or then:
            kept = [*whole, *then]
            self.rows += await self._store.append(self._session, kept, self._owner, fence=self._fence)


def _both(one: Usage | None, more: Usage | None) -> Usage | None:
    return added(one, more) if one is not None and more is not None else one or more
