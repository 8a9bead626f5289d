"""The service: which turns this process runs, and for how long they are its own.

Turns are taken from the database: those that somebody here has begun, at once; those that were queued
elsewhere or whose process died, by looking once in a while. One heartbeat row says that this process lives.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Container, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import Context

from enginehost.agents.contract import AgentSpec, Tools
from enginehost.agents.counts import Counts
from enginehost.agents.durable import Durable, StoreTrouble
from enginehost.agents.given import check_owner, check_texts, tool_selection, words
from enginehost.agents.identity import caller_from_json, owner_of
from enginehost.agents.offers import agent_signature
from enginehost.agents.options import Options, as_imported, options_from_json, options_of
from enginehost.agents.port import AgentHost
from enginehost.agents.runner import Cause, Runner
from enginehost.agents.session import AgentSession
from enginehost.agents.spans import Spans
from enginehost.call import current_call
from enginehost.caller import LOCAL, Caller
from enginehost.errors import EngineHostError, EngineUnavailable, InvalidRequest, UnknownSession
from enginehost.llm.message import Message, new_id
from enginehost.llm.message import system as system_row
from enginehost.signature import FunctionSignature
from enginehost.store.ids import of_another, taken
from enginehost.store.port import Fenced, Run, RunState, SessionInfo, Store

LEASE = 15.0
"""Seconds after its last heartbeat for which a process keeps its turns."""
POLL = 1.0
"""Seconds between two looks for turns that others left."""
MOST_TURNS = 5_000
"""Turns that one process runs at once; others wait in the database."""

MOST_REPLY = 16 << 20
"""Bytes of the answer of a turn, where the host says nothing."""

_log = logging.getLogger("enginehost.agents")


def _as_it_is(spec: AgentSpec) -> AgentSpec:
    return spec


def _going_on(session: str, given: Options, older: Options, alone: bool) -> Options:
    """What a session goes on with. Raises ``InvalidRequest`` where it is to be one agent's, and is not."""
    if alone and older.agent and older.agent != given.agent:
        raise of_another(session, older.agent, given.agent)
    return given.over(older)


