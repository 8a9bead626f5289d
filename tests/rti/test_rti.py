"""With RTI Connext 6.1: discovery, late joining, update, dispose and departure both ways; calls by type."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.rti.conftest import PATIENCE, Rti, RtiPeer

from enginehost.databus import Capability, DatabusConfig, Sighting
from enginehost.databus.cyclone import CycloneTransport
from enginehost.databus.cyclone.domain import enter_domain, leave_domain
from enginehost.databus.cyclone.qos import reader_qos
from enginehost.databus.cyclone.wire import idl_type
from enginehost.databus.struct import Kind, Member
from enginehost.databus.types import TOPICS

pytestmark = pytest.mark.rti

CAPABILITIES, ADVERTISEMENTS = "FunctionCapability", "rti/connext/genesis/Advertisement"
KEYS = {CAPABILITIES: "function_id", ADVERTISEMENTS: "advertisement_id"}
BOTH_ERAS = pytest.mark.parametrize("topic", [CAPABILITIES, ADVERTISEMENTS], ids=["era 1", "era 2"])
CALLS = 200

Measured = Callable[[str, str], None]


def samples(topic: str) -> list[dict[str, Any]]:
    """Three instances of either type."""
    if topic == CAPABILITIES:
        return [
            asdict(Capability(f"f{n}", f"add_{n}", "Adds « x » and y", "p1", '{"type": "object"}', '["math"]',
                              "{}", "{}", "{}", 1_790_000_000_000 + n, "math"))
            for n in range(3)
        ]  # fmt: skip
    return [
        {
            "advertisement_id": f"f{n}",
            "kind": n % 2,
            "name": f"add_{n}",
            "description": "Adds « x » and y",
            "service_name": "math",
            "provider_id": "p1",
            "last_seen": 1_790_000_000_000 + n,
            "payload": '{"parameter_schema": {"type": "object"}}',
        }
        for n in range(3)
    ]


@asynccontextmanager
async def joined(domain: int) -> AsyncGenerator[CycloneTransport]:
    """Our transport, which leaves in any case."""
    transport = await asyncio.to_thread(CycloneTransport, DatabusConfig(domain=domain))
    try:
        yield transport
    finally:
        await transport.close()


# ours → RTI


class Ours:
    """Our transport, writing either topic."""

    def __init__(self, transport: CycloneTransport, topic: str) -> None:
        self.transport = transport
        self.topic = topic

    async def write(self, given: Sequence[Mapping[str, Any]]) -> None:
        if self.topic == CAPABILITIES:
            await self.transport.publish([Capability(**one) for one in given])
        else:
            await self.transport.put(self.topic, given)

    async def dispose(self, keys: Sequence[str]) -> None:
        if self.topic == CAPABILITIES:
            await self.transport.withdraw(keys)
        else:
            await self.transport.drop(self.topic, keys)


@BOTH_ERAS
async def test_rti_sees_ours_come_change_and_go(
    topic: str, rti: Rti, dds_domain: int, measured: Measured
) -> None:
    key, given = KEYS[topic], samples(topic)
    async with AsyncExitStack() as there:
        ours = Ours(await there.enter_async_context(joined(dds_domain)), topic)
        await ours.write(given)
        started = time.monotonic()
        async with rti(readers=[topic]) as peer:
            await peer.until(lambda: len(peer.last(topic, key)) == 3)
            assert [peer.last(topic, key)[one[key]]["values"] for one in given] == given
            measured(
                f"{topic}: ours → RTI, late joiner has 3 of 3 (since its start)", took(peer, topic, started)
            )

            changed = given[0] | {"description": "Sums"}
            began = time.monotonic()
            await ours.write([changed])
            await peer.until(lambda: peer.last(topic, key)["f0"]["values"] == changed)
            measured(f"{topic}: ours → RTI, update", took(peer, topic, began))

            began = time.monotonic()
            await ours.dispose(["f1"])
            await peer.until(lambda: states(peer, topic, "f1") == {"NOT_ALIVE_DISPOSED"})
            measured(f"{topic}: ours → RTI, dispose", took(peer, topic, began))

            began = time.monotonic()
            await there.aclose()
            await peer.until(lambda: states(peer, topic, "f0", "f2") == {"NOT_ALIVE_NO_WRITERS"})
            assert states(peer, topic, "f1") == {"NOT_ALIVE_DISPOSED"}
            measured(f"{topic}: ours → RTI, departure", took(peer, topic, began))


def states(peer: RtiPeer, topic: str, *keys: str) -> set[str]:
    return {peer.last(topic, KEYS[topic])[key]["state"] for key in keys}


def took(peer: RtiPeer, topic: str, since: float) -> str:
    return f"{(peer.samples(topic)[-1]['at'] - since) * 1e3:.0f} ms"


# RTI → ours


class Seen(Protocol):
    """What our side has read: values by key, and what became of those that went."""

    there: dict[str, dict[str, Any]]
    went: dict[str, str]


class Watched:
    """Our transport's sightings of capabilities."""

    def __init__(self) -> None:
        self.there: dict[str, dict[str, Any]] = {}
        self.went: dict[str, str] = {}

    def seen(self, sightings: Sequence[Sighting]) -> None:
        for one in sightings:
            if one.capability is not None:
                self.there[one.function_id] = asdict(one.capability)
            elif self.there.pop(one.function_id, None):
                self.went[one.function_id] = "lost" if one.lost else "disposed"

    def anew(self) -> None:
        pass


