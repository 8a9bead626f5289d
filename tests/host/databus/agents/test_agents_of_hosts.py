"""Agents of one host, found and asked by another."""

from __future__ import annotations

import asyncio
import json

import pytest

from enginehost import Caller
from enginehost.caller import anonymous
from enginehost.databus import AgentChange, Client
from enginehost.errors import InvalidRequest

from .conftest import PATIENCE, PRIMARY, WEATHER, StartHost, agent, known, sees, until

pytest.importorskip("cyclonedds")

SPECIALIST = agent(
    "weatherman",
    "SPECIALIZATIONS = weather, climate change",
    "AGENT_TYPE = SPECIALIZED_AGENT",
    "CAPABILITIES = forecasts",
    "DEFAULT_CAPABLE = true",
    "FUNCTION_TAGS = outdoors",
)
ANN = Caller("ann", face="http")


async def test_an_agent_is_found_with_all_that_it_says_of_itself(start: StartHost) -> None:
    there = await start("far", WEATHER, weatherman=SPECIALIST)
    here = await start("near", PRIMARY)
    found = await sees(here, "weatherman")
    assert there.bus is not None
    assert (found.service, found.function, found.tool) == ("far", "far.weatherman", "get_weather_info")
    assert (found.type, found.model, found.default_capable) == ("SPECIALIZED_AGENT", "actor", True)
    assert found.specializations == ("weather", "climate change")
    assert (found.capabilities, found.tags) == (("forecasts",), ("outdoors",))
    assert found.host == there.bus.describe()["host_id"]
    assert found.description == "Is weatherman."
    assert there.bus.agents() == []
    for name in ("get_weather_info", "weatherman", "far.weatherman"):
        assert await here.call(name, {"message": "today?"}) == "Sunny in turn 1: today?"
    assert [one["function"]["name"] for one in here.tools(tags=["outdoors"])] == ["get_weather_info"]


async def test_an_agent_asks_one_of_another_host_which_remembers_the_conversation(start: StartHost) -> None:
    there = await start("far", WEATHER, weatherman=SPECIALIST)
    here = await start("near", PRIMARY, primary=agent("primary", "TOOLS = *"))
    await sees(here, "weatherman")
    agents = await here.agents()
    session = await agents.start(agent="primary", owner=ANN)
    answers: list[str] = []
    for _ in range(2):
        run = await session.write("how is the weather")
        assert run is not None
        answers.append(await session.reply(await session.wait(run)))
    assert answers == [f'They say "Sunny in turn {turn}: how is it"' for turn in (1, 2)]
    other = await agents.start(agent="primary", owner=ANN)
    run = await other.write("how is the weather")
    assert run is not None
    assert await other.reply(await other.wait(run)) == 'They say "Sunny in turn 1: how is it"'
    assert await (await there.agents()).sessions(Caller("anonymous", authenticated=False))


async def test_agents_can_name_those_of_other_hosts_as_their_delegates(start: StartHost) -> None:
    here = await start("near", PRIMARY, primary=agent("primary", "AGENTS = weatherman"))
    there = await start("far", WEATHER, weatherman=SPECIALIST)
    assert there.bus is not None
    await sees(here, "weatherman")
    assert await here.call("primary", {"message": "weather"}) == 'They say "Sunny in turn 1: how is it"'


async def test_one_chain_is_one_trace_over_hosts(start: StartHost) -> None:
    there = await start("far", WEATHER, weatherman=SPECIALIST)
    here = await start("near", PRIMARY, primary=agent("primary", "TOOLS = *"))
    await sees(here, "weatherman")
    heard: list[tuple[str, str, str]] = []
    there._invoker.tracing.watch(lambda call: heard.append((call.function, call.chain_id, call.caller.agent)))
    call = here.new_call("primary", ANN)
    await here.call_json(call, {"message": "weather"})
    assert heard == [("weatherman", call.chain_id, "primary")]


async def test_arrivals_and_departures_are_told(start: StartHost, dds_domain: int) -> None:
    async with Client(domain=dds_domain) as bus:
        events = bus.agent_events()
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        host = await start("far", WEATHER, weatherman=SPECIALIST)
        arrived = await asyncio.wait_for(first, PATIENCE)
        assert (arrived.kind, arrived.agent.name) == (AgentChange.ARRIVED, "weatherman")
        [shown] = bus.agents()
        assert await bus.call(shown.tool, {"message": "hi"}) == "Sunny in turn 1: hi"
        await host.stop()
        departed = await asyncio.wait_for(anext(events), PATIENCE)
        assert (departed.kind, departed.agent.name) == (AgentChange.DEPARTED, "weatherman")
        assert bus.agents() == []
        await events.aclose()


