"""Other topics: durable instances, and events for whoever listens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("cyclonedds")

from cyclonedds.core import InstanceState
from tests.host.databus.processes import PATIENCE

from enginehost.databus.cyclone import CycloneTransport, topics
from enginehost.databus.cyclone.qos import reader_qos
from enginehost.databus.types import TOPICS

ADVERTISEMENT = "rti/connext/genesis/Advertisement"


@pytest.fixture
def listen(raw: Any) -> Callable[[str], Any]:
    """Makes a reader of a topic."""

    def make(topic: str) -> Any:
        about = TOPICS[topic]
        return raw.reader(raw.topic(about.struct, topic), reader_qos(about.profile))

    return make


async def take(reader: Any, count: int) -> list[Any]:
    samples: list[Any] = []
    async with asyncio.timeout(PATIENCE):
        while len(samples) < count:
            samples += reader.take(count)
            await asyncio.sleep(0.005)
    return samples


async def test_durable_instances_are_put_and_dropped(
    join: Callable[..., CycloneTransport], listen: Any
) -> None:
    transport = join()
    await transport.put(
        ADVERTISEMENT, [{"advertisement_id": "a", "name": "é", "kind": "AGENT", "last_seen": 5}]
    )
    late = listen(ADVERTISEMENT)
    (sample,) = await take(late, 1)
    assert (sample.advertisement_id, sample.name, int(sample.kind.value), sample.last_seen) == (
        "a",
        "é",
        1,
        5,
    )
    await transport.drop(ADVERTISEMENT, ["a"])
    (gone,) = await take(late, 1)
    assert gone.key_sample.advertisement_id == "a"


async def test_an_event_is_written_only_while_somebody_listens_and_its_instance_ends(
    join: Callable[..., CycloneTransport], listen: Any, raw: Any, until: Any
) -> None:
    transport = join()
    assert not transport.listened("ChainEvent")
    assert not transport.announce("ChainEvent", {"chain_id": "early"})
    listener = listen("ChainEvent")
    await until(lambda: transport.listened("ChainEvent"))
    assert transport.announce("ChainEvent", {"chain_id": "c", "call_id": "1"})
    assert transport.announce("ChainEvent", {"chain_id": "c", "call_id": "2"}, last=True)
    first, second = await take(listener, 2)
    assert [first.call_id, second.call_id] == ["1", "2"]
    last = second  # the end may come with it
    while last.sample_info.instance_state != InstanceState.NotAliveNoWriters:
        (last,) = await take(listener, 1)
    raw.delete(listener)
    await until(lambda: not transport.listened("ChainEvent"))
    assert transport.describe()["events_dropped"] == 0


async def test_events_that_come_faster_than_they_go_are_dropped_and_counted(
    join: Callable[..., CycloneTransport], listen: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "MOST_EVENTS", 8)
    transport = join()
    listener = listen("GenesisLogs")
    await until(lambda: transport.listened("GenesisLogs"))
    written = sum(transport.announce("GenesisLogs", {"log_id": str(n)}) for n in range(2_000))
    assert written < 2_000
    assert transport.describe()["events_dropped"] == 2_000 - written
    await take(listener, 1)
