"""A delegate whose host is killed while it answers: never a silent loss, never a second time unasked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.host.databus.processes import line_of, running_program

from enginehost import Caller
from enginehost.agents.contract import UnknownOutcome
from enginehost.agents.identity import owner_of
from enginehost.host import Host
from enginehost.llm.message import Type
from enginehost.store.port import RunState

from .conftest import PRIMARY, WEATHER, StartHost, agent, sees, until, write

pytest.importorskip("cyclonedds")

HANGING = "answers: [{reply: [{text: Once}, {hang: true}]}]\n"
ANN = Caller("ann", face="http")
ANYBODY_ASKS = Caller("anonymous", authenticated=False, face="databus", agent="primary")
Doomed = Callable[..., Awaitable[Any]]


@pytest.fixture
async def doomed(dds_domain: int, tmp_path: Path) -> AsyncIterator[Doomed]:
    """Starts a host in a process of its own whose agent begins to answer and never ends."""
    async with AsyncExitStack() as stack:

        async def started(*more: str) -> Any:
            file = "\n".join((WEATHERMAN, *more))
            folder = write(tmp_path / "doomed" / "smss", HANGING, weatherman=file)
            program = Path(__file__).with_name("host.py")
            words = (str(program), str(dds_domain), "far", str(folder), str(tmp_path / "doomed" / "state"))
            process = await stack.enter_async_context(running_program(*words))
            assert (await line_of(process)).strip() == b"ready"
            return process

        yield started


WEATHERMAN = agent("weatherman", "SPECIALIZATIONS = weather")


async def begun(here: Host) -> tuple[Any, Any]:
    """A session whose turn has asked the delegate, which does not answer."""
    session = await (await here.agents()).start(agent="primary", owner=ANN)
    run = await session.write("how is the weather")
    assert run is not None
    assert here.bus is not None
    requester = here.bus._joined.link.requester  # type: ignore[union-attr]
    await until(lambda: any(one.accepted for one in requester._exchanges.values()) or requester.in_flight)
    await asyncio.sleep(0.3)  # the request is where it should be
    return session, run


async def ended(session: Any, run: Any) -> Any:
    async with asyncio.timeout(30):
        return await session.wait(run)


async def test_the_model_is_told_where_the_agent_says_so(start: StartHost, doomed: Doomed) -> None:
    process = await doomed()
    here = await start(
        "near", PRIMARY, primary=agent("primary", "TOOLS = *", f"ON_UNKNOWN_OUTCOME = {UnknownOutcome.FAIL}")
    )
    await sees(here, "weatherman")
    session, run = await begun(here)
    process.kill()
    assert (await ended(session, run)).state is RunState.DONE
    assert "outcome_unknown" in await session.reply(run)


async def test_a_person_is_asked_and_the_call_runs_again_on_another_host(
    start: StartHost, doomed: Doomed
) -> None:
    process = await doomed()
    here = await start("near", PRIMARY, primary=agent("primary", "TOOLS = *"))
    await sees(here, "weatherman")
    session, run = await begun(here)
    process.kill()
    assert (await ended(session, run)).state is RunState.PAUSED
    [question] = await session.questions()
    assert question.query["kind"] == "outcome"
    await start("far", WEATHER, weatherman=WEATHERMAN)
    await sees(here, "weatherman")
    await session.approve(question.query["id"])
    assert (await ended(session, run)).state is RunState.DONE
    assert await session.reply(run) == 'They say "Sunny in turn 1: how is it"'
    results = [row for row in await session.history() if row.type is Type.TOOL_RESULT]
    assert len(results) == 1


async def test_a_call_that_may_be_repeated_waits_for_a_host_that_is_started_again(
    start: StartHost, doomed: Doomed
) -> None:
    process = await doomed()
    wanted = f"ON_UNKNOWN_OUTCOME = {UnknownOutcome.RETRY}"
    here = await start("near", PRIMARY, primary=agent("primary", "TOOLS = *", wanted))
    await sees(here, "weatherman")
    session, run = await begun(here)
    process.kill()
    assert here.bus is not None
    bus = here.bus
    await until(lambda: not bus.agents())
    await until(lambda: (stats := here.stats("far.weatherman")) and stats.outcomes.get("outcome_unknown"))
    await start("far", WEATHER, weatherman=WEATHERMAN)
    assert (await ended(session, run)).state is RunState.DONE
    assert await session.reply(run) == 'They say "Sunny in turn 1: how is it"'


@pytest.mark.parametrize("streams", ["", "STREAM = true"])
async def test_a_host_that_is_back_goes_on_with_the_turn_and_the_repeated_call_gets_its_answer(
    start: StartHost, doomed: Doomed, streams: str
) -> None:
    process = await doomed(streams)
    wanted = f"ON_UNKNOWN_OUTCOME = {UnknownOutcome.RETRY}"
    here = await start("near", PRIMARY, primary=agent("primary", "TOOLS = *", wanted))
    await sees(here, "weatherman")
    session, run = await begun(here)
    process.kill()
    back = await start("doomed", WEATHER, bus={"service": "far"}, weatherman=WEATHERMAN + streams)
    assert (await ended(session, run)).state is RunState.DONE
    assert "Sunny in turn 1: how is it" in await session.reply(run)
    [turn] = await turns_of(back)
    assert (turn.state, turn.epoch) == (RunState.DONE, 2), "the dead process's turn, and no second one"


async def turns_of(host: Host) -> list[Any]:
    """All turns in a host's database."""
    agents = await host.agents()
    found = list[Any]()
    for told in await agents.sessions(ANYBODY_ASKS):
        found += await agents.store.runs(told.id, owner_of(ANYBODY_ASKS))  # type: ignore[attr-defined]
    return found


async def test_a_call_that_may_be_repeated_is_made_again_by_itself(start: StartHost, doomed: Doomed) -> None:
    process = await doomed()
    here = await start(
        "near", PRIMARY, primary=agent("primary", "TOOLS = *", f"ON_UNKNOWN_OUTCOME = {UnknownOutcome.RETRY}")
    )
    await sees(here, "weatherman")
    session, run = await begun(here)
    await start("far", WEATHER, weatherman=WEATHERMAN)
    assert here.bus is not None
    bus = here.bus
    await until(lambda: len(bus.agents()) == 2)
    process.kill()
    assert (await ended(session, run)).state is RunState.DONE
    assert await session.reply(run) == 'They say "Sunny in turn 1: how is it"'
