"""The databus's port on Cyclone DDS."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from importlib.metadata import version
from typing import Any, TypeVar

from enginehost.databus.config import DatabusConfig
from enginehost.databus.cyclone.domain import lost_peers
from enginehost.databus.cyclone.intake import Intake
from enginehost.databus.cyclone.matches import Discovery
from enginehost.databus.cyclone.pairs import CyclonePair
from enginehost.databus.cyclone.participant import Participant
from enginehost.databus.cyclone.provider import Provider
from enginehost.databus.cyclone.requester import Requester
from enginehost.databus.cyclone.topics import Events, Instances
from enginehost.databus.cyclone.watching import CODEC, MEMBERS, Subject, Watching
from enginehost.databus.peers import LOST
from enginehost.databus.port import (
    DEFAULT_PARTITION,
    Capability,
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
from enginehost.databus.types import FUNCTION_CAPABILITY, TOPICS

CLOSE_PATIENCE = 1.0
"""Seconds that the last samples may take to arrive."""

THREADS = 3
"""Threads on which large samples are written; a write never waits for readers."""

_Side = TypeVar("_Side")

CAPABILITIES = FUNCTION_CAPABILITY.name


class CycloneTransport:
    """One participant, with endpoints and threads for those sides of the databus that are used.

    The constructor joins the bus; it takes some milliseconds, so it belongs on a thread. It raises
    :class:`EngineUnavailable` with a reason where that is impossible.
    """

    def __init__(self, config: DatabusConfig) -> None:
        self._participant = Participant(config)
        self._domain = config.domain
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="databus-writer")
        self._instances = Instances(self._participant)
        self._provider: Provider | None = None
        self._requester: Requester | None = None
        self._watching: Watching | None = None
        self._followed: list[Watching] = []
        self._pairs: list[CyclonePair] = []

    async def serve(self, handler: RequestHandler, partition: str, gone: Gone) -> None:
        """See :class:`~enginehost.databus.port.Transport`."""
        self._instances.outlet(CAPABILITIES)
        self._provider = Provider(
            self._participant, self._discovery, self._intake, self._threads, (handler, partition, gone)
        )

    async def publish(self, capabilities: Sequence[Capability]) -> None:
        """See :class:`~enginehost.databus.port.Transport`."""

        def samples() -> Iterator[bytes]:
            for capability in capabilities:
                yield CODEC.encode(MEMBERS(capability))

        await self._instances.outlet(CAPABILITIES).write_all(samples)

    async def withdraw(self, function_ids: Sequence[str], *, dispose: bool = True) -> None:
        """See :class:`~enginehost.databus.port.Transport`."""

        def keys() -> Iterator[bytes]:
            for function_id in function_ids:
                yield CODEC.encode_key(function_id)

        outlet = self._instances.outlet(CAPABILITIES)
        await (outlet.dispose_all(keys) if dispose else outlet.unregister_all(keys))

    async def reply(self, reply: ExecutionReply, source: str, partition: str = DEFAULT_PARTITION) -> bool:
        """See :class:`~enginehost.databus.port.Transport`."""
        return await _started(self._provider).reply(reply, source, partition)

    async def watch(self, watcher: Watcher) -> None:
        """See :class:`~enginehost.databus.port.Transport`."""
        self._watching = Watching(self._participant, watcher)

    async def watch_again(self) -> None:
        """See :class:`~enginehost.databus.port.Transport`."""
        for watching in self._watchings:
            await watching.again()

    async def listen(self, handler: ReplyHandler, partition: str, gone: Gone) -> None:
        """See :class:`~enginehost.databus.port.Transport`."""
        self._requester = Requester(
            self._participant, self._discovery, self._intake, self._threads, (handler, partition, gone)
        )

    async def reach(self, partition: str, participant: str, patience: float) -> bool:
        """See :class:`~enginehost.databus.port.Transport`."""
        return await _started(self._requester).reach(partition, participant, patience)

    async def send(self, request: ExecutionRequest, partition: str) -> bool:
        """See :class:`~enginehost.databus.port.Transport`."""
        return await _started(self._requester).send(request, partition)

    def forget(self, partition: str) -> None:
        """See :class:`~enginehost.databus.port.Transport`."""
        if self._requester is not None:
            self._requester.forget(partition)

    async def put(self, topic: str, samples: Sequence[Mapping[str, Any]]) -> None:
        """See :class:`~enginehost.databus.port.Transport`."""
        await self._instances.put(topic, samples)

    async def drop(self, topic: str, keys: Sequence[str], *, dispose: bool = True) -> None:
        """See :class:`~enginehost.databus.port.Transport`."""
        await self._instances.drop(topic, keys, dispose=dispose)

    async def follow(self, topic: str, watcher: InstanceWatcher) -> None:
        """See :class:`~enginehost.databus.port.Transport`."""
        subject = Subject(topic, TOPICS[topic].struct)
        self._followed.append(Watching(self._participant, watcher, subject))

    async def pair(self, pair: TopicPair, handler: SampleHandler, gone: Gone, *, serves: bool) -> PairEnd:
        """See :class:`~enginehost.databus.port.Transport`."""
        made = self._participant, self._discovery, self._intake, self._threads
        end = CyclonePair(*made, pair, handler, gone, serves=serves)
        self._pairs = [one for one in self._pairs if not one.closed] + [end]
        return end

    def listened(self, topic: str) -> bool:
        """See :class:`~enginehost.databus.port.Transport`."""
        return self._events.listened(topic)

    def announce(self, topic: str, values: Mapping[str, Any], *, last: bool = False) -> bool:
        """See :class:`~enginehost.databus.port.Transport`."""
        return self._events.announce(topic, values, last=last)

    async def close(self) -> None:
        """See :class:`~enginehost.databus.port.Transport`."""
        made = self.__dict__  # threads are started by what needs them first; do not start them to stop them
        for end in self._pairs:
            await end.close(CLOSE_PATIENCE)
        if "_intake" in made:
            await self._intake.close()
        for watching in self._watchings:
            await watching.close()
        if "_events" in made:
            await self._events.close()
        if self._requester is not None:
            await self._requester.close()
        if self._provider is not None:
            await self._provider.close(CLOSE_PATIENCE)
        await self._instances.close(CLOSE_PATIENCE)
        if "_discovery" in made:
            await asyncio.to_thread(self._discovery.close)
        await asyncio.to_thread(self._threads.shutdown)
        await asyncio.to_thread(self._participant.leave)

    def describe(self) -> dict[str, Any]:
        """See :class:`~enginehost.databus.port.Transport`."""
        made = self.__dict__
        watching = self._watching
        about: dict[str, Any] = {
            "transport": "cyclone",
            "version": version("cyclonedds"),
            "capability_readers": self._instances.readers(CAPABILITIES),
            "liveliness_lost": self._instances.liveliness_lost,
            "malformed": (self._intake.malformed if "_intake" in made else 0)
            + sum(one.malformed for one in self._watchings),
            "events_dropped": self._events.dropped if "_events" in made else 0,
        }
        if lost := lost_peers(self._domain):
            about[LOST] = list(lost)
        if watching is not None:
            about |= {"capability_writers": watching.writers, "watched_anew": watching.anew}
        for side in (self._provider, self._requester):
            if side is not None:
                about |= side.describe()
        return about

    @property
    def _watchings(self) -> list[Watching]:
        return [*([self._watching] if self._watching is not None else []), *self._followed]

    @cached_property
    def _discovery(self) -> Discovery:
        return Discovery(self._participant)

    @cached_property
    def _intake(self) -> Intake:
        return Intake(self._participant)

    @cached_property
    def _events(self) -> Events:
        return Events(self._participant, self._discovery)


def _started(side: _Side | None) -> _Side:
    if side is None:
        raise RuntimeError("call serve() or listen() first")
    return side
