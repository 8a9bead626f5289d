"""The port on Connext: what crosses it, and who waits for whom.

Each test runs on played entities; where ``RTI_LICENSE_FILE`` names a licence, on Connext itself too.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest

dds = pytest.importorskip("rti.connextdds", reason="rti.connext is not installed")

import played  # noqa: E402
from enginehost_connext.entities import Entities, Library  # noqa: E402
from enginehost_connext.replies import announced, partition_said  # noqa: E402
from enginehost_connext.structs import members_of, sample_of  # noqa: E402
from enginehost_connext.transport import ConnextTransport  # noqa: E402

from enginehost.databus import (  # noqa: E402
    TOPICS,
    Capability,
    DatabusConfig,
    ExecutionReply,
    ExecutionRequest,
    Sighting,
    types_of,
)

PATIENCE = 20.0
MINE, THEIRS = "eh." + "1" * 32, "eh." + "2" * 32
ADVERTISEMENTS = "rti/connext/genesis/Advertisement"
CHAINS = "ChainEvent"
STRUCTS = {struct.name: struct for struct in types_of()}
ADD = Capability(
    "f1", "add", "Adds « x » and y", "p1", '{"type": "object"}', "[]", "{}", "{}", "{}", 7, "math"
)
LICENSED = pytest.mark.skipif(
    not os.environ.get("RTI_LICENSE_FILE"), reason="does not apply: RTI_LICENSE_FILE names no licence"
)


class Heard:
    """Everything that a transport told us."""

    def __init__(self) -> None:
        self.requests: list[ExecutionRequest] = []
        self.replies: list[ExecutionReply] = []
        self.sightings: list[Sighting] = []
        self.gone: list[str] = []
        self.anews = 0
        self.hold = asyncio.Event()
        self.hold.set()

    async def handle(self, requests: Sequence[ExecutionRequest]) -> None:
        self.requests += requests
        await self.hold.wait()

    def seen(self, sightings: Sequence[Sighting]) -> None:
        self.sightings += sightings

    def anew(self) -> None:
        self.anews += 1

    @property
    def there(self) -> dict[str, Capability]:
        found: dict[str, Capability] = {}
        for one in self.sightings:
            if one.capability is None:
                found.pop(one.function_id, None)
            else:
                found[one.function_id] = one.capability
        return found


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 - what is asked for is not always told
            await asyncio.sleep(0.002)


Join = Callable[..., Awaitable[ConnextTransport]]


@pytest.fixture(params=["played", pytest.param("licensed", marks=LICENSED)])
def bus(request: pytest.FixtureRequest) -> played.Bus | None:
    return played.Bus() if request.param == "played" else None


@pytest.fixture
async def join(bus: played.Bus | None) -> AsyncIterator[Join]:
    library = Library() if bus is None else bus.library()
    config = DatabusConfig(domain=random.randint(60, 95))
    async with AsyncExitStack() as stack:

        async def join() -> ConnextTransport:
            transport = await asyncio.to_thread(ConnextTransport, config, library)
            stack.push_async_callback(transport.close)
            return transport

        yield join


async def provider(join: Join) -> tuple[ConnextTransport, Heard]:
    transport, heard = await join(), Heard()
    await transport.serve(heard.handle, THEIRS, heard.gone.append)
    await transport.publish([ADD])
    return transport, heard


async def requester(join: Join) -> tuple[ConnextTransport, Heard]:
    transport, heard = await join(), Heard()
    await transport.listen(heard.replies.extend, MINE, heard.gone.append)
    await transport.watch(heard)
    await until(lambda: heard.there)
    return transport, heard


def a_request(number: int = 1, **changed: Any) -> ExecutionRequest:
    return replace(ExecutionRequest(f"r{number}", "f1", b'{"a": 1}', 5, b'{"ack": true}'), **changed)


def a_reply(to: ExecutionRequest, **changed: Any) -> ExecutionReply:
    return replace(
        ExecutionReply(to.request_id, to.function_id, b"3", 0, "", 6, b'{"final": true}'), **changed
    )


async def test_a_late_joiner_sees_capabilities_their_changes_and_their_end(join: Join) -> None:
    giving, _ = await provider(join)
    _, heard = await requester(join)
    assert heard.there == {"f1": ADD}
    changed = replace(ADD, description="Sums")
    await giving.publish([changed, replace(ADD, function_id="f2")])
    await until(lambda: len(heard.there) == 2 and heard.there["f1"] == changed)
    await giving.withdraw(["f1", "never published"])
    await until(lambda: heard.there.keys() == {"f2"})
    ended = heard.sightings[-1]
    assert (ended.function_id, ended.capability, ended.lost) == ("f1", None, False)


async def test_what_is_no_longer_written_but_not_disposed_is_lost(join: Join) -> None:
    giving, _ = await provider(join)
    _, heard = await requester(join)
    await giving.withdraw(["f1"], dispose=False)
    await until(lambda: not heard.there)
    assert heard.sightings[-1].lost


async def test_a_provider_that_leaves_is_lost_not_disposed(join: Join) -> None:
    giving, _ = await provider(join)
    _, heard = await requester(join)
    await giving.close()
    await until(lambda: not heard.there)
    assert heard.sightings[-1].lost


async def test_the_very_first_call_is_answered_in_the_requester_s_partition(join: Join) -> None:
    giving, served = await provider(join)
    asking, heard = await requester(join)
    them = heard.sightings[0].participant
    assert await asking.reach(THEIRS, them, 5)
    assert await asking.send(a_request(), THEIRS)
    await until(lambda: served.requests)
    (asked,) = served.requests
    assert replace(asked, source="", participant="") == a_request()
    assert await giving.reply(a_reply(asked), asked.source, MINE)
    await until(lambda: heard.replies)
    assert heard.replies == [a_reply(asked, participant=them)]


async def test_a_peer_that_names_no_partition_is_answered_in_the_default_one(join: Join) -> None:
    giving, served = await provider(join)
    asking, heard = await requester(join)
    assert await asking.reach("", heard.sightings[0].participant, 5)
    assert await asking.send(a_request(), "")
    await until(lambda: served.requests)
    assert await giving.reply(a_reply(served.requests[0]), served.requests[0].source)
    await until(lambda: heard.replies)


async def test_whoever_serves_nothing_is_not_reached(join: Join) -> None:
    await provider(join)
    asking, heard = await requester(join)
    assert not await asking.reach("eh." + "9" * 32, heard.sightings[0].participant, 0.05)


async def test_a_requester_that_leaves_is_told(join: Join) -> None:
    _, served = await provider(join)
    asking, heard = await requester(join)
    assert await asking.reach(THEIRS, heard.sightings[0].participant, 5)
    await asking.send(a_request(), THEIRS)
    await until(lambda: served.requests)
    await asking.close()
    await until(lambda: served.gone)
    assert served.gone == [served.requests[0].participant]


async def test_a_provider_that_leaves_is_told(join: Join) -> None:
    giving, _ = await provider(join)
    asking, heard = await requester(join)
    them = heard.sightings[0].participant
    assert await asking.reach(THEIRS, them, 5)
    await giving.close()
    await until(lambda: heard.gone)
    assert heard.gone == [them]


async def test_large_values_cross_whole(join: Join) -> None:
    giving, served = await provider(join)
    asking, heard = await requester(join)
    assert await asking.reach(THEIRS, heard.sightings[0].participant, 5)
    large = b'"' + b"x" * 1_000_000 + b'"'
    assert await asking.send(a_request(parameters=large), THEIRS)
    await until(lambda: served.requests)
    assert served.requests[0].parameters == large
    assert await giving.reply(a_reply(served.requests[0], result=large), served.requests[0].source, MINE)
    await until(lambda: heard.replies)
    assert heard.replies[0].result == large


async def test_while_the_handler_waits_no_more_requests_are_taken(join: Join) -> None:
    _, served = await provider(join)
    asking, heard = await requester(join)
    assert await asking.reach(THEIRS, heard.sightings[0].participant, 5)
    served.hold.clear()
    for number in range(200):
        assert await asking.send(a_request(number), THEIRS)
    await until(lambda: served.requests)
    await asyncio.sleep(0.05)
    assert len(served.requests) < 200
    served.hold.set()
    await until(lambda: len(served.requests) == 200)
    assert [one.request_id for one in served.requests] == [f"r{number}" for number in range(200)]


async def test_advertisements_of_the_second_era_are_put_and_dropped(join: Join) -> None:
    transport = await join()
    await transport.put(ADVERTISEMENTS, [{"advertisement_id": "f1", "kind": "FUNCTION", "payload": "{}"}])
    await transport.drop(ADVERTISEMENTS, ["f1"])


async def test_an_event_is_written_only_where_somebody_listens(join: Join) -> None:
    transport = await join()
    assert not transport.listened(CHAINS)
    assert not transport.announce(CHAINS, {"chain_id": "c1"})


async def test_closing_leaves_nothing_behind_while_a_handler_waits(join: Join) -> None:
    giving, served = await provider(join)
    asking, heard = await requester(join)
    assert await asking.reach(THEIRS, heard.sightings[0].participant, 5)
    served.hold.clear()
    await asking.send(a_request(), THEIRS)
    await until(lambda: served.requests)
    async with asyncio.timeout(PATIENCE):
        await giving.close()


# on played entities only: what one cannot have Connext do at will


@pytest.fixture
def played_bus(bus: played.Bus | None) -> played.Bus:
    if bus is None:
        pytest.skip("does not apply: entities have to be played for this")
    return bus


def readers_on(bus: played.Bus, topic: str) -> list[played.DataReader]:
    return [reader for reader in bus.readers if reader.topic.name == topic]


async def test_a_requester_that_takes_nothing_holds_up_nobody_else(
    played_bus: played.Bus, join: Join
) -> None:
    giving, served = await provider(join)
    slow, heard = await requester(join)
    them = heard.sightings[0].participant
    assert await slow.reach(THEIRS, them, 5)
    await slow.send(a_request(1), THEIRS)
    await until(lambda: served.requests)
    (reader,) = readers_on(played_bus, "FunctionExecutionReply")
    reader.behind = True
    waiting = asyncio.ensure_future(
        giving.reply(a_reply(served.requests[0]), served.requests[0].source, MINE)
    )
    fast = await join()
    others = Heard()
    await fast.listen(others.replies.extend, "eh." + "3" * 32, others.gone.append)
    assert await fast.reach(THEIRS, them, 5)
    await fast.send(a_request(2), THEIRS)
    await until(lambda: len(served.requests) == 2)
    assert await giving.reply(a_reply(served.requests[1]), served.requests[1].source, "eh." + "3" * 32)
    await until(lambda: others.replies)
    assert not waiting.done()
    assert giving.describe()["reader_behind"]
    reader.behind = False
    assert await waiting
    await until(lambda: heard.replies)


async def test_a_malformed_request_takes_no_other_with_it(played_bus: played.Bus, join: Join) -> None:
    giving, served = await provider(join)
    asking, heard = await requester(join)
    assert await asking.reach(THEIRS, heard.sightings[0].participant, 5)
    (reader,) = readers_on(played_bus, "FunctionExecutionRequest")
    (writer,) = played_bus.writers_of(reader)
    writer.qos.durability = dds.Durability.volatile
    reader.arrived(
        writer, b"\0\1\0\0\2\0\0\0\xff\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0" + b"\0" * 23 + b"\1\0\0\0\0\0\0\0"
    )
    await asking.send(a_request(), THEIRS)
    await until(lambda: served.requests)
    assert [one.request_id for one in served.requests] == ["r1"]
    assert giving.describe()["malformed"] == 1


async def test_a_writer_that_is_heard_of_again_is_read_anew(played_bus: played.Bus, join: Join) -> None:
    await provider(join)
    _, heard = await requester(join)
    (reader,) = readers_on(played_bus, "FunctionCapability")
    (writer,) = played_bus.writers_of(reader)
    reader.ended(writer, "f1", dds.InstanceState.NOT_ALIVE_NO_WRITERS)
    reader.liveliness(alive=-1, not_alive=1)
    await until(lambda: not heard.there and not reader.status.trigger_value)
    reader.liveliness(alive=1, not_alive=-1)
    await until(lambda: heard.there)
    assert heard.anews == 1
    assert readers_on(played_bus, "FunctionCapability") != [reader]


async def test_after_a_pause_of_ours_everything_is_seen_once_more(join: Join) -> None:
    await provider(join)
    asking, heard = await requester(join)
    heard.sightings.clear()
    await asking.watch_again()
    await until(lambda: heard.there)
    assert heard.anews == 1


async def test_events_are_written_dropped_and_forgotten(played_bus: played.Bus, join: Join) -> None:
    transport, listener = await join(), await join()
    found = TOPICS[CHAINS]
    reader: Any = listener._entities.reader(found.name, found.struct, found.profile)
    assert transport.listened(CHAINS)
    assert transport.announce(CHAINS, {"chain_id": "c1"}, last=True)
    assert reader.samples[0].info.valid
    reader.behind = True
    assert not transport.announce(CHAINS, {"chain_id": "c2"})
    assert transport.describe()["events_dropped"] == 1


async def test_at_most_so_many_reply_partitions_are_open(
    played_bus: played.Bus, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    from enginehost_connext import replies

    monkeypatch.setattr(replies, "MOST_PARTITIONS", 3)
    giving, _ = await provider(join)
    assert giving._replies is not None
    for number in range(6):
        giving._replies.open(f"eh.{number:032}")
    await until(lambda: len([w for w in played_bus.writers if w.topic.name == "FunctionExecutionReply"]) == 3)


@pytest.mark.parametrize(
    ("profiles", "topic", "request_values", "well", "failed"),
    [
        (
            ("genesis1",),
            "mathRequest",
            {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}},
            {"result_json": b"3", "success": True, "error_message": b""},
            {"result_json": b"null", "success": False, "error_message": b"no"},
        ),
        (
            ("genesis1", "genesis2"),
            "rti/connext/genesis/rpc/mathRequest",
            {
                "request_id": "q1",
                "message": '{"function": "add", "params": {"a": 1}}',
                "conversation_id": "c1",
            },
            {"request_id": b"q1", "conversation_id": b"c1", "message": b"3", "status": 0},
            {"request_id": b"q1", "conversation_id": b"c1", "message": b"no", "status": 1},
        ),
    ],
    ids=["era 1", "era 2"],
)
async def test_a_service_of_genesis_s_answers_by_the_identity_of_the_request(
    played_bus: played.Bus,
    profiles: tuple[str, ...],
    topic: str,
    request_values: dict[str, Any],
    well: dict[str, Any],
    failed: dict[str, Any],
) -> None:
    served = Heard()
    transport = ConnextTransport(DatabusConfig(profiles=profiles), played_bus.library())
    await transport.serve(served.handle, THEIRS, served.gone.append)
    await transport.publish([ADD])
    (reader,) = readers_on(played_bus, topic)
    struct = STRUCTS[reader.topic.kind.name]
    peer: Any = Entities(DatabusConfig(), played_bus.library())
    writer = peer.writer(topic, struct, TOPICS["FunctionExecutionRequest"].profile)
    for number in (1, 2):
        writer.write(sample_of(struct, request_values))
        await until(lambda: len(served.requests) == number)  # noqa: B023
    for asked, status in zip(served.requests, (0, 5), strict=True):
        assert (asked.function_id, json.loads(asked.parameters)) == ("f1", {"a": 1})
        reply = a_reply(asked, status=status, error_message="no" if status else "")
        assert await transport.reply(reply, asked.source)
    assert reader.replier is not None
    answers = [members_of(STRUCTS[one.type.name], one) for one, _ in reader.replier.answers]
    assert [{name: one[name] for name in well} for one in answers] == [well, failed]
    assert len({identity.sequence_number for _, identity in reader.replier.answers}) == 2
    await transport.close()


def test_a_way_back_is_announced_in_a_form_that_no_peer_can_bend() -> None:
    assert partition_said(announced(MINE)) == MINE
    for said in (b"", b"enginehost reply_partition=*", announced(MINE) + b"x", b"\xff"):
        assert partition_said(said) == ""


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (played.DataWriter, dds.DynamicData.DataWriter),
        (played.DataReader, dds.DynamicData.DataReader),
        (played.Selector, dds.DynamicData.DataReader.Selector),
        (played.DomainParticipant, dds.DomainParticipant),
        (played.Handle, dds.InstanceHandle),
    ],
    ids=lambda kind: kind.__name__,
)
def test_the_played_classes_have_no_name_that_connext_lacks(ours: type, theirs: type) -> None:
    own = {"durable", "key", "end", "wants", "matched", "arrived", "ended", "put", "liveliness"}
    assert [name for name in played.offered(ours) if name not in own and not hasattr(theirs, name)] == []
