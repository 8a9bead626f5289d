"""What can be done with the tasks of one agent, for one caller: the operations of A2A 1.0 (section 3.1).

A context is a session, and a task is one turn of it with this agent, whatever face began it. All of it stands
in the database, so any host on it answers. Objects are ProtoJSON values, in and out.
"""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from enginehost.agents import delegation
from enginehost.agents.identity import owner_of
from enginehost.agents.options import Options, options_from_json
from enginehost.agents.session import AgentSession, joined
from enginehost.caller import Caller
from enginehost.errors import InvalidRequest, UnknownSession
from enginehost.llm.message import Message
from enginehost.serve.a2a.deciding import decide_by
from enginehost.serve.a2a.faults import (
    CONTENT_TYPE,
    INVALID_PARAMS,
    NO_PUSH,
    TASK_NOT_CANCELABLE,
    TASK_NOT_FOUND,
    UNSUPPORTED,
    A2aFault,
)
from enginehost.serve.a2a.folding import Fold, Update
from enginehost.serve.a2a.saying import Said, flag, length, number, said_in, takes, text
from enginehost.serve.a2a.wire import STANDING, STATES, UNSPECIFIED, seconds_of
from enginehost.store.port import Position, Run, RunQuery, RunState, Settled, TurnPage

if TYPE_CHECKING:
    from enginehost.agents.service import AgentService
    from enginehost.host import Host

GIVES = ("text/plain", "application/json")
"""Media types of what agents answer."""

_PAGE, _LARGEST_PAGE = 50, 100
_ROWS = 200
_STANDING_OF = {state: standing for standing, state in STANDING.items()}


