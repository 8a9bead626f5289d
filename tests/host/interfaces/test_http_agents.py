"""``/v1/agents``: agents of this host and of others, over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import httpx2
import pytest

from enginehost.call import Call
from enginehost.databus import DatabusConfig
from enginehost.databus.transports import load_cyclone
from enginehost.databus.types import CHAIN_EVENT
from enginehost.host import Host
from enginehost.monitoring.database import Recorded, latest, steps_of
from enginehost.monitoring.decisions import Linked, linked
from enginehost.monitoring.why import cause_of
from enginehost.steps import Step, StepKind
from enginehost.store.connecting import database_of

from .conftest import ADDER, PATIENCE, SUMS, WEATHER, WEATHERMAN, WIPE, StartHost, sees, until

pytest.importorskip("cyclonedds")

TOKENS = [{"name": name, "token": name[0] * 40, "tenant": "here"} for name in ("ann", "bob", "eve")]
RULES = {
    "default": "deny",
    "rules": [
        {"subjects": ["ann", "bob"], "allow": "call"},
        {"subjects": ["eve"], "allow": "view", "functions": ["adder"]},
    ],
}


async def two(start: StartHost, **more: Any) -> tuple[Host, Host]:
    """A host, and one elsewhere whose weatherman it sees."""
    far = await start("far", WEATHER, weatherman=WEATHERMAN, wipe=WIPE)
    near = await start("near", SUMS, **more)
    await sees(near, "weatherman")
    return near, far


async def follow(client: httpx2.AsyncClient, path: str, **options: Any) -> AsyncGenerator[tuple[str, Any]]:
    """Server-sent events as (name, data)."""
    async with client.stream(options.pop("method", "GET"), path, **options) as response:
        assert response.status_code == 200, await response.aread()
        name = ""
        async for line in response.aiter_lines():
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                yield name, json.loads(line[6:])


async def asked(
    client: httpx2.AsyncClient, path: str, headers: dict[str, str] | None = None, **body: Any
) -> dict[str, Any]:
    response = await client.post(f"/v1/agents{path}", json=body, headers=headers)
    assert response.status_code == 200, response.text
    return response.json()


async def test_agents_of_this_host_and_of_others_are_listed_and_asked(start: StartHost, client: Any) -> None:
    near, far = await two(start, adder=ADDER)
    http = await client(near)
    listed = (await http.get("/v1/agents")).json()["agents"]
    assert [(one["name"], one["service"], one["local"]) for one in listed] == [
        ("adder", "near", True),
        ("weatherman", "far", False),
    ]
    assert far.bus is not None
    assert near.bus is not None
    hosts = [bus.describe()["host_id"] for bus in (near.bus, far.bus)]
    assert [one["host"] for one in listed] == hosts
    remote = listed[1]
    assert (remote["function"], remote["tool"]) == ("far.weatherman", "get_weather_info")
    assert (remote["specializations"], remote["tags"]) == (["weather"], ["outdoors"])
    assert remote["description"] == "Knows whether it rains or shines."
    assert remote["default_capable"] is False
    for name in ("weatherman", "get_weather_info", "far.weatherman", "far", remote["id"]):
        answer = await asked(http, f"/{name}/messages", message="hi")
        assert answer["answer"] == "Weather, turn 1: hi"
        assert answer["routed"] == {"by": "named", "reason": "it was named"}
    assert (await asked(http, "/adder/messages", message="hi"))["answer"] == "Sums, turn 1: hi"
    paths = (await http.get("/openapi.json")).json()["paths"]
    assert {path for path in paths if path.startswith("/v1/agents")} == {
        "/v1/agents",
        "/v1/agents/events",
        "/v1/agents/messages",
        "/v1/agents/{name}/messages",
    }


async def test_a_routed_question_says_who_answered_and_why_and_its_conversation_goes_on(
    start: StartHost, client: Any
) -> None:
    near, _ = await two(start, adder=ADDER)
    http = await client(near)
    first = await asked(http, "/messages", message="does it rain?")
    assert (first["agent"]["name"], first["routed"]["by"]) == ("weatherman", "classifier")
    again = await asked(http, "/messages", message="the invoice", conversation_id=first["conversation_id"])
    assert (again["answer"], again["routed"]["by"]) == ("Weather, turn 2: the invoice", "conversation")
    other = await asked(http, "/messages", message="sum up the invoice", conversation_id="mine")
    assert (other["agent"]["name"], other["conversation_id"]) == ("adder", "mine")
    named = await asked(http, "/adder/messages", message="more", conversation_id="mine")
    assert named["answer"] == "Sums, turn 2: more"
    nobody = await http.post("/v1/agents/messages", json={"message": "qqqq"})
    assert (nobody.status_code, nobody.json()["reason"]) == (400, "no-agent-fits")
    assert "adder, weatherman" in nobody.json()["detail"]


async def test_an_answer_comes_as_events_where_they_are_asked_for(start: StartHost, client: Any) -> None:
    near, _ = await two(start)
    http = await client(near)
    options = {
        "method": "POST",
        "json": {"message": "rain?"},
        "headers": {"accept": "text/event-stream"},
    }
    events = [event async for event in follow(http, "/v1/agents/messages", **options)]
    assert [name for name, _ in events][:: len(events) - 1] == ["agent", "done"]
    assert (events[0][1]["agent"]["name"], events[0][1]["routed"]["by"]) == ("weatherman", "only")
    pieces = [data for name, data in events if name == "item"]
    assert "".join(pieces) == "Weather, turn 1: rain?"
    assert events[-1][1] == {"items": len(pieces)}


async def test_a_request_is_the_first_step_of_its_chain(start: StartHost, client: Any) -> None:
    host = await start("far", WEATHER, weatherman=WEATHERMAN, wipe=WIPE)
    steps: list[Step] = []
    calls: list[Call] = []
    host.steps.watch(lambda _: None, steps.append)
    host.watch_starts(calls.append)
    http = await client(host)
    trace = {"traceparent": f"00-{5:032x}-{6:016x}-01"}
    await asked(http, "/weatherman/messages", message="rain?", headers=trace)
    [request] = [step for step in steps if step.kind is StepKind.REQUEST]
    assert (request.trace, request.parent, request.outcome) == (5, 6, "ok")
    assert calls[0].parent == request.span


async def test_the_network_shows_an_agent_of_another_host_once_and_where_it_is(
    start: StartHost, client: Any
) -> None:
    near, far = await two(start)
    http = await client(near)
    await asked(http, "/weatherman/messages", message="rain?")
    near.write_down()
    network = (await http.get("/v1/network")).json()
    [node] = [one for one in network["nodes"] if one["name"] == "far.weatherman"]
    assert (node["id"], node["host"]) == ("agent:far.weatherman", far.place()[0])
    assert [one["to"] for one in network["edges"]] == ["agent:far.weatherman"]


async def test_a_chain_that_waits_at_another_host_is_ok_when_it_was_decided_and_both_are_linked(
    start: StartHost, client: Any
) -> None:
    near, _ = await two(start, settings={"record_chains": "on"})
    http, path = await client(near), "/v1/agents/weatherman/messages"
    waits = await http.post(path, json={"message": "wipe it", "conversation_id": "mine"})
    assert waits.status_code == 409
    url = f"sqlite:///{near.settings.state_dir / 'sessions.db'}"
    made = database_of(url, synchronous="normal", lock_timeout=1)
    link = made.reader()

    def chains() -> list[Recorded]:
        near.write_down()
        return latest(link, most=5)

    await until(lambda: [one.status for one in chains()] == ["waits"])
    [paused] = chains()
    assert latest(link, most=5, failed=True) == []
    cause = cause_of(steps_of(link, paused.chain), waits=True)
    assert cause is not None
    assert cause.verdict == "waits"
    [question] = waits.json()["questions"]
    told = {"question": question["id"], "decision": "approve"}
    await asked(http, "/weatherman/messages", conversation_id="mine", decision=told)
    await until(lambda: [one.status for one in chains()] == ["ok", "ok"])
    decided = chains()[0].chain
    links = linked(link, [decided, paused.chain])
    link.close()
    assert links[decided] == [Linked(paused.chain, "decides", "approve")]
    assert links[paused.chain] == [Linked(decided, "decided_by", "approve")]
    network = (await http.get("/v1/network")).json()
    [decision] = network["decisions"]
    assert (decision["agent"], decision["chain"], decision["of"]) == ("far.weatherman", decided, paused.chain)
    [node] = [one for one in network["nodes"] if one["name"] == "far.weatherman"]
    assert (node["calls"], node["errors"], node["waits"]) == (2, 0, 1)


async def test_monitors_are_told_which_agent_of_another_host_is_asked(
    start: StartHost, client: Any, dds_domain: int
) -> None:
    near, _ = await two(start)
    bus = near.bus
    assert bus is not None
    [agent] = [one for one in bus.agents() if one.name == "weatherman"]
    http = await client(near)
    with load_cyclone("listening").Listener(
        DatabusConfig(domain=dds_domain), (CHAIN_EVENT.name,)
    ) as listener:
        found: list[Any] = []
        await until(lambda: bus.describe()["events"]["listened"])
        await asked(http, "/weatherman/messages", message="rain?")

        def told() -> list[Any]:
            found.extend(taken.values for taken in listener.take(0.01) if taken.values is not None)
            return [one["event_type"] for one in found if one["event_type"].startswith("INTERFACE")]

        await until(lambda: told() == ["INTERFACE_REQUEST_START", "INTERFACE_REQUEST_COMPLETE"])
    first = next(one for one in found if one["event_type"] == "INTERFACE_REQUEST_START")
    assert (first["primary_agent_id"], first["function_id"], first["target_id"]) == (agent.id,) * 3
    assert (first["interface_id"], first["source_id"]) == (near.place()[0],) * 2


async def test_arrivals_and_departures_are_told_as_they_happen(start: StartHost, client: Any) -> None:
    near = await start("near", SUMS, adder=ADDER)
    http = await client(near)
    async with asyncio.timeout(PATIENCE), aclosing(follow(http, "/v1/agents/events")) as events:
        name, agent = await anext(events)
        assert (name, agent["name"], agent["local"]) == ("arrived", "adder", True)
        far = await start("far", WEATHER, weatherman=WEATHERMAN, wipe=WIPE)
        name, agent = await anext(events)
        assert (name, agent["name"], agent["service"]) == ("arrived", "weatherman", "far")
        await far.stop()
        name, agent = await anext(events)
        assert (name, agent["name"]) == ("departed", "weatherman")
        await near.stop()
        assert [event async for event in events] == []


@pytest.mark.parametrize("place", ["here", "elsewhere"])
async def test_a_turn_that_waits_for_a_person_is_decided_in_its_conversation(
    start: StartHost, client: Any, place: str
) -> None:
    host = await start("far", WEATHER, weatherman=WEATHERMAN, wipe=WIPE, adder=ADDER)
    if place == "elsewhere":
        host = await start("near", SUMS)
        await sees(host, "weatherman", "adder")
    http = await client(host)
    path = "/v1/agents/weatherman/messages"
    waits = await http.post(path, json={"message": "wipe it", "conversation_id": "mine"})
    problem = waits.json()
    assert (waits.status_code, problem["code"]) == (409, "waits_for_person")
    assert problem["conversation_id"] == "mine"
    more = await http.post(path, json={"message": "what else?", "conversation_id": "mine"})
    assert (more.status_code, more.json()["questions"]) == (409, problem["questions"])
    assert "(conversation mine)" in problem["detail"]
    [question] = problem["questions"]
    assert (question["tool"], question["args"]) == ("wipe", {"what": "disk"})
    told = {"question": question["id"], "decision": "approve"}
    other = {"conversation_id": "mine", "decision": told}
    assert (await http.post("/v1/agents/adder/messages", json=other)).status_code == 409
    told = {"question": question["id"], "decision": "edit"}
    refused = await http.post(path, json={"conversation_id": "mine", "decision": told})
    assert (refused.status_code, refused.json()["detail"]) == (400, "args is missing: it must be an object")
    body = {"conversation_id": "mine", "decision": told | {"args": {"what": "cache"}}}
    decided = await http.post(path, json=body)
    assert decided.json()["answer"].endswith('"result":"cache is gone"}')
    assert "what else" not in (await asked(http, "/weatherman/messages", message="go on"))["answer"]
    for one, status, reason in ((question["id"], 409, "settled"), ("never-was", 404, "no-question")):
        told = {"question": one, "decision": "reject"}
        late = await http.post(path, json={"conversation_id": "mine", "decision": told})
        assert (late.status_code, late.json()["code"], late.json()["reason"]) == (
            status,
            "invalid_request",
            reason,
        )


async def test_a_conversation_of_another_agent_of_the_host_is_refused(start: StartHost, client: Any) -> None:
    host = await start("desk", SUMS, weatherman=WEATHERMAN, wipe=WIPE, adder=ADDER)
    http = await client(host)
    await asked(http, "/adder/messages", message="a secret", conversation_id="mine")
    body = {"message": "and?", "conversation_id": "mine"}
    refused = await http.post("/v1/agents/weatherman/messages", json=body)
    problem = refused.json()
    assert (refused.status_code, problem["code"], problem["reason"]) == (409, "invalid_request", "taken")
    assert problem["hint"] == "choose another id for a conversation with weatherman"
    again = await asked(http, "/adder/messages", message="more", conversation_id="mine")
    assert again["answer"] == "Sums, turn 2: more"


async def test_the_policy_decides_who_sees_and_asks_which_agent(start: StartHost, client: Any) -> None:
    near, _ = await two(start, adder=ADDER, settings={"tokens": TOKENS, "policy": RULES})
    ann, bob, eve, nobody = [await client(near, token) for token in ("a" * 40, "b" * 40, "e" * 40, "")]
    seen = (await eve.get("/v1/agents")).json()["agents"]
    assert [one["name"] for one in seen] == ["adder"]
    assert (await nobody.get("/v1/agents")).json() == {"agents": []}
    hidden = await eve.post("/v1/agents/weatherman/messages", json={"message": "hi"})
    assert (hidden.status_code, "weatherman'" in hidden.json()["detail"]) == (404, True)
    for path in ("adder/messages", "messages"):
        assert (await eve.post(f"/v1/agents/{path}", json={"message": "hi"})).status_code == 403
    body: dict[str, Any] = {"message": "hi", "conversation_id": "same"}
    assert (await nobody.post("/v1/agents/adder/messages", json=body)).status_code == 401
    for one in (ann, bob):
        answer = await asked(one, "/weatherman/messages", **body)
        assert answer["answer"] == "Weather, turn 1: hi", "two callers share no conversation"
    async with asyncio.timeout(PATIENCE), aclosing(follow(eve, "/v1/agents/events")) as events:
        assert (await anext(events))[1]["name"] == "adder"


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({}, 400, "message is missing"),
        ({"message": 1}, 400, "message must be a text"),
        ({"message": "x", "other": 1}, 400, "unknown member 'other'"),
        ({"message": "x", "conversation_id": "y" * 121}, 400, "more than 120 bytes"),
        ({"decision": {"decision": "approve"}, "message": "x"}, 400, "message does not go with a decision"),
        ({"decision": {"decision": "approve", "question": "q"}}, 400, "conversation_id is missing"),
        ({"decision": {"decision": "maybe"}, "conversation_id": "c"}, 400, "decision must be one of"),
        ({"decision": {"decision": "approve"}, "conversation_id": "c"}, 400, "question is missing"),
    ],
)
async def test_what_a_body_may_not_say_is_told(
    start: StartHost, client: Any, body: Any, status: int, says: str
) -> None:
    http = await client(await start("near", SUMS, adder=ADDER))
    refused = await http.post("/v1/agents/adder/messages", json=body)
    assert (refused.status_code, says in refused.json()["detail"]) == (status, True), refused.text


async def test_an_agent_whose_host_goes_while_it_answers_is_a_clear_error(
    start: StartHost, client: Any
) -> None:
    near, far = await two(start)
    http = await client(near)
    path, body = "/v1/agents/weatherman/messages", {"message": "slowly"}
    options = {"method": "POST", "json": body, "headers": {"accept": "text/event-stream"}}
    async with asyncio.timeout(PATIENCE), aclosing(follow(http, path, **options)) as events:
        assert (await anext(events))[0] == "agent"
        await far.stop(0.0)
        rest = [event async for event in events]
    assert rest[-1][0] == "error"
    assert rest[-1][1]["code"] in ("outcome_unknown", "engine_unavailable", "cancelled")
    gone = await http.post(path, json=body)
    assert (gone.status_code, gone.json()["code"]) == (404, "unknown_function")
