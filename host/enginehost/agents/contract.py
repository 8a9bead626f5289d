"""What stages, harnesses, agent files and faces build on: the spec of an agent, a turn, and the protocols.

::

    rows of the session ─ context_stages ─► model ─ stages ─► store ─► tools ─► store ─► (again)

A *turn* goes from a user's message to the answer; each question to the model in it is a *step*.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from enginehost.caller import Caller
from enginehost.engine import Function
from enginehost.llm.input import Row
from enginehost.llm.message import Message, Usage
from enginehost.narrowing import BM25, MOST_TOOLS, Embed
from enginehost.signature import FunctionSignature
from enginehost.store.port import Event, Owner, Position, Run

if TYPE_CHECKING:
    from enginehost.agents.grouping import Groups


class UnknownOutcome(StrEnum):
    """What happens to a call that had begun when its process died, and may have had its effect.

    It is never asked for functions that are read-only or idempotent: those run again.
    """

    ASK = "ask"
    """A person is asked (an approval question): run it again, or say what came of it."""
    FAIL = "fail"
    """The model gets a result that says so."""
    RETRY = "retry"
    """It runs again."""


class OnLimit(StrEnum):
    """What happens when a turn reaches a limit."""

    STOP = "stop"
    """It ends with a notice."""
    ASK = "ask"
    """A person is asked whether it may go on as long again."""


@dataclass(frozen=True, slots=True)
class ToolSelection:
    """Which functions of the catalog a turn offers, of those its caller may call.

    All of them (``every``), and else those with one of the ``names`` or one of the ``tags``.
    """

    every: bool = False
    names: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


Tools = ToolSelection | Sequence[str] | Mapping[str, Sequence[str]]
"""The same as programs write it: also ``"*"`` (all), a list of names, or ``{"names": […], "tags": […]}``."""

NO_TOOLS = ToolSelection()
ALL_TOOLS = ToolSelection(every=True)


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """Which calls a person decides on, besides those whose function asks for it (``APPROVAL``).

    ``destructive``: those whose annotation says that they destroy; ``every``: all that are not read-only;
    ``tools``: these. It can only add to what the functions themselves ask for.
    """

    destructive: bool = True
    every: bool = False
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """What one turn may use; ``None`` is no limit.

    ``steps`` questions to the model, ``tool_calls``, ``tokens`` (in and out), ``seconds`` of running (waiting
    for people is not counted). ``parallel`` tools run at once. ``depth``: how deep agents may call agents.
    ``result_chars`` of a tool's result go to the model; the rest is stored and left out there. ``on_limit``
    says what happens when one of the first four is reached.
    """

    steps: int | None = 50
    tool_calls: int | None = 200
    tokens: int | None = None
    seconds: float | None = 900.0
    parallel: int = 16
    depth: int = 5
    result_chars: int | None = 200_000
    on_limit: OnLimit = OnLimit.STOP


Stage = Callable[[AsyncIterator[Message], "Turn"], AsyncIterator[Message]]
"""An async generator over messages, run anew for each step.

In ``AgentSpec.stages`` it is over what the model answers, on its way to the store; the model is asked when
the first message is pulled, so that what stands before that comes before the question. A message that it
leaves out is neither stored nor, if it is a call, run. Pieces of one message have one ``id``. A stage that
returns early ends the step, and with :meth:`Turn.stop` the turn. A call with ``query["ask"]`` true waits for
a person.