LOOPING = """
answers:
  - when: {result: '*'}
    say: "$result"
  - reply: [{call: {tool: OTHER, args: {message: again}}}]
"""


@pytest.mark.parametrize("places", ["", "MAX_CONCURRENCY = 1"])
async def test_agents_that_ask_each_other_in_a_circle_get_an_error_and_never_wait_for_ever(
    start: StartHost, places: str
) -> None:
    more = ("TOOLS = *", "MAX_DEPTH = 3", places)
    one = await start("one", LOOPING.replace("OTHER", "beta"), alpha=agent("alpha", *more))
    two = await start("two", LOOPING.replace("OTHER", "alpha"), beta=agent("beta", *more))
    await sees(one, "beta")
    await sees(two, "alpha")
    async with asyncio.timeout(PATIENCE):
        answer = await one.call("alpha", {"message": "go"})
    assert ("is to answer in this chain already" if places else "agents may call each other 3 deep") in answer
    assert "alpha → beta → alpha" in answer


async def test_agents_that_ask_each_other_crosswise_do_not_wait_for_ever(
    start: StartHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    from enginehost.databus import agents_loops

    monkeypatch.setattr(agents_loops, "PLACE_SECONDS", 0.3)
    more = ("TOOLS = *", "MAX_CONCURRENCY = 1")
    one = await start("one", LOOPING.replace("OTHER", "beta"), alpha=agent("alpha", *more))
    two = await start("two", LOOPING.replace("OTHER", "alpha"), beta=agent("beta", *more))
    await sees(one, "beta")
    await sees(two, "alpha")
    async with asyncio.timeout(PATIENCE):
        for _ in range(5):
            asked = one.call("alpha", {"message": "go"}), two.call("beta", {"message": "go"})
            for answer in await asyncio.gather(*asked):
                assert "at once" in answer


async def test_a_conversation_that_waits_for_itself_is_an_error(start: StartHost) -> None:
    script = LOOPING.replace("{message: again}", "{message: again, conversation_id: same}")
    more = ("TOOLS = *",)
    one = await start("one", script.replace("OTHER", "beta"), alpha=agent("alpha", *more))
    two = await start("two", script.replace("OTHER", "alpha"), beta=agent("beta", *more))
    await sees(one, "beta")
    await sees(two, "alpha")
    async with asyncio.timeout(PATIENCE):
        message = {"message": "go", "conversation_id": "same"}
        answer = await one.call("alpha", message, caller=anonymous("databus"))
    assert "busy with another turn" in answer


async def test_the_policy_of_the_provider_decides_which_agent_may_ask(start: StartHost) -> None:
    policy = {
        "default": "call",
        "rules": [{"deny": "call", "functions": ["weatherman"], "agents": ["primary"]}],
    }
    await start("far", WEATHER, settings={"policy": policy}, weatherman=SPECIALIST)
    files = {name: agent(name, "TOOLS = *") for name in ("primary", "second")}
    here = await start("near", PRIMARY, **files)
    await sees(here, "weatherman")
    assert "may not call weatherman" in await here.call("primary", {"message": "weather"})
    assert "Sunny" in await here.call("second", {"message": "weather"})
    assert "Sunny" in await here.call("weatherman", {"message": "weather"})


async def test_pieces_of_an_answer_come_as_it_is_said(start: StartHost) -> None:
    await start("far", WEATHER, weatherman=SPECIALIST + "STREAM = true\n")
    here = await start("near", PRIMARY)
    await known(here, "get_weather_info")
    pieces = [piece async for piece in here.stream("get_weather_info", {"message": "now"})]
    assert "".join(pieces) == "Sunny in turn 1: now"
    assert json.dumps(pieces)


async def test_two_agents_of_one_subject_have_different_names(start: StartHost) -> None:
    here = await start("near", PRIMARY)
    await start("far", WEATHER, first=agent("first", "SPECIALIZATIONS = weather"))
    one = await sees(here, "first")
    await start("farther", WEATHER, second=agent("second", "SPECIALIZATIONS = weather"))
    two = await sees(here, "second")
    assert (one.tool, two.tool) == ("get_weather_info", "second")
    names = {tool["function"]["name"] for tool in here.tools()}
    assert names >= {"get_weather_info", "second"}


async def test_an_agent_that_goes_takes_its_names_along_and_has_them_again(start: StartHost) -> None:
    here = await start("near", PRIMARY)
    there = await start("far", WEATHER, weatherman=SPECIALIST)
    await sees(here, "weatherman")
    there.catalog.remove("weatherman")
    assert here.bus is not None
    bus = here.bus
    await until(lambda: not bus.agents())
    assert here.catalog.get("get_weather_info") is None
    assert here.catalog.target("get_weather_info") == "far.weatherman"
    with pytest.raises(InvalidRequest):
        await (await here.agents()).start(agent="weatherman")
