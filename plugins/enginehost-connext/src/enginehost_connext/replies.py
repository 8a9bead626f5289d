"""The ways back to requesters: a writer for each partition that one asked for, and one for all others."""

from __future__ import annotations

import asyncio
import logging
import re

from enginehost.databus import (
    DEFAULT_PARTITION,
    FUNCTION_EXECUTION_REPLY,
    TOPICS,
    ExecutionReply,
)
from enginehost_connext.entities import Entities
from enginehost_connext.outlet import Outlet
from enginehost_connext.structs import sample_of

log = logging.getLogger("enginehost.databus")

TOPIC = TOPICS["FunctionExecutionReply"]

MATCH_PATIENCE = 1.0
"""Seconds for which the first replies to a participant wait until its reply reader is discovered."""
MATCH_POLL = 0.005

REPLY_PATIENCE = 30.0
"""Seconds for which a reply waits for a requester that does not take its replies."""

CLOSE_PATIENCE = 1.0
"""Seconds that the last replies may take to arrive."""

MOST_PARTITIONS = 1_024
"""Writers at once; the one that was used least recently goes."""

MOST_HEARD = 16_384
"""Participants whose readers were waited for; one that leaves before its reply would stay for ever."""

LARGE_RESULT = 64 * 1024
"""Bytes above which a reply is copied off the event loop."""

_SAID = re.compile(rb"enginehost reply_partition=(eh\.[0-9a-f]{32})")


def announced(partition: str) -> bytes:
    """The user data of a request writer, by which the provider has a way back before the first request."""
    return f"enginehost reply_partition={partition}".encode() if partition else b""


def partition_said(user_data: bytes) -> str:
    """The partition that such user data names; empty where it names none."""
    found = _SAID.fullmatch(user_data)
    return found[1].decode() if found else DEFAULT_PARTITION


class Replies:
    """Writes replies, each into the partition of its requester, where one that lags holds up nobody else."""

    def __init__(self, entities: Entities) -> None:
        self._entities = entities
        self._outlets: dict[str, Outlet] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._heard: dict[tuple[str, str], None] = {}
        self.open(DEFAULT_PARTITION)

    @property
    def behind(self) -> bool:
        """Whether some requester does not take its replies."""
        return any(outlet.waiting for outlet in self._outlets.values())

    def open(self, partition: str) -> Outlet:
        """The outlet of a partition, made where there is none."""
        outlet = self._outlets.pop(partition, None) or Outlet(
            self._entities.writer(TOPIC.name, TOPIC.struct, TOPIC.profile, partition)
        )
        self._outlets[partition] = outlet
        if len(self._outlets) > MOST_PARTITIONS:
            idle = (name for name, one in self._outlets.items() if name and not one.waiting)
            self.close_partition(next(idle, DEFAULT_PARTITION))
        return outlet

    async def send(self, reply: ExecutionReply, partition: str, participant: str) -> bool:
        """Write a reply that ``participant`` is to hear; ``False`` where it does not take it."""
        outlet = self.open(partition)
        await self._heard_by(outlet, partition, participant)
        sample = sample_of(
            FUNCTION_EXECUTION_REPLY,
            {
                "request_id": reply.request_id,
                "function_id": reply.function_id,
                "result": reply.result,
                "status": reply.status,
                "error_message": reply.error_message,
                "timestamp": reply.timestamp,
                "metadata": reply.metadata,
            },
        )
        sent = await outlet.send(sample, REPLY_PATIENCE, aside=len(reply.result) > LARGE_RESULT)
        if not sent:
            log.warning("a peer on the databus does not take its replies; one was given up")
        return sent

    async def _heard_by(self, outlet: Outlet, partition: str, participant: str) -> None:
        """Wait, at most once for each participant, until its reader of replies is discovered.

        Replies are not kept for late joiners, and a requester's two endpoints are discovered independently.
        """
        if not participant or (partition, participant) in self._heard:
            return
        for _ in range(int(MATCH_PATIENCE / MATCH_POLL)):
            if participant in outlet.readers.participants():
                break
            await asyncio.sleep(MATCH_POLL)
        self._heard[partition, participant] = None
        if len(self._heard) > MOST_HEARD:
            del self._heard[next(iter(self._heard))]

    def gone(self, participant: str, partitions: frozenset[str]) -> None:
        """A requester went, and with it those that wanted replies in these partitions."""
        self._heard = {pair: None for pair in self._heard if pair[1] != participant}
        for partition in partitions:
            self.close_partition(partition)

    def close_partition(self, partition: str) -> None:
        """Nobody wants replies there any more."""
        if partition == DEFAULT_PARTITION or (outlet := self._outlets.pop(partition, None)) is None:
            return
        task = asyncio.get_running_loop().create_task(outlet.close(0.0))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Give what was written a moment to arrive."""
        await asyncio.gather(*self._closing, *(one.close(CLOSE_PATIENCE) for one in self._outlets.values()))
        self._outlets.clear()
