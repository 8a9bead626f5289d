"""The calls of a turn: which may run, which wait for a person, and how each gets its one result.

A call is in the store before it runs, and so is the mark that it has begun, where running it twice could do
harm. A result is stored once: of two (ours, and one from outside) the first counts.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson

from enginehost.agents import limits, offers
from enginehost.agents.chain import DECISION, QUESTION
from enginehost.agents.contract import OnLimit, Tool, UnknownOutcome
from enginehost.agents.delegation import delegate
from enginehost.agents.durable import DurableWriting
from enginehost.agents.elsewhere import asked_elsewhere, next_decision, questions_here, waits_elsewhere
from enginehost.agents.ledger import CallState
from enginehost.agents.rows import (
    Decision,
    Question,
    decision_of,
    failure,
    failure_text,
    question,
    result,
    result_query,
)
from enginehost.agents.spans import Said
from enginehost.agents.tool_runs import Partly, run_tool
from enginehost.errors import EngineHostError, EngineUnavailable, OutcomeUnknown, Overloaded, UnknownFunction
from enginehost.llm.message import Message, Role, Status, Type
from enginehost.store.port import RunState, Settled
from enginehost.values import encode

if TYPE_CHECKING:
    from enginehost.agents.runner import Runner

_MOST_LOST = 3
"""How many times a call is made anew, without asking, whose host vanished."""

_BACK_SECONDS = 45.0
"""How long a call that is made anew finds a host that is not back yet, or busy with the turn that it lost."""
_BACK_FIRST, _BACK_LONGEST = 0.2, 3.0
"""The first pause between two tries, each twice as long as the one before, and the longest."""

_AT_ONCE = 64 * 1024
"""Characters of a result that are stored in one piece."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A call that may run now. ``edited``: a person gave it these arguments.

    ``decision``: it tells the agent of another host, which waits, what a person decided.
    """

    state: CallState
    tool: Tool
    args: dict[str, Any]
    edited: bool = False
    decision: Mapping[str, Any] | None = None


class Calls:
    """The calls of one turn."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._elsewhere: set[str] = set()
        """Calls of other agents whose turns wait for a person, so that this one does too."""

    def standing(self) -> tuple[int, int, int, int]:
        """Changes whenever there is something new to do: open calls, lost ones, and what was decided."""
        ledger = self._runner.ledger
        decided = sum(len(state.decisions) for state in ledger.calls.values())
        told = sum(len(one["sent"]) for one in self._waits().values())
        lost = sum(self._lost().values())
        return len(ledger.open_calls()), decided, len(ledger.limit_decisions), lost + told

    def _lost(self) -> dict[str, int]:
        """How many times each call went to a host that vanished before it answered."""
        return self._runner.data.setdefault("lost", {})

    def _waits(self) -> dict[str, dict[str, Any]]:
        """Calls of agents of other hosts that wait for a person: of whom, where, and what was told."""
        return self._runner.data.setdefault("waits", {})

    async def settle(self) -> bool:
        """Run what may run; ``True`` when every call has its result, ``False`` when the rest has to wait."""
        runner = self._runner
        if not runner.ledger.open_calls():
            return True
        if not runner.turn.offered:
            await runner.offer()
        while states := runner.ledger.open_calls():
            if any(state.waits for state in states) or runner.ledger.waits_for_limit:
                await runner.read()
            before = self.standing()
            ready = await self._planned(runner.ledger.open_calls())
            await self._run(ready)
            if self.standing() == before:
                return False
        return True

    async def give(self, row: Message) -> None:
        """Store the result of a call, unless it has one already."""
        runner = self._runner
        with suppress(Settled):
            await runner.write([row])
        runner.ledger.settle(row.call_id)

    async def _planned(self, states: Sequence[CallState]) -> list[Ready]:
        """What may run now; what needs no running is settled, what needs a person is asked."""
        ready: list[Ready] = []
        for state in states:
            try:
                plan = await self._plan(state)
            except EngineHostError as error:
                await self.give(failure(state.call, error))
                continue
            if isinstance(plan, Ready):
                ready.append(plan)
            elif plan is not None:
                await self._put(plan)
        return ready

    async def _put(self, row: Message) -> None:
        if row.type is Type.APPROVAL:
            await self._runner.write([row])
        else:
            await self.give(row)

    async def _plan(self, state: CallState) -> Ready | Message | None:
        """A call that may run, the row that settles it or asks about it, or ``None``: it waits.

        Raises an error of the tree for a call that is refused.
        """
        runner = self._runner
        turn = runner.turn
        if state.id in self._elsewhere:
            return None
        if turn.stopped:
            return failure(state.call, f"not carried out: {turn.stopped}", "stopped")
        if (over := await self._over(state)) is not None:
            return over if isinstance(over, Message) else None
        tool = offers.find(turn.offered, state.tool)
        if tool is None:
            raise offers.not_offered(turn.offered, state.tool)
        decided = state.decided(state.id)
        if decided in (Decision.REJECT, Decision.ANSWER):
            return said(state.call, state.decisions[state.id])
        args: Any = (state.call.query or {}).get("args")
        if decided is Decision.EDIT:
            args = (state.decisions[state.id].query or {}).get("args")
        needs = offers.needs_person(tool, runner.spec) or (state.call.query or {}).get("ask") is True
        if needs or tool.own or tool.agent or decided is Decision.EDIT or tool.name in runner.spec.lazy_tools:
            args = offers.check(tool, args)  # the rest is checked where it is called
        elif not isinstance(args, dict):
            offers.check(tool, args)
        if asked_elsewhere(state) and state.id in self._waits():
            return self._decided_here(state, tool)
        if needs and decided is None:
            asked = question(Question.APPROVAL, state.id, f"May {tool.name} run?", state.call)
            return None if state.questions else asked
        if state.begun and state.begun != runner.fence.epoch and not is_safe_again(tool):
            return self._unknown(state, tool, args)
        if tool.name in runner.spec.lazy_tools and not tool.agent:
            return lazy(state.call, tool, args)
        return Ready(state, tool, args, decided is Decision.EDIT)

    def _decided_here(self, state: CallState, tool: Tool) -> Ready | None:
        """What an agent of another host is told next; ``None`` where a person has not decided yet."""
        told = self._waits()[state.id]
        decision = next_decision(state, told["sent"])
        if decision is None:
            return None
        said = {"message": "decision", "conversation_id": told["conversation_id"]}
        return Ready(state, tool, said, decision=decision)

    async def _over(self, state: CallState) -> Message | bool | None:
        """Where this call is one too many: the row that says so, or ``True`` when a person is asked."""
        runner = self._runner
        number = list(runner.ledger.calls).index(state.id) + 1
        text = limits.calls_left_out(runner.spec.limits, number, runner.ledger.allowance)
        if not text:
            return None
        if runner.spec.limits.on_limit is OnLimit.ASK and not runner.ledger.refused_limit:
            await runner.ask_to_go_on(text)
            return True
        runner.turn.stop(text)
        return failure(state.call, f"not carried out: {text}", "limit")

    def _unknown(self, state: CallState, tool: Tool, args: dict[str, Any]) -> Ready | Message | None:
        """A call that had begun when its process died, and whose function may not run twice."""
        wanted = self._runner.spec.on_unknown_outcome
        told = f"{tool.name} had begun when its process ended: nobody knows whether it took effect"
        again = self._lost().get(state.id, 0) <= _MOST_LOST
        if wanted is UnknownOutcome.RETRY and again:
            return Ready(state, tool, args)
        if wanted in (UnknownOutcome.FAIL, UnknownOutcome.RETRY):
            return failure(state.call, told, "outcome_unknown")
        asked = state.outcome_question()
        match state.decided(asked):
            case None:
                text = f"{told}. Shall it run again?"
                return (
                    None if asked in state.questions else question(Question.OUTCOME, asked, text, state.call)
                )
            case Decision.APPROVE:
                return Ready(state, tool, args)
            case Decision.EDIT:
                changed = (state.decisions[asked].query or {}).get("args")
                return Ready(state, tool, offers.check(tool, changed), edited=True)
            case _:
                return said(state.call, state.decisions[asked], told)

    async def _run(self, ready: Sequence[Ready]) -> None:
        """Run calls side by side, each to its result."""
        if not ready:
            return
        await self._mark(ready)
        places = asyncio.Semaphore(max(1, self._runner.spec.limits.parallel))

        async def one(call: Ready) -> None:
            async with places:
                await (self._ask_agent(call) if call.tool.agent else self._run_one(call))

        if len(ready) == 1:
            await one(ready[0])
        else:
            await together([one(call) for call in ready])

    async def _mark(self, ready: Sequence[Ready]) -> None:
        """Let it be known that these begin, where that matters to whoever takes the run over."""
        runner = self._runner
        delicate = [call for call in ready if not is_safe_again(call.tool)]
        if not delicate:
            return
        begun: dict[str, int] = runner.data.setdefault("begun", {})
        for call in delicate:
            begun[call.state.id] = call.state.begun = runner.fence.epoch
        await runner.change(RunState.RUNNING)

    async def _run_one(self, ready: Ready) -> None:
        runner, call = self._runner, ready.state.call
        out = Result(self, call, {"edited": ready.args} if ready.edited else {})
        outcome = "ok"
        deciding, asking = DECISION.set(ready.decision), QUESTION.set(self._question(ready))
        spans, said = runner.agents.spans, Said(wanted=ready.tool.own and runner.agents.spans.steps.values)
        is_agent = offers.is_agent_of_another_host(runner.agents.host, ready.tool)
        asker = runner.spec.name
        with spans.tool(ready.tool.name, call.call_id, agent=is_agent, asker=asker, given=ready.args) as span:
            try:
                async with aclosing(self._pieces(ready)) as pieces:
                    async for text in pieces:
                        said.add(text)
                        await out.write(text)
                await out.finish()
            except Partly as partly:
                outcome = partly.error.code
                if not await self._goes_on(ready, partly.error, out):
                    await out.finish(error=True)
            except EngineHostError as error:
                outcome = error.code
                if not await self._goes_on(ready, error, out):
                    await out.fail(error)
            except asyncio.CancelledError:
                outcome = "cancelled"
                if runner.breaks_off:
                    await out.cut(f"{ready.tool.name} was cancelled while it ran; it may have taken effect")
                raise
            finally:
                DECISION.reset(deciding)
                QUESTION.reset(asking)
                span(outcome, said.text)
                self._counted(outcome)

    async def _goes_on(self, ready: Ready, error: EngineHostError, out: Result) -> bool:
        """Whether what another host answered is no result yet: its agent waits, or the host has vanished."""
        if not ready.tool.remote:
            return False
        unknown = isinstance(error, OutcomeUnknown) and not is_safe_again(ready.tool)
        if not (unknown or waits_elsewhere(error)) or not out.forget():
            return False
        await (self._lose(ready.state) if unknown else self._ask_here(ready, error))
        return True

    def _question(self, ready: Ready) -> str:
        """What tells a question to an agent of another host from others, however often it is asked."""
        if not ready.tool.remote or ready.decision is not None:
            return ""
        run = self._runner.run
        about = [run.session, run.id, ready.state.id, ready.args]
        return hashlib.sha256(encode(about, allow_nan=True)).hexdigest()[:32]

    async def _pieces(self, ready: Ready) -> AsyncGenerator[str, None]:
        """What the tool says. One that is tried again since its host vanished has a while to be back."""
        runner, pause = self._runner, _BACK_FIRST
        patience = min(_BACK_SECONDS, ready.tool.function.limits.timeout or _BACK_SECONDS)
        until = time.monotonic() + patience if self._lost().get(ready.state.id) else 0.0
        while True:
            said = False
            try:
                pieces = run_tool(runner.agents.host, ready.tool, ready.args, runner.session.asker)
                async with aclosing(pieces):
                    async for text in pieces:
                        said = True
                        yield text
                return
            except (EngineUnavailable, Overloaded, UnknownFunction):
                if said or time.monotonic() + pause > until:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, _BACK_LONGEST)

    async def _ask_here(self, ready: Ready, error: EngineHostError) -> None:
        """An agent of another host waits for a person: who watches this session is asked."""
        runner, state, waits = self._runner, ready.state, self._waits()
        conversation = str(error.detail["conversation_id"])
        about = waits.setdefault(
            state.id, {"agent": ready.tool.name, "conversation_id": conversation, "sent": []}
        )
        if ready.decision is not None:
            about["sent"].append(f"{state.id}~{ready.decision['question']}")
        if rows := questions_here(state, ready.tool.name, error):
            await runner.write(rows)
        runner.data.get("begun", {}).pop(state.id, None)
        state.begun = 0  # what it did is known: it waits
        await runner.change(RunState.RUNNING)

    async def _lose(self, state: CallState) -> None:
        """The host that ran a call vanished: what happens now is for ``on_unknown_outcome`` to say."""
        runner, lost = self._runner, self._lost()
        lost[state.id] = lost.get(state.id, 0) + 1
        begun: dict[str, int] = runner.data.setdefault("begun", {})
        begun[state.id] = state.begun = -lost[state.id]  # no epoch: each loss is a question of its own
        await runner.change(RunState.RUNNING)

    async def _ask_agent(self, ready: Ready) -> None:
        """Let another agent answer; its turn settles the call when it ends, perhaps days later."""
        runner = self._runner
        try:
            name, asker = ready.tool.name, runner.spec.name
            with runner.agents.spans.tool(name, ready.state.id, agent=True, asker=asker, given=ready.args):
                waits = await delegate(runner, ready.state.call, ready.tool.name, ready.args)
        except EngineHostError as error:
            self._counted(error.code)
            await self.give(failure(ready.state.call, error))
            return
        self._counted("delegated")
        await runner.read()
        if not ready.state.settled and waits:
            self._elsewhere.add(ready.state.id)

    def _counted(self, outcome: str) -> None:
        self._runner.agents.counts.of(self._runner.spec.name).tools[outcome] += 1

    async def begin(self, row: Message) -> DurableWriting:
        """Begin a result that comes in parts."""
        runner = self._runner
        owner = runner.session.owner
        return await runner.store.begin(runner.session.id, row, owner, fence=runner.fence)

    def stored(self, row: Message) -> None:
        """Enter a result that was written in parts."""
        self._runner.ledger.enter([row])
        self._runner.ledger.settle(row.call_id)


