"""A session: a conversation by its id. All of it is in the store."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from orjson import loads

from enginehost.agents import delegation, offers
from enginehost.agents.chain import QUESTION, trace_for_calls, trace_from_json, trace_here, trace_to_json
from enginehost.agents.contract import AgentSpec, Harness, ModelService, Tool
from enginehost.agents.durable import reading
from enginehost.agents.elsewhere import cancel_elsewhere, decide_elsewhere
from enginehost.agents.given import check_arguments, check_texts, messages, row_number
from enginehost.agents.identity import asking, caller_to_json, owner_of
from enginehost.agents.ledger import Ledger
from enginehost.agents.media import check_media
from enginehost.agents.options import Options
from enginehost.agents.rows import Decision, decision, failure, tool_of
from enginehost.caller import Caller
from enginehost.errors import InvalidRequest, Overloaded, TooLarge
from enginehost.llm.input import Row
from enginehost.llm.message import Message, Role, Type
from enginehost.llm.passage import Batches, PlainForm, each
from enginehost.store.port import Event, Owner, Position, Run, RunState, Settled, Store

if TYPE_CHECKING:
    from enginehost.agents.service import AgentService


class AgentSession:
    """See :class:`~enginehost.agents.contract.Session`."""

    def __init__(
        self,
        agents: AgentService,
        id: str,
        caller: Caller,
        options: Options,
        *,
        spec: AgentSpec | None = None,
        begun: bool = False,
    ) -> None:
        self.id = id
        self.begun = begun
        """Whether it is new, and its first rows were written by who has this object."""
        self.caller = caller
        self.owner = owner_of(caller)
        self.options = options
        self._agents = agents
        self._store = agents.store
        self._spec = agents.resolved(options) if spec is None else spec
        self._tools: tuple[int, list[Tool]] = (-1, [])

    @property
    def spec(self) -> AgentSpec:
        """The agent with what the session was started with in its place."""
        return self._spec

    @property
    def asker(self) -> Caller:
        """The caller whose rights its tools have, with the agent that asks on their behalf."""
        return asking(self.caller, self.spec.name)

    @property
    def service(self) -> AgentService:
        """The service that it is a session of."""
        return self._agents

    # Rows

    async def write(self, message: Row | Sequence[Row]) -> Run | None:
        """Store messages; a user's starts a turn, or joins the one that runs. A result settles its call."""
        stored = await self._append(messages(message))
        said = [row.sequence for row in stored if row.role is Role.USER and row.type is not Type.APPROVAL]
        if said:
            return await self.begin_turn(max(said))
        if any(row.type is Type.TOOL_RESULT for row in stored) and (run := await self.run()) is not None:
            await self._agents.resume(run)
            return run
        return None

    async def _append(self, rows: list[Message]) -> list[Message]:
        for row in rows:
            if row.type is Type.TOOL_RESULT and not row.call_id:
                raise InvalidRequest('a tool result needs the id of its call: query={"tool": …, "id": …}')
            if row.type in (Type.TOOL_CALL, Type.APPROVAL):
                raise InvalidRequest(
                    f"a {row.type} is not written by hand; see approve, reject, edit and answer"
                )
            check_media(row)
        try:
            return await self.append(rows)
        except Settled:
            raise InvalidRequest("this call has its result already", detail={"reason": "settled"}) from None

    async def append(self, rows: Sequence[Message]) -> list[Message]:
        """Store rows and begin nothing; for harnesses and stages."""
        return await self._store.append(self.id, rows, self.owner)

    async def begin_turn(
        self, started_by: int, *, alone: bool = False, data: Mapping[str, Any] | None = None
    ) -> Run:
        """A turn for a user's message that is stored. One that runs takes it in, unless ``alone``.

        Raises ``Overloaded`` where it is to be ``alone`` and another turn has not ended, and
        ``InvalidRequest`` where agents call each other too deep.
        """
        kept: dict[str, Any] = {
            "caller": caller_to_json(self.caller),
            "options": self.options.to_json(),
            "trace": trace_to_json(trace_here()),
        }
        if data is None:
            data = {
                "chain": delegation.deeper(delegation.CHAIN.get(), self.spec.name, self.spec.limits.depth)
            }
        kept |= data
        if question := QUESTION.get():
            kept["question"] = question
        try:
            run = await self._store.start_run(
                self.id, self.spec.name, self.owner, started_by=started_by, data=kept
            )
        except Overloaded:
            running = await self.run()
            if alone or running is None:
                raise
            return running
        return await self._agents.take(self.id) or run

    def events(self, after: Position | str | None = None) -> AsyncGenerator[Event, None]:
        """What is stored after a position, then what comes; leaving it cancels nothing."""
        return self._events(position(after))

    async def _events(self, after: Position | None) -> AsyncGenerator[Event, None]:
        if after is not None:
            await check_position(self._store, self.id, self.owner, after)
        async with aclosing(self._store.events(self.id, self.owner, after)) as events:
            async for event in events:
                yield event

    def __aiter__(self) -> AsyncGenerator[Event, None]:
        return self.events()

    def rows(self) -> AsyncGenerator[Message, None]:
        """The rows that the store holds for a model."""
        return each(self.batches())

    def batches(self, form: PlainForm | None = None) -> Batches:
        """The same in batches; with a form, long stretches of plain texts are passages."""
        return reading(self._store.batches(self.id, self.owner, form))

    def llm(self, name: str = "") -> ModelService:
        """The service of a model engine, by default of the agent's own."""
        return self._agents.host.llm(name or self.spec.model)

    async def call(self, tool: str, args: Mapping[str, Any]) -> Any:
        """Call a function of the catalog on behalf of the caller; the result as JSON values."""
        host = self._agents.host
        return loads(await host.call_json(host.new_call(tool, self.asker, trace_for_calls()), dict(args)))

    async def history(self, *, after: int = 0, before: int | None = None, limit: int = 100) -> list[Message]:
        """A page of rows."""
        row_number("after", after, least=0)
        row_number("limit", limit, least=1)
        if before is not None:
            row_number("before", before, least=0)
        return await self._store.history(self.id, self.owner, after=after, before=before, limit=limit)

    async def fork(self, at: int) -> AgentSession:
        """A session that goes on from row ``at`` of this one; nothing is copied."""
        forked = await self._store.fork(self.id, row_number("at", at, least=1), self.owner)
        return AgentSession(self._agents, forked, self.caller, self.options)

    def selected_tools(self) -> list[Tool]:
        """The tools that the spec selects, of those that the caller may call, by name."""
        version, tools = self._tools
        host = self._agents.host
        if version != host.catalog.version:
            version, tools = host.catalog.version, offers.selected(host, self.asker, self.spec.tools)
            self._tools = version, tools
        return tools

    # Turns

    async def runs(self) -> list[Run]:
        """The turns, latest first."""
        return await self._store.runs(self.id, self.owner)

    async def run(self) -> Run | None:
        """The latest turn."""
        runs = await self.runs()
        return runs[0] if runs else None

    async def busy(self) -> bool:
        """Whether a turn runs or waits."""
        run = await self.run()
        return run is not None and not run.state.ended

    async def wait(self, run: Run) -> Run:
        """Wait until a turn has ended, or waits for a person."""
        return await self._agents.wait(run)

    async def reply(self, run: Run) -> str:
        """The text that a turn ended with. Raises ``TooLarge``."""
        rows: list[Message] = []
        after, step = run.started_by, 0
        while page := await self.history(after=after, limit=20):
            for row in page:
                if row.role is not Role.ASSISTANT or row.type not in (Type.TEXT, Type.DATA):
                    continue
                now = int((row.query or {}).get("step", 0))
                rows, step = ([row] if now != step else [*rows, row]), now
            after = page[-1].sequence
        return await joined(rows, self.content, self._agents.most_reply)

    async def content(self, row: Message) -> AsyncGenerator[str, None]:
        """The content of a row, in pieces where a page of history has a part of it only."""
        if not (row.query or {}).get("cut"):
            yield row.content
            return
        async with aclosing(self._store.events(self.id, self.owner, Position(row.sequence - 1))) as events:
            async for event in events:
                if event.message is not None and event.message.sequence == row.sequence:
                    yield event.message.content
                if event.at.sequence >= row.sequence:
                    return

    async def cancel(self) -> Run | None:
        """End the turn that runs or waits, from any process; ``None`` where there is none."""
        run = await self.run()
        if run is None or run.state.ended:
            return None
        if run.state is not RunState.RUNNING:  # nobody runs it, so its calls are settled here
            waits = run.data.get("waits") or {}
            for state in (await self._ledger(run)).open_calls():
                if state.id in waits:
                    here = {state.id: waits[state.id]}
                    await cancel_elsewhere(self._agents.host, self.asker, here)
                child = (run.data.get("children") or {}).get(state.id)
                if child:
                    await AgentSession(
                        self._agents, str(child), self.caller, Options(agent=state.tool)
                    ).cancel()
                try:
                    row = failure(state.call, "not carried out: the turn was cancelled", "cancelled")
                    await self._store.append(self.id, [row], self.owner)
                except Settled:
                    continue
        cancelled = await self._store.cancel_run(run.id, self.owner)
        self._agents.interrupt(run.id)
        if cancelled is not None and cancelled.state is RunState.CANCELLED:
            await delegation.tell(self._agents, self, cancelled, cancelled.state, None)
        return cancelled

    # Questions

    async def questions(self) -> list[Message]:
        """The questions that nobody has decided yet."""
        run = await self.run()
        if run is None or run.state.ended:
            return []
        ledger = await self._ledger(run)
        return _undecided(ledger)

    async def approve(self, call: str) -> None:
        """Let the stored call run exactly as it stands (or the turn go on beyond its limit)."""
        await self._decide(call, Decision.APPROVE)

    async def reject(self, call: str, reason: str = "") -> None:
        """Do not run it; the model reads the reason."""
        await self._decide(call, Decision.REJECT, reason)

    async def edit(self, call: str, args: Mapping[str, Any]) -> None:
        """Let the call run with other arguments, which have to fit as the model's do."""
        await self._decide(call, Decision.EDIT, args=args)

    async def answer(self, call: str, text: str) -> None:
        """Do not run it; ``text`` is its result."""
        await self._decide(call, Decision.ANSWER, text)

    async def _decide(
        self, call: str, decided: Decision, text: str = "", *, args: Mapping[str, Any] | None = None
    ) -> None:
        check_texts(call=call, text=text)
        check_arguments(args)
        run = await self.run()
        ledger = await self._ledger(run) if run is not None else None
        asked = _asked_about(ledger, call) if ledger is not None else None
        if run is None or asked is None:
            raise InvalidRequest(
                "there is no such question in this session", detail={"reason": "no-question"}
            )
        if decided in (Decision.EDIT, Decision.ANSWER) and not (asked.query or {}).get("call"):
            raise InvalidRequest("this question is about no call: approve or reject it")
        if args is not None:
            await self._check_edit(asked, args)
        row = decision(asked, decided, text, args)
        wait = (run.data.get("waits") or {}).get(str((asked.query or {}).get("call", "")))
        if "remote" in (asked.query or {}) and wait and _is_open(ledger, asked):
            await self._decide_elsewhere(run, wait, row)
            return
        try:
            await self._store.append(self.id, [row], self.owner)
            self._agents.spans.decided(str(decided), self.spec.name, trace_from_json(run.data.get("trace")))
        except Settled:
            text = "this question has been decided already"
            raise InvalidRequest(text, detail={"reason": "settled"}) from None
        finally:  # also for a decision whose maker died before it woke the turn
            await self._agents.resume(run)

    async def _decide_elsewhere(self, run: Run, wait: Mapping[str, Any], row: Message) -> None:
        """The other host decides which of two decisions counts; this session hears what comes of it."""
        late = await decide_elsewhere(self._agents.host, self.asker, wait, row)
        try:
            with suppress(Settled):
                await self._store.append(self.id, [row], self.owner)
        finally:
            await self._agents.resume(run)
        if late is not None:
            raise late
        decided = str((row.query or {}).get("decision", ""))
        self._agents.spans.decided(decided, self.spec.name, trace_from_json(run.data.get("trace")))

    async def _check_edit(self, asked: Message, args: Mapping[str, Any]) -> None:
        """The edited call has to be one that the model could have made; another host's checks its own."""
        if "remote" in (asked.query or {}):
            return
        harness = self.spec.harness or Harness()
        offered = offers.by_name(await harness.tools(self), self.spec)
        name = tool_of(asked)
        tool = offers.find(offered, name)
        if tool is None and name in self.spec.agents:
            return
        if tool is None:
            raise offers.not_offered(offered, name)
        offers.check(tool, dict(args))

    async def _ledger(self, run: Run) -> Ledger:
        ledger = Ledger(run.id, run.data.get("begun", {}), run.started_by)
        await ledger.read(self._store, self.id, self.owner)
        return ledger


