"""One end of a pair of topics for requests and replies, made for one service."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cyclonedds.core import DDSException

from enginehost.databus.cyclone.cdr import Codec
from enginehost.databus.cyclone.intake import DirectFeed, Intake
from enginehost.databus.cyclone.matches import Discovery, Remote
from enginehost.databus.cyclone.participant import Participant
from enginehost.databus.cyclone.path import Path
from enginehost.databus.cyclone.qos import CALL_READER, CALL_WRITER
from enginehost.databus.cyclone.wire import wait_for_acks
from enginehost.databus.port import Gone, Sample, SampleHandler, TopicPair
from enginehost.databus.struct import Kind

SEND_PATIENCE = 10.0
"""Seconds for which a sample waits for readers that are behind."""

MATCH_PATIENCE = 1.0
"""Seconds for which a reply waits until the reader of its requester is discovered, and a requester for the
writer of replies: a peer may have none before it answers."""


class CyclonePair:
    """See :class:`~enginehost.databus.port.PairEnd`.

    The library does not tell which request a reply is about; a request tells whose reader its reply is for.
    """

    def __init__(
        self,
        participant: Participant,
        discovery: Discovery,
        intake: Intake,
        threads: ThreadPoolExecutor,
        pair: TopicPair,
        handler: SampleHandler,
        gone: Gone,
        *,
        serves: bool,
    ) -> None:
        self.closed = False
        self._participant = participant
        self._discovery = discovery
        self._intake = intake
        self._gone = gone
        requests, replies = (pair.request, pair.request_topic), (pair.reply, pair.reply_topic)
        written, read = (replies, requests) if serves else (requests, replies)
        try:
            writer = participant.writer(participant.topic(*written), CALL_WRITER)
            reader = participant.reader(participant.topic(*read), CALL_READER)
        except DDSException:
            raise ValueError(f"{pair.request_topic} is no name of a topic") from None
        self._codec = Codec(written[0])
        self._members = [(member.name, member.kind is Kind.STRING) for member in written[0].members]
        self._path = Path(writer, discovery.watch(writer), threads)
        codec, names = Codec(read[0]), [member.name for member in read[0].members]
        peers = self._peers = discovery.watch(reader, self._changed)

        def decode(data: bytes, remote: int) -> Sample:
            who = peers.participant(remote) or ""
            return Sample(dict(zip(names, codec.decode(data), strict=True)), who, who if serves else "")

        self._feed = DirectFeed(reader, decode, handler)
        intake.add(self._feed)

    @property
    def peers(self) -> frozenset[str]:
        """See :class:`~enginehost.databus.port.PairEnd`."""
        return self._peers.participants

    async def reach(self, participant: str, patience: float) -> bool:
        """See :class:`~enginehost.databus.port.PairEnd`."""
        loop = asyncio.get_running_loop()
        until, matches = loop.time() + patience, self._path.matches
        if not await matches.wait(participant, until):
            return False
        await self._peers.wait(participant, min(until, loop.time() + MATCH_PATIENCE))
        return True

    async def send(self, values: Mapping[str, Any], about: str = "") -> str | None:
        """See :class:`~enginehost.databus.port.PairEnd`."""
        if about:
            await self._path.matches.wait(about, asyncio.get_running_loop().time() + MATCH_PATIENCE)
        members = [values.get(name, "" if is_text else 0) for name, is_text in self._members]
        sent = not self.closed and await self._path.send(self._codec.encode(members), SEND_PATIENCE)
        return "" if sent else None

    async def close(self, patience: float = 0.0) -> None:
        """Let what was written arrive within ``patience`` seconds; delete the endpoints."""
        if self.closed:
            return
        self.closed = True
        if patience:
            await asyncio.to_thread(wait_for_acks, self._path.writer, patience)
        self._path.closed = True
        self._discovery.forget(self._path.matches)
        self._discovery.forget(self._peers)
        await self._intake.remove(self._feed)
        for endpoint in (self._path.writer, self._feed.reader):
            await asyncio.to_thread(self._participant.delete, endpoint)

    def _changed(self, new: Mapping[int, Remote], left: frozenset[str]) -> None:
        for participant in left:
            self._gone(participant)
