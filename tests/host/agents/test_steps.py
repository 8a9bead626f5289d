"""What an agent does is told step by step, in one chain."""

from __future__ import annotations

from typing import Any

from enginehost.agents.contract import AgentSpec
from enginehost.steps import Step, StepKind


async def test_turns_tools_and_agents_are_steps_of_one_chain(world: Any, kit: Any) -> None:
    calls: list[Any] = []

    async def add(parameters: dict[str, Any], call: Any) -> int:
        calls.append(call)
        return parameters["n"]

    other = AgentSpec("other", "answers")
    await world.start(kit.function(add), specs=(other,), agents=("other",))
    world.model.answers = [
        [kit.call("add", n=1)],
        [kit.call("other", message="and you?")],
        kit.text("I am well"),
        kit.text("done"),
    ]
    begun: list[Step] = []
    ended: list[Step] = []
    world.host.steps.watch(begun.append, ended.append, values=True)
    session, _ = await world.said("add it")
    steps = {one.span: one for one in ended}
    assert len(steps) == len(begun) == len(ended)
    assert {one.trace for one in ended} == {calls[0].trace}
    turns = {one.name: one for one in ended if one.kind is StepKind.TURN}
    tool = next(one for one in ended if one.kind is StepKind.TOOL)
    asked = next(one for one in ended if one.kind is StepKind.AGENT)
    assert (tool.parent, calls[0].parent) == (turns["helper"].span, tool.span)
    assert (asked.parent, turns["other"].parent) == (turns["helper"].span, asked.span)
    assert {one.outcome for one in ended} == {"ok"}
    assert (tool.given, asked.given) == ({"n": 1}, {"message": "and you?"})
    told = turns["helper"].about["conversation"]
    assert told
    assert session.id not in told, "whoever reads it could go on with the conversation"


async def test_nothing_of_what_is_said_is_told_unless_somebody_asks(world: Any, kit: Any) -> None:
    async def add(parameters: dict[str, Any], call: Any) -> int:
        raise ValueError("secret")

    await world.start(kit.function(add))
    world.model.answers = [[kit.call("add", n=1)], kit.text("secret")]
    ended: list[Step] = []
    world.host.steps.watch(lambda _: None, ended.append)
    await world.said("secret")
    assert {one.kind for one in ended} == {StepKind.TURN, StepKind.TOOL}
    assert next(one for one in ended if one.kind is StepKind.TOOL).outcome == "execution_failed"
    assert "secret" not in str(ended)