def position(after: Position | str | None) -> Position | None:
    """A place in a session's events, also from its text (an SSE event id). Raises ``InvalidRequest``."""
    if after is None or isinstance(after, Position):
        return after
    check_texts(after=after)
    sequence, dot, offset = after.partition(".")
    if not (
        sequence.isascii() and sequence.isdigit() and (not dot or (offset.isascii() and offset.isdigit()))
    ):
        raise InvalidRequest(f"{after[:40]!r} is no position in a session's events, such as 12.0")
    return Position(int(sequence), int(offset or 0))


async def check_position(store: Store, session: str, owner: Owner, after: Position) -> None:
    """Raises ``InvalidRequest`` for a place behind the end, and ``UnknownSession``."""
    end = await store.end(session, owner)
    if after.sequence > end.sequence:
        raise InvalidRequest(f"position {after} is behind the end of this session's events, {end}")


async def joined(
    rows: Sequence[Message], content: Callable[[Message], AsyncGenerator[str, None]], most: int
) -> str:
    """The contents of rows as one text of at most so many bytes. Raises ``TooLarge``."""
    parts, size = list[str](), 0
    for row in rows:
        async with aclosing(content(row)) as pieces:
            async for piece in pieces:
                parts.append(piece)
                size += len(piece.encode("utf-8", "surrogatepass"))
                if size > most:
                    raise TooLarge("the answer", limit=most)
    return "".join(parts)


def _is_open(ledger: Ledger | None, asked: Message) -> bool:
    return ledger is not None and any(row.call_id == asked.call_id for row in _undecided(ledger))


def _undecided(ledger: Ledger) -> list[Message]:
    found = [row for key, row in ledger.limit_questions.items() if key not in ledger.limit_decisions]
    for state in ledger.open_calls():
        found += [row for key, row in state.questions.items() if key not in state.decisions]
    return sorted(found, key=lambda row: row.sequence)


def _asked_about(ledger: Ledger, call: str) -> Message | None:
    """The question that is meant by the id of a call or its own: the latest, an undecided one first."""
    state = ledger.calls.get(call)
    if state is not None and state.questions:
        undecided = [row for key, row in state.questions.items() if key not in state.decisions]
        return (undecided or list(state.questions.values()))[-1]
    every = dict(ledger.limit_questions)
    for one in ledger.calls.values():
        every |= one.questions
    return every.get(call)
