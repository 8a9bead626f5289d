"""A request and its reply over DDS: our transport alone, beside the bare library.

Bare is what a program does that uses the library as its manual says: ``IdlStruct`` types, a thread with a
wait set on each side, ``call_soon_threadsafe``, ``DataWriter.write``, and one event loop that handles each
sample. Both have the same network settings and send the same bytes. Two processes, each on a core of its
own, both ways in turn; microseconds.

Usage::

    python bench/bus_wire.py
"""

from __future__ import annotations

import asyncio
import random
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from measuring import LOAD_CORE, RUNS, SERVER_CORE, Spread, finish, introduce, pin, table, verdict

SIZES = {"200 B": (200, 1_500), "8 KiB": (8 << 10, 1_000), "64 KiB": (64 << 10, 500), "1 MiB": (1 << 20, 40)}
"""Bytes of parameters, which come back as the result, and calls in one run."""

Call = Callable[[str], Awaitable[Any]]


class Bare:
    """One side of the bare way: a reader with its thread, and a writer."""

    def __init__(self, domain: int, *, serves: bool) -> None:
        from cyclonedds.core import InstanceState, ReadCondition, SampleState, ViewState, WaitSet
        from cyclonedds.domain import Domain, DomainParticipant
        from cyclonedds.pub import DataWriter
        from cyclonedds.qos import Policy, Qos
        from cyclonedds.sub import DataReader
        from cyclonedds.topic import Topic

        from enginehost.databus.config import DatabusConfig
        from enginehost.databus.cyclone.domain import domain_xml
        from enginehost.databus.cyclone.wire import idl_type
        from enginehost.databus.types import FUNCTION_EXECUTION_REPLY, FUNCTION_EXECUTION_REQUEST

        self.request, self.reply = map(idl_type, (FUNCTION_EXECUTION_REQUEST, FUNCTION_EXECUTION_REPLY))
        self._domain = Domain(domain, domain_xml(DatabusConfig(domain=domain)))
        self._participant = participant = DomainParticipant(domain)
        requests = Topic(participant, "BareRequest", self.request)
        replies = Topic(participant, "BareReply", self.reply)
        qos = Qos(
            Policy.Reliability.Reliable(10**9),
            Policy.History.KeepAll,
            Policy.DataRepresentation(use_cdrv0_representation=True),
        )
        self.reader = DataReader(participant, requests if serves else replies, qos)
        self.writer = DataWriter(participant, replies if serves else requests, qos)
        self.condition = ReadCondition(self.reader, SampleState.Any | ViewState.Any | InstanceState.Alive)
        self._waitset = WaitSet(participant)
        self._waitset.attach(self.condition)

    def start(self, take: Callable[[Any], None]) -> None:
        """Give each sample to ``take`` on the event loop."""
        loop = asyncio.get_running_loop()

        def run() -> None:
            while True:
                self._waitset.wait(10**9)
                if samples := self.reader.take(32, condition=self.condition):
                    loop.call_soon_threadsafe(give, samples)

        def give(samples: list[Any]) -> None:
            for sample in samples:
                take(sample)

        threading.Thread(target=run, daemon=True).start()


async def serve(domain: int) -> None:
    """Answer both kinds of requests, until the input ends."""
    from enginehost.databus.config import DatabusConfig
    from enginehost.databus.cyclone import CycloneTransport
    from enginehost.databus.port import Capability, ExecutionReply

    bare = Bare(domain, serves=True)
    bare.start(
        lambda r: bare.writer.write(
            bare.reply(r.request_id, r.function_id, r.parameters, 0, "", 1, r.metadata)
        )
    )
    transport = CycloneTransport(DatabusConfig(domain=domain + 1))

    async def answer(batch: Any) -> None:
        for r in batch:
            reply = ExecutionReply(r.request_id, r.function_id, r.parameters, 0, "", 1, r.metadata)
            await transport.reply(reply, r.source, r.metadata.decode())

    own = f"eh.{secrets.token_hex(16)}"
    await transport.serve(answer, own, lambda participant: None)
    await transport.publish([Capability("f", "", "", "", "", "", "", "", own, 1, "")])
    await asyncio.to_thread(sys.stdin.read)
    await transport.close()


