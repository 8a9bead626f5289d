"""A host with functions, a database, and a model that does as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from enginehost.agents.contract import ALL_TOOLS, AgentSpec
from enginehost.agents.service import AgentService
from enginehost.agents.session import AgentSession
from enginehost.caller import Caller
from enginehost.catalog import EngineRecord
from enginehost.engine import (
    AbstractFunctionEngine,
    Annotations,
    Approval,
    EngineContext,
    Function,
    FunctionSignature,
    run_mode,
)
from enginehost.host import Host
from enginehost.llm.message import Message, Role, Status, Type, Usage, new_id
from enginehost.settings import HostSettings
from enginehost.store.port import Run, RunState
from enginehost.store.sql import SqlStore

ANN = Caller("ann", tenant="acme", face="http")
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def function(
    run: Callable[..., Any],
    *,
    name: str = "",
    schema: Any = SCHEMA,
    approval: Approval = Approval.NEVER,
    tags: tuple[str, ...] = (),
    **hints: bool,
) -> Function:
    mode = run_mode(run)
    signature = FunctionSignature(
        name or run.__name__,
        f"does {run.__name__}",
        schema,
        annotations=Annotations(**hints),
        streaming=mode.streams,
        tags=tags,
    )
    return Function(signature, run, mode, approval=approval)


def never(name: str, **hints: bool) -> Function:
    """A function that no call may reach."""

    async def run(parameters: dict[str, Any], call: Any) -> int:
        raise AssertionError(f"{name} was called")

    return function(run, name=name, **hints)


class Functions(AbstractFunctionEngine):
    """An engine with the functions of a test."""

    def __init__(self, functions: tuple[Function, ...]) -> None:
        super().__init__(EngineContext("tools"))
        self._functions = functions

    def functions(self) -> tuple[Function, ...]:
        return self._functions


def call(tool: str, id: str = "same", **args: Any) -> Message:
    """A tool call as a model makes it; some providers reuse their ids."""
    return Message(Role.ASSISTANT, Type.TOOL_CALL, query={"tool": tool, "id": id, "args": args})


def text(*parts: str, usage: Usage | None = None, type: Type = Type.TEXT, **more: Any) -> list[Message]:
    """A text in pieces."""
    one = new_id()
    pieces = [Message(Role.ASSISTANT, type, part, id=one, status=Status.OPEN) for part in parts]
    return [*pieces, Message(Role.ASSISTANT, type, id=one, usage=usage, **more)]


class Model:
    """Answers what ``answers`` says: a list by step, or a function of the context."""

    def __init__(self) -> None:
        self.answers: Any = []
        self.asked: list[list[Message]] = []
        self.options: list[dict[str, Any]] = []
        self.closed = 0

    def send(self, rows: Any, *, stream: bool, **options: Any) -> AsyncGenerator[Message, None]:
        assert stream
        return self._stream(rows, options)

    async def _stream(self, rows: Any, options: dict[str, Any]) -> AsyncGenerator[Message, None]:
        context = [row async for row in rows()]
        self.asked.append(context)
        self.options.append(options)
        number = len(self.asked) - 1
        found = self.answers(context) if callable(self.answers) else self.answers[number]
        try:
            if hasattr(found, "__aiter__"):
                async for one in found:
                    yield one
                return
            for one in found:
                if isinstance(one, Exception):
                    raise one
                yield one
        finally:
            self.closed += 1


class AgentHost(Host):
    """A host with the test's model."""

    model: Model
    models_by_name: dict[str, Model]

    def llm(self, name: str = "") -> Any:
        return self.models_by_name.get(name, self.model)


class World:
    """Processes of one database: each ``service()`` is one more."""

    def __init__(self, folder: Path, url: str, changed: Callable[..., None], stack: AsyncExitStack) -> None:
        self.folder, self.url = folder, url
        self.changed = changed
        """Changes rows beside the store."""
        self.model = Model()
        self.stack = stack
        self.host: AgentHost
        self.agents: AgentService
        self.services: list[AgentService] = []

    async def start(
        self, *functions: Function, policy: Any = None, specs: tuple[AgentSpec, ...] = (), **spec: Any
    ) -> AgentService:
        settings = HostSettings(state_dir=self.folder, policy=policy)
        self.host = AgentHost(None, None, settings=settings)
        self.host.model, self.host.models_by_name = self.model, {}
        await self.stack.enter_async_context(self.host)
        await self.host.add_engine(EngineRecord("tools", "Test"), Functions(functions))
        spec.setdefault("tools", ALL_TOOLS)
        self.specs = (AgentSpec("helper", "helps", **spec), *specs)
        self.agents = await self.service()
        return self.agents

    async def service(self, *, opened: bool = True, **options: Any) -> AgentService:
        """A service as a process of its own would have it, with connections of its own."""
        store = SqlStore(self.url, synchronous="normal")
        await store.open()
        self.stack.push_async_callback(store.close)
        agents = AgentService(self.host, store, self.specs, poll=0.05, **options)
        if opened:
            await agents.open()
            self.stack.push_async_callback(agents.close, 0.0)
        return agents

    async def session(self, **options: Any) -> AgentSession:
        options.setdefault("agent", "helper")
        options.setdefault("owner", ANN)
        return await self.agents.start(**options)

    async def said(self, words: str = "go", **options: Any) -> tuple[AgentSession, Run]:
        """A session in which a user has said something, and the turn as far as it went."""
        session = await self.session(**options)
        run = await session.write(words)
        assert run is not None
        return session, await session.wait(run)


async def rows_of(session: AgentSession, *types: Type) -> list[Message]:
    """The rows of a session, of these types."""
    rows = await session.history(limit=1000)
    return [row for row in rows if not types or row.type in types]


async def check_nothing_dangles(session: AgentSession) -> None:
    """Each call has exactly one result, and nothing is half-written."""
    rows = await rows_of(session)
    calls = [row.call_id for row in rows if row.type is Type.TOOL_CALL]
    results = [
        row.call_id for row in rows if row.type is Type.TOOL_RESULT and row.status is not Status.FAILED
    ]
    assert sorted(calls) == sorted(results)
    assert all(row.status is not Status.OPEN for row in rows)
    numbers = [row.sequence for row in rows]
    assert numbers == sorted(set(numbers))


async def terminal_events(session: AgentSession, run: Run) -> list[RunState]:
    """What a new subscriber sees of a run's end."""
    seen: list[RunState] = []

    async def follow() -> None:
        async for event in session.events():
            if (now := event.run) is not None and now.id == run.id and now.state.ended:
                seen.append(now.state)  # noqa: PERF401 - it never ends by itself

    task = asyncio.create_task(follow())
    for _ in range(100):
        await asyncio.sleep(0.02)
        if seen:
            break
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.wait({task})
    return seen


class Kit:
    """What tests of this folder import from here: there is no package to import from."""

    ANN = ANN
    call = staticmethod(call)
    text = staticmethod(text)
    function = staticmethod(function)
    never = staticmethod(never)
    rows_of = staticmethod(rows_of)
    check_nothing_dangles = staticmethod(check_nothing_dangles)
    terminal_events = staticmethod(terminal_events)
    ALL_TOOLS = ALL_TOOLS


@pytest.fixture
def kit() -> type[Kit]:
    return Kit


@pytest.fixture
async def world(tmp_path: Path, database: str, changed: Callable[..., None]) -> AsyncGenerator[World, None]:
    async with AsyncExitStack() as stack:
        yield World(tmp_path, database, changed, stack)
