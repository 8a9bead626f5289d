"""Agents as tools of agents."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from enginehost.agents.contract import ALL_TOOLS, NO_TOOLS, AgentSpec, TurnLimits
from enginehost.llm.message import Role, Type
from enginehost.store.port import RunState

pytestmark = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)


def by_agent(**answers: Any) -> Any:
    """A model that answers by the instructions it is given."""
    steps: dict[str, int] = {}

    def answer(rows: Any) -> Any:
        name = rows[0].content if rows[0].role is Role.SYSTEM else ""
        found = answers[name]
        number = steps[name] = steps.get(name, -1) + 1
        return found(rows) if callable(found) else found[number]

    return answer


async def start_with_cleaner(world: Any, wipe: Any) -> None:
    """A helper without tools of its own, and a cleaner that it may ask, who has ``wipe``."""
    cleaner = AgentSpec("cleaner", "cleans", instructions="cleaner", tools=ALL_TOOLS)
    await world.start(wipe, specs=(cleaner,), agents=("cleaner",), instructions="helper", tools=NO_TOOLS)


async def test_an_agent_answers_another_in_a_session_of_its_own(world: Any, kit: Any) -> None:
    poet = AgentSpec("poet", "writes", instructions="poet")
    await world.start(specs=(poet,), agents=("poet",), instructions="helper")
    world.model.answers = by_agent(
        helper=[[kit.call("poet", message="a line")], kit.text("done")], poet=[kit.text("Roses")]
    )
    session, run = await world.said()
    assert run.state is RunState.DONE
    (result,) = await kit.rows_of(session, Type.TOOL_RESULT)
    told = orjson.loads(result.content)
    assert told["answer"] == "Roses"
    child = await world.agents.start(told["conversation_id"], owner=kit.ANN)
    assert [row.content for row in await kit.rows_of(child, Type.TEXT)] == ["a line", "Roses"]
    assert [tool.name for tool in world.model.options[0]["tools"]] == ["poet"]


async def test_what_the_other_agent_waits_for_the_asking_one_waits_for_too(world: Any, kit: Any) -> None:
    ran: list[int] = []

    async def wipe(parameters: dict[str, Any], call: Any) -> int:
        ran.append(1)
        return 1

    await start_with_cleaner(world, kit.function(wipe, destructive=True))
    world.model.answers = by_agent(
        helper=[[kit.call("cleaner", message="clean")], kit.text("done")],
        cleaner=[[kit.call("wipe", n=1)], kit.text("clean")],
    )
    session, run = await world.said()
    assert run.state is RunState.PAUSED
    (child_id,) = (await session.run()).data["children"].values()
    await world.agents.close(0.0)
    later = await world.service()
    child = await later.start(child_id, owner=kit.ANN)
    (asked,) = await child.questions()
    await child.approve(asked.call_id)
    session = await later.start(session.id, owner=kit.ANN)
    while not (run := await session.wait(run)).state.ended:
        pass
    assert run.state is RunState.DONE
    assert ran == [1]
    (result,) = await kit.rows_of(session, Type.TOOL_RESULT)
    assert orjson.loads(result.content)["answer"] == "clean"


async def test_agents_that_call_each_other_in_a_circle_are_told_so(world: Any, kit: Any) -> None:
    a = AgentSpec("a", instructions="a", agents=("b",), limits=TurnLimits(depth=3))
    b = AgentSpec("b", instructions="b", agents=("a",), limits=TurnLimits(depth=3))
    await world.start(specs=(a, b))

    def ask(name: str) -> Any:
        def answer(rows: Any) -> Any:
            last = rows[-1]
            return kit.text(last.content) if last.type is Type.TOOL_RESULT else [kit.call(name, message="go")]

        return answer

    world.model.answers = by_agent(a=ask("b"), b=ask("a"))
    session, run = await world.said(agent="a")
    assert run.state is RunState.DONE
    assert "3 deep" in await session.reply(run)
    assert "a → b → a → b → a" in await session.reply(run)


async def test_a_circle_through_the_catalog_ends_too(world: Any, kit: Any) -> None:
    async def again(parameters: dict[str, Any], call: Any) -> str:
        session = await world.agents.start(agent="helper", owner=call.caller)
        return await session.reply(await session.wait(await session.write("go")))

    await world.start(kit.function(again), limits=TurnLimits(depth=2))
    world.model.answers = lambda rows: (
        kit.text(rows[-1].content) if rows[-1].type is Type.TOOL_RESULT else [kit.call("again", n=1)]
    )
    session, run = await world.said()
    assert run.state is RunState.DONE
    assert "2 deep" in await session.reply(run)
    assert len(await world.agents.sessions(kit.ANN)) == 4


async def test_cancelling_the_asking_agent_cancels_the_other(world: Any, kit: Any) -> None:
    await start_with_cleaner(world, kit.never("wipe", destructive=True))
    world.model.answers = by_agent(
        helper=[[kit.call("cleaner", message="clean")]], cleaner=[[kit.call("wipe", n=1)]]
    )
    session, _ = await world.said()
    (child_id,) = (await session.run()).data["children"].values()
    await session.cancel()
    child = await world.agents.start(child_id, owner=kit.ANN)
    assert (await child.run()).state is RunState.CANCELLED
    await kit.check_nothing_dangles(session)
    await kit.check_nothing_dangles(child)
