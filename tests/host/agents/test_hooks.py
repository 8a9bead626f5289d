"""What a harness does around a turn."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from enginehost.agents.contract import Harness, Turn
from enginehost.errors import ExecutionFailed
from enginehost.llm.message import Message, Role, Status, Usage
from enginehost.store.port import RunState


class Watching(Harness):
    """Notes what it is called for; ``fails`` afterwards, as somebody's code may."""

    def __init__(self, *, fails: bool = False) -> None:
        self.seen: list[str] = []
        self._fails = fails

    async def before_turn(self, turn: Turn) -> None:
        self.seen.append("before")

    async def after_turn(self, turn: Turn) -> None:
        self.seen.append(str(turn.run.state))
        if self._fails:
            raise RuntimeError("after the turn")


@pytest.mark.parametrize("fails", [False, True])
async def test_the_hooks_run_around_every_turn_whatever_its_end(world: Any, kit: Any, fails: bool) -> None:
    harness = Watching(fails=fails)
    await world.start(harness=harness)

    async def endless() -> Any:
        yield Message(Role.ASSISTANT, content="some", id="a", status=Status.OPEN)
        await asyncio.Event().wait()

    world.model.answers = [kit.text("ok"), [ExecutionFailed("no")], endless(), kit.text("ok")]
    session, done = await world.said()
    failed = await session.wait(await session.write("more"))
    running = await session.write("more")
    async with asyncio.timeout(10):
        while len(world.model.asked) < 3:
            await asyncio.sleep(0.01)
    await session.cancel()
    cancelled = await session.wait(running)
    again = await session.wait(await session.write("more"))
    ends = [done.state, failed.state, cancelled.state, again.state]
    assert ends == [RunState.DONE, RunState.FAILED, RunState.CANCELLED, RunState.DONE]
    async with asyncio.timeout(10):
        while len(harness.seen) < 8:
            await asyncio.sleep(0.01)
    assert harness.seen == [one for end in ends for one in ("before", str(end))]


async def test_a_turn_that_waited_begins_with_the_hook_again_and_counts_what_it_used(
    world: Any, kit: Any
) -> None:
    harness, ran = Watching(), list[int]()

    async def wipe(parameters: dict[str, Any], call: Any) -> int:
        ran.append(parameters["n"])
        return 1

    await world.start(kit.function(wipe, destructive=True), harness=harness)
    world.model.answers = [
        [*kit.text("I wipe.", usage=Usage(10, 5, cost=0.25)), kit.call("wipe", n=1)],
        kit.text("ok", usage=Usage(20, 7, 3, cost=0.5)),
    ]
    session, run = await world.said()
    assert (run.state, harness.seen) == (RunState.PAUSED, ["before"])
    (asked,) = await session.questions()
    await session.approve(asked.call_id)
    run = await session.wait(run)
    assert (run.state, ran) == (RunState.DONE, [1])
    assert harness.seen == ["before", "before", "done"]
    used = run.usage
    assert (used.input, used.output, used.cached, used.cost) == (30, 12, 3, 0.75)