In ``AgentSpec.context_stages`` it is over the rows on their way to the model; it has to give the same rows
again each time it runs, or the provider's prompt cache never hits.
"""


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """An agent.

    ``model`` and ``fallback_model`` are model engines (id, alias or display name); ``options`` are further
    members of :class:`~enginehost.llm.model.ModelRequest`. ``instructions`` come first in every context.
    ``functions`` are tools of its own that are not in the catalog. ``agents`` are other agents that it may
    call as tools. ``skills`` name skills; what they become is decided where the spec is registered
    (``Agents.prepare``). ``lazy_tools`` are read-only tools whose calls are stored as queries and run each
    time the context is loaded. More functions of the catalog than ``group_tools_above`` are shown to the
    model as three tools (:mod:`enginehost.agents.grouping`). ``harness`` builds the context; by default it is
    the session's rows.
    """

    name: str = ""
    description: str = ""
    model: str = ""
    fallback_model: str = ""
    instructions: str = ""
    tools: ToolSelection = NO_TOOLS
    functions: tuple[Function, ...] = ()
    agents: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    lazy_tools: tuple[str, ...] = ()
    group_tools_above: int = 100
    stages: tuple[Stage, ...] = ()
    context_stages: tuple[Stage, ...] = ()
    limits: TurnLimits = field(default_factory=TurnLimits)
    on_unknown_outcome: UnknownOutcome = UnknownOutcome.ASK
    approval: ApprovalPolicy = field(default_factory=ApprovalPolicy)
    harness: Harness | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    tools_most: int = MOST_TOOLS
    """Tools that the model is shown at most, those that fit what the user said; 0: all."""
    tools_classifier: str | Embed = BM25
    """What finds those: ``bm25``, ``embedding:ENGINE``, ``llm:MODEL``, or what gives vectors of texts."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a turn offers: of the catalog, of the agent's own (``own``), or another ``agent``.

    ``remote``: another host on the databus runs it, which may vanish before it has answered.
    """

    function: Function
    own: bool = False
    agent: bool = False
    remote: bool = False

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.signature.name


@dataclass(slots=True, eq=False)
class Turn:
    """A turn as stages and harnesses see it, while it runs in this process.

    ``steps``, ``tool_calls`` and ``usage`` count from its beginning, whichever process ran it then. ``state``
    is for stages and harnesses; it ends with the process, or when the turn pauses.
    """

    session: Session
    run: Run
    spec: AgentSpec
    caller: Caller
    steps: int = 0
    tool_calls: int = 0
    usage: Usage = field(default_factory=Usage)
    offered: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    """The tools that the model may call."""
    groups: Groups | None = None
    """The offered functions that the model can have as groups."""
    shown: Sequence[Tool] | None = None
    """The tools that it is shown in this step, where they are many; ``None``: all that are in no group."""
    state: dict[str, Any] = field(default_factory=dict[str, Any])
    stopped: str = ""

    @property
    def tokens(self) -> int:
        """All tokens that the turn has used, cached ones too."""
        return self.usage.total

    def stop(self, reason: str) -> None:
        """End the turn after this step: calls that have not run are settled as not run, with ``reason``."""
        self.stopped = self.stopped or reason


class Harness:
    """What an agent is around its model: which context it sees and which tools. Subclass what differs."""

    def context(self, session: Session) -> AsyncIterator[Message]:
        """The rows that the model is to see, in order, without the spec's instructions.

        Runs at every step, and again for a retry. Write it as an async generator.
        """
        return session.rows()

    async def tools(self, session: Session) -> Sequence[Tool]:
        """The tools that a turn offers, in a stable order; a call to any other is refused."""
        return session.selected_tools()

    async def before_turn(self, turn: Turn) -> None:
        """Before the first step of a turn, and again where a turn goes on after a pause or a crash."""

    async def after_turn(self, turn: Turn) -> None:
        """After a turn has ended in this process, whatever its end (``turn.run.state``)."""


class ModelService(Protocol):
    """What talks to a model: the host's :class:`~enginehost.llm.service.LLMService`."""

    @property
    def send(self) -> Callable[..., Any]:
        """Awaited, ``send(rows)`` is the whole answer (``.text``); with ``stream=True`` it is an async
        generator of the answer's messages as they come.
        """
        ...


