"""What Genesis's agents do twice, one after the other, or not at all: once, at once, and told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from enginehost import Host, Interface
from enginehost.databus.agents_topics import from_interfaces
from enginehost.signature import FunctionSignature
from enginehost.specs import SPEC_KINDS

from .conftest import PATIENCE, PRIMARY, WEATHER, StartHost, agent, known, sees, until
from .test_open_peers import StartPeer, start_peer

pytest.importorskip("cyclonedds")

__all__ = ["start_peer"]

WEATHERMAN = agent("weatherman", "SPECIALIZATIONS = weather", "FUNCTION_TAGS = outdoors")
ADD = """
ENGINE_CLASS = Command
COMMAND = ["echo", "{a}"]
FUNCTION_NAME = add
FUNCTION_DESCRIPTION = Reckon.
FUNCTION_PARAMETERS = [{"name": "a", "type": "integer"}]
"""
SLOW = """
answers:
  - when: {text: slow}
    reply: [{hang: true}]
  - say: "Quick: $text"
"""


async def test_a_question_that_hangs_holds_up_no_other(start: StartHost, dds_domain: int) -> None:
    far = await start("far", SLOW, weatherman=WEATHERMAN)
    async with Interface("desk", domain=dds_domain) as ui:
        await ui.wait_for("weatherman", PATIENCE)
        hanging = [asyncio.ensure_future(ui.ask(f"slow {number}", "weatherman")) for number in range(5)]
        await until(lambda: running(far) == len(hanging))
        answers = await asyncio.gather(*(ui.ask(f"{number}", "weatherman") for number in range(5)))
        assert answers == [f"Quick: {number}" for number in range(5)]
        assert not any(one.done() for one in hanging)
        for one in hanging:
            one.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
        await until(lambda: not running(far))


def running(host: Host) -> int:
    stats = host.stats("weatherman")
    return stats.running if stats is not None else 0


def calls(host: Host) -> int:
    stats = host.stats("weatherman")
    return stats.calls if stats is not None else 0


async def test_of_two_hosts_with_one_agent_one_is_asked(start: StartHost, dds_domain: int) -> None:
    hosts = [
        await start(name, WEATHER, bus={"service": "far"}, weatherman=WEATHERMAN) for name in ("far", "spare")
    ]
    async with Interface("desk", domain=dds_domain) as ui:
        await until(lambda: len(ui.agents) == 2)
        for number in range(6):
            assert await ui.ask(f"{number}", "far.weatherman") == f"Sunny in turn 1: {number}"
    assert sum(map(calls, hosts)) == 6


async def test_of_two_hosts_with_one_service_one_answers_a_peer_that_names_the_service(
    start: StartHost, start_peer: StartPeer
) -> None:
    hosts = [
        await start(name, WEATHER, bus={"service": "far"}, weatherman=WEATHERMAN) for name in ("far", "spare")
    ]
    for host in hosts:
        await sees(host, "weatherman")
    peer = await start_peer()
    end = await peer.asks(from_interfaces("far"))
    await until(lambda: len(end.peers) == 2)
    for number in range(1, 4):
        await end.send({"message": "hi", "conversation_id": f"c{number}"})
        await peer.reply(number)
    await asyncio.sleep(0.3)  # a second answer would be here by now
    assert sorted(map(calls, hosts)) == [0, 3]
    assert len(peer.heard) == 3
    await next(host for host in hosts if calls(host)).stop()
    hosts = [host for host in hosts if not calls(host)]
    await until(lambda: hosts[0].bus is not None and not hosts[0].bus.agents())
    await end.send({"message": "and now", "conversation_id": "c4"})
    assert (await peer.reply(4))["message"] == "Sunny in turn 1: and now"


@pytest.mark.parametrize("closed", ["far", "spare"])
async def test_a_host_that_refuses_strangers_leaves_them_to_one_that_does_not(
    start: StartHost, start_peer: StartPeer, closed: str
) -> None:
    policy = {"default": "view"}
    hosts = {
        name: await start(
            name,
            WEATHER,
            bus={"service": "far"},
            settings={"policy": policy} if name == closed else {},
            weatherman=WEATHERMAN,
        )
        for name in ("far", "spare")
    }
    for host in hosts.values():
        await sees(host, "weatherman")
    peer = await start_peer()
    end = await peer.asks(from_interfaces("far"))
    await until(lambda: len(end.peers) == 2)
    await end.send({"message": "hi", "conversation_id": "c"})
    assert (await peer.reply())["message"] == "Sunny in turn 1: hi"
    await asyncio.sleep(0.3)  # a refusal would be here by now
    assert len(peer.heard) == 1


async def test_one_list_has_functions_and_agents_of_here_and_there_and_own_tools(start: StartHost) -> None:
    await start("far", WEATHER, weatherman=WEATHERMAN, clerk=agent("clerk"), add=ADD)
    here = await start("near", PRIMARY, primary=agent("primary"), subtract=ADD.replace("add", "subtract"))
    await sees(here, "weatherman")
    await known(here, "far.clerk")
    await known(here, "far.add")
    own = FunctionSignature("note", "Write something down.")
    for kind in SPEC_KINDS:
        listed = await here.tools_for_model(kind=kind, own=[own])
        assert len(listed) == 6
        found = {listed.resolve(name) for name in listed.names}
        assert found == {"note", "primary", "subtract", "far.add", "far.weatherman", "far.clerk"}
    fits = await here.tools_for_model("Will it rain outdoors?", most=1)
    assert [one["function"]["name"] for one in fits] == ["get_weather_info"]


async def test_what_was_measured_of_an_agent_is_told(start: StartHost, start_peer: StartPeer) -> None:
    far = await start("far", WEATHER, weatherman=WEATHERMAN)
    told: list[dict[str, Any]] = []

    class Watcher:
        def seen(self, instances: Sequence[Any]) -> None:
            told.extend(dict(one.values) for one in instances if one.values is not None)

        def anew(self) -> None: ...

    peer = await start_peer()
    await peer.transport.follow("AgentCapability", Watcher())
    await until(lambda: told)
    assert json.loads(told[-1]["performance_metrics"]) == {}
    assert await far.call("weatherman", {"message": "hi"})
    assert far.bus is not None
    far.bus.refresh()
    await until(lambda: json.loads(told[-1]["performance_metrics"]).get("calls") == 1)
    assert told[-1]["last_seen"] > told[0]["last_seen"]
