"""Requests and replies: where they arrive, and whom they hold up."""

from __future__ import annotations

import asyncio
import secrets
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("cyclonedds")

from cyclonedds.core import InstanceState, ReadCondition, SampleState, ViewState
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from tests.host.databus.processes import PATIENCE, line_of

from enginehost.databus.config import DatabusConfig
from enginehost.databus.cyclone import CycloneTransport, provider
from enginehost.databus.cyclone.handover import Handover
from enginehost.databus.cyclone.qos import CALL_READER, CALL_WRITER, READ_BOTH
from enginehost.databus.cyclone.reply_partition import partition_in, user_data
from enginehost.databus.metadata import partition_of
from enginehost.databus.port import ExecutionReply, ExecutionRequest
from enginehost.databus.types import FUNCTION_EXECUTION_REPLY, FUNCTION_EXECUTION_REQUEST

Join = Callable[..., CycloneTransport]


class Echo:
    """A provider that answers with the parameters, where ``metadata`` says, and keeps what it got."""

    def __init__(self, transport: CycloneTransport) -> None:
        self.transport = transport
        self.partition = partition_of(secrets.token_hex(16))
        self.taken: list[ExecutionRequest] = []
        self.gone: list[str] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    async def serve(self) -> None:
        await self.transport.serve(self.take, self.partition, self.gone.append)

    async def take(self, batch: Sequence[ExecutionRequest]) -> None:
        self.taken += batch
        for request in batch:
            task = asyncio.create_task(self.answer(request))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def answer(self, request: ExecutionRequest, **more: Any) -> bool:
        given = {
            "result": request.parameters,
            "status": 0,
            "error_message": "",
            "timestamp": 1,
            "metadata": b"",
        }
        reply = ExecutionReply(request.request_id, request.function_id, **given | more)
        return await self.transport.reply(reply, request.source, request.metadata.decode())


@pytest.fixture
def pair(join: Join, caller_of: Any) -> Callable[[], Awaitable[tuple[Echo, Any, str]]]:
    """Makes a provider, a requester that has reached it, and the provider's participant."""

    async def make() -> tuple[Echo, Any, str]:
        echo, caller = Echo(join()), caller_of(join())
        await echo.serve()
        await caller.listen()
        participant = participant_of(echo.transport)
        assert await caller.transport.reach(echo.partition, participant, PATIENCE)
        return echo, caller, participant

    return make


def participant_of(transport: CycloneTransport) -> str:
    return str(transport._participant.entity.guid)


@pytest.mark.parametrize("size", [1, 8 << 10, 1 << 20, 4 << 20])
async def test_a_call_comes_back_unchanged_whatever_its_size(size: int, pair: Any) -> None:
    echo, caller, participant = await pair()
    sent = secrets.token_bytes(size).replace(b"\0", b"\1")
    reply = await caller.call("r", echo.partition, sent)
    assert (reply.result, reply.participant) == (sent, participant)
    assert echo.taken[0].participant == participant_of(caller.transport)


async def test_who_is_not_meant_hears_neither_requests_nor_replies(pair: Any) -> None:
    echo, caller, _ = await pair()
    other_echo, other_caller, _ = await pair()
    await caller.call("mine", echo.partition)
    await other_caller.call("yours", other_echo.partition)
    assert [request.request_id for request in echo.taken] == ["mine"]
    assert [request.request_id for request in other_echo.taken] == ["yours"]
    assert [reply.request_id for reply in caller.heard] == ["mine"]
    assert [reply.request_id for reply in other_caller.heard] == ["yours"]


async def test_the_reply_to_the_first_request_of_a_new_requester_is_never_lost(
    member: Any, dds_domain: int, caller_of: Any, seen: Any
) -> None:
    async def call_once(watcher: Any) -> None:
        transport = CycloneTransport(DatabusConfig(domain=dds_domain))
        caller = caller_of(transport)
        await caller.listen()
        await transport.watch(watcher)
        await watcher.until(lambda: watcher.there)
        sighting = watcher.there["echo"]
        partition = sighting.capability.classification
        assert await transport.reach(partition, sighting.participant, PATIENCE)
        await caller.call("r", partition)
        await transport.close()

    await member("echo")
    for _ in range(100):
        await call_once(type(seen)())


