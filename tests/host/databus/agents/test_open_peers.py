"""Programs that know Genesis's agent types alone: they ask our agents, and we ask theirs."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest

from enginehost.databus import DatabusConfig
from enginehost.databus.agents_capability import replier_guid
from enginehost.databus.agents_topics import (
    from_agents,
    from_agents_2,
    from_interfaces,
    from_interfaces_2,
)
from enginehost.databus.port import PairEnd, Sample, TopicPair
from enginehost.errors import CallTimeout, ExecutionFailed, OutcomeUnknown, TooLarge
from enginehost.genesis.interface import Interface

from .conftest import PATIENCE, PRIMARY, WEATHER, StartHost, agent, sees, until

pytest.importorskip("cyclonedds")


class Peer:
    """A program on the bus that is no host."""

    def __init__(self, transport: Any) -> None:
        self.transport = transport
        self.heard: list[dict[str, Any]] = []
        self.ends: list[PairEnd] = []

    async def asks(self, pair: TopicPair) -> PairEnd:
        def take(samples: Sequence[Sample]) -> None:
            self.heard += [dict(one.values) for one in samples]

        end = await self.transport.pair(pair, take, lambda _: None, serves=False)
        assert await end.reach("", PATIENCE)
        return end

    async def reply(self, number: int = 1) -> dict[str, Any]:
        await until(lambda: len(self.heard) >= number)
        return self.heard[number - 1]

    async def serves(self, pair: TopicPair, answer: Callable[[dict[str, Any]], Any]) -> None:
        """Answer with what ``answer`` gives, if anything."""
        tasks: set[asyncio.Task[Any]] = set()

        async def one(sample: Sample) -> None:
            self.heard.append(dict(sample.values))
            found = answer(dict(sample.values))
            found = await found if asyncio.iscoroutine(found) else found
            if found is not None:
                await end.send(found, sample.about)

        def take(samples: Sequence[Sample]) -> None:
            for sample in samples:
                task = asyncio.ensure_future(one(sample))
                tasks.add(task)
                task.add_done_callback(tasks.discard)

        end = await self.transport.pair(pair, take, lambda _: None, serves=True)
        self.ends.append(end)

    async def advertise(self, name: str, **more: Any) -> str:
        agent_id = more.pop("agent_id", str(uuid.uuid4()))
        await self.transport.put("AgentCapability", [offer(agent_id, name, **more)])
        return agent_id


def offer(agent_id: str, name: str, **more: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "agent_id": agent_id,
        "name": name,
        "description": f"Is {name}.",
        "agent_type": "SPECIALIZED_AGENT",
        "service_name": "Genesis",
        "last_seen": 1,
        "capabilities": "[]",
        "specializations": '["stars"]',
        "model_info": '{"model": "gpt-4o"}',
        "classification_tags": '["sky"]',
        "performance_metrics": "{}",
        "default_capable": 1,
    }
    return values | more


StartPeer = Callable[..., Awaitable[Peer]]


@pytest.fixture
async def start_peer(dds_domain: int) -> AsyncIterator[StartPeer]:
    from enginehost.databus.cyclone import CycloneTransport

    async with AsyncExitStack() as stack:

        async def started() -> Peer:
            transport = await asyncio.to_thread(CycloneTransport, DatabusConfig(domain=dds_domain))
            stack.push_async_callback(transport.close)
            return Peer(transport)

        yield started


# They ask our agents


async def test_interfaces_and_agents_ask_with_the_types_of_the_first_era(
    start: StartHost, start_peer: StartPeer
) -> None:
    await start("far", WEATHER, weatherman=agent("weatherman"), second=agent("second"))
    here = await start("near", PRIMARY)
    found = await sees(here, "weatherman")
    peer = await start_peer()
    end = await peer.asks(from_agents("far", found.id))
    await end.send({"message": "now?", "conversation_id": "c1"})
    assert await peer.reply() == {
        "message": "Sunny in turn 1: now?",
        "status": 0,
        "conversation_id": "c1",
    }
    interface = await peer.asks(from_interfaces("far_weatherman"))
    await interface.send({"message": "and then?", "conversation_id": "c1"})
    assert (await peer.reply(2))["message"] == "Sunny in turn 2: and then?"
    front = await peer.asks(from_interfaces("far"))  # the first by name, as none answers by default
    await front.send({"message": "you?", "conversation_id": ""})
    answered = await peer.reply(3)
    assert (answered["message"], answered["status"]) == ("Sunny in turn 1: you?", 0)
    assert uuid.UUID(answered["conversation_id"])


async def test_questions_of_one_conversation_are_answered_in_their_order(
    start: StartHost, start_peer: StartPeer
) -> None:
    await start("far", WEATHER, weatherman=agent("weatherman"))
    peer = await start_peer()
    end = await peer.asks(from_interfaces("far"))
    for number in range(4):
        await end.send({"message": f"m{number}", "conversation_id": "c"})
    await peer.reply(4)
    assert [one["message"] for one in peer.heard] == [f"Sunny in turn {n + 1}: m{n}" for n in range(4)]


FAILING = """
answers:
  - reply: [{error: {kind: failed, status: 400, message: no luck}}]
