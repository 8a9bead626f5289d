"""A host with an agent on a scripted provider, for ``sessions.py``."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "plugins" / "enginehost-openai" / "src"))

from enginehost.agents.contract import AgentSpec
from enginehost.agents.service import AgentService
from enginehost.agents.session import AgentSession
from enginehost.caller import LOCAL
from enginehost.collector import collect_seldom
from enginehost.llm.message import Message, Role, Type
from enginehost.store.port import RunState
from enginehost.store.sql import SqlStore

MODEL = "ENGINE_CLASS = OpenAI\nMODEL = bench-1\nLIST_MODELS = false\nRETRIES = 0\nBASE_URL = {}/v1\n"


@asynccontextmanager
async def world(
    folder: Path, urls: Sequence[str], database: str = "sessions.db", **spec: Any
) -> AsyncGenerator[AgentService]:
    """Agents named after the last part of each address, on one database (``synchronous`` full)."""
    from enginehost_openai.engine import OpenAiEngine

    from enginehost.testing import engine_registry

    smss = folder / "smss"
    smss.mkdir(exist_ok=True)
    names = [url.rsplit("/", 1)[1] for url in urls]
    for name, url in zip(names, urls, strict=True):
        (smss / f"{name}.smss").write_text(f"ENGINE = {name}\n{MODEL.format(url)}")
    async with _agents(folder, names, engine_registry(OpenAiEngine, MODEL), database, spec) as agents:
        yield agents


@asynccontextmanager
async def scripted(folder: Path, tokens: int, rate: float) -> AsyncGenerator[AgentService]:
    """The agent ``scripted``, whose model is one of this process and answers at a pace."""
    from enginehost.testing import engine_registry
    from enginehost_engines.models import ScriptedModel

    smss = folder / "smss"
    smss.mkdir(exist_ok=True)
    text = "ENGINE = scripted\nENGINE_CLASS = Scripted\nSCRIPT = it.yaml\n"
    (smss / "scripted.smss").write_text(text)
    reply = f'{{reply: [{{text: "token ", repeat: {tokens}}}]}}'
    (smss / "it.yaml").write_text(f"tokens_per_second: {rate}\nanswers:\n  - {reply}\n")
    registry = engine_registry(ScriptedModel, text)
    async with _agents(folder, ["scripted"], registry, "sessions.db", {}) as agents:
        yield agents


@asynccontextmanager
async def _agents(
    folder: Path, names: Sequence[str], registry: Any, database: str, spec: dict[str, Any]
) -> AsyncGenerator[AgentService]:
    from enginehost.testing import running_host

    smss = folder / "smss"
    store = SqlStore(f"sqlite:///{folder / database}")
    await store.open()
    async with running_host(smss, registry=registry) as host:
        specs = [AgentSpec(name, model=name, **spec) for name in names]
        agents = AgentService(host, store, specs)
        await agents.open()
        try:
            yield agents
        finally:
            await agents.close(0.0)
            await store.close()


async def said(session: AgentSession, text: str = "go") -> None:
    """One turn to its end."""
    run = await session.write(text)
    assert run is not None
    run = await session.wait(run)
    assert run.state is RunState.DONE, run.error


async def fill(agents: AgentService, session: str, rows: int, size: int = 200) -> AgentSession:
    """A session of so many rows, by the user and the model in turns."""
    text, group = "x" * size, 1000
    pair = [Message(Role.USER, content=text), Message(Role.ASSISTANT, Type.TEXT, text)]
    found = await agents.start(session, agent=next(iter(agents.agents)), owner=LOCAL)
    for begin in range(0, rows, group):
        await found.append((pair * (group // 2))[: min(group, rows - begin)])
    return found


def resident() -> float:
    """Megabytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


@contextmanager
def most_memory() -> Generator[Callable[[], float]]:
    """Megabytes that the process had at most, in samples of a hundredth of a second."""
    most, over = [resident()], threading.Event()

    def look() -> None:
        while not over.wait(0.01):
            most[0] = max(most[0], resident())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield lambda: max(most[0], resident())
    finally:
        over.set()
        thread.join()


def run(work: Any) -> Any:
    """Run on the loop that ``enginehost run`` has, and with the collector as it sets that."""
    import uvloop

    collect_seldom()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