async def test_a_requester_that_takes_nothing_holds_up_only_its_own_replies(
    raw: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, pair: Any, until: Any
) -> None:
    monkeypatch.setattr(provider, "REPLY_PATIENCE", 0.2)
    echo, caller, _ = await pair()
    own = partition_of(secrets.token_hex(16))
    reader = raw.reader(
        raw.topic(FUNCTION_EXECUTION_REPLY),
        Qos(Policy.ResourceLimits(max_samples=1), base=CALL_READER),
        (own,),
    )
    topic = raw.topic(FUNCTION_EXECUTION_REQUEST)
    writer = raw.writer(topic, CALL_WRITER, echo.partition, user_data(own))
    await until(writer.get_matched_subscriptions)
    writer.write(topic.data_type("stuck", "f", "{}", 1, "nowhere"))
    await until(lambda: echo.taken)
    request = ExecutionRequest("stuck", "f", b"x" * 60_000, 1, own.encode(), echo.taken[0].source, "")
    behind = [asyncio.create_task(echo.answer(request)) for _ in range(40)]
    for number in range(20):
        await caller.call(f"r{number}", echo.partition)
    assert not all(task.done() for task in behind)
    assert False in await asyncio.gather(*behind)
    assert caplog.text.count("readers on the databus are behind") == 1
    for endpoint in (reader, writer):
        raw.delete(endpoint)
    await until(lambda: len(echo.gone) == 1)
    assert echo.transport.describe()["reply_partitions"] == 1


async def test_replies_arrive_in_the_order_in_which_they_were_given(pair: Any, until: Any) -> None:
    echo, caller, _ = await pair()
    await caller.call("first", echo.partition)
    request = echo.taken[0]
    sizes = [(1 << 20) if number % 5 == 0 else 10 for number in range(40)]
    answers = [echo.answer(request, status=number, result=b"x" * size) for number, size in enumerate(sizes)]
    assert all(await asyncio.gather(*answers))
    await until(lambda: len(caller.heard) == 41)
    assert [reply.status for reply in caller.heard[1:]] == list(range(40))


async def test_a_program_that_knows_only_the_types_calls_and_is_called(
    pair: Any, raw: Any, until: Any
) -> None:
    _, caller, _ = await pair()
    requests, replies = raw.topic(FUNCTION_EXECUTION_REQUEST), raw.topic(FUNCTION_EXECUTION_REPLY)
    plain = Qos(Policy.Reliability.Reliable(10**9), Policy.History.KeepAll)  # XCDR2, as the library has it
    both = Qos(READ_BOTH, base=plain)
    calls_of_them, their_replies = (DataWriter(raw.entity, topic, plain) for topic in (requests, replies))
    their_requests, replies_to_them = (DataReader(raw.entity, topic, both) for topic in (requests, replies))
    await until(lambda: len(calls_of_them.get_matched_subscriptions()) == 2)  # itself too
    calls_of_them.write(requests.data_type("theirs", "f", '"é"', 1, ""))
    assert (await taken(replies_to_them)).result == '"é"'
    assert await caller.transport.reach("", str(raw.entity.guid), PATIENCE)
    assert await caller.send("ours", "")
    assert [(await taken(their_requests)).request_id for _ in range(2)] == ["theirs", "ours"]
    their_replies.write(replies.data_type("ours", "f", "3", 0, "", 1, ""))
    await until(lambda: str(raw.entity.guid) in [reply.participant for reply in caller.heard])


async def taken(reader: Any) -> Any:
    async with asyncio.timeout(PATIENCE):
        while True:
            alive = ReadCondition(reader, SampleState.Any | ViewState.Any | InstanceState.Alive)
            if samples := reader.take(1, condition=alive):
                return samples[0]
            await asyncio.sleep(0.005)


async def test_a_requester_that_leaves_or_is_killed_is_gone(
    dds_domain: int, member: Any, until: Any, capability: Any
) -> None:
    echo = Echo(CycloneTransport(DatabusConfig(domain=dds_domain, lease=1)))
    await echo.serve()
    await echo.transport.publish([capability("echo", classification=echo.partition)])
    asking = await member("ask", lease=1)
    assert [request.participant for request in echo.taken] != []
    assert echo.transport.describe()["reply_partitions"] == 1
    asking.kill()
    await until(lambda: echo.gone)
    assert echo.gone == [echo.taken[0].participant]
    assert echo.transport.describe()["reply_partitions"] == 0
    await echo.transport.close()