class Result:
    """The one result of a call while it comes: short ones are stored whole, long ones as they come."""

    def __init__(self, calls: Calls, call: Message, more: Mapping[str, Any]) -> None:
        self._calls = calls
        self._call = call
        self._more = dict(more)
        self._parts: list[str] = []
        self._size = 0
        self._writing: DurableWriting | None = None
        self._late = False
        """Whether the call has got its result from elsewhere meanwhile."""

    async def write(self, text: str) -> None:
        """A further piece."""
        if self._late:
            return
        if self._writing is not None:
            await _through(self._writing, text)
            return
        self._parts.append(text)
        self._size += len(text)
        if self._size > _AT_ONCE:
            await self._begin()

    def forget(self) -> bool:
        """Let go of what has come; ``False`` where some of it is stored already."""
        self._parts, self._size = [], 0
        return self._writing is None and not self._late

    async def finish(self, *, error: bool = False) -> None:
        """It is whole."""
        if error:
            self._more["error"] = True
        if self._late:
            return
        if self._writing is None:
            await self._calls.give(result(self._call, "".join(self._parts), **self._more))
            return
        query = result_query(self._call, **self._more)
        await self._writing.finish(Status.DONE, query=query)
        self._calls.stored(_headed(self._writing.message, query))

    async def fail(self, error: EngineHostError) -> None:
        """The tool failed before its first piece: that is its result."""
        if self._writing is None:
            self._parts = [failure_text(error)]
        await self.finish(error=True)

    async def cut(self, why: str) -> None:
        """It was broken off: what has come stays, with the reason."""
        told = failure_text(why, "cancelled")
        if self._writing is not None:
            await self.write(f",{told}]")
        else:
            self._parts = [told]
        await self.finish(error=True)

    async def _begin(self) -> None:
        row = Message(
            Role.TOOL, Type.TOOL_RESULT, query=result_query(self._call, **self._more), status=Status.OPEN
        )
        try:
            writing = self._writing = await self._calls.begin(row)
        except Settled:
            self._late = True
            return
        parts, self._parts = self._parts, []
        for part in parts:
            await _through(writing, part)


