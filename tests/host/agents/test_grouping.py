"""Large catalogs as three tools: what differs is only what the model sees."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from enginehost.agents.building import build
from enginehost.agents.config import AgentConfig
from enginehost.agents.contract import ApprovalPolicy, TurnLimits
from enginehost.agents.stages import approval
from enginehost.engine import Annotations, EngineContext, Function, FunctionSignature
from enginehost.llm.message import Type
from enginehost.store.port import RunState

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def catalog(kit: Any, ran: list[Any], *names: str, **hints: Any) -> list[Function]:
    """Functions that note their name and arguments."""

    def one(name: str) -> Function:
        async def run(parameters: dict[str, Any], call: Any) -> str:
            ran.append((name, parameters))
            return f"{name} ran"

        what = name.replace("_", " ").replace(".", " of ")
        signature = FunctionSignature(name, f"Tells the {what}.", CITY, annotations=Annotations(**hints))
        return Function(signature, run)

    return [one(name) for name in names]


def contents(rows: list[Any]) -> list[Any]:
    return [orjson.loads(row.content) for row in rows if row.type is Type.TOOL_RESULT]


async def test_up_to_the_number_every_function_is_shown_and_beyond_it_three_tools(
    world: Any, kit: Any
) -> None:
    functions = catalog(kit, [], *(f"f{number}" for number in range(5)), read_only=True)
    for above, names in ((5, [f"f{number}" for number in range(5)]), (4, ["describe", "query"])):
        world.model.answers = lambda rows: kit.text("ok")
        if above == 5:
            await world.start(*functions, group_tools_above=above, tools_most=0)
        else:
            world.agents.register(_with(world.specs[0], above))
        await world.said()
        assert [tool.name for tool in world.model.options[-1]["tools"]] == names


def _with(spec: Any, above: int) -> Any:
    from dataclasses import replace

    return replace(spec, group_tools_above=above)


async def test_functions_are_found_and_called_and_stored_as_themselves(world: Any, kit: Any) -> None:
    ran: list[Any] = []
    reading = catalog(kit, ran, "weather.today", "weather.tomorrow", "river_level", read_only=True)
    acting = catalog(kit, ran, "book_room", *(f"other{number}" for number in range(120)))
    await world.start(*reading, *acting, tools_most=0)
    world.model.answers = [
        [kit.call("describe", search="how is the weather tomorrow")],
        [kit.call("describe", names=["book_room", "bookroom"]), kit.call("describe", page=2)],
        [
            kit.call("query", name="weather.tomorrow", arguments={"city": "Ulm"}),
            kit.call("action", name="book_room", arguments={"city": "Ulm"}),
        ],
        kit.text("done"),
    ]
    session, run = await world.said()
    assert run.state is RunState.DONE
    assert [tool.name for tool in world.model.options[0]["tools"]] == ["describe", "query", "action"]
    found, *_ = contents(world.model.asked[1])
    first = found["functions"][0]
    assert (first["name"], first["call_with"], first["parameters"]) == ("weather.tomorrow", "query", CITY)
    named, listed = contents(world.model.asked[2])[1:]
    assert named["functions"][0]["call_with"] == "action"
    assert "did you mean book_room" in named["functions"][1]["error"]
    assert (len(listed["functions"]), listed["pages"]) == (24, 2)
    assert sorted(ran) == [("book_room", {"city": "Ulm"}), ("weather.tomorrow", {"city": "Ulm"})]
    calls = [row.query for row in await kit.rows_of(session, Type.TOOL_CALL)][3:]
    assert [(one["tool"], one["args"]) for one in calls] == [
        ("weather.tomorrow", {"city": "Ulm"}),
        ("book_room", {"city": "Ulm"}),
    ]
    shown = [row.query for row in world.model.asked[3] if row.type is Type.TOOL_CALL][3:]
    assert [(one["tool"], one["args"]) for one in shown] == [
        ("query", {"name": "weather.tomorrow", "arguments": {"city": "Ulm"}}),
        ("action", {"name": "book_room", "arguments": {"city": "Ulm"}}),
    ]
    assert {row.query["tool"] for row in world.model.asked[3] if row.type is Type.TOOL_RESULT} == {
        "describe",
        "query",
        "action",
    }
    await kit.check_nothing_dangles(session)


async def test_a_group_is_no_way_around_what_a_function_asks_for(world: Any, kit: Any) -> None:
    ran: list[Any] = []
    functions = [
        *catalog(kit, ran, "look", read_only=True),
        *catalog(kit, ran, "wipe", destructive=True),
        *catalog(kit, ran, "delete_one", "secret"),
    ]
    rules = {
        "default": "deny",
        "rules": [
            {"allow": "call", "callers": "anyone", "functions": ["look", "wipe", "delete_one"]},
            {"allow": "view", "callers": "anyone"},
        ],
    }
    await world.start(
        *functions,
        policy=rules,
        group_tools_above=0,
        tools_most=0,
        stages=(approval(["delete_*"]),),
        approval=ApprovalPolicy(),
        limits=TurnLimits(tool_calls=20),
    )
    city = {"city": "Ulm"}
    world.model.answers = [
        [
            kit.call("query", name="wipe", arguments=city),
            kit.call("query", name="look", arguments={"town": "Ulm"}),
            kit.call("action", name="secret", arguments=city),
            kit.call("action", name=["look"]),
            kit.call("action", name="look", arguments="no"),
            kit.call("action", name="wipe", arguments=city),
            kit.call("action", name="delete_one", arguments=city),
        ],
        kit.text("done"),
    ]
    session, run = await world.said()
    assert (run.state, ran) == (RunState.PAUSED, [])
    asked = await session.questions()
    assert [(one.query["tool"], one.query["args"]) for one in asked] == [("wipe", city), ("delete_one", city)]
    await session.approve(asked[0].call_id)
    await session.reject(asked[1].call_id)
    assert (await session.wait(run)).state is RunState.DONE
    assert ran == [("wipe", city)]
    codes = [one["error"]["code"] for one in contents(world.model.asked[1]) if isinstance(one, dict)]
    assert sorted(codes) == [
        *["invalid_arguments"] * 4,
        "rejected",
        "unknown_function",
    ]
    told = str(contents(world.model.asked[1]))
    assert "wipe does not only read: call it with action" in told


@pytest.mark.parametrize("taken", ["query", "describe"])
async def test_a_function_may_have_the_name_of_a_group(world: Any, kit: Any, taken: str) -> None:
    ran: list[Any] = []
    await world.start(*catalog(kit, ran, taken, read_only=True), group_tools_above=0)
    world.model.answers = [
        [kit.call("catalog_query" if taken == "query" else "query", name=taken, arguments={"city": "Ulm"})],
        kit.text("done"),
    ]
    _, run = await world.said()
    assert run.state is RunState.DONE
    assert ran == [(taken, {"city": "Ulm"})]
    names = {tool.name for tool in world.model.options[0]["tools"]}
    assert names == ({"describe", "catalog_query"} if taken == "query" else {"catalog_describe", "query"})


def test_a_file_says_from_how_many_on() -> None:
    config = AgentConfig.model_validate({"group_tools_above": "7"})
    spec = build(config, EngineContext("a"), name="a", description="b").spec
    assert (spec.group_tools_above, AgentConfig().group_tools_above) == (7, 100)
