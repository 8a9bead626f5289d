"""With the real service and a real (scripted) model engine; and what is large in flat memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from enginehost.agents.contract import ALL_TOOLS, AgentSpec
from enginehost.agents.service import AgentService
from enginehost.engine import AbstractFunctionEngine, EngineContext
from enginehost.host import Host
from enginehost.llm.message import Message, Role, Status, Type
from enginehost.settings import HostSettings
from enginehost.store.port import RunState
from enginehost.store.sql import SqlStore

MEGABYTES = 200

SCRIPT = """
answers:
  - when: {text: add}
    reply:
      - text: Let me add.
      - call: {tool: add.two, args: {a: 2, b: 3}}
  - when: {result: add.two}
    say: It is $result.
  - when: {text: boom}
    reply: [{text: half, repeat: 3}, {cut: true}]
  - say: Hello.
"""


async def test_an_agent_on_a_scripted_model_calls_a_function_of_the_catalog(tmp_path: Path, kit: Any) -> None:
    folder = tmp_path / "smss"
    folder.mkdir()
    (folder / "talk.smss").write_text(
        "ENGINE = talk\nENGINE_CLASS = Scripted\nSCRIPT = talk.yaml\nRETRIES = 0\n"
    )
    (folder / "talk.yaml").write_text(SCRIPT)
    store = SqlStore(f"sqlite:///{tmp_path / 'sessions.db'}", synchronous="normal")
    await store.open()
    async with Host(folder, None, settings=HostSettings(state_dir=tmp_path), watch=False) as host:

        class Adds(AbstractFunctionEngine):
            def functions(self) -> Any:
                async def add(parameters: dict[str, Any], call: Any) -> int:
                    return parameters["a"] + parameters["b"]

                numbers = {
                    "type": "object",
                    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                }
                return (kit.function(add, name="add.two", schema=numbers),)

        from enginehost.catalog import EngineRecord

        await host.add_engine(EngineRecord("adds", "Test"), Adds(EngineContext("adds")))
        agents = AgentService(host, store, (AgentSpec("helper", model="talk", tools=ALL_TOOLS),), poll=0.05)
        await agents.open()
        session = await agents.start(agent="helper", owner=kit.ANN)
        run = await session.wait(await session.write("add, please"))
        assert run.state is RunState.DONE, run.error
        assert await session.reply(run) == "It is 5."
        assert run.usage is not None
        assert run.usage.output > 0
        run = await session.wait(await session.write("boom"))
        assert run.state is RunState.FAILED
        run = await session.wait(await session.write("hi"))
        assert await session.reply(run) == "Hello."
        await kit.check_nothing_dangles(session)
        await agents.close()
    await store.close()


def resident() -> float:
    """Megabytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


async def test_a_large_result_and_a_large_answer_in_flat_memory(world: Any, kit: Any) -> None:
    piece = "0123456789abcdef" * 4096

    async def much(parameters: dict[str, Any], call: Any) -> Any:
        for _ in range(parameters["n"] * 1_000_000 // len(piece)):
            yield piece

    async def long() -> Any:
        for _ in range(MEGABYTES * 1_000_000 // len(piece)):
            yield Message(Role.ASSISTANT, content=piece, id="a", status=Status.OPEN)
        yield Message(Role.ASSISTANT, id="a")

    await world.start(kit.function(much))
    world.model.answers = lambda rows: (
        long() if rows[-1].type is Type.TOOL_RESULT else [kit.call("much", n=int(rows[-1].content))]
    )
    session = await world.session()
    before = resident()
    run = await session.write(str(MEGABYTES))
    most = before
    while not (run := await world.agents.store.run(run.id)).state.ended:
        most = max(most, resident())
        import asyncio

        await asyncio.sleep(0.02)
    assert run.state is RunState.DONE, run.error
    assert most - before < 30
    sizes: dict[str, int] = {}
    async for row in session.rows():
        sizes[row.type] = sizes.get(row.type, 0) + len(row.content)
    assert sizes[Type.TOOL_RESULT] > MEGABYTES * 990_000
    assert sizes[Type.TEXT] > MEGABYTES * 990_000
    print(f"{most - before:.0f} MB")  # noqa: T201
