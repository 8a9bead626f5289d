"""The provider's side of calls: takes requests, and sends replies to where each requester reads them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from typing import Any

from enginehost.databus.cyclone.cdr import Codec
from enginehost.databus.cyclone.intake import Intake, WaitedFeed
from enginehost.databus.cyclone.matches import Discovery, Matches, Remote
from enginehost.databus.cyclone.participant import Participant
from enginehost.databus.cyclone.path import Path
from enginehost.databus.cyclone.qos import CALL_READER, CALL_WRITER, RESERVE_WRITER
from enginehost.databus.cyclone.replies import ReplyOutlet
from enginehost.databus.cyclone.reply_partition import partition_in
from enginehost.databus.cyclone.wire import wait_for_acks
from enginehost.databus.port import DEFAULT_PARTITION, ExecutionReply, ExecutionRequest, Gone, RequestHandler
from enginehost.databus.types import FUNCTION_EXECUTION_REPLY, FUNCTION_EXECUTION_REQUEST

MATCH_PATIENCE = 1.0
"""Seconds for which a reply waits until the reader of its requester is discovered."""

REPLY_PATIENCE = 30.0
"""Seconds for which a reply waits for a requester that is behind."""

MOST_PATHS = 1_024
"""Partitions of requesters with a writer of replies each."""
MOST_OF_ONE = 8
"""The same of one participant, which needs one: each writer is announced to everybody on the bus."""

_REQUEST = Codec(FUNCTION_EXECUTION_REQUEST, raw=("parameters", "metadata"))
_REPLY = Codec(FUNCTION_EXECUTION_REPLY, raw=("result", "metadata"))
_MEMBERS = attrgetter(*(member.name for member in FUNCTION_EXECUTION_REPLY.members))


class Provider:
    """Made when requests are to be taken: in the default partition, and in ``partition``.

    Requests and replies are not kept for late joiners, and a requester's endpoints are discovered one by
    one: the answer to its very first request would now and then be lost. So the writer for its replies is
    made as soon as the writer of its requests is discovered, and replies wait until it has found the reader.
    """

    def __init__(
        self,
        participant: Participant,
        discovery: Discovery,
        intake: Intake,
        threads: ThreadPoolExecutor,
        served: tuple[RequestHandler, str, Gone],
    ) -> None:
        handler, partition, self._gone = served
        self._participant = participant
        self._discovery = discovery
        self._threads = threads
        self._loop = asyncio.get_running_loop()
        self._topic = participant.topic(FUNCTION_EXECUTION_REPLY)
        self._paths: OrderedDict[str, tuple[Path, str]] = OrderedDict()
        self._deaf: set[tuple[str, Matches]] = set()
        writer = participant.writer(self._topic, CALL_WRITER)
        self._default = discovery.watch(writer)
        self._outlet = ReplyOutlet(writer, participant.writer(self._topic, RESERVE_WRITER), "databus-replies")
        topic = participant.topic(FUNCTION_EXECUTION_REQUEST)
        reader = participant.reader(topic, CALL_READER, tuple({DEFAULT_PARTITION, partition}))
        self._requests: Matches = discovery.watch(reader, self._changed)
        intake.add(WaitedFeed(reader, self._decode, handler))

    async def reply(self, reply: ExecutionReply, source: str, partition: str) -> bool:
        """See :class:`~enginehost.databus.port.Transport`."""
        data = _REPLY.encode(_MEMBERS(reply))
        participant = self._requests.participant(int(source))
        if not partition:
            if participant is not None:
                await self._heard(self._default, participant)
            return await self._outlet.send(data)
        if participant is None or (path := self._path(partition, participant)) is None:
            return False
        if participant not in path.matches.participants and not await self._heard(path.matches, participant):
            return False
        return await path.send(data, REPLY_PATIENCE)

    def describe(self) -> dict[str, Any]:
        """Facts for an operator."""
        return {
            "requesters": len(self._requests),
            "reply_partitions": len(self._paths),
            "reader_behind": self._outlet.lagging,
        }

    async def close(self, patience: float) -> None:
        """Wait until the last replies have arrived; delete the endpoints. The intake is closed before."""
        until = self._loop.time() + patience
        closing = [path for path, _ in self._paths.values()]
        self._discovery.forget(self._default)
        await asyncio.gather(self._outlet.close(patience), asyncio.to_thread(self._flush, closing, until))
        for path in closing:
            path.closed = True
            self._discovery.forget(path.matches)
        self._discovery.forget(self._requests)
        await asyncio.to_thread(self._delete, [self._requests.endpoint, *(path.writer for path in closing)])

    def _decode(self, data: bytes, writer: int) -> ExecutionRequest:
        participant = self._requests.participant(writer) or ""
        return ExecutionRequest(*_REQUEST.decode(data), source=str(writer), participant=participant)

    async def _heard(self, matches: Matches, participant: str) -> bool:
        """Whether a reader of ``participant`` is there; one that came not in time is not waited for again."""
        if participant in matches.participants:
            return True
        if (participant, matches) in self._deaf:
            return False
        heard = await matches.wait(participant, self._loop.time() + MATCH_PATIENCE)
        if not heard and participant in self._requests.participants:
            self._deaf.add((participant, matches))
        return heard

    def _path(self, partition: str, participant: str) -> Path | None:
        """The writer for a requester's partition; ``None`` where there are too many, and all are busy."""
        if found := self._paths.get(partition):
            self._paths.move_to_end(partition)
            return found[0]
        if not self._room_for(participant):
            return None
        writer = self._participant.writer(self._topic, CALL_WRITER, partition)
        path = Path(writer, self._discovery.watch(writer), self._threads)
        self._paths[partition] = (path, participant)
        return path

    def _room_for(self, participant: str) -> bool:
        own = [partition for partition, (_, owner) in self._paths.items() if owner == participant]
        if len(own) < MOST_OF_ONE and len(self._paths) < MOST_PATHS:
            return True
        droppable = own if len(own) >= MOST_OF_ONE else list(self._paths)
        idle = next((partition for partition in droppable if self._paths[partition][0].idle), None)
        if idle is not None:
            self._drop(idle)
        return idle is not None

    def _drop(self, partition: str) -> None:
        path, _ = self._paths.pop(partition)
        path.closed = True
        self._deaf = {deaf for deaf in self._deaf if deaf[1] is not path.matches}
        self._discovery.forget(path.matches)
        self._threads.submit(self._participant.delete, path.writer)

    def _changed(self, new: Mapping[int, Remote], gone: frozenset[str]) -> None:
        for remote in new.values():
            if partition := partition_in(remote.user_data):
                self._path(partition, remote.participant)
        if gone:
            self._deaf = {deaf for deaf in self._deaf if deaf[0] not in gone}
            for partition in [name for name, (_, owner) in self._paths.items() if owner in gone]:
                self._drop(partition)
        for participant in gone:
            self._gone(participant)

    def _flush(self, paths: list[Path], until: float) -> None:
        for path in paths:
            wait_for_acks(path.writer, max(0.0, until - self._loop.time()))

    def _delete(self, endpoints: list[Any]) -> None:
        for endpoint in endpoints:
            self._participant.delete(endpoint)
