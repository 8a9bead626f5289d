"""An interface is a component that monitors see, and its questions are steps of chains."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from enginehost import Interface
from enginehost.databus import DatabusConfig
from enginehost.databus.heard_events import heard
from enginehost.databus.interface_events import COMPLETE, START, InterfaceEvents
from enginehost.databus.types import (
    CHAIN_EVENT,
    COMPONENT_LIFECYCLE_EVENT,
    MONITORING_EVENT,
    TOPICS,
)
from enginehost.databus.unified import EVENT
from enginehost.engine import Call
from enginehost.errors import ExecutionFailed, InvalidRequest
from enginehost.monitoring.seen import Seen

from .conftest import ADDER, PATIENCE, SUMS, WEATHER, WEATHERMAN, WIPE, StartHost

CHAIN, LIFECYCLE, WHOLE = CHAIN_EVENT.name, COMPONENT_LIFECYCLE_EVENT.name, MONITORING_EVENT.name


class Monitor:
    """A participant with readers, and nothing of ours but the types."""

    def __init__(self, domain: int) -> None:
        pytest.importorskip("cyclonedds")
        from cyclonedds.domain import DomainParticipant
        from cyclonedds.qos import Policy, Qos
        from cyclonedds.sub import DataReader
        from cyclonedds.topic import Topic

        from enginehost.databus.cyclone.wire import idl_type

        participant = DomainParticipant(domain)
        qos = Qos(
            Policy.Reliability.Reliable(0),
            Policy.History.KeepAll,
            Policy.DataRepresentation(use_cdrv0_representation=True),
        )
        self._readers = {
            topic: DataReader(participant, Topic(participant, topic, idl_type(TOPICS[topic].struct)), qos=qos)
            for topic in (CHAIN, LIFECYCLE)
        }
        self.chains: list[Any] = []
        self.components: list[Any] = []

    async def until(self, holds: Any) -> None:
        async with asyncio.timeout(PATIENCE):
            while not holds():
                for topic, kept in ((CHAIN, self.chains), (LIFECYCLE, self.components)):
                    kept += [one for one in self._readers[topic].take(1000) if one.sample_info.valid_data]
                await asyncio.sleep(0.01)

    def interfaces(self) -> list[Any]:
        return [one for one in self.components if one.component_type.name == "INTERFACE"]

    def states(self) -> list[str]:
        return [one.new_state.name for one in self.interfaces()]


async def test_monitors_see_an_interface_come_ask_and_go(start: StartHost, dds_domain: int) -> None:
    await start("near", SUMS, adder=ADDER)
    monitor = Monitor(dds_domain)
    async with Interface("desk", DatabusConfig(domain=dds_domain)) as ui:
        await monitor.until(lambda: "READY" in monitor.states())
        agent = await ui.wait_for("adder")
        assert await ui.ask("hi", agent, "c") == "Sums, turn 1: hi"
        await monitor.until(lambda: [one for one in monitor.chains if one.event_type == COMPLETE])
    await monitor.until(lambda: "OFFLINE" in monitor.states())
    assert monitor.states() == ["JOINING", "READY", "OFFLINE"]
    [desk] = {(one.component_id, json.loads(one.capabilities)["name"]) for one in monitor.interfaces()}
    assert desk[1] == "desk"
    begun, ended = (
        next(one for one in monitor.chains if one.event_type == event) for event in (START, COMPLETE)
    )
    assert begun.interface_id == ended.interface_id == begun.source_id == desk[0]
    assert begun.primary_agent_id == begun.target_id == agent.id
    assert (begun.call_id, ended.status) == (ended.call_id, 0)
    chain = [one for one in monitor.chains if one.chain_id == begun.chain_id]
    assert {one.source_id for one in chain if one.event_type.startswith("FUNCTION_CALL")} == {"anonymous"}
    assert begun.call_id in {one.query_id for one in chain}, "what the agent does belongs below"


class Written:
    """A transport that keeps what it is given."""

    def __init__(self, *topics: str) -> None:
        self.topics = set(topics)
        self.events: list[tuple[str, dict[str, Any], bool]] = []

    def listened(self, topic: str) -> bool:
        return topic in self.topics

    def announce(self, topic: str, values: Any, *, last: bool = False) -> bool:
        assert set(values) == {member.name for member in TOPICS[topic].struct.members}
        self.events.append((topic, dict(values), last))
        return topic in self.topics


async def test_a_question_that_fails_says_so_and_how_long_it_took_and_never_what_was_said() -> None:
    written: Any = Written(CHAIN, EVENT, WHOLE)
    events = InterfaceEvents(written, "i-1", "desk", second_era=True)
    with pytest.raises(ExecutionFailed), events.asking(Call("far.adder", span=7, trace=9), "a-1"):
        raise ExecutionFailed("my secret question")
    await events.close()
    chain = [(values, last) for topic, values, last in written.events if topic == CHAIN]
    assert [(one["event_type"], one["status"], last) for one, last in chain] == [
        (START, 0, False),
        (COMPLETE, 14, True),
    ]
    payloads = [json.loads(values["payload"]) for topic, values, _ in written.events if topic == EVENT]
    [ended] = [one for one in payloads if one.get("event_type") == COMPLETE]
    assert ended["duration_ms"] >= 0
    [whole] = [values for topic, values, _ in written.events if topic == WHOLE]
    [sight] = [one for one in heard(WHOLE, whole) if isinstance(one, Seen)]
    assert (sight.kind, sight.name, sight.outcome) == ("request", "far.adder", "execution_failed")
    assert (sight.chain, sight.call) == (f"{9:032x}", f"{7:016x}")
    assert [one["new_state"] for one in payloads if "new_state" in one] == ["JOINING", "READY", "OFFLINE"]
    assert "secret" not in json.dumps([values for _, values, _ in written.events])


async def test_nothing_is_told_where_nobody_listens_or_events_are_off(dds_domain: int) -> None:
    written: Any = Written()
    events = InterfaceEvents(written, "i-1", "desk", second_era=True)
    with events.asking(Call("far.adder"), "a-1"):
        pass
    await events.close()
    assert written.events == []
    pytest.importorskip("cyclonedds")
    async with Interface("desk", DatabusConfig(domain=dds_domain, events=False)) as ui:
        assert ui._client.interface_events is None


async def test_an_interface_decides_what_an_agent_waits_for(
    start: StartHost, dds_domain: int, tmp_path: Path
) -> None:
    await start("far", WEATHER, weatherman=WEATHERMAN, wipe=WIPE)
    async with Interface("desk", DatabusConfig(domain=dds_domain)) as ui:
        with pytest.raises(ExecutionFailed) as waits:
            await ui.ask("wipe it", "weatherman", "c")
        assert waits.value.detail["reason"] == "waits-for-a-person"
        [question] = waits.value.detail["questions"]
        assert await ui.decide("weatherman", "c", question["id"], "approve") == 'Done: "disk is gone"'
        with pytest.raises(InvalidRequest, match="nothing to ask"):
            await ui.ask(" ", "weatherman")
        routed = await ui.route("does it rain?", "c")
        assert (routed.agent.name, routed.because) == ("weatherman", "conversation")
