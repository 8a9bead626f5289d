"""What a watcher sees of capabilities that come, change, go, are lost, and come back."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("cyclonedds")

from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.topic import Topic

from enginehost.databus.config import DatabusConfig
from enginehost.databus.cyclone import CycloneTransport
from enginehost.databus.cyclone.qos import CAPABILITY_WRITER
from enginehost.databus.cyclone.watching import CODEC, MEMBERS
from enginehost.databus.cyclone.wire import idl_type, write
from enginehost.databus.struct import Struct, int32, key
from enginehost.databus.types import FUNCTION_CAPABILITY

Join = Callable[..., CycloneTransport]


async def test_capabilities_come_change_and_are_taken_back(join: Join, seen: Any, capability: Any) -> None:
    offering, watching = join(), join()
    await watching.watch(seen)
    await offering.publish([capability("f", name="one"), capability("g")])
    await seen.until(lambda: len(seen.there) == 2)
    await offering.publish([capability("f", name="two")])
    await seen.until(lambda: seen.there["f"].capability.name == "two")
    await offering.withdraw(["f"])
    await seen.until(lambda: seen.went)
    assert [(went.function_id, went.lost) for went in seen.went] == [("f", False)]
    assert seen.there["g"].participant == str(offering._participant.entity.guid)


async def test_what_another_host_offers_too_stays_when_one_stops_without_taking_it_back(
    join: Join, seen: Any, capability: Any
) -> None:
    one, two, watching = join(), join(), join()
    await watching.watch(seen)
    await one.publish([capability("f"), capability("mark")])
    await seen.until(lambda: len(seen.there) == 2)
    await two.publish([capability("f", name="two")])
    await seen.until(lambda: seen.there["f"].capability.name == "two")
    await one.withdraw(["f"], dispose=False)
    await one.withdraw(["mark"])
    await seen.until(lambda: seen.went)
    assert [went.function_id for went in seen.went] == ["mark"]


async def test_a_late_watcher_sees_thousands_in_small_batches(join: Join, seen: Any, capability: Any) -> None:
    offering, watching = join(), join()
    await offering.publish([capability(f"f{number}", description="x" * 1000) for number in range(2_000)])
    await watching.watch(seen)
    await seen.until(lambda: len(seen.there) == 2_000)
    assert seen.largest <= 64


async def test_what_a_killed_program_offered_is_lost(
    dds_domain: int, member: Any, seen: Any, capability: Any
) -> None:
    transport = CycloneTransport(DatabusConfig(domain=dds_domain, lease=1))
    await transport.watch(seen)
    process = await member("offer", lease=1)
    await seen.until(lambda: len(seen.there) == 3)
    process.kill()
    await seen.until(lambda: len(seen.went) == 3)
    assert {(went.function_id, went.lost) for went in seen.went} == {("f0", True), ("f1", True), ("f2", True)}
    await transport.close()


async def test_a_program_that_stood_still_is_seen_again_though_it_writes_nothing(
    join: Join, member: Any, seen: Any, capability: Any
) -> None:
    watching = join()
    await watching.watch(seen)
    process = await member("offer")
    await seen.until(lambda: len(seen.there) == 3)
    process.send_signal(signal.SIGSTOP)
    await seen.until(lambda: len(seen.went) == 3)
    process.send_signal(signal.SIGCONT)
    await seen.until(lambda: len(seen.there) == 3)
    assert seen.renewed == 1


async def test_who_stood_still_itself_sees_everything_again(member: Any) -> None:
    await member("offer")
    watching = await member("watch")
    watching.send_signal(signal.SIGSTOP)
    await asyncio.sleep(3)  # longer than writers may be silent
    watching.send_signal(signal.SIGCONT)
    async with asyncio.timeout(10):
        assert await watching.stdout.readline() == b"blind\n"
        assert await watching.stdout.readline() == b"again\n"


async def test_a_watcher_that_asks_sees_everything_anew(join: Join, seen: Any, capability: Any) -> None:
    offering, watching = join(), join()
    await watching.watch(seen)
    await offering.publish([capability("f")])
    await seen.until(lambda: seen.there)
    await watching.watch_again()
    assert seen.renewed == 1
    await seen.until(lambda: seen.there)
    assert not seen.went


async def test_malformed_samples_and_other_types_of_the_same_name_hurt_nobody(
    join: Join, raw: Any, seen: Any, capability: Any
) -> None:
    watching = join()
    await watching.watch(seen)
    other = Struct("FunctionCapability", (key("function_id", 128), int32("name")))
    wrong: Any = Topic(raw.entity, "FunctionCapability", idl_type(other))
    stranger = DataWriter(raw.entity, wrong, CAPABILITY_WRITER)
    stranger.write(idl_type(other)("wrong", 7))
    writer = raw.writer(
        Topic(raw.entity, "FunctionCapability", idl_type(FUNCTION_CAPABILITY)), CAPABILITY_WRITER
    )
    bad = MEMBERS(capability("bad"))
    write(writer, CODEC.encode([bad[0], b"\xff\xfe", *bad[2:]]))
    write(writer, CODEC.encode(MEMBERS(capability("good"))))
    await seen.until(lambda: seen.there)
    assert set(seen.there) == {"good"}
    assert watching.describe()["malformed"] >= 1


@pytest.mark.parametrize("version", [1, 2])
async def test_the_key_of_what_is_taken_back_is_read_in_either_representation(
    join: Join, raw: Any, seen: Any, capability: Any, version: int
) -> None:
    watching = join()
    await watching.watch(seen)
    topic = raw.topic(FUNCTION_CAPABILITY)
    representation = Policy.DataRepresentation(
        use_cdrv0_representation=version == 1, use_xcdrv2_representation=version == 2
    )
    writer = raw.writer(topic, Qos(representation, base=CAPABILITY_WRITER))
    sample = topic.data_type(*MEMBERS(capability("an id, in UTF-8: é")))
    writer.write(sample)
    await seen.until(lambda: seen.there)
    writer.dispose(sample)
    await seen.until(lambda: seen.went)
    assert [went.function_id for went in seen.went] == ["an id, in UTF-8: é"]
