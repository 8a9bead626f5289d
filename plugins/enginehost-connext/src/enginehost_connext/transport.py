"""The databus's port on RTI Connext."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from enginehost.databus import (
    DEFAULT_PARTITION,
    Capability,
    DatabusConfig,
    ExecutionReply,
    ExecutionRequest,
    Gone,
    InstanceWatcher,
    PairEnd,
    ReplyHandler,
    RequestHandler,
    SampleHandler,
    TopicPair,
    Watcher,
)
from enginehost_connext.entities import Entities, Library
from enginehost_connext.instances import Instances
from enginehost_connext.pairs import ConnextPair
from enginehost_connext.provider import Requests
from enginehost_connext.replies import CLOSE_PATIENCE, Replies
from enginehost_connext.requester import Requester
from enginehost_connext.services import SOURCE, Services
from enginehost_connext.sightings import Sightings
from enginehost_connext.topics import Written

CAPABILITIES = "FunctionCapability"


class ConnextTransport:
    """One participant with the endpoints of a host, each made when it is needed.

    The constructor joins the bus; it belongs on a thread. It raises :class:`EngineUnavailable` with a
    reason where that is impossible. ``library`` has Connext's own classes unless a test gives others.
    """

    def __init__(self, config: DatabusConfig, library: Library | None = None) -> None:
        self._entities = Entities(config, library or Library())
        self._written = Written(self._entities)
        self._replies: Replies | None = None
        self._requests: Requests | None = None
        self._services: Services | None = None
        self._eras = (1, 2) if config.second_era else (1,)
        self._requester: Requester | None = None
        self._sightings: Sightings | None = None
        self._config = config
        self._followed: list[Instances] = []
        self._pairs: list[ConnextPair] = []
        self._aside: Entities | None = None
        self._joining = asyncio.Lock()

    async def serve(self, handler: RequestHandler, partition: str, gone: Gone) -> None:
        """See :class:`~enginehost.databus.Transport`."""
        self._written.outlet(CAPABILITIES)
        self._replies = Replies(self._entities)
        self._requests = Requests(self._entities, self._replies, handler, partition, gone)
        self._services = Services(self._entities, self._eras, handler)

    async def publish(self, capabilities: Sequence[Capability]) -> None:
        """See :class:`~enginehost.databus.Transport`."""
        if self._services is not None:
            self._services.offer(capabilities)
        await self._written.put(CAPABILITIES, [asdict(capability) for capability in capabilities])

    async def withdraw(self, function_ids: Sequence[str], *, dispose: bool = True) -> None:
        """See :class:`~enginehost.databus.Transport`."""
        if self._services is not None:
            self._services.withdraw(function_ids)
        await self._written.drop(CAPABILITIES, function_ids, dispose=dispose)

    async def reply(self, reply: ExecutionReply, source: str, partition: str = DEFAULT_PARTITION) -> bool:
        """See :class:`~enginehost.databus.Transport`."""
        if self._replies is None or self._requests is None:
            return False
        if source == SOURCE and self._services is not None:
            return self._services.reply(reply)
        return await self._replies.send(reply, partition, self._requests.participant(source))

    async def watch(self, watcher: Watcher) -> None:
        """See :class:`~enginehost.databus.Transport`."""
        self._sightings = Sightings(self._entities, watcher)

    async def watch_again(self) -> None:
        """See :class:`~enginehost.databus.Transport`."""
        for one in (*([self._sightings] if self._sightings else ()), *self._followed):
            await one.again()

    async def listen(self, handler: ReplyHandler, partition: str, gone: Gone) -> None:
        """See :class:`~enginehost.databus.Transport`."""
        self._requester = Requester(self._entities, handler, partition, gone)

    async def reach(self, partition: str, participant: str, patience: float) -> bool:
        """See :class:`~enginehost.databus.Transport`."""
        return await self._listening().reach(partition, participant, patience)

    async def send(self, request: ExecutionRequest, partition: str) -> bool:
        """See :class:`~enginehost.databus.Transport`."""
        return await self._listening().send(request, partition)

    def forget(self, partition: str) -> None:
        """See :class:`~enginehost.databus.Transport`."""
        self._listening().forget(partition)

    async def put(self, topic: str, samples: Sequence[Mapping[str, Any]]) -> None:
        """See :class:`~enginehost.databus.Transport`."""
        await self._written.put(topic, samples)

    async def drop(self, topic: str, keys: Sequence[str], *, dispose: bool = True) -> None:
        """See :class:`~enginehost.databus.Transport`."""
        await self._written.drop(topic, keys, dispose=dispose)

    async def follow(self, topic: str, watcher: InstanceWatcher) -> None:
        """See :class:`~enginehost.databus.Transport`."""
        self._followed.append(Instances(self._entities, topic, watcher))

    async def pair(self, pair: TopicPair, handler: SampleHandler, gone: Gone, *, serves: bool) -> PairEnd:
        """See :class:`~enginehost.databus.Transport`.

        In a participant of its own: a service's name may make the same topic for functions and for agents,
        with two types, and a participant has one.
        """
        async with self._joining:
            if self._aside is None:
                self._aside = await asyncio.to_thread(Entities, self._config, self._entities.library)
        end = ConnextPair(self._aside, pair, handler, gone, serves=serves)
        self._pairs.append(end)
        return end

    def listened(self, topic: str) -> bool:
        """See :class:`~enginehost.databus.Transport`."""
        return self._written.listened(topic)

    def announce(self, topic: str, values: Mapping[str, Any], *, last: bool = False) -> bool:
        """See :class:`~enginehost.databus.Transport`."""
        return self._written.announce(topic, values, last=last)

    async def close(self) -> None:
        """See :class:`~enginehost.databus.Transport`."""
        for end in self._pairs:
            await end.close()
        for taking in (self._requests, self._services, self._sightings, *self._followed):
            if taking is not None:
                await taking.close()
        await asyncio.gather(
            self._written.close(CLOSE_PATIENCE),
            *([self._replies.close()] if self._replies else ()),
            *([self._requester.close(CLOSE_PATIENCE)] if self._requester else ()),
        )
        if self._aside is not None:
            await asyncio.to_thread(self._aside.close)
        await asyncio.to_thread(self._entities.close)

    def describe(self) -> dict[str, Any]:
        """See :class:`~enginehost.databus.Transport`."""
        taking = (self._requests, self._requester, self._sightings, *self._followed)
        offered = self._written.existing(CAPABILITIES)
        return {
            "transport": "connext",
            "version": version("rti.connext"),
            "capability_readers": len(offered.readers.look()) if offered else 0,
            "requesters": self._requests.requesters if self._requests else 0,
            "reader_behind": bool(self._replies and self._replies.behind),
            "malformed": sum(one.malformed for one in taking if one is not None),
            "events_dropped": self._written.dropped,
            "liveliness_lost": offered.writer.liveliness_lost_status.total_count if offered else 0,
        }

    def _listening(self) -> Requester:
        if self._requester is None:
            raise RuntimeError("listen() comes before requests")
        return self._requester