class Read:
    """The bare library reads any keyed topic, with our types and quality of service."""

    def __init__(self, domain: int, topic: str) -> None:
        from cyclonedds.domain import DomainParticipant
        from cyclonedds.sub import DataReader
        from cyclonedds.topic import Topic

        self.there: dict[str, dict[str, Any]] = {}
        self.went: dict[str, str] = {}
        self._topic = TOPICS[topic]
        self._key = KEYS[topic]
        self._participant = DomainParticipant(domain)
        described = Topic(self._participant, topic, idl_type(self._topic.struct))
        self._reader: Any = DataReader(self._participant, described, reader_qos(self._topic.profile))

    async def follow(self) -> None:
        while True:
            for sample in self._reader.take(32):
                self._take(sample)
            await asyncio.sleep(0.002)

    def _take(self, sample: Any) -> None:
        from cyclonedds.core import InstanceState

        key = getattr(getattr(sample, "key_sample", sample), self._key)
        state = sample.sample_info.instance_state
        if state == InstanceState.Alive:
            self.there[key] = {member.name: plain(sample, member) for member in self._topic.struct.members}
        elif self.there.pop(key, None):
            self.went[key] = "disposed" if state == InstanceState.NotAliveDisposed else "lost"


def plain(sample: Any, member: Member) -> Any:
    value = getattr(sample, member.name)
    return value.value if member.kind is Kind.ENUM else value


@asynccontextmanager
async def seeing(topic: str, domain: int) -> AsyncGenerator[Seen]:
    if topic == CAPABILITIES:
        async with joined(domain) as transport:
            watched = Watched()
            await transport.watch(watched)
            yield watched
        return
    enter_domain(DatabusConfig(domain=domain))
    read = Read(domain, topic)
    following = asyncio.create_task(read.follow())
    try:
        yield read
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        del read
        leave_domain(domain)


async def until(holds: Callable[[], Any]) -> float:
    """When it came true."""
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(0.001)
    return time.monotonic()


@BOTH_ERAS
async def test_we_see_rti_s_come_change_and_go(
    topic: str, rti: Rti, dds_domain: int, measured: Measured
) -> None:
    key, given = KEYS[topic], samples(topic)
    async with rti(writers=[topic]) as peer:
        for values in given:
            peer.write(topic, values)
        began = time.monotonic()
        async with seeing(topic, dds_domain) as seen:
            at = await until(lambda: len(seen.there) == 3)
            assert [seen.there[one[key]] for one in given] == given
            measured(f"{topic}: RTI → ours, late joiner has 3 of 3", f"{(at - began) * 1e3:.0f} ms")

            began = time.monotonic()
            changed = given[0] | {"description": "Sums"}
            peer.write(topic, changed)
            at = await until(lambda: seen.there["f0"] == changed)
            measured(f"{topic}: RTI → ours, update", f"{(at - began) * 1e3:.0f} ms")

            began = time.monotonic()
            peer.write(topic, {key: "f1"}, "dispose")
            at = await until(lambda: "f1" in seen.went)
            assert seen.went == {"f1": "disposed"}
            measured(f"{topic}: RTI → ours, dispose (with the key)", f"{(at - began) * 1e3:.0f} ms")

            began = time.monotonic()
            await peer.leave()
            at = await until(lambda: not seen.there)
            assert seen.went == {"f1": "disposed", "f0": "lost", "f2": "lost"}
            measured(f"{topic}: RTI → ours, departure", f"{(at - began) * 1e3:.0f} ms")