class Session(Protocol):
    """A conversation. It holds no history: any process that sees the database may make one of the same id."""

    id: str
    owner: Owner
    caller: Caller
    """On whose behalf its tools run."""

    @property
    def spec(self) -> AgentSpec:
        """The agent with what :meth:`Agents.start` was given in its place."""
        ...

    def rows(self) -> AsyncGenerator[Message, None]:
        """The rows that the store holds for a model (``Store.context``)."""
        ...

    def selected_tools(self) -> list[Tool]:
        """The tools that the spec selects, of those that the caller may call, in a stable order."""
        ...

    def llm(self, name: str = "") -> ModelService:
        """The service of a model engine, by default of the agent's own: for harnesses and stages."""
        ...

    async def call(self, tool: str, args: Mapping[str, Any]) -> Any:
        """Call a function of the catalog on behalf of the caller; the result as JSON values."""
        ...

    async def write(self, message: Row | Sequence[Row]) -> Run | None:
        """Store messages: texts, messages, or their columns as mappings.

        One of a user starts a turn (or joins the one that runs), which is given back.

        A tool result settles the call with its id. What only stands there (a system row) starts nothing.
        """
        ...

    def events(self, after: Position | str | None = None) -> AsyncGenerator[Event, None]:
        """What is stored after a position, then what comes; leaving it cancels nothing."""
        ...

    async def fork(self, at: int) -> Session:
        """A session that goes on from row ``at`` of this one."""
        ...

    async def cancel(self) -> Run | None:
        """End the turn that runs or waits, from any process; ``None`` where there is none."""
        ...

    async def questions(self) -> list[Message]:
        """The questions that nobody has decided yet."""
        ...

    async def approve(self, call: str) -> None:
        """Let the stored call run exactly as it stands. ``call`` is the id of the call or of the question.

        Each question is decided once: raises ``InvalidRequest`` where somebody else has, or there is none.
        """
        ...

    async def reject(self, call: str, reason: str = "") -> None:
        """Do not run it; the model reads the reason."""
        ...

    async def edit(self, call: str, args: Mapping[str, Any]) -> None:
        """Let the call run with other arguments, which are checked as the model's are."""
        ...

    async def answer(self, call: str, text: str) -> None:
        """Do not run it; ``text`` is its result."""
        ...

    async def history(self, *, after: int = 0, before: int | None = None, limit: int = 100) -> list[Message]:
        """A page of rows: contents whole up to 1,000,000 characters, then cut with ``query["cut"]``."""
        ...

    async def wait(self, run: Run) -> Run:
        """Wait until a turn has ended, or waits for a person."""
        ...

    async def reply(self, run: Run) -> str:
        """The text that a turn ended with, whole.

        Raises ``TooLarge`` where it has more bytes than the host's ``max_result_bytes``.
        """
        ...

    async def run(self) -> Run | None:
        """The latest turn."""
        ...

    async def busy(self) -> bool:
        """Whether a turn runs or waits."""
        ...


class Agents(Protocol):
    """The service: one per process and database."""

    async def open(self) -> None:
        """Begin to take turns, those of processes that died too."""
        ...

    async def close(self, drain: float = 10.0) -> None:
        """Hand turns to other processes, and stop.

        What runs calls, and what a call in this process waits for, has ``drain`` seconds.
        """
        ...

    def awaiting(self, run: Run) -> AbstractContextManager[None]:
        """While it is entered, somebody in this process needs the turn's answer: see :meth:`close`."""
        ...

    def register(self, spec: AgentSpec) -> None:
        """Offer an agent under its name; turns that run go on with the spec they began with."""
        ...

    def unregister(self, name: str) -> None:
        """Offer it no more."""
        ...

    def signature(self, name: str) -> FunctionSignature:
        """An agent as a function: ``message`` and ``conversation_id``."""
        ...

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
    ) -> Session:
        """A session, new or with the id of one that exists. What is given replaces what the agent says.

        Raises ``InvalidRequest`` for what is not there, and with reason ``taken`` for an id that cannot be
        had: it is somebody else's, or no new session may have it. With ``alone``, one that was begun with
        another agent cannot be had either.

        ``owner`` is on whose behalf tools run; by default the caller of the call this code serves.
        """
        ...