"""


async def test_errors_come_with_the_status_that_genesis_gives_them(
    start: StartHost, start_peer: StartPeer
) -> None:
    policy = {"default": "view", "rules": [{"allow": "call", "callers": "anyone", "functions": ["open"]}]}
    files = {"open": agent("open"), "shut": agent("shut")}
    await start("far", FAILING, settings={"policy": policy}, **files)
    here = await start("near", PRIMARY)
    shut, opened = await sees(here, "shut"), await sees(here, "open")
    peer = await start_peer()
    interface = await peer.asks(from_interfaces("far"))
    await interface.send({"message": "x", "conversation_id": "a"})
    failed = await peer.reply()
    assert failed["status"] == 1
    assert failed["message"].startswith("Error: ")
    assert "no luck" in failed["message"]
    for number, (one, conversation) in enumerate(((shut, "b"), (opened, "c" * 120)), start=2):
        end = await peer.asks(from_agents("far", one.id))
        await end.send({"message": "x", "conversation_id": conversation})
        reply = await peer.reply(number)
        assert reply["status"] == -1
        assert reply["message"].startswith("Error processing request: ")
        assert reply["conversation_id"] == conversation
    assert "may not call shut" in peer.heard[1]["message"]


async def test_the_second_era_is_asked_by_target_and_tag(start: StartHost, start_peer: StartPeer) -> None:
    bus = {"profiles": ("genesis1", "genesis2")}
    await start("far", WEATHER, bus=bus, one=agent("one"), two=agent("two", "SPECIALIZATIONS = seas"))
    here = await start("near", PRIMARY, bus=bus)
    two = await sees(here, "two")
    assert await sees(here, "one")
    peer = await start_peer()
    end = await peer.asks(from_interfaces_2("far"))
    asked = {"conversation_id": "c", "message": "hi"}
    await end.send({**asked, "request_id": "1", "target_service_guid": "0" * 32})
    await end.send({**asked, "request_id": "2", "service_instance_tag": "blue"})
    await end.send({**asked, "request_id": "3", "message": '{"function":"one","params":{}}'})
    target = replier_guid(two.id)
    trace = "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"
    await end.send(
        {
            **asked,
            "request_id": "4",
            "target_service_guid": target,
            "metadata": f'{{"traceparent":"{trace}"}}',
        }
    )
    reply = await peer.reply()
    assert (reply["request_id"], reply["status"]) == ("4", 0)
    assert (reply["replier_service_guid"], reply["conversation_id"]) == (target, "c")
    assert reply["message"] == "Sunny in turn 1: hi"
    asks = await peer.asks(from_agents_2("far_two"))
    await asks.send({**asked, "request_id": "5"})
    assert (await peer.reply(2))["message"] == "Sunny in turn 2: hi"
    assert len(peer.heard) == 2


async def test_what_genesis_reads_of_our_agents_is_complete(start: StartHost, start_peer: StartPeer) -> None:
    peer = await start_peer()
    seen: dict[str, dict[str, Any]] = {}

    class Watcher:
        def seen(self, instances: Sequence[Any]) -> None:
            for one in instances:
                if one.values is None:
                    seen.pop(one.key, None)
                elif one.values.get("kind", 1) == 1:
                    seen[one.key] = dict(one.values)

        def anew(self) -> None: ...

    await peer.transport.follow("AgentCapability", Watcher())
    await peer.transport.follow("rti/connext/genesis/Advertisement", Watcher())
    host = await start(
        "far",
        WEATHER,
        bus={"profiles": ("genesis1", "genesis2")},
        weatherman=agent("weatherman", "SPECIALIZATIONS = weather", "CAPABILITIES = forecasts, maps"),
    )
    await until(lambda: len(seen) == 2)
    first = next(one for one in seen.values() if "agent_id" in one)
    second = next(one for one in seen.values() if "payload" in one)
    payload = json.loads(second["payload"])
    assert (first["name"], first["service_name"], second["service_name"]) == ("weatherman", "far", "far")
    assert json.loads(first["specializations"]) == payload["specializations"] == ["weather"]
    assert json.loads(first["capabilities"]) == payload["capabilities"] == ["forecasts", "maps"]
    assert payload["replier_guid"] == replier_guid(first["agent_id"])
    assert (payload["prefered_name"], payload["function_id"]) == ("weatherman", first["agent_id"])
    await host.stop()
    await until(lambda: not seen)


# We ask theirs


def echo(values: dict[str, Any]) -> dict[str, Any]:
    return {"message": f"You said {values['message']}", "status": 0} | {
        "conversation_id": values["conversation_id"]
    }


async def test_an_agent_that_is_known_as_one_alone_is_asked_by_its_own_topics(
    start: StartHost, start_peer: StartPeer
) -> None:
    here = await start("near", PRIMARY)
    peer = await start_peer()
    agent_id = str(uuid.uuid4())
    await peer.serves(from_agents("Genesis", agent_id), echo)
    await peer.advertise("oracle", agent_id=agent_id)
    found = await sees(here, "oracle")
    assert (found.tool, found.model, found.host) == ("get_stars_info", "gpt-4o", "")
    assert await here.call("get_stars_info", {"message": "hi"}) == "You said hi"
    assert await here.call("Genesis.oracle", {"message": "ho", "conversation_id": "mine"}) == "You said ho"
    assert peer.heard[1]["conversation_id"] == "mine"
    assert uuid.UUID(peer.heard[0]["conversation_id"])
    with pytest.raises(TooLarge):
        await here.call("oracle", {"message": "x" * 9000})
    await peer.transport.drop("AgentCapability", [agent_id])
    assert here.bus is not None
    bus = here.bus
    await until(lambda: not bus.agents())
    assert here.catalog.get("Genesis.oracle") is None


async def test_an_agent_that_takes_no_questions_is_left_out_of_the_choice(
    start_peer: StartPeer, dds_domain: int
) -> None:
    peer, agent_id = await start_peer(), str(uuid.uuid4())
    await peer.serves(from_agents("Genesis", agent_id), echo)
    await peer.advertise("oracle", service_name="Evil")
    async with Interface(domain=dds_domain) as ui:
        evil = await ui.wait_for("oracle")
        await peer.advertise("oracle", agent_id=agent_id)
        await until(lambda: len(ui.agents) == 2)
        assert evil.service == "Evil"
        assert (await ui.choose("hi")).id == agent_id
        assert await ui.ask("hi") == "You said hi"
    async with Interface(domain=dds_domain) as ui:
        await until(lambda: len(ui.agents) == 2)
        assert await ui.ask("hi", "oracle") == "You said hi"


async def test_one_question_of_a_conversation_is_on_its_way_at_a_time(
    start: StartHost, start_peer: StartPeer
) -> None:
    here = await start("near", PRIMARY)
    peer = await start_peer()
    agent_id, running, most = str(uuid.uuid4()), [0], [0]

    async def slowly(values: dict[str, Any]) -> dict[str, Any]:
        if values["conversation_id"] == "c":
            running[0] += 1
            most[0] = max(most[0], running[0])
            await asyncio.sleep(0.01)
            running[0] -= 1
        return echo(values)

    await peer.serves(from_agents("Genesis", agent_id), slowly)
    await peer.advertise("oracle", agent_id=agent_id)
    await sees(here, "oracle")
    said = [{"message": f"m{number}", "conversation_id": "c"} for number in range(5)]
    answers = await asyncio.gather(*(here.call("oracle", one) for one in said))
    assert answers == [f"You said m{number}" for number in range(5)]
    assert most == [1]
    others = await asyncio.gather(*(here.call("oracle", {"message": str(number)}) for number in range(5)))
    assert others == [f"You said {number}" for number in range(5)]


async def test_an_answer_that_comes_late_does_not_pass_for_that_to_the_next_question(
    start: StartHost, start_peer: StartPeer
) -> None:
    here = await start("near", PRIMARY)
    peer = await start_peer()
    agent_id, held = str(uuid.uuid4()), asyncio.Event()

    async def late(values: dict[str, Any]) -> dict[str, Any]:
        if values["message"] == "first":
            await held.wait()
        else:
            held.set()
            await asyncio.sleep(0.05)
        return echo(values)

    await peer.serves(from_agents("Genesis", agent_id), late)
    await peer.advertise("oracle", agent_id=agent_id)
    await sees(here, "oracle")
    with pytest.raises(CallTimeout):
        await here.call("oracle", {"message": "first", "conversation_id": "c"}, timeout=1.0)
    assert await here.call("oracle", {"message": "next", "conversation_id": "c"}) == "You said next"


async def test_an_agent_that_goes_before_it_answers_leaves_its_outcome_unknown(
    start: StartHost, start_peer: StartPeer
) -> None:
    here = await start("near", PRIMARY)
    peer = await start_peer()
    agent_id = str(uuid.uuid4())
    await peer.serves(from_agents("Genesis", agent_id), lambda _: None)
    await peer.advertise("oracle", agent_id=agent_id)
    await sees(here, "oracle")
    asked = asyncio.ensure_future(here.call("oracle", {"message": "hi"}))
    await until(lambda: peer.heard)
    await peer.ends[0].close()
    with pytest.raises(OutcomeUnknown, match="went before it answered"):
        await asyncio.wait_for(asked, PATIENCE)


async def test_a_peers_error_is_an_error_here(start: StartHost, start_peer: StartPeer) -> None:
    here = await start("near", PRIMARY)
    peer = await start_peer()
    agent_id = str(uuid.uuid4())
    failed = {"message": "Error processing request: no \x1b[2J luck", "status": -1}
    await peer.serves(
        from_agents("Genesis", agent_id), lambda v: failed | {"conversation_id": v["conversation_id"]}
    )
    await peer.advertise("oracle", agent_id=agent_id)
    await sees(here, "oracle")
    with pytest.raises(ExecutionFailed, match=r"no .*luck") as error:
        await here.call("oracle", {"message": "hi"})
    assert "\x1b" not in error.value.message


async def test_an_agent_of_the_second_era_keeps_what_its_later_sample_leaves_out(
    start: StartHost, start_peer: StartPeer
) -> None:
    bus = {"profiles": ("genesis1", "genesis2")}
    here = await start("near", PRIMARY, bus=bus)
    peer = await start_peer()
    guid = "f" * 32
    rich = {
        "agent_type": "SPECIALIZED_AGENT",
        "specializations": ["sea"],
        "capabilities": ["tides"],
        "classification_tags": [],
        "model_info": {"model": "m"},
        "default_capable": True,
        "prefered_name": "sailor",
    }
    poor = {"agent_type": "SPECIALIZED_AGENT", "prefered_name": "sailor", "replier_guid": guid}
    told = {"advertisement_id": str(uuid.uuid4()), "kind": 1, "name": "sailor", "service_name": "Ships"}

    def answered(values: dict[str, Any]) -> dict[str, Any] | None:
        if values["target_service_guid"] != guid:
            return None
        return {"message": f"Ahoy {values['message']}", "replier_service_guid": guid}

    async def tell(description: str, payload: dict[str, Any]) -> None:
        values = told | {"description": description, "payload": json.dumps(payload)}
        await peer.transport.put("rti/connext/genesis/Advertisement", [values])

    await peer.serves(from_interfaces_2("Ships"), answered)
    await tell("Sails.", rich)
    await sees(here, "sailor")
    early = asyncio.ensure_future(here.call("sailor", {"message": "early"}))
    await asyncio.sleep(0)
    await tell("Ships", poor)  # which says how it is reached
    assert await asyncio.wait_for(early, PATIENCE) == "Ahoy early"
    assert here.bus is not None
    bus_here = here.bus
    [found] = bus_here.agents()
    assert (found.specializations, found.capabilities, found.model) == (("sea",), ("tides",), "m")
    assert (found.default_capable, found.tool) == (True, "get_sea_info")
    assert await here.call("get_sea_info", {"message": "there"}) == "Ahoy there"


async def test_garbage_and_floods_of_agents_hurt_nobody(
    start: StartHost, start_peer: StartPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from enginehost.databus import agents_directory

    monkeypatch.setattr(agents_directory, "MOST_AGENTS", 50)
    here = await start("near", PRIMARY)
    there = await start("far", WEATHER, weatherman=agent("weatherman"))
    found = await sees(here, "weatherman")
    peer = await start_peer()
    await peer.transport.put(
        "AgentCapability",
        [
            offer("", "nobody"),
            offer("id1", ""),
            offer("id2", "a\x1bb"),
            offer("id3", "x", service_name=""),
            offer("id4", "fine", specializations="[[[[", model_info="\x00", classification_tags='{"a": 1}'),
            offer(found.id, "impostor"),
            *(offer(f"flood{number}", f"agent{number}") for number in range(200)),
        ],
    )
    assert here.bus is not None
    bus = here.bus
    await until(lambda: len(bus.agents()) >= 50)
    names = {one.name for one in bus.agents()}
    assert {"weatherman", "fine"} <= names
    assert not names & {"nobody", "", "impostor"}
    assert len(names) <= 50
    assert await here.call("weatherman", {"message": "hi"}) == "Sunny in turn 1: hi"
    assert there.bus is not None
    faults = bus.describe()["agent_faults"]
    assert 0 < len(faults) <= 100
    flood = [f"flood{number}" for number in range(200)]
    await peer.transport.drop("AgentCapability", ["id4", *flood])
    await until(lambda: len(bus.agents()) == 1)
    assert not [name for name in here.catalog.records if name.startswith("databus-agents:")]


async def test_only_who_accepts_unsigned_functions_lets_open_agents_in(
    start: StartHost, start_peer: StartPeer
) -> None:
    strict = await start("strict", PRIMARY, bus={"accept": "trusted"})
    picky = await start("picky", PRIMARY, bus={"let_in_tags": ("sea",)})
    here = await start("near", PRIMARY)
    peer = await start_peer()
    await peer.advertise("oracle")
    await sees(here, "oracle")
    for one in (strict, picky):
        assert one.bus is not None
        bus: Any = one.bus
        await until(lambda bus=bus: len(bus._joined.link.agents) == 1)
        assert bus.agents() == []
