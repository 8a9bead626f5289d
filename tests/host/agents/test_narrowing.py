"""A turn with many tools: the model is shown those that fit, those in use stay, and all may be called."""

from __future__ import annotations

from typing import Any

import pytest

from enginehost.agents.config import AgentConfig
from enginehost.agents.contract import AgentSpec
from enginehost.engine import Function
from enginehost.llm.message import Type
from enginehost.store.port import RunState

POLICY = """
default: deny
rules:
  - {allow: call, callers: anyone, tags: [free]}
"""
TOPICS = ("weather", "invoice", "parcel", "flight", "recipe", "song", "patient", "lamp", "grade", "ticket")


def many(kit: Any, **more: Any) -> list[Function]:
    async def run(parameters: dict[str, Any], call: Any) -> str:
        return "done"

    return [
        kit.function(run, name=f"{verb}_{topic}", schema={"type": "object"}, **more)
        for topic in TOPICS
        for verb in ("get", "create", "update", "delete", "list")
    ]


def shown(world: Any, step: int = -1) -> list[str]:
    return [one.name for one in world.model.options[step]["tools"]]


async def test_of_many_tools_the_model_sees_those_that_fit_in_a_stable_order(world: Any, kit: Any) -> None:
    await world.start(*many(kit), tools_most=8)
    world.model.answers = lambda context: kit.text("ok")
    session, run = await world.said("where is my parcel?")
    assert run.state is RunState.DONE
    first = shown(world)
    assert len(first) == 8
    assert {f"{verb}_parcel" for verb in ("get", "create", "update", "delete", "list")} <= set(first)
    assert first == sorted(first)
    await session.wait(await session.write("my parcel again"))
    assert shown(world) == first, "the same tools in the same bytes, for the provider's prompt cache"


async def test_few_tools_or_no_bound_are_not_narrowed(world: Any, kit: Any) -> None:
    await world.start(*many(kit)[:40], specs=(AgentSpec("all", tools=kit.ALL_TOOLS, tools_most=0),))
    world.model.answers = lambda context: kit.text("ok")
    await world.said("a parcel")
    assert len(shown(world)) == 40
    await world.said("a parcel", agent="all")
    assert len(shown(world)) == 40


async def test_a_tool_that_is_not_shown_can_be_called_and_stays(world: Any, kit: Any) -> None:
    await world.start(*many(kit), tools_most=6)
    asked = 0

    def answers(context: Any) -> Any:
        nonlocal asked
        asked += 1
        return [kit.call("get_song")] if asked == 1 else kit.text("ok")

    world.model.answers = answers
    session, run = await world.said("my parcel")
    assert run.state is RunState.DONE
    assert "get_song" not in shown(world, 0)
    assert [row.content for row in await kit.rows_of(session, Type.TOOL_RESULT)] == ['"done"']
    assert "get_song" in shown(world, 1), "what is in use stays"
    for word in ("weather", "invoice", "yes, do that"):
        await session.wait(await session.write(word))
        assert "get_song" in shown(world)
        assert len(shown(world)) == 6
    assert "get_invoice" in shown(world), "the message before tells what is meant"


async def test_a_tool_that_may_not_be_called_is_neither_shown_nor_run(
    world: Any, kit: Any, tmp_path: Any
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    hidden = kit.never("delete_parcel_forever")
    await world.start(*many(kit, tags=("free",)), hidden, tools_most=6, policy=policy)
    asked = 0

    def answers(context: Any) -> Any:
        nonlocal asked
        asked += 1
        return [kit.call("delete_parcel_forever", n=1)] if asked == 1 else kit.text("ok")

    world.model.answers = answers
    session, _ = await world.said("delete the parcel forever")
    assert all("delete_parcel_forever" not in shown(world, step) for step in (0, 1))
    (result,) = await kit.rows_of(session, Type.TOOL_RESULT)
    assert "unknown_function" in result.content


async def test_own_tools_and_named_agents_are_always_shown(world: Any, kit: Any) -> None:
    own = kit.never("own_thing")
    other = AgentSpec("other", "Knows about nothing in particular")
    await world.start(*many(kit), tools_most=3, functions=(own,), agents=("other",), specs=(other,))
    world.model.answers = lambda context: kit.text("ok")
    await world.said("my parcel")
    names = shown(world)
    assert {"own_thing", "other"} <= set(names)
    assert len(names) == 3


async def test_a_classifier_that_fails_ends_no_turn(
    world: Any, kit: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(texts: Any) -> Any:
        raise OSError("gone")

    await world.start(*many(kit), tools_most=6, tools_classifier=broken)
    world.model.answers = lambda context: kit.text("ok")
    for _ in range(2):
        _, run = await world.said("my parcel")
        assert run.state is RunState.DONE
        assert "get_parcel" in shown(world)
    assert sum("chosen by their words" in text for text in caplog.messages) == 1


def test_the_keys_of_an_agent_file_say_it_and_a_wrong_classifier_is_told() -> None:
    config = AgentConfig.model_validate({"tools_most": 5, "tools_classifier": " LLM: small "})
    assert (config.tools_most, config.tools_classifier) == (5, "llm:small")
    with pytest.raises(ValueError, match="there is no classifier"):
        AgentConfig.model_validate({"tools_classifier": "magic"})