async def _through(writing: DurableWriting, text: str) -> None:
    for start in range(0, len(text), _AT_ONCE):
        await writing.write(text[start : start + _AT_ONCE])


def _headed(row: Message, query: Mapping[str, Any]) -> Message:
    return replace(row, content="", query=query, status=Status.DONE)


def is_safe_again(tool: Tool) -> bool:
    """Whether a call of this tool may begin twice: another agent's turn is found again, not begun anew."""
    return tool.agent or offers.is_repeatable(tool.function)


def said(call: Message, decided: Message, told: str = "") -> Message:
    """The result that a person's decision gives a call that does not run."""
    if decision_of(decided) is Decision.ANSWER:
        return result(call, orjson.dumps(decided.content).decode())
    if told:
        reason = f"{told}; a person decided that it does not run again"
        return failure(call, reason + (f": {decided.content}" if decided.content else ""), "outcome_unknown")
    reason = decided.content or "no reason was given"
    return failure(call, f"a person decided that this call does not run: {reason}", "rejected")


def lazy(call: Message, tool: Tool, args: dict[str, Any]) -> Message:
    """The query that stands in place of a result."""
    if tool.function.signature.annotations.read_only is not True:
        return failure(
            call, f"{tool.name} is not read-only, so its calls cannot be kept as queries", "config"
        )
    query = result_query(call, lazy={"tool": tool.name, "args": args})
    return Message(Role.TOOL, Type.TOOL_RESULT, query=query)


async def together(steps: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run side by side; the first failure ends the others, and is raised as it is."""
    tasks = [asyncio.ensure_future(step) for step in steps]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
