"""One process holds a turn; whoever held it before writes nothing more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from enginehost.errors import Overloaded, UnknownSession
from enginehost.llm.message import Message, Role, Status, Type, Usage, user
from enginehost.store.port import Fence, Fenced, Owner, Run, RunState
from enginehost.store.sql import SqlStore

from .conftest import call, result

Open = Callable[..., Awaitable[SqlStore]]
Raw = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
async def stores(open_store: Open) -> list[SqlStore]:
    return [await open_store(), await open_store()]


async def started(store: SqlStore, session: str, agent: str, owner: Owner) -> Run:
    (row,) = await store.append(session, [user("go")], owner)
    return await store.start_run(session, agent, owner, started_by=row.sequence, data={"a": 1}, task="t1")


async def taken(store: SqlStore, holder: str, agent: str) -> Run:
    run = await store.claim(holder, [agent])
    assert run is not None
    return run


def lease_ends(raw: Raw, holder: str) -> None:
    raw(f"UPDATE processes SET until = 0 WHERE holder = '{holder}'")


async def test_of_many_who_take_a_turn_one_gets_it(
    stores: list[SqlStore], owner: Owner, session: str, agent: str
) -> None:
    run = await started(stores[0], session, agent, owner)
    outcomes = await asyncio.gather(*(stores[n % 2].claim(f"{agent}-{n}", [agent]) for n in range(8)))
    (won,) = [one for one in outcomes if one is not None]
    assert (won.id, won.state, won.epoch, won.data, won.task) == (run.id, "running", 1, {"a": 1}, "t1")
    assert await stores[1].run(run.id) == won
    assert await stores[1].runs(session, owner) == [won]
    assert await stores[0].claim("other", ["another agent"]) is None


async def test_a_session_has_one_turn_at_a_time(
    stores: list[SqlStore], owner: Owner, session: str, agent: str
) -> None:
    await started(stores[0], session, agent, owner)
    with pytest.raises(Overloaded):
        await stores[1].start_run(session, agent, owner)
    run = await taken(stores[0], agent, agent)
    await stores[0].change_run(Fence(run.id, run.epoch), RunState.DONE, usage=Usage(output=3))
    second = await stores[1].start_run(session, agent, owner)
    assert [one.id for one in await stores[0].runs(session, owner)] == [second.id, run.id]
    with pytest.raises(UnknownSession):
        await stores[0].start_run(f"{session}-none", agent, owner)


async def test_a_turn_whose_process_died_is_taken_over_and_a_zombie_writes_nothing(
    stores: list[SqlStore], owner: Owner, session: str, agent: str, raw: Raw
) -> None:
    zombie, heir = stores
    run = await started(zombie, session, agent, owner)
    old = await taken(zombie, f"{agent}-1", agent)
    await zombie.beat(f"{agent}-1", 60)
    before = Fence(run.id, old.epoch)
    writing = await zombie.begin(session, result("c1", ""), owner, fence=before)
    await writing.write("half")
    while (await heir.history(session, owner))[-1].content != "half":
        await asyncio.sleep(0.01)
    assert await heir.claim(f"{agent}-2", [agent]) is None  # its process lives
    lease_ends(raw, f"{agent}-1")
    new = await taken(heir, f"{agent}-2", agent)
    assert (new.id, new.epoch, new.holder) == (run.id, 2, f"{agent}-2")
    for write in (
        lambda: zombie.append(session, [user("zombie")], owner, fence=before),
        lambda: zombie.begin(session, Message(Role.ASSISTANT), owner, fence=before),
        lambda: zombie.change_run(before, RunState.DONE),
        lambda: zombie.close_open(before, owner),
        lambda: writing.finish(),
    ):
        with pytest.raises(Fenced):
            await write()
    now = Fence(run.id, new.epoch)
    (head,) = await heir.close_open(now, owner)
    assert (head.id, head.status, head.call_id) == (writing.message.id, Status.FAILED, "c1")
    await heir.append(session, [result("c1")], owner, fence=now)  # a failed result is none
    rows = await heir.history(session, owner)
    assert [(row.content, row.status) for row in rows] == [
        ("go", Status.DONE),
        ("half", Status.FAILED),
        ("3", Status.DONE),
    ]


async def test_pieces_of_a_zombie_are_refused_too(
    stores: list[SqlStore], owner: Owner, session: str, agent: str, raw: Raw
) -> None:
    zombie, heir = stores
    await started(zombie, session, agent, owner)
    run = await taken(zombie, f"{agent}-1", agent)
    writing = await zombie.begin(session, Message(Role.ASSISTANT), owner, fence=Fence(run.id, run.epoch))
    lease_ends(raw, f"{agent}-1")
    await taken(heir, f"{agent}-2", agent)

    async def write_on() -> None:
        while True:
            await writing.write("more")
            await asyncio.sleep(0.02)

    with pytest.raises(Fenced):
        await asyncio.wait_for(write_on(), 5)
    assert "more" not in (await heir.history(session, owner))[-1].content


async def test_pieces_of_others_are_stored_beside_those_of_a_zombie(
    stores: list[SqlStore], owner: Owner, session: str, agent: str, raw: Raw
) -> None:
    zombie, heir = stores
    await started(zombie, session, agent, owner)
    run = await taken(zombie, f"{agent}-1", agent)
    lost = await zombie.begin(session, Message(Role.ASSISTANT), owner, fence=Fence(run.id, run.epoch))
    lease_ends(raw, f"{agent}-1")
    await taken(heir, f"{agent}-2", agent)
    kept = await zombie.begin(f"{session}-b", Message(Role.ASSISTANT), owner)
    await asyncio.gather(lost.write("lost"), kept.write("kept"))  # one job of the writer has both
    while (await heir.history(f"{session}-b", owner))[-1].content != "kept":
        await asyncio.sleep(0.01)
    assert (await heir.history(session, owner))[-1].content == ""
    with pytest.raises(Fenced):
        await lost.write("more")
    await kept.finish()


async def test_a_clock_that_jumps_ends_no_lease(
    stores: list[SqlStore], owner: Owner, session: str, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await started(stores[0], session, agent, owner)
    await taken(stores[0], f"{agent}-1", agent)
    await stores[0].beat(f"{agent}-1", 30)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 86_400)
    assert await stores[1].claim(f"{agent}-2", [agent]) is None
    monkeypatch.setattr(time, "time", lambda: now - 86_400)
    assert await stores[1].claim(f"{agent}-2", [agent]) is None
    (row,) = await stores[1].append(session, [user("later")], owner)
    assert row.sequence == 4  # order is that of the store, not of clocks


async def test_a_shorter_beat_shortens_no_lease_and_a_restarted_machine_ends_all(
    stores: list[SqlStore], owner: Owner, session: str, agent: str, raw: Raw
) -> None:
    await started(stores[0], session, agent, owner)
    await taken(stores[0], f"{agent}-1", agent)
    await stores[0].beat(f"{agent}-1", 60)
    await stores[0].beat(f"{agent}-1", -60)
    assert await stores[1].claim(f"{agent}-2", [agent]) is None
    raw(f"UPDATE processes SET boot = 'another' WHERE holder = '{agent}-1'")
    assert (await taken(stores[1], f"{agent}-2", agent)).epoch == 2


async def test_what_a_process_that_ended_in_order_still_held_is_free_at_once(
    stores: list[SqlStore], owner: Owner, session: str, agent: str
) -> None:
    run = await started(stores[0], session, agent, owner)
    held = await taken(stores[0], f"{agent}-1", agent)
    await stores[0].beat(f"{agent}-1", 600)
    await stores[0].leave(f"{agent}-1")
    assert (await taken(stores[1], f"{agent}-2", agent)).epoch == held.epoch + 1
    with pytest.raises(Fenced):
        await stores[0].change_run(Fence(run.id, held.epoch), RunState.RUNNING)


async def test_of_two_who_resume_one_does(
    stores: list[SqlStore], owner: Owner, session: str, agent: str
) -> None:
    run = await started(stores[0], session, agent, owner)
    held = await taken(stores[0], agent, agent)
    fence = Fence(run.id, held.epoch)
    assert not await stores[1].resume_run(run.id)
    paused = await stores[0].change_run(fence, RunState.PAUSED, data={"asked": True})
    assert (paused.state, paused.holder, paused.data) == (RunState.PAUSED, "", {"asked": True})
    with pytest.raises(Fenced):
        await stores[0].change_run(fence, RunState.RUNNING)
    assert sorted(await asyncio.gather(*(one.resume_run(run.id) for one in stores * 2))) == [0, 0, 0, 1]
    assert (await taken(stores[1], f"{agent}-2", agent)).epoch == 2
    assert not await stores[0].resume_run("no such run")


async def test_what_has_ended_goes_on_no_more(
    store: SqlStore, owner: Owner, session: str, agent: str
) -> None:
    run = await started(store, session, agent, owner)
    fence = Fence(run.id, (await taken(store, agent, agent)).epoch)
    left = await store.begin(session, Message(Role.ASSISTANT), owner, fence=fence)
    await left.write("half")
    with pytest.raises(TypeError):
        await store.change_run(fence, RunState.DONE, nonsense=1)
    ended = await store.change_run(fence, RunState.FAILED, error={"code": "timeout"})
    assert (ended.error, ended.state) == ({"code": "timeout"}, RunState.FAILED)
    for write in (
        lambda: store.append(session, [user("x")], owner, fence=fence),
        lambda: store.change_run(fence, RunState.DONE),
        lambda: left.finish(),
    ):
        with pytest.raises(Fenced):
            await write()
    assert (await store.history(session, owner))[-1].status is Status.FAILED
    assert await store.claim(agent, [agent]) is None
    assert await store.cancel_run(run.id, owner) == await store.run(run.id)


async def test_another_process_asks_for_the_end_of_a_turn(
    stores: list[SqlStore], owner: Owner, session: str, agent: str
) -> None:
    runner, other = stores
    run = await started(runner, session, agent, owner)
    watch = runner.cancelled(agent)
    waiting = asyncio.ensure_future(anext(watch))
    held = await taken(runner, agent, agent)
    await runner.beat(agent, 60)
    asked = await other.cancel_run(run.id, owner)
    assert asked is not None
    assert (asked.state, asked.cancel) == (RunState.RUNNING, True)
    assert await asyncio.wait_for(waiting, 5) == run.id
    assert await other.cancel_run(run.id, owner) == asked  # once is enough
    fence = Fence(run.id, held.epoch)
    await runner.append(session, [user("the last thing")], owner, fence=fence)
    await runner.change_run(fence, RunState.CANCELLED)
    await watch.aclose()
    assert await other.cancel_run("no such run", owner) is None


@pytest.mark.parametrize("state", ["queued", "paused", "dead"])
async def test_a_turn_that_nobody_runs_ends_at_once_and_leaves_no_call_open(
    stores: list[SqlStore], owner: Owner, session: str, agent: str, raw: Raw, state: str
) -> None:
    run = await started(stores[0], session, agent, owner)
    fence = Fence(run.id, 1)
    if state != "queued":
        await taken(stores[0], agent, agent)
        await stores[0].append(session, [call("c1"), call("c2"), result("c2")], owner, fence=fence)
        if state == "paused":
            await stores[0].change_run(fence, RunState.PAUSED)
        lease_ends(raw, agent)
    outcomes = await asyncio.gather(*(one.cancel_run(run.id, owner) for one in stores * 2))
    assert {one.state for one in outcomes if one} == {RunState.CANCELLED}
    rows = await stores[1].history(session, owner)
    results = [row for row in rows if row.type is Type.TOOL_RESULT]
    assert [row.call_id for row in results] == ([] if state == "queued" else ["c2", "c1"])
    if results:
        assert results[-1].query == {"tool": "add", "id": "c1", "error": True}
    ends = []
    async for event in stores[1].events(session, owner):
        if event.run and event.run.state.ended:
            ends.append(event.at.sequence)
            break
    assert ends[0] > rows[-1].sequence
    with pytest.raises(Fenced):
        await stores[0].append(session, [user("zombie")], owner, fence=fence)
