"""An interface: a program by which people talk to the agents of the databus.

::

    async with Interface("desk") as ui:
        print([agent.name for agent in ui.agents])
        print(await ui.ask("What is the weather?"))
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

from enginehost.agents.chain import DECISION
from enginehost.databus import AgentChange, AgentEvent, BusAgent, Client, DatabusConfig
from enginehost.databus.agents_turns import check_conversation
from enginehost.engine import Call
from enginehost.errors import CallTimeout, EngineUnavailable, InvalidRequest, UnknownFunction
from enginehost.genesis.routing import Classifier, Routed, Router, named

if TYPE_CHECKING:
    from enginehost.settings import HostSettings

ANSWER_SECONDS = 120.0
"""How long an answer may take by default."""
ARRIVAL_SECONDS = 10.0
"""How long an agent that was asked for may take to arrive, by default."""
FIRST_SECONDS = 1.0
"""How long an interface that is entered waits for somebody to be there at all."""
_MOST_NAMED = 5

_log = logging.getLogger("enginehost.interface")

Heard = Callable[[BusAgent], Any]
"""Hears of an agent; may be a coroutine function."""


class Interface:
    """A participant of the databus that asks agents and offers nothing.

    ``config`` says how it takes part, by default what ``enginehost.yaml`` and the environment say
    (``settings``: what a program says in their place); ``options`` replace single fields of it
    (``Interface("desk", domain=7)``). ``classifier`` chooses an agent where nobody else does; see
    :meth:`route`. Monitors see it as a component of the type ``INTERFACE``, called ``name``.

    Raises :class:`~enginehost.errors.ConfigError` for wrong ones, and when it is entered
    :class:`~enginehost.errors.EngineUnavailable` where the bus cannot be joined.
    """

    def __init__(
        self,
        name: str = "interface",
        config: DatabusConfig | None = None,
        *,
        settings: HostSettings | None = None,
        classifier: Classifier | None = None,
        **options: Any,
    ) -> None:
        self.name = name
        self._client = Client(config or _config(settings), interface_name=name, **options)
        self._router = Router(classifier)
        self._heard: dict[AgentChange, list[Heard]] = {kind: [] for kind in AgentChange}
        self._queues: set[asyncio.Queue[AgentEvent]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        self._start(self._follow())
        await self._client.settled(FIRST_SECONDS)
        if self._client.functions() or self.agents:
            await self._client.settled()
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.__aexit__()

    @property
    def agents(self) -> Sequence[BusAgent]:
        """The agents that are there now, by service and name."""
        return self._client.agents()

    async def arrivals(self) -> AsyncGenerator[AgentEvent, None]:
        """What there is, as arrivals; then agents as they arrive, change and depart."""
        queue: asyncio.Queue[AgentEvent] = asyncio.Queue()
        self._queues.add(queue)
        try:
            there = self.agents
            told = {agent.id for agent in there}
            for agent in there:
                yield AgentEvent(AgentChange.ARRIVED, agent)
            while True:
                event = await queue.get()
                if event.kind is AgentChange.ARRIVED and event.agent.id in told:
                    continue  # on its way already when the list was made
                (told.discard if event.kind is AgentChange.DEPARTED else told.add)(event.agent.id)
                yield event
        finally:
            self._queues.discard(queue)

    def on_arrival(self, heard: Heard) -> None:
        """Have ``heard`` called with each agent that arrives from now on."""
        self._heard[AgentChange.ARRIVED].append(heard)

    def on_departure(self, heard: Heard) -> None:
        """Have ``heard`` called with each agent that departs from now on."""
        self._heard[AgentChange.DEPARTED].append(heard)

    async def wait_for(self, agent: str, timeout: float = ARRIVAL_SECONDS) -> BusAgent:
        """The agent of this name, tool name, ``service.name``, service or id, as soon as there is one.

        Raises :class:`~enginehost.errors.UnknownFunction` where there is none within ``timeout`` seconds, and
        :class:`~enginehost.errors.InvalidRequest` where several have the name.
        """
        return await self._called(agent, timeout)

    async def _called(self, agent: str, timeout: float, conversation: str = "") -> BusAgent:
        before = self._router.answering(conversation) if conversation else ""
        try:
            found = await self._first(lambda agents: named(agents, agent, before), timeout)
        except InvalidRequest:
            found = named(await self._client.askable(self.agents), agent, before)
        if found is not None:
            return found
        agents = self.agents
        there = [one.name for one in agents][:_MOST_NAMED]
        more = f" and {len(agents) - len(there)} more" if len(agents) > len(there) else ""
        text = f"no agent {agent[:200]!r} is on the databus; there is {', '.join(there) or 'none'}{more}"
        error = UnknownFunction(agent, nearest=there)
        error.message, error.args = text, (text,)
        raise error

    async def choose(self, text: str, timeout: float = ARRIVAL_SECONDS) -> BusAgent:
        """The agent for a question that names none: that of :meth:`route`."""
        return (await self.route(text, timeout=timeout)).agent

    async def route(self, text: str, conversation_id: str = "", timeout: float = ARRIVAL_SECONDS) -> Routed:
        """The agent for a question that names none, and why it (``agent``, ``because``).

        Whoever has answered in the conversation; else as :meth:`Router.route
        <enginehost.genesis.routing.Router.route>` says. Raises
        :class:`~enginehost.errors.EngineUnavailable` where there is no agent within ``timeout`` seconds, and
        :class:`~enginehost.errors.InvalidRequest` where none fits.
        """
        agents = await self._first(lambda agents: agents or None, timeout)
        if agents is None:
            raise EngineUnavailable("no agent is on the databus", reason="no-agent")
        return await self._router.route(text, agents, conversation_id or None, askable=self._client.askable)

    async def ask(
        self,
        text: str,
        agent: str | BusAgent | None = None,
        conversation_id: str = "",
        *,
        timeout: float = ANSWER_SECONDS,
    ) -> str:
        """The answer of an agent, or of the one that :meth:`route` gives.

        ``conversation_id`` goes on with a conversation, or begins one by an id of your own; without it the
        agent remembers nothing of before. ``timeout`` seconds bound it all. Raises what a call of a function
        raises (:mod:`enginehost.errors`): :class:`~enginehost.errors.WaitsForPerson` where :meth:`decide` has
        to come first.
        """
        found, left = await self._agent(text, agent, conversation_id, timeout)
        return await self._answer(found, _arguments(text, conversation_id), left)

    async def stream(
        self,
        text: str,
        agent: str | BusAgent | None = None,
        conversation_id: str = "",
        *,
        timeout: float = ANSWER_SECONDS,
    ) -> AsyncGenerator[str, None]:
        """Likewise, piece by piece, where the agent answers so; else the answer as one piece."""
        found, left = await self._agent(text, agent, conversation_id, timeout)
        given, call = _arguments(text, conversation_id), self._client.new_call(found.function, left)
        with self._told(found, call):
            async with aclosing(self._client.stream(found.function, given, made=call)) as pieces:
                async for piece in pieces:
                    yield str(piece)

    async def decide(
        self,
        agent: str | BusAgent,
        conversation_id: str,
        question: str,
        decision: str,
        text: str = "",
        args: Mapping[str, Any] | None = None,
        *,
        timeout: float = ANSWER_SECONDS,
    ) -> str:
        """Decide a question for which the turn of a conversation waits; the answer to which it comes then.

        ``question`` is the ``id`` of one of the ``questions`` in the detail of the error that said so.
        ``decision`` is ``approve``, ``reject`` (``text``: why), ``edit`` (``args`` in place of those of the
        call), ``answer`` (``text`` in place of the call's result) or ``cancel`` (the whole turn). Raises what
        :meth:`ask` raises, also where the turn waits for a further decision.
        """
        found, left = await self._agent(decision, agent, conversation_id, timeout)
        if not found.host:
            raise InvalidRequest(f"{found.name} is no agent of such a host as asks people to decide")
        told: dict[str, Any] = {"question": question, "decision": decision, "text": text}
        token = DECISION.set(told if args is None else told | {"args": dict(args)})
        try:
            return await self._answer(found, _arguments(decision, conversation_id), left)
        finally:
            DECISION.reset(token)

    async def _answer(self, agent: BusAgent, given: Mapping[str, str], left: float) -> str:
        call = self._client.new_call(agent.function, left)
        with self._told(agent, call):
            answer = await self._client.call(agent.function, given, made=call)
        return "".join(map(str, answer)) if isinstance(answer, list) else str(answer)

    @contextmanager
    def _told(self, agent: BusAgent, call: Call) -> Generator[None]:
        """Tell monitors of a question, and how it ended."""
        events = self._client.interface_events
        if events is None:
            yield
            return
        with events.asking(call, agent.id):
            yield

    async def _agent(
        self, text: str, agent: str | BusAgent | None, conversation: str, timeout: float
    ) -> tuple[BusAgent, float]:
        """The agent, and the seconds that are left for its answer."""
        if not text.strip():
            raise InvalidRequest("there is nothing to ask")
        check_conversation(conversation)
        began, patience = time.monotonic(), min(timeout, ARRIVAL_SECONDS)
        if agent is None or agent == "":
            agent = (await self.route(text, conversation, patience)).agent
        elif not isinstance(agent, BusAgent):
            agent = await self._called(agent, patience, conversation)
        if conversation:
            self._router.answers(conversation, agent)
        left = timeout - (time.monotonic() - began)
        if left <= 0:
            raise CallTimeout(agent.name, timeout)
        return agent, left

    async def _first(self, find: Callable[[Sequence[BusAgent]], Any], timeout: float) -> Any:
        """What ``find`` finds among the agents, as soon as it does; ``None`` after ``timeout`` seconds."""
        if (found := find(self.agents)) is not None:
            return found
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout), aclosing(self.arrivals()) as events:
                async for _ in events:
                    if (found := find(self.agents)) is not None:
                        return found
        return None

    async def _follow(self) -> None:
        async with aclosing(self._client.agent_events()) as events:
            async for event in events:
                for queue in self._queues:
                    queue.put_nowait(event)
                for heard in self._heard[event.kind]:
                    self._start(_told(heard, event.agent))

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _told(heard: Heard, agent: BusAgent) -> None:
    try:
        done = heard(agent)
        if inspect.isawaitable(done):
            await done
    except Exception:  # noqa: BLE001 - who listens must not end what tells the others
        _log.exception("a callback failed that heard of the agent %s", agent.name)


def _arguments(text: str, conversation: str) -> Mapping[str, str]:
    return {"message": text, "conversation_id": conversation} if conversation else {"message": text}


def _config(settings: HostSettings | None) -> DatabusConfig:
    from enginehost.databus.config import config_of
    from enginehost.settings import load_settings

    return config_of(settings or load_settings())
