"""What a provider has on the bus: its requests, and who they come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rti.connextdds as dds

from enginehost.databus import (
    DEFAULT_PARTITION,
    FUNCTION_EXECUTION_REQUEST,
    TOPICS,
    ExecutionRequest,
    Gone,
    RequestHandler,
)
from enginehost_connext.entities import Entities
from enginehost_connext.peers import writers_of
from enginehost_connext.pump import Pump
from enginehost_connext.replies import Replies, partition_said
from enginehost_connext.structs import members_of

TOPIC = TOPICS["FunctionExecutionRequest"]


class Requests:
    """Takes requests in the default partition and in our own, and notices requesters that leave."""

    def __init__(
        self, entities: Entities, replies: Replies, handler: RequestHandler, partition: str, gone: Gone
    ) -> None:
        self._replies = replies
        self._handler = handler
        self._gone = gone
        reader = entities.reader(TOPIC.name, TOPIC.struct, TOPIC.profile, (DEFAULT_PARTITION, partition))
        self._reader = reader
        self._writers = writers_of(reader)
        self._partitions: dict[str, frozenset[str]] = {}
        self._pump = Pump(
            entities.library,
            reader,
            self._request,
            deliver_and_wait=self._handle,
            statuses=dds.StatusMask.SUBSCRIPTION_MATCHED,
            noticed=self._matched,
        )

    @property
    def malformed(self) -> int:
        """Requests that were dropped."""
        return self._pump.malformed

    @property
    def requesters(self) -> int:
        """Writers of requests that are there."""
        return len(self._writers.look())

    def participant(self, source: str) -> str:
        """Whose requests those of ``source`` are."""
        return self._writers.whose(source)

    async def close(self) -> None:
        """Take no more."""
        await self._pump.close()

    def _request(self, sample: dds.DynamicData, info: dds.SampleInfo) -> ExecutionRequest | None:
        if not info.valid:
            return None
        members: dict[str, Any] = members_of(FUNCTION_EXECUTION_REQUEST, sample)
        return ExecutionRequest(
            request_id=members["request_id"].decode(),
            function_id=members["function_id"].decode(),
            parameters=members["parameters"],
            timestamp=members["timestamp"],
            metadata=members["metadata"],
            source=str(info.publication_handle),
            participant=self._writers.participant(info.publication_handle),
        )

    async def _handle(self, requests: Sequence[ExecutionRequest]) -> None:
        await self._handler(requests)

    def _matched(self) -> None:
        """A writer of requests came or went: have its way back ready, or clear it away."""
        _ = self._reader.subscription_matched_status  # which says so until it is read
        partitions: dict[str, set[str]] = {}
        for name in self._writers.look():
            said = partition_said(self._writers.user_data(name))
            partitions.setdefault(self._writers.whose(name), set()).add(said)
            if said:
                self._replies.open(said)
        before, self._partitions = (
            self._partitions,
            {participant: frozenset(said) for participant, said in partitions.items()},
        )
        for participant in before.keys() - partitions.keys():
            self._replies.gone(participant, before[participant])
            self._gone(participant)
