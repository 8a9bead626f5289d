"""The responder over a host of functions, on a transport that keeps what it answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from enginehost.databus.guard import Guard
from enginehost.databus.identity import Identity
from enginehost.databus.metadata import ReplyMetadata
from enginehost.databus.port import ExecutionReply, ExecutionRequest
from enginehost.databus.respond import Responder
from enginehost.engine import Call
from enginehost.errors import ERROR_TABLE
from enginehost.policy import Policy

from .served import ServedCatalog

MINE = "0123456789abcdef" * 2
"""The incarnation of a requester."""


class Wire:
    """A transport that keeps replies; ``held`` closes it for requesters of a partition."""

    def __init__(self) -> None:
        self.replies: list[ExecutionReply] = []
        self.partitions: list[str] = []
        self.unreachable = False
        self.held: dict[str, asyncio.Event] = {}
        self.moved = asyncio.Condition()

    async def reply(self, reply: ExecutionReply, source: str, partition: str = "") -> bool:
        if partition in self.held:
            await self.held[partition].wait()
        if self.unreachable:
            return False
        async with self.moved:
            self.replies.append(reply)
            self.partitions.append(partition)
            self.moved.notify_all()
        return True

    def of(self, request_id: str) -> list[tuple[ExecutionReply, ReplyMetadata]]:
        return [(r, ReplyMetadata.read(r.metadata)) for r in self.replies if r.request_id == request_id]

    def final(self, request_id: str) -> ExecutionReply | None:
        return next((reply for reply, said in self.of(request_id) if said.final), None)

    async def until(self, holds: Callable[[], Any]) -> None:
        async with asyncio.timeout(20), self.moved:
            await self.moved.wait_for(holds)

    async def answered(self, request_id: str) -> ExecutionReply:
        await self.until(lambda: self.final(request_id))
        reply = self.final(request_id)
        assert reply is not None
        return reply


class Provider:
    """A responder over a host of functions."""

    def __init__(self, policy: Policy, guard: Callable[[Identity], Guard | None], **options: Any) -> None:
        self.host = ServedCatalog(policy)
        self.wire = Wire()
        self.identity = Identity(None)
        self.responder = Responder(
            self.host,
            self.wire,  # type: ignore[arg-type]
            self.identity,
            lambda function_id: function_id.removeprefix("id:") if function_id.startswith("id:") else None,
            **{"max_in_flight": 100, "max_request_bytes": 1 << 20, **options},
            guard=guard(self.identity),
        )

    def request(
        self, name: str, request_id: str = "r", parameters: Any = None, who: str = "p", **metadata: Any
    ) -> ExecutionRequest:
        text = json.dumps(parameters or {}).encode()
        said = json.dumps(metadata).encode() if metadata else b""
        return ExecutionRequest(request_id, f"id:{name}", text, 1, said, f"writer of {who}", who)

    async def ask(self, *given: Any, **options: Any) -> None:
        await self.responder.receive([self.request(*given, **options)])


Make = Callable[..., Provider]


def error(reply: ExecutionReply) -> dict[str, Any]:
    said = ReplyMetadata.read(reply.metadata).error
    assert reply.status == ERROR_TABLE[said["code"]].bus
    return said


async def count(arguments: dict[str, Any], call: Call) -> AsyncIterator[int]:
    for number in range(arguments["to"]):
        yield number


class Held:
    """A function that says when it begins, and waits to be let go."""

    def __init__(self) -> None:
        self.runs = 0
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.cancelled = 0

    async def run(self, arguments: dict[str, Any], call: Call) -> str:
        self.runs += 1
        self.begun.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return "done"
