"""Two hosts on one database: whichever is asked, it is the same session."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)


def texts(events: list[Any]) -> dict[str, str]:
    """The content of each message, by id."""
    found: dict[str, str] = {}
    for one in events:
        if one.name == "message":
            found[one.data["id"]] = found.get(one.data["id"], "") + one.data["content"]
    return found


async def test_a_turn_of_one_is_followed_at_the_other_from_any_event(world: Any) -> None:
    a, b = await world.side(), await world.side()
    session = await a.start()
    run = await a.say(session, "please add")
    whole = [event async for event in b.events(session)]
    assert (whole[-1].data["id"], whole[-1].data["state"]) == (run["id"], "done")
    for number, event in enumerate(whole[:-1]):
        rest = [one async for one in b.events(session, event.id)]
        assert [one.id for one in rest] == [one.id for one in whole[number + 1 :]]
    assert [one async for one in b.events(session, whole[-1].id)] == []


async def test_a_turn_of_one_is_cancelled_at_the_other(world: Any) -> None:
    a, b = await world.side(), await world.side()
    session = await a.start()
    run = await a.say(session, "slowly")
    follower = asyncio.create_task(a.until(session, "cancelled"))
    async with aclosing(b.events(session)) as events:
        async for event in events:
            if event.name == "message" and event.data["role"] == "assistant":
                break
    assert (await b.post(f"/{session}/cancel")).json()["run"]["id"] == run["id"]
    ends = [one for one in await follower if one.name == "run" and one.data["state"] == "cancelled"]
    assert [one.data["id"] for one in ends] == [run["id"]]


async def test_a_call_of_one_is_approved_at_the_other(world: Any) -> None:
    a, b = await world.side(), await world.side()
    session = await a.paused()
    (asked,) = (await b.get(f"/{session}/approvals")).json()["approvals"]
    both = await asyncio.gather(
        *(side.post(f"/{session}/approvals/{asked['call']}", {"decision": "approve"}) for side in (a, b))
    )
    assert sorted(one.status_code for one in both) == [202, 409]
    events = await a.until(session, "done")
    results = [one.data for one in events if one.name == "message" and one.data["type"] == "tool_result"]
    assert [one["content"] for one in results if one["status"] == "done"] == ['"disk is gone"']


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(1, 40), min_size=1, max_size=6))
async def test_wherever_a_client_is_cut_off_it_goes_on_at_either_host(world: Any, cuts: list[int]) -> None:
    if not world.sides:
        world.sides = {number: await world.side() for number in (0, 1)}
        world.session = await world.sides[0].start()
        await world.sides[0].say(world.session, "a long one")
        await world.sides[0].until(world.session, "done")
    whole = [event async for event in world.sides[0].events(world.session)]
    found: list[Any] = []
    for number, cut in enumerate([*cuts, 10**6]):
        after = found[-1].id if found else ""
        async with aclosing(world.sides[number % 2].events(world.session, after)) as events:
            async for event in events:
                found.append(event)
                if (cut := cut - 1) == 0:
                    break
    assert texts(found) == texts(whole)
    assert len({one.id for one in found}) == len(found)


async def test_a_stream_that_breaks_while_it_is_written_loses_nothing_and_doubles_nothing(world: Any) -> None:
    sides = [await world.side(), await world.side()]
    session = await sides[0].start()
    run = await sides[0].say(session, "a long one")
    found: list[Any] = []
    cuts = itertools.cycle([1, 2, 3, 5, 8, 13])
    while not found or found[-1].data.get("state") != "done":  # while it is written
        cut, side = next(cuts), sides[len(found) % 2]
        async with aclosing(side.events(session, found[-1].id if found else "", header=False)) as events:
            async for event in events:
                found.append(event)
                cut -= 1
                if cut == 0:
                    break
    assert found[-1].data["id"] == run["id"]
    whole = [event async for event in sides[1].events(session)]
    assert texts(found) == texts(whole)
    assert "".join(texts(found).values()).count("word") == 300


async def test_a_host_that_stops_ends_its_streams_and_the_other_goes_on_with_the_turn(world: Any) -> None:
    a, b = await world.side(), await world.side()
    session = await a.start()
    await a.say(session, "slowly")
    found: list[Any] = []
    stopping: asyncio.Task[None] | None = None
    async with asyncio.timeout(30):
        async for event in a.events(session, until=False):
            found.append(event)
            if stopping is None and event.data.get("role") == "assistant":
                stopping = asyncio.create_task(a.host.stop(0.0))
    assert stopping is not None
    await stopping
    rest = [event async for event in b.events(session, found[-1].id)]
    seen = [*found, *rest]
    assert rest[-1].data["state"] == "done"
    assert len({one.id for one in seen}) == len(seen)
    whole = [event async for event in b.events(session)]
    assert texts(seen) == texts(whole)