async def test_the_first_request_after_a_pause_is_not_lost(
    dds_domain: int, member: Any, until: Any, capability: Any
) -> None:
    echo = Echo(CycloneTransport(DatabusConfig(domain=dds_domain, lease=1)))
    await echo.serve()
    await echo.transport.publish([capability("echo", classification=echo.partition)])
    asking = await member("ask", lease=1)
    asking.send_signal(signal.SIGSTOP)
    asking.stdin.write(b"call\n")
    await until(lambda: echo.gone)  # others take it for gone
    asking.send_signal(signal.SIGCONT)
    assert await line_of(asking) == b"answered\n"
    await echo.transport.close()


async def test_what_is_not_there_is_not_reached(pair: Any) -> None:
    _, caller, participant = await pair()
    nowhere = partition_of(secrets.token_hex(16))
    assert not await caller.transport.reach(nowhere, participant, 0.05)
    caller.transport.forget(nowhere)
    assert not await caller.transport.reach("", "somebody", 0.05)


async def test_requests_wait_in_the_library_while_the_handler_waits_and_replies_do_not(
    join: Join, pair: Any, until: Any, caller_of: Any
) -> None:
    echo, caller, _ = await pair()
    other = Echo(join())
    go = asyncio.Event()
    calls = 0

    async def slow(batch: Sequence[ExecutionRequest]) -> None:
        nonlocal calls
        calls += len(batch)
        await go.wait()
        await other.take(batch)

    await other.transport.serve(slow, other.partition, other.gone.append)
    other_side = caller_of(other.transport)  # the same participant calls too
    await other_side.listen()
    assert await other_side.transport.reach(echo.partition, participant_of(echo.transport), PATIENCE)
    assert await caller.transport.reach(other.partition, participant_of(other.transport), PATIENCE)
    for number in range(500):
        assert await caller.send(f"r{number}", other.partition)
    await until(lambda: calls)
    for number in range(20):
        await other_side.call(f"o{number}", echo.partition)
    assert calls <= 32
    go.set()
    await until(lambda: len(caller.heard) == 500)
    assert [request.request_id for request in other.taken] == [f"r{number}" for number in range(500)]


@pytest.mark.parametrize(("bound", "requesters"), [("MOST_PATHS", 3), ("MOST_OF_ONE", 1)])
async def test_partitions_of_requesters_are_bounded_and_the_idle_ones_go_first(
    join: Join, monkeypatch: pytest.MonkeyPatch, pair: Any, caller_of: Any, bound: str, requesters: int
) -> None:
    monkeypatch.setattr(provider, bound, 2)
    monkeypatch.setattr(provider, "MATCH_PATIENCE", 0.1)
    echo, first, participant = await pair()
    callers = [first]
    for _ in range(requesters - 1):
        callers.append(caller_of(join()))
        await callers[-1].listen()
        assert await callers[-1].transport.reach(echo.partition, participant, PATIENCE)
    await first.call("first", echo.partition)
    for _ in range(3):  # names partitions that nobody reads
        nowhere = replace(echo.taken[0], metadata=partition_of(secrets.token_hex(16)).encode())
        assert not await echo.answer(nowhere)
    for caller in callers:
        await caller.call("r", echo.partition)
    assert echo.transport.describe()["reply_partitions"] == 2


def test_only_partitions_of_our_form_are_taken_from_discovery() -> None:
    own = partition_of("0" * 32)
    assert partition_in(user_data(own).encode()) == own
    for data in (
        b"",
        b"enginehost reply_partition=*",
        b"enginehost reply_partition=eh.*",
        b"\xff",
        own.encode(),
    ):
        assert partition_in(data) == ""


async def test_a_task_that_is_handed_something_runs_at_once_and_can_be_cancelled() -> None:
    handover = Handover(asyncio.get_running_loop())
    ran: list[Any] = []

    async def work() -> None:
        while True:
            await handover
            ran.append(asyncio.current_task())

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(lambda: (handover.wake(), ran.append("woken")))
    await asyncio.sleep(0)
    assert ran == [task, "woken"]
    task.cancel()
    await asyncio.wait((task,), timeout=PATIENCE)
    assert task.cancelled()
