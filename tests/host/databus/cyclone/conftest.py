"""Transports without a host, in this process and in others."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cyclonedds")

from tests.host.databus.processes import PATIENCE, line_of, running_program

from enginehost.databus.config import DatabusConfig
from enginehost.databus.cyclone import CycloneTransport
from enginehost.databus.cyclone.participant import Participant
from enginehost.databus.metadata import partition_of
from enginehost.databus.port import Capability, ExecutionReply, ExecutionRequest, Sighting


def made(function_id: str, **more: Any) -> Capability:
    members: dict[str, Any] = dict.fromkeys(Capability.__dataclass_fields__, "")
    return Capability(**members | {"function_id": function_id, "last_seen": 1} | more)


class Seen:
    """What a watcher has seen: capabilities by id, and what happened."""

    def __init__(self) -> None:
        self.there: dict[str, Sighting] = {}
        self.went: list[Sighting] = []
        self.renewed = 0
        self.largest = 0
        self._changed = asyncio.Event()

    def seen(self, sightings: Sequence[Sighting]) -> None:
        self.largest = max(self.largest, len(sightings))
        for sighting in sightings:
            if sighting.capability is None:
                self.there.pop(sighting.function_id, None)
                self.went.append(sighting)
            else:
                self.there[sighting.function_id] = sighting
        self._changed.set()

    def anew(self) -> None:
        self.renewed += 1
        self.there.clear()
        self._changed.set()

    async def until(self, holds: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


class Caller:
    """A requester with replies by request id."""

    def __init__(self, transport: CycloneTransport) -> None:
        self.transport = transport
        self.partition = partition_of(secrets.token_hex(16))
        self.heard: list[ExecutionReply] = []
        self.left: list[str] = []
        self._changed = asyncio.Event()

    async def listen(self) -> None:
        await self.transport.listen(self._take, self.partition, self.left.append)

    def _take(self, replies: Sequence[ExecutionReply]) -> None:
        self.heard += replies
        self._changed.set()

    async def send(self, request_id: str, partition: str, parameters: bytes = b"{}") -> bool:
        metadata = self.partition.encode() if partition else b""
        return await self.transport.send(
            ExecutionRequest(request_id, "f", parameters, 1, metadata), partition
        )

    async def reply(self, request_id: str, patience: float = PATIENCE) -> ExecutionReply:
        async with asyncio.timeout(patience):
            while not (found := [reply for reply in self.heard if reply.request_id == request_id]):
                self._changed.clear()
                await self._changed.wait()
        (reply,) = found
        return reply

    async def call(self, request_id: str, partition: str, parameters: bytes = b"{}") -> ExecutionReply:
        assert await self.send(request_id, partition, parameters)
        return await self.reply(request_id)


@pytest.fixture
async def join(dds_domain: int) -> AsyncIterator[Callable[..., CycloneTransport]]:
    """Makes transports; all are closed at the end. All in one test have one config: they share the domain."""
    async with AsyncExitStack() as stack:

        def make(**config: Any) -> CycloneTransport:
            transport = CycloneTransport(DatabusConfig(domain=dds_domain, **config))
            stack.push_async_callback(transport.close)
            return transport

        yield make


@pytest.fixture
async def member(dds_domain: int) -> AsyncIterator[Callable[..., Any]]:
    """Starts ``member.py`` in a process of its own."""
    program = str(Path(__file__).with_name("member.py"))
    async with AsyncExitStack() as stack:

        async def start(role: str, lease: float = 10) -> asyncio.subprocess.Process:
            running = running_program(program, role, str(dds_domain), str(lease))
            process = await stack.enter_async_context(running)
            assert await line_of(process) == b"ready\n"
            return process

        yield start


@pytest.fixture
def capability() -> Callable[..., Capability]:
    """Makes a capability of what is given and empty texts."""
    return made


@pytest.fixture
def seen() -> Seen:
    """A watcher."""
    return Seen()


@pytest.fixture
def caller_of() -> Callable[[CycloneTransport], Caller]:
    """A requester on a transport."""
    return Caller


@pytest.fixture
async def until() -> Callable[[Callable[[], Any]], Any]:
    """Waits until something holds, which nobody tells of."""

    async def wait(holds: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not holds():
                await asyncio.sleep(0.005)

    return wait


@pytest.fixture
def raw(dds_domain: int) -> Iterator[Participant]:
    """A participant of somebody else."""
    participant = Participant(DatabusConfig(domain=dds_domain))
    yield participant
    for child in participant.entity.get_children():
        child.__del__()
    participant.leave()