class AgentService:
    """See :class:`~enginehost.agents.contract.Agents`.

    ``prepare`` completes a spec (what its skills stand for) each time one is used, with a session's own
    choices in it. ``declared`` are agents that come and go by themselves, as files do; one that is registered
    goes before one of the same name. ``skills`` says which there are for a spec, where that is known.
    ``most_reply`` is in bytes. ``lease`` and ``poll`` are in seconds. ``origin`` is what the processes are
    known by that had this one's place before it, and have ended (:mod:`~enginehost.agents.holders`).
    ``store`` is open, and closed by whoever opened it.
    """

    def __init__(
        self,
        host: AgentHost,
        store: Store,
        specs: Sequence[AgentSpec] = (),
        *,
        prepare: Callable[[AgentSpec], AgentSpec] = _as_it_is,
        declared: Callable[[], Mapping[str, AgentSpec]] = dict,
        skills: Callable[[AgentSpec], Container[str]] | None = None,
        most_reply: int = MOST_REPLY,
        lease: float = LEASE,
        poll: float = POLL,
        most_turns: int = MOST_TURNS,
        origin: str = "",
    ) -> None:
        self.host = host
        self.store = store
        self.durable = Durable(store)
        self._origin = origin
        self.holder = f"{origin}.{new_id()}" if origin else new_id()
        self.counts = Counts()
        self.spans = Spans(getattr(host, "steps", None))
        self.redact: Callable[[str], str] = getattr(host, "redactor", str)
        self.prepare = prepare
        self.most_reply = most_reply
        self._skills = skills
        self._specs = {spec.name: spec for spec in specs}
        self._declared = declared
        self._closed = False
        self._lease, self._poll, self._most = lease, poll, most_turns
        self._runners: dict[str, Runner] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._awaited: Counter[str] = Counter()
        """How many wait here for the answer of a turn, by its id."""
        self._own: list[asyncio.Task[None]] = []
        self._giving_back: set[asyncio.Task[None]] = set()
        self._taking = False
        self._look = asyncio.Event()
        """Set when there may be a turn to take: one has ended here, or the process begins."""

    # Life

    async def open(self) -> None:
        """Begin to take turns, those of processes that died too."""
        await self.store.beat(self.holder, self._lease)
        if self._origin:
            await self.store.succeed(self._origin, self.holder)
        self._taking = True
        for work in (self._keep_alive, self._keep_taking, self._keep_cancelling):
            self._own.append(asyncio.create_task(work(), context=Context()))

    async def close(self, drain: float = 10.0) -> None:
        """Hand turns to other processes, and stop.

        A turn that asks its model goes at once: who follows it sees it go on there. One whose calls run, or
        for which a call in this process waits, has ``drain`` seconds for its step.
        """
        self._taking, self._closed = False, True
        for runner in self._runners.values():
            runner.leaving = True
            if runner.asks and not self._is_awaited(runner.run):
                runner.interrupt(Cause.LEAVE)
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=drain)
        for runner in self._runners.values():
            runner.interrupt(Cause.LEAVE)
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=5.0)
        rest = [*self._own, *self._tasks.values(), *self._giving_back]
        while rest := [task for task in rest if not task.done()]:
            for task in rest:
                task.cancel()  # again, where something that ended at the same moment swallowed it
            await asyncio.wait(rest, timeout=0.5)
        with suppress(EngineHostError):
            await self.store.leave(self.holder)

    @contextmanager
    def awaiting(self, run: Run) -> Generator[None]:
        """See :meth:`~enginehost.agents.contract.Agents.awaiting`."""
        self._awaited[run.id] += 1
        try:
            yield
        finally:
            self._awaited[run.id] -= 1
            if not self._awaited[run.id]:
                del self._awaited[run.id]

    def _is_awaited(self, run: Run) -> bool:
        return run.id in self._awaited or "parent" in run.data

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(self._lease / 3)
            try:
                await self.store.beat(self.holder, self._lease)
            except EngineHostError as error:
                _log.warning("no heartbeat could be written: %s", error.message)

    async def _keep_taking(self) -> None:
        while True:
            try:
                while await self.take() is not None:
                    pass
            except EngineHostError as error:
                _log.warning("turns of other processes cannot be looked for: %s", error.message)
            self._look.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll):
                    await self._look.wait()

    async def _keep_cancelling(self) -> None:
        while True:
            try:
                async for run_id in self.store.cancelled(self.holder):
                    self.interrupt(run_id)
            except EngineHostError as error:
                _log.warning("cancellations cannot be looked for: %s", error.message)
            await asyncio.sleep(self._poll)

    # Agents

    def register(self, spec: AgentSpec) -> None:
        """Offer an agent under its name; turns that run go on with the spec they began with."""
        self._specs[spec.name] = spec
        self._look.set()

    def unregister(self, name: str) -> None:
        """Offer it no more."""
        self._specs.pop(name, None)

    @property
    def agents(self) -> Mapping[str, AgentSpec]:
        """The agents there are now, by name."""
        return {**self._declared(), **self._specs}

    def signature(self, name: str) -> FunctionSignature:
        """An agent as a function: ``message`` and ``conversation_id``. Raises ``InvalidRequest``."""
        return agent_signature(self._spec(name))

    def resolved(self, options: Options) -> AgentSpec:
        """The agent of a session, with its own choices. Raises ``InvalidRequest`` for an unknown one."""
        return self.prepare(options.applied(self._spec(options.agent)))

    def _spec(self, name: str) -> AgentSpec:
        spec = self._specs.get(name) or self._declared().get(name)
        if spec is None and name:
            names = sorted(filter(None, self.agents))
            known = f"there {'is' if len(names) == 1 else 'are'} {', '.join(names) or 'none'}"
            raise InvalidRequest(f"there is no agent named {name[:100]!r}; {known}")
        return spec or AgentSpec()

    # Sessions

    async def start(
        self,
        id: str | None = None,
        *,
        system: str = "",
        tools: Tools | None = None,
        skills: Sequence[str] | None = None,
        agent: str = "",
        llm: str = "",
        owner: Caller | None = None,
        alone: bool = False,
    ) -> AgentSession:
        """A session, new or with the id of one that exists. What is given replaces what the agent says.

        Raises ``InvalidRequest``: for an agent, a model or a skill that there is not, and with reason
        ``taken`` for an id that cannot be had; with ``alone`` also for one of another agent.
        """
        check_texts(id=id, system=system, agent=agent, llm=llm)
        check_owner(owner)
        call = current_call()
        caller = owner or (call.caller if call is not None else LOCAL)
        chosen = None if skills is None else words(skills, "skills must be a list of names")
        given = Options(agent, tool_selection(tools), chosen, llm)
        self._check_choices(given)
        if id is not None and (first := await self._first_row(id, caller)) is not None:
            return AgentSession(self, id, caller, _going_on(id, given, options_of(first), alone))
        session = AgentSession(self, new_id() if id is None else id, caller, given, begun=True)
        rows = [given.row(), *([system_row(system)] if system else ())]
        try:
            await self.store.append(session.id, rows, session.owner, new=True)
        except UnknownSession:  # somebody else's
            raise taken(session.id) from None
        except InvalidRequest:
            first = await self._first_row(session.id, caller)
            if first is None:
                raise
            options = _going_on(session.id, given, options_of(first), alone)
            return AgentSession(self, session.id, caller, options)
        return session

    def _check_choices(self, given: Options) -> None:
        """The model and the skills that a session names have to be there when it starts."""
        if given.llm:
            with suppress(EngineUnavailable):  # it may be back when the turn asks it
                self.host.llm(given.llm)
        if given.skills and self._skills is not None:
            known = self._skills(given.applied(self._spec(given.agent)))
            if missing := [name for name in given.skills if name not in known]:
                raise InvalidRequest(f"there is no skill named {missing[0][:100]!r}")

    async def _first_row(self, id: str, caller: Caller) -> Message | None:
        try:
            rows = await self.store.history(id, owner_of(caller), limit=1)
        except UnknownSession:
            return None  # nobody's, or somebody else's: then the first write says so
        return rows[0] if rows else None

    async def bring_in(self, lines: AsyncIterator[bytes], owner: Caller, *, id: str = "") -> str:
        """A session from JSON lines, as ``Store.load`` takes them; gives its id.

        Whoever brings it in need not have the rights of who wrote it: of the agent's own models and skills
        its rows may choose, and name no others.
        """
        return await self.store.load(lines, owner_of(owner), session=id, look=as_imported)

    async def sessions(
        self, owner: Caller, *, before: float | None = None, limit: int = 100
    ) -> list[SessionInfo]:
        """The sessions of a caller, latest first."""
        return await self.store.sessions(owner_of(owner), before=before, limit=limit)

    # Turns

    async def take(self, session: str = "") -> Run | None:
        """Take a turn that nobody runs (of one session) and carry it on; ``None`` where there is none."""
        if not self._taking or len(self._runners) >= self._most:
            return None
        agents = [*self.agents, ""]
        run = await self.store.claim(self.holder, agents, session=session, lease=self._lease)
        if run is not None:
            self._begin(run)
        return run

    def _begin(self, run: Run) -> None:
        options = options_from_json(run.data.get("options", {}))
        session = AgentSession(self, run.session, caller_from_json(run.data.get("caller", {})), options)
        runner = Runner(self, run, session)
        self._runners[run.id] = runner
        # a context of its own: the turn outlives the call that began it, and its deadline
        task = asyncio.create_task(runner.take_on(), context=Context())
        self._tasks[run.id] = task
        self.counts.of(runner.spec.name).running += 1
        task.add_done_callback(lambda done: self._ended(runner, done))

    def _ended(self, runner: Runner, task: asyncio.Task[None]) -> None:
        self.counts.of(runner.spec.name).running -= 1
        if self._runners.get(runner.run.id) is runner:
            del self._runners[runner.run.id]
            del self._tasks[runner.run.id]
        if len(self._runners) + 1 >= self._most:
            self._look.set()
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            told = "the turn %s stopped, and goes on when the database lets it"
            _log.warning(told, runner.run.id, exc_info=error)
            giving = asyncio.create_task(self._give_back(runner), context=Context())
            self._giving_back.add(giving)
            giving.add_done_callback(self._giving_back.discard)

    async def _give_back(self, runner: Runner) -> None:
        """Queue a turn that this process could not carry on, as soon as the database takes it."""
        while True:
            await asyncio.sleep(self._poll)
            try:
                await runner.change(RunState.QUEUED)
            except StoreTrouble as trouble:
                if isinstance(trouble.__cause__, UnknownSession):
                    return
                continue
            except Fenced:
                return
            self._look.set()
            return

    async def resume(self, run: Run) -> None:
        """Carry a turn on that waits, if there is something new for it; of two at once, one does."""
        if await self.store.resume_run(run.id):
            await self.take(run.session)

    def interrupt(self, run_id: str) -> None:
        """End a turn that this process runs."""
        runner = self._runners.get(run_id)
        if runner is not None:
            runner.interrupt(Cause.CANCEL)

    async def wait(self, run: Run) -> Run:
        """Wait until a turn has ended or waits for a person, whichever process runs it.

        Once this service closes, a turn is given back as it is queued for another process.
        """
        pause = 0.01
        while True:
            now = await self.store.run(run.id)
            if now is None or now.state.ended or now.state is RunState.PAUSED:
                return now or run
            task = self._tasks.get(run.id)
            if task is None and self._closed:
                return now
            if task is not None:
                await asyncio.wait({task})
            else:
                await asyncio.sleep(pause)
                pause = min(0.25, pause * 1.5)
