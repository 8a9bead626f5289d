"""Cyclone DDS as its own documentation has it: what the databus's benchmarks show beside us.

The types are dataclasses that the library itself serialises. A thread waits on a WaitSet, takes, and gives
to asyncio with ``call_soon_threadsafe``; what is written is written on the event loop.
"""

# Annotations are not postponed here: the library reads those of its types.

import asyncio
import json
import threading
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from random import getrandbits
from typing import Any

from cyclonedds.core import InstanceState, ReadCondition, SampleState, ViewState, WaitSet
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import IdlStruct, annotations, types
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader, Subscriber
from cyclonedds.topic import Topic
from cyclonedds.util import duration

from enginehost.databus import DatabusConfig
from enginehost.databus.cyclone.domain import domain_xml

ALIVE = SampleState.Any | ViewState.Any | InstanceState.Alive
AT_ONCE = 100
ID_LENGTH = 36
TICK = duration(milliseconds=200)

XCDR1 = Policy.DataRepresentation(use_cdrv0_representation=True)
CALLS = Qos(
    Policy.Reliability.Reliable(duration(seconds=10)),
    Policy.Durability.Volatile,
    Policy.History.KeepAll,
    XCDR1,
)
CAPABILITIES = Qos(
    Policy.Reliability.Reliable(duration(seconds=1)),
    Policy.Durability.TransientLocal,
    Policy.History.KeepLast(1),
    Policy.Liveliness.Automatic(duration(seconds=2)),
    XCDR1,
)

Sizes = dict[str, dict[str, int]]
"""By function: how long ``parameters``, ``asked`` (metadata), ``result`` and ``told`` (metadata) are."""


@dataclass
@annotations.appendable
@annotations.autoid("sequential")
class FunctionExecutionRequest(IdlStruct, typename="FunctionExecutionRequest"):
    """A call."""

    request_id: str
    function_id: str
    parameters: str
    timestamp: types.int64
    metadata: str


@dataclass
@annotations.appendable
@annotations.autoid("sequential")
class FunctionExecutionReply(IdlStruct, typename="FunctionExecutionReply"):
    """Its answer."""

    request_id: str
    function_id: str
    result: str
    status: types.int32
    error_message: str
    timestamp: types.int64
    metadata: str


@dataclass
@annotations.appendable
@annotations.autoid("sequential")
class FunctionCapability(IdlStruct, typename="FunctionCapability"):
    """A function on offer."""

    function_id: types.bounded_str[128]
    annotations.key("function_id")
    name: types.bounded_str[256]
    description: types.bounded_str[2048]
    provider_id: types.bounded_str[128]
    parameter_schema: types.bounded_str[8192]
    capabilities: types.bounded_str[2048]
    performance_metrics: types.bounded_str[2048]
    security_requirements: types.bounded_str[2048]
    classification: types.bounded_str[2048]
    last_seen: types.int64
    service_name: types.bounded_str[256]


@dataclass
@annotations.appendable
@annotations.autoid("sequential")
class ChainEvent(IdlStruct, typename="ChainEvent"):
    """What a host tells of a call."""

    chain_id: types.bounded_str[128]
    annotations.key("chain_id")
    call_id: types.bounded_str[128]
    interface_id: types.bounded_str[128]
    primary_agent_id: types.bounded_str[128]
    specialized_agent_ids: types.bounded_str[2048]
    function_id: types.bounded_str[128]
    query_id: types.bounded_str[128]
    timestamp: types.int64
    event_type: types.bounded_str[128]
    source_id: types.bounded_str[128]
    target_id: types.bounded_str[128]
    status: types.int32


