"""What monitors are told of hosts and functions, in both eras."""

from __future__ import annotations

import json
from typing import Any

import pytest

from enginehost import Function
from enginehost.catalog import EngineRecord
from enginehost.databus import outbox
from enginehost.databus.types import (
    COMPONENT_STATE,
)
from enginehost.databus.unified import EVENT
from enginehost.engine import EngineState
from enginehost.errors import ERROR_TABLE
from enginehost.signature import FunctionSignature

from .monitored import LIFECYCLE, Functions, running


def steps(events: list[dict[str, Any]], component_id: str) -> list[tuple[str, str]]:
    state = COMPONENT_STATE.enumerators
    mine = [event for event in events if event["component_id"] == component_id]
    return [(state[event["previous_state"]], state[event["new_state"]]) for event in mine]


async def test_the_host_and_its_functions_are_told_as_they_come_change_and_go() -> None:
    async with running(LIFECYCLE) as on:
        events = await on.start()
        host_id, add, outer = on.identity.host_id, on.id_of("add"), on.id_of("outer")
        await on.monitor.until(lambda: steps(on.told(LIFECYCLE), add))
        record = on.host.catalog.records["e"]
        record.move(EngineState.STALE, "the newer version fails")
        on.host.catalog.put_record(record)
        await on.monitor.until(lambda: len(steps(on.told(LIFECYCLE), add)) == 2)
        await on.host.remove_engine("e")
        await on.monitor.until(lambda: add in on.monitor.ended)
        await on.host.add_engine(EngineRecord("e", "Test"), Functions(on.host, "outer"))
        await on.monitor.until(lambda: len(steps(on.told(LIFECYCLE), outer)) == 4)
        await events.stop()
        told = on.told(LIFECYCLE)
    assert steps(told, host_id) == [("JOINING", "JOINING"), ("JOINING", "READY"), ("READY", "OFFLINE")]
    assert steps(told, add) == [("JOINING", "READY"), ("READY", "DEGRADED"), ("DEGRADED", "OFFLINE")]
    assert steps(told, outer)[3:] == [("JOINING", "READY"), ("READY", "OFFLINE")]
    assert {host_id, add, outer} <= set(on.monitor.ended)
    assert {event["chain_id"] + event["call_id"] for event in told} == {""}
    one = next(event for event in told if event["component_id"] == add)
    assert json.loads(one["capabilities"])["provider_id"] == one["source_id"] == host_id


async def test_a_monitor_that_comes_later_is_told_of_all_that_is_there_however_much() -> None:
    async with running() as on:
        names = [f"f{n}" for n in range(3 * outbox.MOST_WAITING)]
        record = EngineRecord("many", "Test", state=EngineState.READY)
        run = on.host.catalog.get("add").function  # type: ignore[union-attr]
        on.host.catalog.put(record, [Function(FunctionSignature(name), run.run, run.mode) for name in names])
        await on.start()
        on.monitor.topics.add(LIFECYCLE)
        wanted = len(on.host.catalog) + 2  # the two steps of the host
        await on.monitor.until(lambda: len(on.told(LIFECYCLE)) == wanted)
        assert on.events.describe()["dropped"] == 0


async def test_the_second_era_has_the_host_and_its_functions_as_nodes_and_edges() -> None:
    async with running() as on:
        events = await on.start(profiles=("genesis1", "genesis2"))
        host_id, add = on.identity.host_id, on.id_of("add")
        edge = f"{host_id}|{add}|SERVICE_TO_FUNCTION"
        durable = on.monitor.durable
        await on.monitor.until(lambda: len(durable) == 1 + 2 * 4)
        assert (durable[host_id]["kind"], durable[host_id]["component_type"]) == (0, "SERVICE")
        node = json.loads(durable[add]["metadata"])
        assert (node["node_type"], node["node_state"]) == ("FUNCTION", "READY")
        assert (node["capabilities"]["name"], node["capabilities"]["reason"]) == ("add", "")
        assert (durable[edge]["kind"], durable[edge]["state"]) == (1, "ACTIVE")
        assert durable[edge]["component_type"] == "SERVICE_TO_FUNCTION"
        told = json.loads(durable[edge]["metadata"])
        assert set(told) == {"source_id", "target_id", "edge_type", "attributes"}
        durable.clear()
        events.refresh()
        await on.monitor.until(lambda: len(durable) == 1 + 2 * 4)
        await on.host.remove_engine("e")
        await on.monitor.until(lambda: set(durable) == {host_id})
        assert add in on.monitor.offline
        await events.stop()
        assert not durable
        assert on.monitor.offline[-1] == host_id


async def test_the_second_era_has_events_with_the_keys_that_genesis_reads() -> None:
    async with running(EVENT) as on:
        await on.start(profiles=("genesis1", "genesis2"))
        await on.monitor.until(lambda: len(on.told(EVENT)) == 2 + 3 * 4)
        with pytest.raises(Exception, match="no good"):
            await on.host.call("broken")
        await on.monitor.until(lambda: len(on.told(EVENT)) == 2 + 3 * 4 + 2)
        told = on.told(EVENT)
        (line,) = on.lines
    calls = [event for event in told if event["kind"] == 0]
    start, end = (json.loads(event["payload"]) for event in calls)
    assert set(start) >= {
        "chain_id", "call_id", "interface_id", "primary_agent_id", "specialized_agent_ids", "function_id",
        "query_id", "event_type", "source_id", "target_id", "status",
    }  # fmt: skip
    assert (start["status"], end["status"]) == (0, ERROR_TABLE["execution_failed"].bus)
    assert {event["event_id"] for event in calls} == {end["call_id"]} == {line["call_id"]}
    assert [event["severity"] for event in calls] == ["INFO", "ERROR"]
    lifecycle = [json.loads(event["payload"]) for event in told if event["kind"] == 1]
    keys = {"previous_state", "new_state", "reason", "capabilities", "component_type"}
    assert all(keys <= set(payload) for payload in lifecycle)
    assert sum(payload.get("event_category") == "EDGE_DISCOVERY" for payload in lifecycle) == 4
    general = [json.loads(event["payload"]) for event in told if event["kind"] == 2]
    assert {tuple(payload) for payload in general} == {
        ("event_type", "entity_type", "entity_id", "metadata", "call_data", "result_data", "status_data")
    }
