"""The provider among programs that stand still, are killed, or have its id."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from enginehost.databus import advertise
from enginehost.engine import Call

pytest.importorskip("cyclonedds")

from .processes import PATIENCE, running_program


def program(*words: str) -> AbstractAsyncContextManager[Process]:
    """One of ``programs.py``, until the block is left."""
    return running_program(str(Path(__file__).with_name("programs.py")), *words)


async def test_a_host_that_stood_still_is_seen_again_by_who_watched_before(
    dds_domain: int, peer: Any, tmp_path: Path
) -> None:
    async with program("host", str(dds_domain), str(tmp_path)) as host:
        await peer.sees("add")
        host.send_signal(signal.SIGSTOP)
        await peer.until(lambda: not peer.capabilities)  # its lease is over
        peer.send("nobody's", request_id="meanwhile")
        host.send_signal(signal.SIGCONT)
        async with asyncio.timeout(3.0):
            await peer.sees("add")
        assert (await peer.call("add", {"a": 1, "b": 2}))["result"] == "3"


async def test_a_request_that_came_while_the_host_stood_still_is_answered(
    dds_domain: int, peer: Any, tmp_path: Path
) -> None:
    async with program("host", str(dds_domain), str(tmp_path)) as host:
        await peer.sees("add")
        function_id = peer.named("add")["function_id"]
        host.send_signal(signal.SIGSTOP)
        peer.send(function_id, {"a": 1, "b": 2}, "queued")
        await peer.until(lambda: not peer.capabilities)
        host.send_signal(signal.SIGCONT)
        await peer.until(lambda: [one for one in peer.replies if one["request_id"] == "queued"])


async def test_the_stream_of_a_requester_that_is_killed_is_closed(start_host: Any, dds_domain: int) -> None:
    host, bus = await start_host(lease=1.0)
    closed = asyncio.Event()

    async def endless(arguments: dict[str, Any], call: Call) -> AsyncIterator[int]:
        try:
            number = 0
            while True:
                yield (number := number + 1)
        finally:
            closed.set()

    host.put("endless", endless, streaming=True)
    wanted = json.dumps({"ack": True, "stream": True, "credit": 3})
    async with program("ask", str(dds_domain), "endless", wanted) as asker, asyncio.timeout(PATIENCE):
        assert asker.stdout is not None
        told = [json.loads(await asker.stdout.readline()) for _ in range(4)]
        assert told[0]["metadata"]["accepted"] is True
        assert [one["result"] for one in told[1:]] == ["1", "2", "3"]
        assert bus.describe()["in_flight"] == 1
        asker.kill()
        await closed.wait()
        while bus.describe()["in_flight"]:
            await asyncio.sleep(0.005)


async def test_what_is_measured_of_a_function_is_told_and_only_when_it_has_changed(
    start_host: Any, peer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advertise, "MEASURE_EVERY", 0.02)
    host, _ = await start_host()
    host.put("add")
    host.put("other")
    await peer.sees("add", "other")
    assert json.loads(peer.named("add")["performance_metrics"]) == {}
    await peer.call("add", {"a": 1, "b": 2}, "r1")
    await peer.call("add", {"a": 1}, "r2")
    await peer.until(lambda: json.loads(peer.named("add")["performance_metrics"]).get("calls") == 2)
    metrics = json.loads(peer.named("add")["performance_metrics"])
    assert metrics["errors"] == 1
    assert 0 < metrics["latency_ms"]["p50"] <= metrics["latency_ms"]["p95"]
    versions = peer.versions
    await asyncio.sleep(0.2)  # ten looks
    await peer.call("other", {"a": 1, "b": 2}, "r3")
    await peer.until(lambda: json.loads(peer.named("other")["performance_metrics"]))
    assert peer.versions == versions + 1


async def test_a_reader_of_the_second_era_sees_the_functions_of_a_host_that_speaks_it(
    start_host: Any, dds_domain: int
) -> None:
    from cyclonedds.domain import DomainParticipant
    from cyclonedds.sub import DataReader
    from cyclonedds.topic import Topic

    from enginehost.databus.cyclone.qos import CAPABILITY_READER
    from enginehost.databus.cyclone.wire import idl_type
    from enginehost.databus.types import GENESIS_ADVERTISEMENT

    host, bus = await start_host(profiles=("genesis1", "genesis2"))
    host.put("add", description="Adds.")
    participant = DomainParticipant(dds_domain)
    topic = Topic(participant, "rti/connext/genesis/Advertisement", idl_type(GENESIS_ADVERTISEMENT))
    reader = DataReader(participant, topic, CAPABILITY_READER)
    seen: list[Any] = []
    async with asyncio.timeout(PATIENCE):
        while not seen:
            await asyncio.sleep(0.005)
            seen += reader.take(10)
    (said,) = seen
    assert (said.name, said.description, said.provider_id) == ("add", "Adds.", bus.describe()["host_id"])
    assert set(json.loads(said.payload)["parameter_schema"]["properties"]) == {"a", "b"}
    host.remove("add")
    async with asyncio.timeout(PATIENCE):
        while not (gone := reader.take(10)):
            await asyncio.sleep(0.005)
    assert gone[0].key_sample.advertisement_id == said.advertisement_id
    for entity in (reader, topic, participant):
        entity.__del__()


async def test_the_later_of_two_hosts_with_one_id_takes_a_fresh_one(
    start_host: Any, peer: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, first_bus = await start_host(state_dir=tmp_path / "first")
    first.put("add")
    await peer.sees("add")
    before = peer.named("add")
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    second, second_bus = await start_host(state_dir=tmp_path / "copy", directory=False)
    assert second_bus.describe()["host_id"] == before["provider_id"]
    second.put("add", description="The second host's.")
    await peer.until(lambda: peer.named("add")["description"])

    second_bus.renew_identity(first_bus.describe()["incarnation"])
    first_bus.renew_identity(second_bus.describe()["incarnation"])
    await peer.until(lambda: len(peer.capabilities) == 2 and len(set(described(peer))) == 2)
    assert not peer.disposed
    assert first_bus.describe()["host_id"] == before["provider_id"] != second_bus.describe()["host_id"]
    assert "was a state directory copied" in caplog.text
    assert [one.code for one in second_bus.problems()] == ["databus-id"]
    assert not first_bus.problems()
    for capability in list(peer.capabilities.values()):
        reply = await peer.call_id(capability["function_id"], {"a": 1, "b": 2}, capability["function_id"])
        assert reply["metadata"]["provider"] == capability["provider_id"]
    assert len(peer.replies) == 2
    kept = second_bus.describe()["host_id"]
    second_bus.renew_identity("nonsense")
    assert second_bus.describe()["host_id"] == kept


def described(peer: Any) -> list[str]:
    return [capability["description"] for capability in peer.capabilities.values()]
