"""What a requester has on the bus: writers to the partitions of providers, and readers of their replies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any

import rti.connextdds as dds

from enginehost.databus import (
    DEFAULT_PARTITION,
    FUNCTION_EXECUTION_REPLY,
    FUNCTION_EXECUTION_REQUEST,
    TOPICS,
    ExecutionReply,
    ExecutionRequest,
    Gone,
    ReplyHandler,
)
from enginehost_connext.entities import Entities
from enginehost_connext.outlet import Outlet
from enginehost_connext.peers import Endpoints, writers_of
from enginehost_connext.pump import Pump
from enginehost_connext.replies import announced
from enginehost_connext.structs import members_of, sample_of

REQUESTS = TOPICS["FunctionExecutionRequest"]
REPLIES = TOPICS["FunctionExecutionReply"]

SEND_PATIENCE = 10.0
"""Seconds for which a request waits for a provider that does not take its requests."""

MATCH_POLL = 0.002
LEAVING_SECONDS = 2.0
"""For so long a provider's endpoints may go one after the other."""
LEAVING_POLL = 0.05
LARGE_PARAMETERS = 64 * 1024
"""Bytes above which a request is copied off the event loop."""


class Requester:
    """Sends requests and takes replies in a partition of our own, and in the default one where needed."""

    def __init__(self, entities: Entities, handler: ReplyHandler, partition: str, gone: Gone) -> None:
        self._entities = entities
        self._handler = handler
        self._partition = partition
        self._gone = gone
        self._providers: set[str] = set()
        self._looking: asyncio.Task[None] | None = None
        self._outlets: dict[str, Outlet] = {}
        self._replies: dict[str, tuple[Pump, Endpoints]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._listen(partition)

    @property
    def malformed(self) -> int:
        """Replies that were dropped."""
        return sum(pump.malformed for pump, _ in self._replies.values())

    async def reach(self, partition: str, participant: str, patience: float) -> bool:
        """See :class:`~enginehost.databus.Transport`."""
        until = time.monotonic() + patience
        outlet = self._outlet(partition)
        if partition == DEFAULT_PARTITION:
            self._listen(DEFAULT_PARTITION)
        while not self._reached(outlet, partition, participant):
            if time.monotonic() >= until:
                return False
            await asyncio.sleep(MATCH_POLL)
        self._providers.add(participant)
        return True

    def _reached(self, outlet: Outlet, partition: str, participant: str) -> bool:
        """A provider of ours makes its way back when it discovers our writer; others may do so later."""
        if participant not in outlet.readers.participants():
            return False
        if partition == DEFAULT_PARTITION:
            return True
        return participant in self._replies[self._partition][1].participants()

    async def send(self, request: ExecutionRequest, partition: str) -> bool:
        """See :class:`~enginehost.databus.Transport`."""
        sample = sample_of(
            FUNCTION_EXECUTION_REQUEST,
            {
                "request_id": request.request_id,
                "function_id": request.function_id,
                "parameters": request.parameters,
                "timestamp": request.timestamp,
                "metadata": request.metadata,
            },
        )
        large = len(request.parameters) > LARGE_PARAMETERS
        return await self._outlet(partition).send(sample, SEND_PATIENCE, aside=large)

    def forget(self, partition: str) -> None:
        """See :class:`~enginehost.databus.Transport`."""
        if (outlet := self._outlets.pop(partition, None)) is not None:
            task = asyncio.get_running_loop().create_task(outlet.close(0.0))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self, patience: float) -> None:
        """Give what was written a moment to arrive."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait((self._looking,))
        await asyncio.gather(*self._closing, *(one.close(patience) for one in self._outlets.values()))
        await asyncio.gather(*(pump.close() for pump, _ in self._replies.values()))

    async def _look(self) -> None:
        """Tell of providers that left: neither of their endpoints is there, which do not go at one moment."""
        for _ in range(int(LEAVING_SECONDS / LEAVING_POLL)):
            writers = _union(endpoints for _, endpoints in self._replies.values())
            readers = _union(outlet.readers for outlet in self._outlets.values())
            for participant in self._providers - writers - readers:
                self._providers.discard(participant)
                self._gone(participant)
            if self._providers <= writers:
                return
            await asyncio.sleep(LEAVING_POLL)

    def _outlet(self, partition: str) -> Outlet:
        if partition not in self._outlets:
            topic = REQUESTS
            said = b"" if partition == DEFAULT_PARTITION else announced(self._partition)
            self._outlets[partition] = Outlet(
                self._entities.writer(topic.name, topic.struct, topic.profile, partition, said)
            )
        return self._outlets[partition]

    def _listen(self, partition: str) -> None:
        if partition in self._replies:
            return
        reader = self._entities.reader(REPLIES.name, REPLIES.struct, REPLIES.profile, (partition,))
        writers = writers_of(reader)

        def decode(sample: dds.DynamicData, info: dds.SampleInfo) -> ExecutionReply | None:
            return _reply(sample, writers.participant(info.publication_handle)) if info.valid else None

        def matched() -> None:
            _ = reader.subscription_matched_status  # which says so until it is read
            if self._looking is None or self._looking.done():
                self._looking = asyncio.get_running_loop().create_task(self._look())

        pump = Pump(
            self._entities.library,
            reader,
            decode,
            deliver=self._handler,
            statuses=dds.StatusMask.SUBSCRIPTION_MATCHED,
            noticed=matched,
        )
        self._replies[partition] = pump, writers


def _union(matched: Iterable[Endpoints]) -> frozenset[str]:
    return frozenset(participant for endpoints in matched for participant in endpoints.participants())


def _reply(sample: dds.DynamicData, participant: str) -> ExecutionReply:
    members: dict[str, Any] = members_of(FUNCTION_EXECUTION_REPLY, sample)
    return ExecutionReply(
        request_id=members["request_id"].decode(),
        function_id=members["function_id"].decode(),
        result=members["result"],
        status=members["status"],
        error_message=members["error_message"].decode(errors="replace"),
        timestamp=members["timestamp"],
        metadata=members["metadata"],
        participant=participant,
    )