async def bare_way(domain: int) -> Call:
    """How to call through the bare library."""
    bare = Bare(domain, serves=False)
    waiting: dict[str, asyncio.Future[Any]] = {}
    bare.start(lambda reply: waiting.pop(reply.request_id).set_result(reply))
    while not (  # noqa: ASYNC110 - the bare library has no event for it
        bare.writer.get_matched_subscriptions() and bare.reader.get_matched_publications()
    ):
        await asyncio.sleep(0.01)

    async def call(text: str) -> Any:
        name = secrets.token_hex(8)
        answered = waiting[name] = asyncio.get_running_loop().create_future()
        bare.writer.write(bare.request(name, "f", text, 1, "eh." + "0" * 32))
        return await answered

    return call


async def our_way(domain: int) -> Call:
    """How to call through our transport."""
    from enginehost.databus.config import DatabusConfig
    from enginehost.databus.cyclone import CycloneTransport
    from enginehost.databus.port import ExecutionRequest

    transport = CycloneTransport(DatabusConfig(domain=domain + 1))
    loop = asyncio.get_running_loop()
    waiting: dict[str, asyncio.Future[Any]] = {}
    own = f"eh.{secrets.token_hex(16)}"
    found = loop.create_future()

    class Watcher:
        def seen(self, sightings: Any) -> None:
            found.set_result(sightings[0])

        def anew(self) -> None:
            pass

    def take(replies: Any) -> None:
        for reply in replies:
            waiting.pop(reply.request_id).set_result(reply)

    await transport.listen(take, own, lambda _: None)
    await transport.watch(Watcher())
    sighting = await found
    partition = sighting.capability.classification
    if not await transport.reach(partition, sighting.participant, 10):
        raise RuntimeError("the provider is not reached")
    metadata = own.encode()

    async def call(text: str) -> Any:
        name = secrets.token_hex(8)
        answered = waiting[name] = loop.create_future()
        await transport.send(ExecutionRequest(name, "f", text.encode(), 1, metadata), partition)
        return await answered

    return call


async def measure(call: Call, size: int, count: int) -> tuple[float, float]:
    """Median and 99th percentile of ``count`` calls, in microseconds."""
    text = "x" * size
    for _ in range(count // 10 + 2):
        await call(text)
    times: list[float] = []
    for _ in range(count):
        start = time.perf_counter()
        await call(text)
        times.append(1e6 * (time.perf_counter() - start))
    times.sort()
    return times[len(times) // 2], times[int(0.99 * len(times))]


async def compare(domain: int) -> None:
    """Print the table."""
    ways = {"bare library": await bare_way(domain), "our transport": await our_way(domain)}
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for _ in range(RUNS):
        for name, (size, count) in SIZES.items():
            for way, call in ways.items():
                found.setdefault((name, way), []).append(await measure(call, size, count))
    medians = {key: Spread([median for median, _ in runs]) for key, runs in found.items()}
    rows = [
        (f"{size}, {way}", *medians[size, way].cells(0), f"{Spread([late for _, late in runs]).median:.0f}")
        for (size, way), runs in found.items()
    ]
    table("request and reply, µs", ("", "p50", "lowest", "highest", "p99"), rows)
    for size in SIZES:
        ratio = medians[size, "our transport"].median / medians[size, "bare library"].median
        verdict(f"{size}: ours / bare", ratio, most=1.1)


def main() -> None:
    """Start the other side, and measure."""
    introduce("DDS request and reply, two processes on loopback, a core each")
    domain = random.randrange(60, 94, 2)
    pin(SERVER_CORE)
    server = subprocess.Popen([sys.executable, __file__, "serve", str(domain)], stdin=subprocess.PIPE)
    pin(LOAD_CORE)
    try:
        asyncio.run(compare(domain))
    finally:
        server.communicate(timeout=10)
    finish()


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve(int(sys.argv[2])))
    else:
        main()
