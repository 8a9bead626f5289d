"""The requester's side of calls: sends requests to where each provider reads them, and takes replies."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from typing import Any

from enginehost.databus.cyclone.cdr import Codec
from enginehost.databus.cyclone.intake import DirectFeed, Intake
from enginehost.databus.cyclone.matches import Discovery, Matches, Remote
from enginehost.databus.cyclone.participant import Participant
from enginehost.databus.cyclone.path import Path
from enginehost.databus.cyclone.qos import CALL_READER, CALL_WRITER
from enginehost.databus.cyclone.reply_partition import user_data
from enginehost.databus.port import DEFAULT_PARTITION, ExecutionReply, ExecutionRequest, Gone, ReplyHandler
from enginehost.databus.types import FUNCTION_EXECUTION_REPLY, FUNCTION_EXECUTION_REQUEST

SEND_PATIENCE = 10.0
"""Seconds for which a request waits for a provider that is behind, or not there just now."""

LOOK_SECONDS = 0.01
"""Between two looks whether a provider that went is there again."""

WRITER_PATIENCE = 1.0
"""Seconds for which a provider's writer of replies is waited for.

A program that knows only the types may have none before it has something to say.
"""

_REQUEST = Codec(FUNCTION_EXECUTION_REQUEST, raw=("parameters", "metadata"))
_REPLY = Codec(FUNCTION_EXECUTION_REPLY, raw=("result", "metadata"))
_MEMBERS = attrgetter(*(member.name for member in FUNCTION_EXECUTION_REQUEST.members))


class Requester:
    """Made when calls are to be made; ``partition`` is where replies are read."""

    def __init__(
        self,
        participant: Participant,
        discovery: Discovery,
        intake: Intake,
        threads: ThreadPoolExecutor,
        served: tuple[ReplyHandler, str, Gone],
    ) -> None:
        self._handler, self._partition, self._gone = served
        self._participant = participant
        self._discovery = discovery
        self._intake = intake
        self._threads = threads
        self._topic = participant.topic(FUNCTION_EXECUTION_REQUEST)
        self._paths: dict[str, Path] = {}
        self._replies: dict[str, Matches] = {}
        self._read(self._partition)

    async def reach(self, partition: str, participant: str, patience: float) -> bool:
        """See :class:`~enginehost.databus.port.Transport`."""
        path = self._path(partition)
        now = asyncio.get_running_loop().time()
        if partition:
            replies = self._replies[self._partition]
            if participant in path.matches.participants and participant in replies.participants:
                return True
            until = now + patience
            return await path.matches.wait(participant, until) and await replies.wait(participant, until)
        if DEFAULT_PARTITION not in self._replies:
            self._read(DEFAULT_PARTITION)
        if not await path.matches.wait(participant, now + patience):
            return False
        await self._replies[DEFAULT_PARTITION].wait(participant, now + min(patience, WRITER_PATIENCE))
        return True

    async def send(self, request: ExecutionRequest, partition: str) -> bool:
        """See :class:`~enginehost.databus.port.Transport`."""
        path = self._path(partition)
        if not self._arrives(path, partition) and not await self._soon_arrives(path, partition):
            return False
        return await path.send(_REQUEST.encode(_MEMBERS(request)), SEND_PATIENCE)

    def forget(self, partition: str) -> None:
        """See :class:`~enginehost.databus.port.Transport`."""
        if (path := self._paths.pop(partition, None)) is not None:
            path.closed = True
            self._discovery.forget(path.matches)
            self._threads.submit(self._participant.delete, path.writer)

    def describe(self) -> dict[str, Any]:
        """Facts for an operator."""
        return {"request_partitions": len(self._paths)}

    async def close(self) -> None:
        """Delete the endpoints. The intake is closed before."""
        for partition in list(self._paths):
            self.forget(partition)
        for matches in self._replies.values():
            self._discovery.forget(matches)
            await asyncio.to_thread(self._participant.delete, matches.endpoint)

    def _arrives(self, path: Path, partition: str) -> bool:
        """Whether a request that is written now has a reader, and its reply one too."""
        there = path.matches.participants
        if partition:
            there = there & self._replies[self._partition].participants
        return bool(there) and self._discovery.settled

    async def _soon_arrives(self, path: Path, partition: str) -> bool:
        """Likewise, within some seconds: a provider may be discovered once more after a pause.

        One that has dropped its idle writer for our replies makes it anew when the request comes.
        """
        loop = asyncio.get_running_loop()
        start = loop.time()
        while not path.closed and (waited := loop.time() - start) < SEND_PATIENCE:
            await asyncio.sleep(LOOK_SECONDS)
            if self._arrives(path, partition if waited < WRITER_PATIENCE else DEFAULT_PARTITION):
                return True
        return False

    def _read(self, partition: str) -> None:
        topic = self._participant.topic(FUNCTION_EXECUTION_REPLY)
        reader = self._participant.reader(topic, CALL_READER, (partition,))
        matches = self._replies[partition] = self._discovery.watch(reader)

        def decode(data: bytes, writer: int) -> ExecutionReply:
            return ExecutionReply(*_REPLY.decode(data), participant=matches.participant(writer) or "")

        self._intake.add(DirectFeed(reader, decode, self._handler))

    def _path(self, partition: str) -> Path:
        path = self._paths.get(partition)
        if path is None:
            said = user_data(self._partition) if partition else ""
            writer = self._participant.writer(self._topic, CALL_WRITER, partition, said)
            path = self._paths[partition] = Path(
                writer, self._discovery.watch(writer, self._changed), self._threads
            )
        return path

    def _changed(self, new: Mapping[int, Remote], left: frozenset[str]) -> None:
        for participant in left:
            self._gone(participant)
