"""Which agent a question is for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.databus import BusAgent
from enginehost.errors import EngineUnavailable, InvalidRequest
from enginehost.genesis.routing import MOST_CONVERSATIONS, Because, Router, named


def an_agent(name: str, about: str = "", *, default: bool = False, subjects: Sequence[str] = ()) -> BusAgent:
    service = f"{name}-service"
    return BusAgent(
        id=f"id-{name}",
        name=name,
        service=service,
        description=about,
        type="AGENT",
        specializations=tuple(subjects),
        capabilities=(),
        tags=(),
        model="",
        default_capable=default,
        host="h",
        function=f"{service}.{name}",
        tool=name,
        age=0.0,
    )


RAIN = an_agent("rain", "Knows about clouds.", subjects=["weather forecasts"])
SUMS = an_agent("sums", "Adds up invoices.", subjects=["arithmetic"])
ANY = an_agent("any", "Helps.", default=True)
OTHER = an_agent("other", "Helps with invoices.", default=True)


@pytest.mark.parametrize(
    ("agents", "text", "chosen", "because"),
    [
        ([RAIN, SUMS, ANY], "what is the weather", ANY, Because.DEFAULT),
        ([RAIN, SUMS], "what is the weather", RAIN, Because.CLASSIFIER),
        ([RAIN, SUMS], "please add up this invoice", SUMS, Because.CLASSIFIER),
        ([RAIN, ANY, OTHER], "an invoice", OTHER, Because.CLASSIFIER),
        ([SUMS], "qqqq", SUMS, Because.ONLY),
    ],
)
async def test_the_default_one_is_asked_else_the_one_that_fits(
    agents: list[BusAgent], text: str, chosen: BusAgent, because: Because
) -> None:
    assert await Router().route(text, agents) == (chosen, because)
    assert because.words


async def test_where_nobody_fits_the_error_names_those_that_there_are() -> None:
    with pytest.raises(InvalidRequest, match=r"no agent fits this question.*rain, sums") as failure:
        await Router().route("qqqq", [RAIN, SUMS])
    assert failure.value.detail == {"reason": "no-agent-fits", "agents": ["rain", "sums"]}
    with pytest.raises(EngineUnavailable, match="there is no agent"):
        await Router().route("weather", [])


async def test_who_has_answered_in_a_conversation_goes_on_as_long_as_it_is_there() -> None:
    router = Router()
    assert (await router.route("weather", [RAIN, SUMS], "c")).agent is RAIN
    assert await router.route("an invoice", [RAIN, SUMS], "c") == (RAIN, Because.CONVERSATION)
    assert (await router.route("an invoice", [RAIN, SUMS], "d")).agent is SUMS
    assert (await router.route("an invoice", [SUMS], "c")).agent is SUMS
    for number in range(MOST_CONVERSATIONS):
        router.answers(number, SUMS)
    assert (await router.route("weather", [RAIN, SUMS], "c")).because is Because.CLASSIFIER


async def test_another_classifier_decides_in_place_of_the_words() -> None:
    async def last(_: str, agents: Sequence[BusAgent]) -> BusAgent:
        await asyncio.sleep(0)
        return agents[-1]

    assert (await Router(last).route("weather", [RAIN, SUMS])).agent is SUMS
    with pytest.raises(InvalidRequest):
        await Router(lambda *_: None).route("weather", [RAIN, SUMS])


@settings(max_examples=60, deadline=None)
@given(
    st.text(max_size=60),
    st.lists(st.tuples(st.text(min_size=1, max_size=9), st.text(max_size=30), st.booleans()), max_size=6),
)
def test_whatever_is_asked_one_of_the_agents_answers_or_a_clear_error_does(text: str, said: Any) -> None:
    agents = [
        an_agent(f"{name}{at}", about, default=default) for at, (name, about, default) in enumerate(said)
    ]
    try:
        agent, because = asyncio.run(Router().route(text, agents))
    except EngineUnavailable:
        assert not agents
    except InvalidRequest:
        assert len(agents) > 1
        assert sum(one.default_capable for one in agents) != 1
    else:
        assert agent in agents
        assert agent.default_capable or not any(one.default_capable for one in agents)
        assert because in set(Because)
    for agent in agents:
        for name in (agent.id, agent.function):
            assert named(agents, name) is not None


PLANNER = replace(an_agent("planner", default=True), id="p", age=60.0, holds=("planner",))
NEWCOMER = replace(
    an_agent("planner", default=True, subjects=["weather"]),
    id="n",
    service="AAA",
    function="AAA.planner",
    tool="get_weather_info",
    host="",
    holds=("get_weather_info",),
)


async def test_a_newcomer_takes_over_neither_a_name_nor_the_default() -> None:
    there = [NEWCOMER, PLANNER]
    assert named(there, "planner") is PLANNER
    assert named(there, "AAA.planner") is named(there, "get_weather_info") is NEWCOMER
    assert await Router().route("weather", there) == (PLANNER, Because.DEFAULT)
    router, together = Router(), [NEWCOMER, replace(PLANNER, age=0.0, holds=())]
    with pytest.raises(InvalidRequest, match=r"'planner' is ambiguous: AAA.planner, planner-service.planner"):
        named(together, "planner")
    assert named(together, "planner", before="p") is together[1]
    with pytest.raises(InvalidRequest, match="ambiguous") as failure:
        await router.route("qqqq", together)
    assert failure.value.detail["reason"] == "ambiguous"
    await router.route("qqqq", together[1:])
    assert (await router.route("weather", together)).agent is together[1]


def test_a_service_is_its_agent_that_answers_by_default() -> None:
    first = replace(an_agent("fan"), service="desk", function="desk.fan")
    default = replace(PLANNER, service="desk", function="desk.planner")
    stranger = replace(NEWCOMER, name="aaa", service="desk", function="desk.aaa")
    assert named([stranger, first, default], "desk") is default