class Tasks:
    """The tasks of ``agent`` that are ``caller``'s."""

    def __init__(self, host: Host, agents: AgentService, agent: str, caller: Caller) -> None:
        self.host, self.agents, self.agent, self.caller = host, agents, agent, caller
        self.owner = owner_of(caller)
        self.store = agents.store

    # Saying something

    async def send(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """``SendMessage``: the task when it has ended or waits for a person; or at once, where wanted so."""
        said = said_in(params)
        run = await self._said(said)
        if not said.at_once:
            run = await self.agents.wait(run)
        return {"task": (await self.folded(run.id)).task(said.history)}

    async def stream(self, params: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """``SendStreamingMessage``: the task, then all that changes until it has ended or waits."""
        said = said_in(params)
        run = await self._said(said)
        async with aclosing(self._followed(run, said.history, until_asked=True)) as updates:
            async for update in updates:
                yield update

    async def _said(self, said: Said) -> Run:
        if said.push is not None:
            raise A2aFault(NO_PUSH, "this agent sends no push notifications; subscribe to the task")
        if not takes(said.modes, GIVES):
            raise A2aFault(CONTENT_TYPE, f"this agent answers with {' and '.join(GIVES)}")
        if said.task:
            run = await self._goes_on(said)
        else:
            run = await self._begins(said)
        return run

    async def _goes_on(self, said: Said) -> Run:
        """A message to a task: a decision where it waits for one, else the running turn takes it in."""
        run = await self.found(said.task)
        if said.context and said.context != run.session:
            raise A2aFault(INVALID_PARAMS, "contextId is not the context of this task")
        if run.state.ended:
            raise A2aFault(UNSUPPORTED, "this task has ended; send the message without its taskId")
        session = self._session(run)
        if run.state is RunState.PAUSED:
            await decide_by(session, said)
            return await self.store.run(run.id) or run
        return await self._write(session, said)

    async def _begins(self, said: Said) -> Run:
        context = said.context or None
        if context is not None and (open_one := await self._open_in(context)) is not None:
            if open_one.state is RunState.PAUSED:
                text = f"the task {open_one.id} of this context waits for a person: answer it with its taskId"
                raise A2aFault(UNSUPPORTED, text, detail={"taskId": open_one.id})
            return await self._write(self._session(open_one), said)
        session = await self.agents.start(context, agent=self.agent, owner=self.caller, alone=True)
        return await self._write(session, said)

    async def _open_in(self, context: str) -> Run | None:
        """The turn of a session that has not ended, where there is one and the session is the caller's."""
        try:
            runs = await self.store.runs(context, self.owner)
        except UnknownSession:
            return None
        if not runs or runs[0].state.ended:
            return None
        if runs[0].agent != self.agent:
            raise InvalidRequest("another agent answers in this context")
        return runs[0]

    async def _write(self, session: AgentSession, said: Said) -> Run:
        """Store a message and begin its turn; said again, it is the task that it began."""
        try:
            stored = await session.append(said.rows)
        except Settled:
            return await self._said_before(session, said)
        last, spec = stored[-1].sequence, session.spec
        chain = delegation.deeper(delegation.CHAIN.get(), spec.name, spec.limits.depth)
        return await session.begin_turn(last, data={"chain": chain, "first": stored[0].sequence})

    async def _said_before(self, session: AgentSession, said: Said) -> Run:
        row = await self.store.said(session.id, said.id, self.owner)
        if row is None or row.content != said.rows[-1].content:
            raise InvalidRequest("messageId was given to another message of this context")
        for run in await self.store.runs(session.id, self.owner):
            if run.started_by <= row.sequence:
                return run
        return await session.begin_turn(row.sequence)  # whoever said it died before its turn began

    # Tasks

    async def get(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """``GetTask``."""
        fold = await self.folded(text(params, "id", required=True))
        return fold.task(length(params))

    async def list(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """``ListTasks``: those with the newest status first."""
        size = number(params, "pageSize", 1, _LARGEST_PAGE) or _PAGE
        state = params.get("status") or UNSPECIFIED
        if state not in (UNSPECIFIED, *STATES):
            raise InvalidRequest(f"status must be one of {', '.join(STATES)}")
        history, artifacts = length(params), flag(params, "includeArtifacts")
        since = params.get("statusTimestampAfter")
        asked = RunQuery(
            self.agent,
            text(params, "contextId"),
            _STANDING_OF.get(state),
            None if since is None else seconds_of(since),
            _after(params.get("pageToken")),
            size + 1,
        )
        if state not in (UNSPECIFIED, *_STANDING_OF):
            return {"tasks": [], "nextPageToken": "", "pageSize": size, "totalSize": 0}
        runs, total = await self.store.runs_of(self.owner, asked)
        page = runs[:size]
        tasks = [(await self.folded(run.id)).task(history, artifacts=artifacts) for run in page]
        token = _token(page[-1]) if len(runs) > size else ""
        return {"tasks": tasks, "nextPageToken": token, "pageSize": size, "totalSize": total}

    async def cancel(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """``CancelTask``: the task once its end is stored."""
        run = await self.found(text(params, "id", required=True))
        latest = None if run.state.ended else await self._session(run).cancel()
        if latest is None or latest.id != run.id:
            raise A2aFault(TASK_NOT_CANCELABLE, "this task has ended")
        ended = await self.agents.wait(latest)
        if ended.state is not RunState.CANCELLED:
            raise A2aFault(TASK_NOT_CANCELABLE, "this task ended before it could be cancelled")
        return (await self.folded(run.id)).task()

    async def subscribe(self, params: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """``SubscribeToTask``: the task as it stands, then what changes until it has ended."""
        run = await self.found(text(params, "id", required=True))
        if run.state.ended:
            raise A2aFault(UNSUPPORTED, "this task has ended: nothing more comes of it")
        async with aclosing(self._followed(run, None)) as updates:
            async for update in updates:
                yield update

    async def found(self, task: str) -> Run:
        """A task of the caller's. Raises the same fault for one that there is not, and a foreign one."""
        return (await self._page(task, limit=1)).run

    async def folded(self, task: str) -> Fold:
        """A task as it is stored."""
        page = await self._page(task)
        fold = Fold(page.run)
        while True:
            for row in page.rows:
                fold.take(await self._whole(page.run, row))
            if not page.more:
                break
            page = await self._page(task, page.rows[-1].sequence)
        fold.moved(page.run)
        return fold

    async def _page(self, task: str, after: int = 0, limit: int = _ROWS) -> TurnPage:
        page = await self.store.turn(task, self.owner, after=after, limit=limit)
        if page is None or page.run.agent != self.agent:
            raise A2aFault(TASK_NOT_FOUND, "there is no such task")
        return page

    async def _whole(self, run: Run, row: Message) -> Message:
        if not (row.query or {}).get("cut"):
            return row
        content = await joined([row], self._session(run).content, self.agents.most_reply)
        return replace(row, content=content)

    def _session(self, run: Run) -> AgentSession:
        options = Options(self.agent).over(options_from_json(run.data.get("options", {})))
        return AgentSession(self.agents, run.session, self.caller, options)

    async def _followed(
        self, run: Run, history: int | None = None, *, until_asked: bool = False
    ) -> AsyncGenerator[Update, None]:
        """The task as it stands now; then each update, as every other follower gets it too."""
        fold = Fold(run)
        end = _order(await self.store.end(run.session, self.owner))
        told = False
        first = int(run.data.get("first", run.started_by))
        async with aclosing(self.store.events(run.session, self.owner, Position(first - 1))) as events:
            async for event in events:
                updates = fold.apply(event)
                if not told and _order(event.at) < end:
                    continue
                if not told:
                    told = True
                    updates = [{"task": fold.task(history)}]
                for update in updates:
                    yield update
                if fold.run.state.ended or (until_asked and fold.run.state is RunState.PAUSED):
                    return


def _order(position: Position) -> tuple[int, int]:
    return position.sequence, position.offset


def _token(run: Run) -> str:
    return urlsafe_b64encode(f"{run.modified_at!r} {run.id}".encode()).decode()


def _after(token: Any) -> tuple[float, str] | None:
    if token in (None, ""):
        return None
    try:
        time, _, run = b64decode(token, b"-_", validate=True).decode().partition(" ")
        return float(time), run
    except (TypeError, ValueError):
        raise InvalidRequest("pageToken must be a nextPageToken of an earlier answer") from None