async def test_a_killed_program_of_rti_s_is_lost_within_its_lease(
    rti: Rti, dds_domain: int, measured: Measured
) -> None:
    async with rti(writers=[CAPABILITIES]) as peer, seeing(CAPABILITIES, dds_domain) as seen:
        peer.write(CAPABILITIES, samples(CAPABILITIES)[0])
        await until(lambda: seen.there)
        began = time.monotonic()
        peer.process.kill()
        await peer.process.wait()
        at = await until(lambda: not seen.there)
        assert seen.went == {"f0": "lost"}
        measured("FunctionCapability: RTI → ours, SIGKILL", f"{at - began:.1f} s")


async def test_rti_s_default_way_to_dispose_does_not_arrive(
    rti: Rti, dds_domain: int, measured: Measured
) -> None:
    """It sends the hash of the key only. Should this fail some day, the page on Connext is to be changed."""
    async with rti(writers=[CAPABILITIES], key=False) as peer, seeing(CAPABILITIES, dds_domain) as seen:
        first, second = samples(CAPABILITIES)[:2]
        peer.write(CAPABILITIES, first)
        await until(lambda: seen.there)
        peer.write(CAPABILITIES, {"function_id": "f0"}, "dispose")
        peer.write(CAPABILITIES, second)  # what comes after it arrives
        await until(lambda: "f1" in seen.there)
        assert "f0" in seen.there
        measured("FunctionCapability: RTI → ours, dispose (default: hash of the key)", "does not arrive")


# calls

ADD = """ENGINE_CLASS = LocalPython
FUNCTION_NAME = add
PYTHON_SCRIPT_PATH = add.py
"""


@pytest.fixture
async def host(dds_domain: int, tmp_path: Path) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A host as a user starts it, which serves ``add``."""
    folder = tmp_path / "smss"
    folder.mkdir()
    (folder / "add.py").write_text("def add(a: int, b: int) -> int:\n    return a + b\n", encoding="utf-8")
    (folder / "add.smss").write_text(ADD, encoding="utf-8")
    (tmp_path / "enginehost.yaml").write_text(
        "databus:\n  profiles: [genesis1, genesis2]\n", encoding="utf-8"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "enginehost", "run", str(folder), "--no-http", "--json",
        "--domain", str(dds_domain), stderr=asyncio.subprocess.PIPE, cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"),
             },
    )  # fmt: skip
    assert process.stderr is not None
    async with asyncio.timeout(PATIENCE):
        async for line in process.stderr:
            if json.loads(line)["event"] == "ready":
                break
    draining = asyncio.create_task(process.stderr.read())
    yield process
    if process.returncode is None:
        process.terminate()
        await process.wait()
    await draining


async def test_rti_calls_a_running_host_by_type_and_sees_it_die(
    host: asyncio.subprocess.Process, rti: Rti, measured: Measured
) -> None:
    writers, readers = ["FunctionExecutionRequest"], ["FunctionExecutionReply", CAPABILITIES, ADVERTISEMENTS]
    async with rti(writers, readers) as peer:
        await peer.until(lambda: peer.samples(CAPABILITIES) and peer.samples(ADVERTISEMENTS))
        (capability,) = (one["values"] for one in peer.last(CAPABILITIES, "function_id").values())
        (advertised,) = (one["values"] for one in peer.last(ADVERTISEMENTS, "advertisement_id").values())
        assert capability["name"] == advertised["name"] == "add"
        assert capability["function_id"] == advertised["advertisement_id"]
        assert json.loads(capability["parameter_schema"])["required"] == ["a", "b"]

        numbers = [json.dumps({"a": n, "b": 2}) for n in range(CALLS)]
        peer.order("call", function_id=capability["function_id"], parameters=[*numbers, '{"a": "x"}', "{"])
        called = await peer.says("called")
        *right, invalid, malformed = called["answers"]
        assert [(one["status"], one["result"]) for one in right] == [(0, str(n + 2)) for n in range(CALLS)]
        assert invalid["status"]
        assert json.loads(invalid["metadata"])["error"]["code"] == "invalid_arguments"
        assert malformed["status"]
        measured(
            f"FunctionExecutionRequest/Reply: RTI calls a host, {CALLS} of {CALLS}",
            f"median {called['median_us']} µs",
        )

        began = time.monotonic()
        host.kill()
        await peer.until(
            lambda: states(peer, CAPABILITIES, capability["function_id"]) == {"NOT_ALIVE_NO_WRITERS"}
        )
        measured("FunctionCapability: host → RTI, SIGKILL", took(peer, CAPABILITIES, began))
