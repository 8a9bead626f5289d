"""Takes one turn on, from wherever its rows say it stands, until it ends or has to wait.

Everything that it decides by stands in the store, so that a turn goes on exactly where it was after a pause
of days, a restart or the death of its process. Each write bears the run's epoch: who has lost the run to
another process meets :class:`~enginehost.store.port.Fenced` at the next one and stops.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import aclosing
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from enginehost.agents import delegation, grouping, limits, offers
from enginehost.agents.answering import Sink, asked, staged
from enginehost.agents.blame import blamed, context_of, through, tools_of
from enginehost.agents.calls import Calls
from enginehost.agents.chain import CHAIN, CONVERSATION, TRACE, trace_from_json
from enginehost.agents.context import batches_for_model
from enginehost.agents.contract import Harness, OnLimit, Tool, Turn
from enginehost.agents.durable import StoreTrouble
from enginehost.agents.elsewhere import cancel_elsewhere
from enginehost.agents.ledger import Ledger
from enginehost.agents.narrower import Narrower
from enginehost.agents.rows import Question, failure, notice, question
from enginehost.agents.tool_runs import lazy_result
from enginehost.engine import Function
from enginehost.errors import EngineHostError
from enginehost.llm.message import Message, Status, system
from enginehost.llm.passage import Batch, Batches, Context, Passage, PlainForm, each, one_by_one
from enginehost.safe_text import explain
from enginehost.steps import StepKind
from enginehost.store.port import Fence, Fenced, Run, RunState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from enginehost.agents.service import AgentService
    from enginehost.agents.session import AgentSession

_log = logging.getLogger("enginehost.agents")

_MOST_NAMED = 50
"""Tools that the step of their choice names."""


class Cause(Enum):
    """Why a turn is interrupted."""

    CANCEL = "cancelled"
    SECONDS = "seconds"
    LEAVE = "leave"


class Runner:
    """One turn that this process holds."""

    def __init__(self, agents: AgentService, run: Run, session: AgentSession) -> None:
        self.agents = agents
        self.store = agents.durable
        self.session = session
        self.spec = session.spec
        self.harness = self.spec.harness or Harness()
        self.fence = Fence(run.id, run.epoch)
        self.data: dict[str, Any] = dict(run.data)
        """What whoever takes the run over has to know."""
        self.turn = Turn(session, run, self.spec, session.caller)
        self.ledger = Ledger(run.id, self.data.get("begun", {}), run.started_by)
        self.calls = Calls(self)
        self.narrower = Narrower(agents.host)
        self.leaving = False
        self.asks = False
        """Whether it asks the model now, which another process can do as well."""
        self._cause: Cause | None = None
        self._task: asyncio.Task[Any] | None = None
        self._trouble: StoreTrouble | None = None
        self._upto = run.started_by
        self._since = time.monotonic()
        self._before = float(self.data.get("seconds", 0.0))

    @property
    def run(self) -> Run:
        """The run as this process knows it."""
        return self.turn.run

    @property
    def breaks_off(self) -> bool:
        """Whether the turn is being ended, so that what it does gets its last word now."""
        return self._cause in (Cause.CANCEL, Cause.SECONDS)

    def interrupt(self, cause: Cause) -> None:
        """Break off what goes on now; seen at once, also by a model or a tool that hangs."""
        if self._cause is None and self._task is not None and not self._task.done():
            self._cause = cause
            self._task.cancel()

    async def take_on(self) -> None:
        """Carry the turn on. Does not raise: how it ended stands in the run."""
        self._task = asyncio.current_task()
        timer = self._timer()
        try:
            await self._to_its_end()
        except Fenced:
            _log.info("run %s went to another process", self.run.id)
        finally:
            if timer is not None:
                timer.cancel()

    async def _to_its_end(self) -> None:
        try:
            CHAIN.set(tuple(delegation.chain_of(self.run, self.spec)))
            CONVERSATION.set(self.session.id)
            TRACE.set(trace_from_json(self.run.data.get("trace")))
            with self.agents.spans.turn(self.turn):
                await self._carry_on()
        except asyncio.CancelledError:
            if self._cause is None:
                raise
            self._uncancel()
            await self._broken_off(self._cause)
        except (Fenced, StoreTrouble):
            raise
        except EngineHostError as error:
            if self._trouble is not None:  # it was the context that could not be read
                raise self._trouble from None
            await self.end(RunState.FAILED, error=error.to_json())
        except Exception as error:  # noqa: BLE001 - a stage or harness is its author's code
            _log.exception("the turn %s of agent %r failed", self.run.id, self.spec.name)
            text = explain(error, self.agents.redact)
            await self.end(RunState.FAILED, error={"code": "execution_failed", "message": text})

    def _uncancel(self) -> None:
        if self._task is not None:
            self._task.uncancel()

    async def _carry_on(self) -> None:
        if self.run.epoch > 1:
            await self.store.close_open(self.fence, self.session.owner)
            await self.read()
        if self.run.cancel:
            await self.end(RunState.CANCELLED)
            return
        with blamed(f"HARNESS: {type(self.harness).__name__}.before_turn", self.agents.redact):
            await self.harness.before_turn(self.turn)
        while True:
            self._counts()
            if self.leaving and not self.ledger.answered:
                await self.change(RunState.QUEUED)
                return
            if not await self.calls.settle():
                await self._pause()
                return
            if self.turn.stopped:
                await self.end(RunState.DONE, said=self.turn.stopped)
                return
            if self.ledger.answered:
                await self.read()
                if not self.ledger.user_waits:
                    await self.end(RunState.DONE)
                    return
                if self.leaving:
                    await self.change(RunState.QUEUED)
                    return
            if not await self._within_limits():
                return
            self.asks = True
            try:
                await self._step()
            finally:
                self.asks = False

    async def _within_limits(self) -> bool:
        """Whether there may be another step; otherwise the turn has ended, or waits for a person."""
        reached = limits.reached(self.turn, self.ledger.allowance, self._seconds())
        if not reached:
            return True
        if self.spec.limits.on_limit is OnLimit.STOP or self.ledger.refused_limit:
            await self.end(RunState.DONE, said=reached)
            return False
        await self.ask_to_go_on(reached)
        await self._pause()
        return False

    async def ask_to_go_on(self, reached: str) -> None:
        """Ask a person whether the turn may go on beyond a limit."""
        if not self.ledger.waits_for_limit:
            text = f"{reached}. May the turn go on as long again?"
            asked_for = question(Question.LIMIT, self.ledger.next_limit_question(), text)
            await self.write([asked_for])

    async def _step(self) -> None:
        """Ask the model once, and store what it answers."""
        turn = self.turn
        await self.offer()
        turn.steps += 1
        source = asked(self.agents.host, turn, Context(self._batches))
        sink: Sink | None = None
        try:
            async with staged(source, self.spec.stages, turn, self.agents.redact) as messages:
                async for message in messages:
                    if sink is None:
                        sink = self._sink()
                    await sink.put(message)
            if sink is None and turn.stopped:
                return  # a stage has ended the turn before the model was asked
            sink = sink or self._sink()
            await sink.commit()
        except BaseException as error:
            if sink is not None and self._cause is not Cause.LEAVE and not isinstance(error, Fenced):
                await self._abort(sink, error)
            raise
        self.agents.counts.of(self.spec.name).steps += 1
        self.ledger.step_begins(self._upto)
        self.ledger.enter(sink.rows)

    def _sink(self) -> Sink:
        return Sink(self.store, self.turn, self.fence, self.turn.steps, self._upto)

    async def _abort(self, sink: Sink, error: BaseException) -> None:
        """Close what the step had begun to write."""
        cancelled = isinstance(error, asyncio.CancelledError)
        if cancelled and self._cause is None:
            return  # the process ends; whoever takes the run over closes it
        if cancelled:
            self._uncancel()
        await sink.abort(Status.CANCELLED if cancelled else Status.FAILED)

    def _batches(self, form: PlainForm | None) -> Batches:
        """The context, from its beginning: instructions, then what the harness gives.

        There are passages in it where nobody of this agent wants to see each message.
        """
        turn, spec = self.turn, self.spec
        default = getattr(self.harness.context, "__func__", None) is Harness.context
        if default:
            source = self.session.batches(None if spec.context_stages else form)
        else:
            source = one_by_one(context_of(self.harness, self.session, self.agents.redact))
        batches = batches_for_model(source, self._lazily, result_chars=spec.limits.result_chars)
        if spec.context_stages:
            rows: AsyncIterator[Message] = each(batches)
            for stage in spec.context_stages:
                rows = through(stage, rows, turn, "CONTEXT_STAGES", self.agents.redact)
            batches = one_by_one(rows)
        return self._watched(batches)

    async def _watched(self, batches: Batches) -> Batches:
        if self.spec.instructions:
            yield [system(self.spec.instructions)]
        try:
            async with aclosing(batches):
                async for batch in batches:
                    self._see(batch)
                    yield batch
        except StoreTrouble as trouble:
            self._trouble = trouble
            raise

    def _see(self, batch: Batch) -> None:
        """Note up to which row of the session the model is told."""
        session = self.session.id
        if isinstance(batch, Passage):
            if batch.session == session:
                self._upto = max(self._upto, batch.upto)
            return
        for row in batch:
            if row.sequence > self._upto and row.session == session:
                self._upto = row.sequence

    async def _lazily(self, row: Message) -> str:
        return await lazy_result(self.agents.host, self.turn, row)

    async def offer(self) -> None:
        """Find out which tools the turn offers now."""
        tools = offers.by_name(await tools_of(self.harness, self.session, self.agents.redact), self.spec)
        for name in tools.keys() & self.agents.agents.keys():
            if not tools[name].own:  # of the catalog, where an agent is a function like others
                tools[name] = replace(tools[name], agent=True)
        for name in self.spec.agents:
            if name not in self.agents.agents and self._is_elsewhere(name, tools):
                continue
            signature = self.agents.signature(name)
            if name != self.spec.name and offers.may_call(self.agents.host, self.session.asker, signature):
                tools[name] = Tool(Function(signature, _never), agent=True)
        groups = self.turn.groups = grouping.groups_of(tools, self.spec.group_tools_above)
        if groups is not None:
            tools |= {tool.name: tool for tool in groups.own_tools()}
        self.turn.offered = tools
        self.turn.shown = await self._narrowed()

    async def _narrowed(self) -> Sequence[Tool] | None:
        """The tools that the model sees; ``None`` where that is all of them."""
        offered, most = self.turn.offered, self.spec.tools_most
        if not most or len(offered) <= most:
            return None
        classifier = self.spec.tools_classifier
        chooses = classifier if isinstance(classifier, str) else "a function"
        about = {"among": len(offered)}
        step = self.agents.spans.steps.step
        with step(StepKind.CHOICE, chooses, agent=self.spec.name, about=about) as choice:
            shown = await self.narrower.shown(self.turn, self.ledger)
            choice.about["chosen"] = [tool.name for tool in shown or ()][:_MOST_NAMED]
        return shown

    def _is_elsewhere(self, name: str, tools: dict[str, Tool]) -> bool:
        """Offer the agent of another host that has this name; whether there is or was one."""
        host = self.agents.host
        tool = offers.of_another_host(host, self.session.asker, name)
        if tool is not None:
            tools[tool.name] = tool
        return tool is not None or host.catalog.target(name) is not None or host.catalog.get(name) is not None

    async def read(self) -> None:
        """Enter in the books what others wrote."""
        await self.ledger.read(self.store, self.session.id, self.session.owner)
        self._upto = max(self._upto, self.ledger.upto)
        self._counts()

    def _counts(self) -> None:
        turn, ledger = self.turn, self.ledger
        turn.steps, turn.tool_calls, turn.usage = (
            max(turn.steps, ledger.steps),
            len(ledger.calls),
            ledger.usage,
        )

    async def write(self, rows: list[Message]) -> list[Message]:
        """Store rows and enter them in the books."""
        stored = await self.store.append(self.session.id, rows, self.session.owner, fence=self.fence)
        self.ledger.enter(stored)
        return stored

    async def change(self, state: RunState, **fields: Any) -> None:
        """Move the run, with what others have to know of it."""
        self.data["seconds"] = round(self._seconds(), 3)
        changed = await self.store.change_run(
            self.fence, state, data=self.data, usage=self.ledger.usage, **fields
        )
        self.turn.run = changed

    # How it ends

    async def _pause(self) -> None:
        """Wait for a person, or for results from outside, holding nothing."""
        before = self.calls.standing()
        await self.change(RunState.PAUSED)
        await self.read()  # what was decided meanwhile found the run running, and woke nobody
        if self.calls.standing() != before:
            await self.agents.resume(self.run)

    async def _broken_off(self, cause: Cause) -> None:
        if cause is Cause.LEAVE:
            await self.change(RunState.QUEUED)
        elif cause is Cause.CANCEL:
            await self.end(RunState.CANCELLED)
        else:
            await self.end(RunState.DONE, said=limits.seconds_text(self.spec.limits))

    async def end(self, state: RunState, *, said: str = "", error: dict[str, Any] | None = None) -> None:
        """End the turn: no call stays without a result, then subscribers get the end from the store."""
        if self.ledger.open_calls():
            await self.read()
        reason = said or ("the turn was cancelled" if state is RunState.CANCELLED else "the turn failed")
        code = "stopped" if said else str(state)
        await self._tell_elsewhere()
        for open_call in self.ledger.open_calls():
            await self.calls.give(failure(open_call.call, f"not carried out: {reason}", code))
        if said:
            await self.write([notice(said)])
            error = {"code": "limit", "message": said}
        if "parent" in self.data:
            await self.change(RunState.RUNNING)  # only who still holds this turn may speak for it elsewhere
        await delegation.tell(self.agents, self.session, self.run, state, error)
        await self.change(state, error=error)
        self.agents.counts.turn(self.spec.name, str(state), self.ledger.usage)
        await self._afterwards(state)

    async def _tell_elsewhere(self) -> None:
        """Agents of other hosts that wait for a decision need wait no more."""
        open_calls = {state.id for state in self.ledger.open_calls()}
        waits = {id: one for id, one in self.data.get("waits", {}).items() if id in open_calls}
        if waits:
            await cancel_elsewhere(self.agents.host, self.session.asker, waits)

    async def _afterwards(self, state: RunState) -> None:
        try:
            await self.harness.after_turn(self.turn)
        except Exception:  # noqa: BLE001 - a harness is its author's code; the turn has ended
            _log.exception("after_turn of agent %r failed", self.spec.name)
        if state is RunState.DONE:
            await self.read()
            if self.ledger.user_waits:  # said in the moment in which the turn ended
                await self.session.begin_turn(self.ledger.last_user)

    # Time

    def _seconds(self) -> float:
        return self._before + time.monotonic() - self._since

    def _timer(self) -> asyncio.TimerHandle | None:
        most = self.spec.limits.seconds
        if most is None or self.spec.limits.on_limit is OnLimit.ASK:
            return None  # who is asked is asked between two steps
        return asyncio.get_running_loop().call_later(
            max(0.0, most - self._before), self.interrupt, Cause.SECONDS
        )


async def _never(*_: Any) -> None:
    """Agents are not run as functions here: see ``calls``."""
    raise NotImplementedError