class Bare:
    """A participant with the network settings of a host, and threads that take what comes."""

    def __init__(self, domain: int) -> None:
        self._domain = Domain(domain, domain_xml(DatabusConfig(domain=domain)))
        self.participant = DomainParticipant(domain)
        self.requests = Topic(self.participant, "FunctionExecutionRequest", FunctionExecutionRequest)
        self.replies = Topic(self.participant, "FunctionExecutionReply", FunctionExecutionReply)
        self._threads: list[threading.Thread] = []
        self._stopping = False

    def reader(self, topic: Topic[Any], take: Callable[[list[Any]], None], partition: str = "") -> None:
        """Give ``take`` what comes, on the event loop."""
        where = Qos(Policy.Partition([partition])) if partition else None
        reader: DataReader[Any] = DataReader(Subscriber(self.participant, where), topic, CALLS)
        self._start(reader, take)

    def capabilities(self, take: Callable[[list[Any]], None]) -> None:
        """Give ``take`` the functions on offer."""
        topic = Topic(self.participant, "FunctionCapability", FunctionCapability)
        self._start(DataReader(self.participant, topic, CAPABILITIES), take)

    def writer(self, topic: Topic[Any]) -> DataWriter[Any]:
        """A writer."""
        return DataWriter(self.participant, topic, CALLS)

    def close(self) -> None:
        """Stop the threads."""
        self._stopping = True
        for thread in self._threads:
            thread.join()

    def _start(self, reader: DataReader[Any], take: Callable[[list[Any]], None]) -> None:
        loop = asyncio.get_running_loop()

        def run() -> None:
            condition, waits = ReadCondition(reader, ALIVE), WaitSet(self.participant)
            waits.attach(condition)
            while not self._stopping:
                if waits.wait(TICK):
                    loop.call_soon_threadsafe(take, reader.take(AT_ONCE, condition=condition))

        self._threads.append(threading.Thread(target=run, daemon=True))
        self._threads[-1].start()


def _id(name: str) -> str:
    return name.ljust(ID_LENGTH, "-")


def _now() -> int:
    return time.time_ns() // 1_000_000


class Provider:
    """Answers every request with as many bytes as our host does."""

    def __init__(self, bare: Bare, sizes: Sizes) -> None:
        self._texts = {_id(name): ("x" * of["result"], "x" * of["told"]) for name, of in sizes.items()}
        self._writer = bare.writer(bare.replies)
        bare.reader(bare.requests, self._take)

    def _take(self, requests: list[Any]) -> None:
        for request in requests:
            function_id, request_id = request.function_id, request.request_id
            result, metadata = self._texts[function_id]
            if function_id.startswith("numbers-"):
                for number in range(int(json.loads(request.parameters)["count"])):
                    reply = FunctionExecutionReply(
                        request_id, function_id, str(number), 0, "", _now(), metadata
                    )
                    self._writer.write(reply)
            else:
                reply = FunctionExecutionReply(request_id, function_id, result, 0, "", _now(), metadata)
                self._writer.write(reply)


class Requester:
    """Sends requests with as many bytes as ours have."""

    def __init__(self, bare: Bare, sizes: Sizes) -> None:
        self._texts = {name: ("x" * of["parameters"], "x" * of["asked"]) for name, of in sizes.items()}
        self._writer = bare.writer(bare.requests)
        self._waiting: dict[str, Callable[[Any], None]] = {}
        bare.reader(bare.replies, self._take)

    async def connected(self) -> None:
        """Wait until a call is answered: at first the two sides do not know each other."""
        for _ in range(50):
            try:
                async with asyncio.timeout(0.2):
                    await self.call("add")
            except TimeoutError:
                continue
            return
        raise TimeoutError("the bare provider does not answer")

    async def call(self, name: str) -> str:
        """One call."""
        parameters, metadata = self._texts[name]
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def take(reply: Any) -> None:
            if not answer.done():
                answer.set_result(reply)

        request_id = self._send(name, parameters, metadata, take)
        try:
            return (await answer).result
        finally:
            del self._waiting[request_id]

    async def stream(self, count: int) -> AsyncGenerator[int, None]:
        """So many items, each in a sample of its own."""
        _, metadata = self._texts["numbers"]
        items: asyncio.Queue[Any] = asyncio.Queue()
        request_id = self._send("numbers", json.dumps({"count": count}), metadata, items.put_nowait)
        try:
            for _ in range(count):
                yield int((await items.get()).result)
        finally:
            del self._waiting[request_id]

    def _send(self, name: str, parameters: str, metadata: str, take: Callable[[Any], None]) -> str:
        request_id = f"{getrandbits(128):032x}"
        self._waiting[request_id] = take
        self._writer.write(FunctionExecutionRequest(request_id, _id(name), parameters, _now(), metadata))
        return request_id

    def _take(self, replies: list[Any]) -> None:
        for reply in replies:
            if (take := self._waiting.get(reply.request_id)) is not None:
                take(reply)
