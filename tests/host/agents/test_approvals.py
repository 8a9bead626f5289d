"""Calls that a person decides on: the stored call itself is what runs, once, days later too."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from enginehost.agents.contract import ApprovalPolicy, OnLimit, TurnLimits
from enginehost.caller import Caller
from enginehost.engine import Approval
from enginehost.errors import InvalidArguments, InvalidRequest, UnknownSession
from enginehost.llm.message import Type
from enginehost.store.port import RunState

both_databases = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)
WAYS = [
    ({"approval": Approval.ALWAYS, "read_only": True}, {}, True),
    ({"approval": Approval.DESTRUCTIVE}, {}, True),
    ({"approval": Approval.DESTRUCTIVE, "read_only": True}, {}, False),
    ({"approval": Approval.DESTRUCTIVE, "destructive": False}, {}, False),
    ({"destructive": True}, {}, True),
    ({"destructive": True}, {"destructive": False}, False),
    ({}, {"every": True}, True),
    ({"read_only": True}, {"every": True}, False),
    ({"read_only": True}, {"tools": ("wipe",)}, True),
    ({}, {}, False),
]


class Wipe:
    """A tool that notes with which arguments it ran."""

    def __init__(self) -> None:
        self.ran: list[int] = []

    def function(self, kit: Any, **hints: Any) -> Any:
        async def wipe(parameters: dict[str, Any], call: Any) -> int:
            self.ran.append(parameters["n"])
            return parameters["n"]

        return kit.function(wipe, **hints)


@pytest.fixture
def wipe() -> Wipe:
    return Wipe()


@pytest.mark.parametrize(("hints", "policy", "asks"), WAYS)
async def test_who_asks_for_a_person(
    world: Any, kit: Any, wipe: Wipe, hints: Any, policy: Any, asks: bool
) -> None:
    await world.start(wipe.function(kit, **hints), approval=ApprovalPolicy(**policy))
    world.model.answers = [[kit.call("wipe", n=1)], kit.text("ok")]
    _, run = await world.said()
    assert run.state is (RunState.PAUSED if asks else RunState.DONE)
    assert wipe.ran == ([] if asks else [1])


@both_databases
async def test_an_approval_survives_a_restart_and_replays_the_stored_call(
    world: Any, kit: Any, wipe: Wipe
) -> None:
    first = await world.start(wipe.function(kit, destructive=True))
    world.model.answers = [[*kit.text("I wipe."), kit.call("wipe", n=3)], kit.text("ok")]
    session, run = await world.said()
    (asked,) = await session.questions()
    assert (asked.query["tool"], asked.query["args"], asked.query["kind"]) == ("wipe", {"n": 3}, "approval")
    await first.close(0.0)
    second = await world.service()
    later = await second.start(session.id, owner=kit.ANN)
    await later.approve(asked.query["call"])
    assert (await later.wait(run)).state is RunState.DONE
    assert wipe.ran == [3]
    assert len(world.model.asked) == 2
    await kit.check_nothing_dangles(later)
    assert await kit.terminal_events(later, run) == [RunState.DONE]


@both_databases
async def test_calls_of_one_turn_are_decided_in_any_order(world: Any, kit: Any, wipe: Wipe) -> None:
    await world.start(wipe.function(kit, destructive=True))
    calls = [kit.call("wipe", n=n) for n in range(4)]
    world.model.answers = [calls, kit.text("ok")]
    session, run = await world.said()
    one, two, three, four = [row.query["call"] for row in await session.questions()]
    await session.reject(three, "not that one")
    await session.edit(four, {"n": 40})
    await session.wait(run)
    await session.approve(one)
    assert (await session.wait(run)).state is RunState.PAUSED
    assert sorted(wipe.ran) == [0, 40]
    assert len(world.model.asked) == 1
    await session.answer(two, "done by hand")
    assert (await session.wait(run)).state is RunState.DONE
    results = {row.call_id: row for row in await kit.rows_of(session, Type.TOOL_RESULT)}
    assert results[one].content == "0"
    assert results[two].content == '"done by hand"'
    assert "not that one" in results[three].content
    assert results[three].query["error"] is True
    seen = [row for row in world.model.asked[1] if row.type is Type.TOOL_RESULT and row.call_id == four]
    told = orjson.loads("".join(row.content for row in seen))
    assert (told["args"], told["result"]) == ({"n": 40}, 40)


@both_databases
async def test_of_two_decisions_at_once_one_wins(world: Any, kit: Any, wipe: Wipe) -> None:
    await world.start(wipe.function(kit, destructive=True))
    world.model.answers = [[kit.call("wipe", n=1)], kit.text("ok")]
    session, run = await world.said()
    other = await (await world.service()).start(session.id, owner=kit.ANN)
    (asked,) = await session.questions()
    decisions = [one.approve(asked.call_id) for one in (session, other, session, other)]
    outcomes = await asyncio.gather(*decisions, return_exceptions=True)
    refused = [error for error in outcomes if error is not None]
    assert len(refused) == 3
    assert all(isinstance(error, InvalidRequest) for error in refused)
    assert (await session.wait(run)).state is RunState.DONE
    assert wipe.ran == [1]


@both_databases
async def test_an_edit_does_not_escalate(world: Any, kit: Any, wipe: Wipe) -> None:
    await world.start(wipe.function(kit, destructive=True))
    world.model.answers = [[kit.call("wipe", n=1)], kit.text("ok")]
    session, run = await world.said()
    (asked,) = await session.questions()
    with pytest.raises(InvalidArguments):
        await session.edit(asked.call_id, {"n": "all"})
    with pytest.raises(InvalidArguments):
        await session.edit(asked.call_id, {"n": 1, "force": True})
    assert (await session.questions()) == [asked]
    await session.reject(asked.call_id)
    assert (await session.wait(run)).state is RunState.DONE
    assert wipe.ran == []


@both_databases
async def test_a_right_that_is_taken_away_meanwhile_is_not_used(world: Any, kit: Any, wipe: Wipe) -> None:
    await world.start(wipe.function(kit, destructive=True))
    world.model.answers = [[kit.call("wipe", n=1)], kit.text("ok")]
    session, run = await world.said()
    from enginehost.policy import Policy
    from enginehost.policy_rules import PolicyRules

    world.host._invoker.policy = Policy(PolicyRules(default="deny"))
    world.host.catalog.version += 1
    (asked,) = await session.questions()
    await session.approve(asked.call_id)
    assert (await session.wait(run)).state is RunState.DONE
    assert wipe.ran == []
    (result,) = await kit.rows_of(session, Type.TOOL_RESULT)
    assert result.query["error"] is True


@both_databases
async def test_nobody_decides_in_somebody_elses_session(world: Any, kit: Any, wipe: Wipe) -> None:
    await world.start(wipe.function(kit, destructive=True))
    world.model.answers = [[kit.call("wipe", n=1)], kit.text("ok")]
    session, _ = await world.said()
    (asked,) = await session.questions()
    for stranger in (Caller("bob", tenant="acme"), Caller("ann", tenant="other")):
        with pytest.raises(InvalidRequest, match="choose another id"):
            await world.agents.start(session.id, agent="helper", owner=stranger)
        from enginehost.agents.options import Options
        from enginehost.agents.session import AgentSession

        forged = AgentSession(world.agents, session.id, stranger, Options("helper"))
        for attempt in (forged.approve(asked.call_id), forged.write("hi"), forged.cancel(), forged.history()):
            with pytest.raises(UnknownSession):
                await attempt
        with pytest.raises(UnknownSession):
            await anext(forged.events())
    assert wipe.ran == []


@both_databases
async def test_a_decision_whose_maker_died_before_waking_the_turn_is_found(
    world: Any, kit: Any, wipe: Wipe
) -> None:
    from enginehost.agents.rows import Decision, decision

    await world.start(wipe.function(kit, destructive=True))
    world.model.answers = [[kit.call("wipe", n=1)], kit.text("ok")]
    session, run = await world.said()
    (asked,) = await session.questions()
    await session.append([decision(asked, Decision.APPROVE)])
    with pytest.raises(InvalidRequest, match="decided already"):
        await session.approve(asked.call_id)
    assert (await session.wait(run)).state is RunState.DONE
    assert wipe.ran == [1]


@both_databases
async def test_what_was_never_asked_cannot_be_decided(world: Any, kit: Any) -> None:
    await world.start()
    world.model.answers = [kit.text("hi")]
    session, _ = await world.said()
    with pytest.raises(InvalidRequest, match="no such question"):
        await session.approve("nothing")
    with pytest.raises(InvalidRequest, match="by hand"):
        await session.write(kit.call("wipe", n=1))


@both_databases
async def test_a_turn_may_go_on_beyond_a_limit_if_a_person_says_so(world: Any, kit: Any) -> None:
    async def one(parameters: dict[str, Any], call: Any) -> int:
        return 1

    await world.start(kit.function(one), limits=TurnLimits(steps=2, on_limit=OnLimit.ASK))
    world.model.answers = lambda rows: [kit.call("one", n=1)]
    session, run = await world.said()
    assert run.state is RunState.PAUSED
    assert len(world.model.asked) == 2
    (asked,) = await session.questions()
    assert "2 steps" in asked.content
    await session.approve(asked.call_id)
    assert (await session.wait(run)).state is RunState.PAUSED
    assert len(world.model.asked) == 4
    (asked,) = await session.questions()
    with pytest.raises(InvalidRequest):
        await session.edit(asked.call_id, {})
    await session.reject(asked.call_id)
    ended = await session.wait(run)
    assert ended.state is RunState.DONE
    assert len(world.model.asked) == 4
    await kit.check_nothing_dangles(session)
