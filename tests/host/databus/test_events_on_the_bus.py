"""What monitors are told on the real bus."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from enginehost.databus import outbox
from enginehost.databus.config import DatabusConfig
from enginehost.databus.graph import TOPOLOGY
from enginehost.databus.log_events import LOGS
from enginehost.databus.types import (
    TOPICS,
)
from enginehost.databus.unified import EVENT

from .monitored import CHAIN, LIFECYCLE, Running, running
from .processes import running_program


class RawMonitor:
    """A participant with readers, and nothing of ours but the types."""

    def __init__(self, domain: int) -> None:
        from cyclonedds.domain import DomainParticipant

        self._participant = DomainParticipant(domain)
        self._readers: dict[str, Any] = {}
        self.events: dict[str, list[Any]] = defaultdict(list)
        self.without_writers: set[str] = set()

    def read(self, topic: str, *more: Any) -> None:
        from cyclonedds.qos import Policy, Qos
        from cyclonedds.sub import DataReader
        from cyclonedds.topic import Topic

        from enginehost.databus.cyclone.wire import idl_type

        durable = TOPICS[topic].profile.durable
        qos = Qos(
            Policy.Reliability.Reliable(0),
            Policy.Durability.TransientLocal if durable else Policy.Durability.Volatile,
            Policy.History.KeepAll,
            Policy.DataRepresentation(use_cdrv0_representation=True),
            *more,
        )
        made = Topic(self._participant, topic, idl_type(TOPICS[topic].struct))
        self._readers[topic] = DataReader(self._participant, made, qos=qos)

    def take(self) -> dict[str, list[Any]]:
        from cyclonedds.core import InstanceState

        for topic, reader in self._readers.items():
            for sample in reader.take(1000):
                if sample.sample_info.valid_data:
                    self.events[topic].append(sample)
                if sample.sample_info.instance_state == InstanceState.NotAliveNoWriters:
                    self.without_writers.add(topic)
        return self.events

    async def until(self, holds: Callable[[], Any]) -> None:
        async with asyncio.timeout(20):
            while not (self.take() and holds()):
                await asyncio.sleep(0.005)


@asynccontextmanager
async def on_the_bus(domain: int, **config: Any) -> AsyncGenerator[tuple[Running, RawMonitor]]:
    pytest.importorskip("cyclonedds")
    from enginehost.databus.cyclone.transport import CycloneTransport

    async with running() as on:
        transport = await asyncio.to_thread(CycloneTransport, DatabusConfig(domain=domain))
        on.monitor = transport  # type: ignore[assignment]
        try:
            await on.start(**config)
            yield on, RawMonitor(domain)
            await on.events.stop()
        finally:
            await transport.close()


async def test_a_raw_reader_sees_components_a_whole_chain_and_the_log(dds_domain: int) -> None:
    async with on_the_bus(dds_domain, profiles=("genesis1", "genesis2")) as (on, raw):
        for topic in (CHAIN, LIFECYCLE, LOGS, EVENT, TOPOLOGY):
            raw.read(topic)
        await raw.until(
            lambda: len(raw.events[LIFECYCLE]) == 2 + 4 and len(raw.events[TOPOLOGY]) == 1 + 2 * 4
        )
        async with asyncio.timeout(20):
            while on.events.describe()["listened"] != sorted((CHAIN, LIFECYCLE, LOGS, EVENT)):
                await asyncio.sleep(0.01)
        raw.events[EVENT].clear()
        await on.host.call("outer")
        logging.getLogger("enginehost.host").warning("ä warning")
        await raw.until(
            lambda: len(raw.events[CHAIN]) == len(raw.events[EVENT]) == 6 and CHAIN in raw.without_writers
        )
        await raw.until(lambda: raw.events[LOGS])
        lines = on.lines
        components = list(raw.events[LIFECYCLE])
        await on.events.stop()
        await raw.until(lambda: raw.events[LIFECYCLE][-1].component_id == on.identity.host_id)
    told = raw.events[CHAIN]
    assert {event.chain_id for event in told} == {line["chain_id"] for line in lines}
    assert sorted(event.call_id for event in told) == sorted(2 * [line["call_id"] for line in lines])
    assert {event.function_id for event in told} == {on.id_of("outer"), on.id_of("add")}
    assert [event.message for event in raw.events[LOGS]] == ["ä warning"]
    assert {event.new_state.name for event in components} == {"JOINING", "READY"}
    assert {event.component_type.name for event in components} == {"SERVICE", "FUNCTION"}
    assert {event.new_state.name for event in raw.events[LIFECYCLE][len(components) :]} == {"OFFLINE"}


NEVER_TAKES = """
import sys
from cyclonedds.domain import DomainParticipant
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from enginehost.databus.config import DatabusConfig
from enginehost.databus.cyclone.domain import enter_domain
from enginehost.databus.cyclone.wire import idl_type
from enginehost.databus.types import CHAIN_EVENT

domain = int(sys.argv[1])
enter_domain(DatabusConfig(domain=domain))
participant = DomainParticipant(domain)
limits = Policy.ResourceLimits(max_samples=16)
xcdr1 = Policy.DataRepresentation(use_cdrv0_representation=True)
qos = Qos(Policy.Reliability.Reliable(0), Policy.History.KeepAll, limits, xcdr1)
reader = DataReader(participant, Topic(participant, "ChainEvent", idl_type(CHAIN_EVENT)), qos=qos)
sys.stdin.read()
"""


async def test_a_reader_that_takes_nothing_holds_up_no_call_and_makes_nothing_grow(dds_domain: int) -> None:
    calls = 20_000
    program = running_program("-c", NEVER_TAKES, str(dds_domain))
    async with on_the_bus(dds_domain) as (on, _), program:
        async with asyncio.timeout(30):
            while not on.events.describe()["listened"]:
                await asyncio.sleep(0.01)
            for n in range(calls):
                await on.host.call("add")
                if n % 100 == 0:
                    await asyncio.sleep(0)
        on.host.write_down()
        await asyncio.sleep(0)
        about = on.events.describe()
        waiting = len(on.events._outbox._queue)
        assert waiting <= 2 * outbox.MOST_WAITING  # the ends of calls whose start was told come on top
        assert about["sent"] + about["dropped"] + waiting == 2 * calls
        assert about["dropped"] > calls
