"""Cancelling, taking over, and handing over: whoever ends or leaves a turn leaves nothing half done."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from enginehost.agents.contract import UnknownOutcome
from enginehost.llm.message import Message, Role, Status, Type
from enginehost.store.port import RunState

pytestmark = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)


def dies(agents: Any, world: Any) -> None:
    """The process of a service is gone without a word, and its lease is over."""
    for task in (*agents._own, *agents._tasks.values()):
        task.cancel()
    agents._taking = False
    world.changed("UPDATE processes SET until = 0 WHERE holder = %s", agents.holder)


async def until(condition: Any) -> None:
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen")


async def endless() -> Any:
    """What a model says that begins to answer and never ends."""
    yield Message(Role.ASSISTANT, content="some", id="a", status=Status.OPEN)
    await asyncio.Event().wait()


def hanging(kit: Any, started: list[int], ended: list[int], **hints: bool) -> Any:
    async def hang(parameters: dict[str, Any], call: Any) -> int:
        started.append(parameters["n"])
        try:
            if len(started) == 1:
                await asyncio.Event().wait()
            return 1
        finally:
            ended.append(parameters["n"])

    return kit.function(hang, **hints)


async def test_cancel_from_another_process_ends_a_model_that_hangs(world: Any, kit: Any) -> None:
    await world.start()

    world.model.answers = [endless(), kit.text("again")]
    session = await world.session()
    run = await session.write("go")
    await until(lambda: world.model.asked)
    followers = [asyncio.create_task(kit.terminal_events(session, run)) for _ in range(2)]
    other = await (await world.service(opened=False)).start(session.id, owner=kit.ANN)
    await asyncio.sleep(0.05)
    await other.cancel()
    assert (await session.wait(run)).state is RunState.CANCELLED
    assert world.model.closed == 1
    assert [await one for one in followers] == [[RunState.CANCELLED]] * 2
    (answer,) = [row for row in await kit.rows_of(session, Type.TEXT) if row.role is Role.ASSISTANT]
    assert (answer.content, answer.status) == ("some", Status.CANCELLED)
    await session.wait(await session.write("more"))
    assert [row.content for row in world.model.asked[1]] == ["go", "some", "more"]


async def test_a_cancelled_turn_settles_every_call(world: Any, kit: Any) -> None:
    started: list[int] = []
    ended: list[int] = []

    async def fine(parameters: dict[str, Any], call: Any) -> int:
        return 7

    await world.start(hanging(kit, started, ended), kit.function(fine), kit.never("wipe", destructive=True))
    world.model.answers = [
        [kit.call("hang", n=1), kit.call("fine", n=2), kit.call("wipe", n=3)],
        kit.text("ok"),
    ]
    session = await world.session()
    run = await session.write("go")
    await until(lambda: started)
    await session.cancel()
    assert (await session.wait(run)).state is RunState.CANCELLED
    assert ended == [1]
    await kit.check_nothing_dangles(session)
    contents = [row.content for row in await kit.rows_of(session, Type.TOOL_RESULT)]
    assert "7" in contents
    assert sum("cancelled" in content for content in contents) == 2
    await session.wait(await session.write("more"))
    assert world.model.asked[1][-1].content == "more"


async def test_a_turn_that_waits_for_a_person_can_be_cancelled(world: Any, kit: Any) -> None:
    await world.start(kit.never("wipe", destructive=True))
    world.model.answers = [[kit.call("wipe", n=3)], kit.text("ok")]
    session, run = await world.said()
    cancelled = await session.cancel()
    assert cancelled is not None
    assert cancelled.state is RunState.CANCELLED
    await kit.check_nothing_dangles(session)
    assert await session.questions() == []
    assert await session.cancel() is None
    assert await kit.terminal_events(session, run) == [RunState.CANCELLED]


@pytest.mark.parametrize("hints", [{"read_only": True}, {"idempotent": True}])
async def test_after_a_death_what_is_safe_runs_again(world: Any, kit: Any, hints: dict[str, bool]) -> None:
    started: list[int] = []
    first = await world.start(hanging(kit, started, [], **hints))
    world.model.answers = [[kit.call("hang", n=1)], kit.text("ok")]
    session = await world.session()
    run = await session.write("go")
    await until(lambda: started)
    dies(first, world)
    later = await (await world.service()).start(session.id, owner=kit.ANN)
    assert (await later.wait(run)).state is RunState.DONE
    assert started == [1, 1]
    await kit.check_nothing_dangles(later)


@pytest.mark.parametrize("wanted", list(UnknownOutcome))
async def test_after_a_death_the_agent_says_what_becomes_of_a_call_with_effects(
    world: Any, kit: Any, wanted: UnknownOutcome
) -> None:
    started: list[int] = []
    first = await world.start(hanging(kit, started, []), on_unknown_outcome=wanted)
    world.model.answers = [[kit.call("hang", n=1)], kit.text("ok")]
    session = await world.session()
    run = await session.write("go")
    await until(lambda: started)
    dies(first, world)
    later = await (await world.service()).start(session.id, owner=kit.ANN)
    now = await later.wait(run)
    if wanted is UnknownOutcome.ASK:
        while not await later.questions():
            await asyncio.sleep(0.02)
        assert (await later.wait(run)).state is RunState.PAUSED
        assert started == [1]
        (asked,) = await later.questions()
        assert (asked.query["kind"], asked.query["call"]) == ("outcome", asked.query["id"].split("~")[0])
        await later.approve(asked.query["call"])
        now = await later.wait(run)
    assert now.state is RunState.DONE
    assert started == ([1] if wanted is UnknownOutcome.FAIL else [1, 1])
    (result,) = await kit.rows_of(later, Type.TOOL_RESULT)
    assert ("outcome_unknown" in result.content) is (wanted is UnknownOutcome.FAIL)


async def test_a_zombie_writes_nothing_more(world: Any, kit: Any) -> None:
    go_on = asyncio.Event()

    async def slowly() -> Any:
        yield Message(Role.ASSISTANT, content="zombie", id="z", status=Status.OPEN)
        await go_on.wait()
        for number in range(3):
            yield Message(Role.ASSISTANT, content=f" {number}", id="z", status=Status.OPEN)
        yield Message(Role.ASSISTANT, id="z")

    first = await world.start()
    world.model.answers = [slowly(), kit.text("living")]
    session = await world.session()
    run = await session.write("go")
    await until(lambda: world.model.asked)
    first._own[0].cancel()  # its heartbeat alone has stopped
    world.changed("UPDATE processes SET until = 0")
    later = await (await world.service()).start(session.id, owner=kit.ANN)
    assert (await later.wait(run)).state is RunState.DONE
    go_on.set()
    await until(lambda: not first._tasks)
    answers = [row for row in await kit.rows_of(later, Type.TEXT) if row.role is Role.ASSISTANT]
    assert [(row.content, row.status) for row in answers if row.status is Status.DONE] == [
        ("living", Status.DONE)
    ]
    assert all("2" not in row.content for row in answers)
    assert await kit.terminal_events(later, run) == [RunState.DONE]


async def test_a_process_that_stops_hands_its_turn_to_another(world: Any, kit: Any) -> None:
    started: list[int] = []
    first = await world.start(hanging(kit, started, [], idempotent=True))
    world.model.answers = [[kit.call("hang", n=1)], kit.text("ok")]
    session = await world.session()
    run = await session.write("go")
    await until(lambda: started)
    second = await world.service()
    await first.close(0.05)
    later = await second.start(session.id, owner=kit.ANN)
    assert (await later.wait(run)).state is RunState.DONE
    assert run.id not in first._tasks
    await kit.check_nothing_dangles(later)


async def test_of_two_resumes_at_once_one_runs(world: Any, kit: Any) -> None:
    ran: list[int] = []

    async def wipe(parameters: dict[str, Any], call: Any) -> int:
        ran.append(1)
        await asyncio.sleep(0.05)
        return 1

    first = await world.start(kit.function(wipe, destructive=True))
    second = await world.service()
    world.model.answers = [[kit.call("wipe", n=1)], kit.text("ok")]
    session, run = await world.said()
    (asked,) = await session.questions()
    from enginehost.agents.rows import Decision, decision

    await session.append([decision(asked, Decision.APPROVE)])
    await asyncio.gather(*(agents.resume(run) for agents in (first, second, first, second)))
    assert (await session.wait(run)).state is RunState.DONE
    assert ran == [1]
    assert len(world.model.asked) == 2


async def test_a_stage_that_raises_fails_its_turn_and_no_other(world: Any, kit: Any) -> None:
    async def bad(messages: Any, turn: Any) -> Any:
        async for message in messages:
            if "boom" in message.content:
                raise RuntimeError(f"no {Path(__file__)}")
            yield message

    await world.start(stages=(bad,))
    world.model.answers = [kit.text("boom"), kit.text("fine")]
    session, run = await world.said()
    assert run.state is RunState.FAILED
    assert str(Path(__file__).parent) not in str(run.error)
    assert world.model.closed == 1
    again = await session.wait(await session.write("again"))
    assert again.state is RunState.DONE


async def test_the_store_failing_for_a_while_does_not_fail_the_turn(world: Any, kit: Any) -> None:
    from enginehost.errors import EngineUnavailable

    await world.start()
    store, broken = world.agents.store, [2]
    begin = store.begin

    async def flaky(*given: Any, **more: Any) -> Any:
        if broken[0]:
            broken[0] -= 1
            raise EngineUnavailable("the database is away")
        return await begin(*given, **more)

    store.begin = flaky
    world.model.answers = lambda rows: kit.text("here")
    session = await world.session()
    run = await session.write("go")
    while not (run := await session.wait(run)).state.ended:
        await asyncio.sleep(0.02)
    assert run.state is RunState.DONE
    assert await session.reply(run) == "here"


async def test_what_two_processes_write_at_once_is_all_answered(world: Any, kit: Any) -> None:
    await world.start()
    answered: set[str] = set()

    def answer(rows: Any) -> Any:
        answered.update(row.content for row in rows if row.role is Role.USER)
        return kit.text("ok")

    world.model.answers = answer
    session = await world.session()
    other = await (await world.service()).start(session.id, owner=kit.ANN)
    words = [f"word {number}" for number in range(20)]
    await asyncio.gather(*((session, other)[number % 2].write(word) for number, word in enumerate(words)))
    await until(lambda: answered >= set(words))
    while not all(run.state.ended for run in await session.runs()):
        await asyncio.sleep(0.02)
    assert {run.state for run in await session.runs()} == {RunState.DONE}
    rows = [row.content for row in await kit.rows_of(session, Type.TEXT) if row.role is Role.USER]
    assert sorted(rows) == sorted(words)
    await kit.check_nothing_dangles(session)


async def test_a_turn_that_asks_its_model_is_given_back_at_once(world: Any, kit: Any) -> None:
    first = await world.start()

    world.model.answers = [endless(), kit.text("whole")]
    session = await world.session()
    run = await session.write("go")
    await until(lambda: world.model.asked)
    async with asyncio.timeout(30):
        await first.close(600.0)
    second = await world.service()
    later = await second.start(session.id, owner=kit.ANN)
    done = await later.wait(run)
    assert (done.state, await later.reply(done)) == (RunState.DONE, "whole")


async def test_a_turn_whose_answer_a_call_here_waits_for_may_end_in_the_drain(world: Any, kit: Any) -> None:
    first = await world.start()
    goes_on = asyncio.Event()

    async def slow() -> Any:
        yield Message(Role.ASSISTANT, content="some", id="a", status=Status.OPEN)
        await goes_on.wait()
        yield Message(Role.ASSISTANT, content=" more", id="a")

    world.model.answers = [slow()]
    session = await world.session()
    run = await session.write("go")
    await until(lambda: world.model.asked)
    with first.awaiting(run):
        closing = asyncio.create_task(first.close(30.0))
        await asyncio.sleep(0.05)
        goes_on.set()
        await closing
    assert (await session.wait(run)).state is RunState.DONE
