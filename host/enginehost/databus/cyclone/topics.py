"""Other topics: durable instances, and events for whoever reads them at the moment."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cyclonedds.pub import DataWriter

from enginehost.databus.cyclone.matches import Discovery, Matches
from enginehost.databus.cyclone.outlet import Outlet
from enginehost.databus.cyclone.participant import Participant
from enginehost.databus.cyclone.qos import writer_qos
from enginehost.databus.cyclone.wire import Outcome, sample_of, serialized, serialized_key, unregister, write
from enginehost.databus.types import TOPICS

log = logging.getLogger("enginehost.databus")

MOST_EVENTS = 1_024
"""Events that may wait to be written; more are dropped."""


class Instances:
    """Durable instances: an outlet for each topic, made when it is first needed."""

    def __init__(self, participant: Participant) -> None:
        self._participant = participant
        self._outlets: dict[str, Outlet] = {}

    async def put(self, topic: str, samples: Sequence[Mapping[str, Any]]) -> None:
        """See :class:`~enginehost.databus.port.Transport`."""
        struct = TOPICS[topic].struct

        def made() -> Iterator[bytes]:
            for values in samples:
                yield serialized(sample_of(struct, values))

        await self.outlet(topic).write_all(made)

    async def drop(self, topic: str, keys: Sequence[str], *, dispose: bool = True) -> None:
        """See :class:`~enginehost.databus.port.Transport`."""
        struct = TOPICS[topic].struct
        key = next(member.name for member in struct.members if member.key)

        def made() -> Iterator[bytes]:
            for value in keys:
                yield serialized_key(sample_of(struct, {key: value}))

        outlet = self.outlet(topic)
        await (outlet.dispose_all(made) if dispose else outlet.unregister_all(made))

    def outlet(self, topic: str) -> Outlet:
        """The outlet of a topic."""
        if topic not in self._outlets:
            name = f"databus-{TOPICS[topic].struct.name}"
            self._outlets[topic] = Outlet(_writer(self._participant, topic), name)
        return self._outlets[topic]

    def readers(self, topic: str) -> int:
        """How many read a topic that was written; 0 where it never was."""
        outlet = self._outlets.get(topic)
        return len(outlet.readers) if outlet else 0

    @property
    def liveliness_lost(self) -> int:
        """How often readers were told that a writer of ours is not alive."""
        return sum(outlet.liveliness_lost for outlet in self._outlets.values())

    async def close(self, patience: float) -> None:
        """Give what was written ``patience`` seconds to arrive; delete the writers."""
        await asyncio.gather(*(outlet.close(patience) for outlet in self._outlets.values()))


class Events:
    """Events, written by a thread from a bounded queue; without readers nothing is written."""

    def __init__(self, participant: Participant, discovery: Discovery) -> None:
        self.dropped = 0
        self._participant = participant
        self._discovery = discovery
        self._writers: dict[str, tuple[DataWriter[Any], Matches]] = {}
        self._queue: queue.Queue[tuple[str, Mapping[str, Any], bool] | None] = queue.Queue(MOST_EVENTS)
        self._thread: threading.Thread | None = None

    def listened(self, topic: str) -> bool:
        """See :class:`~enginehost.databus.port.Transport`."""
        made = self._writers.get(topic)
        if made is None:
            writer = _writer(self._participant, topic)
            made = self._writers[topic] = (writer, self._discovery.watch(writer))
        return bool(made[1].participants)

    def announce(self, topic: str, values: Mapping[str, Any], *, last: bool) -> bool:
        """See :class:`~enginehost.databus.port.Transport`."""
        if not self.listened(topic):
            return False
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="databus-events", daemon=True)
            self._thread.start()
        try:
            self._queue.put_nowait((topic, values, last))
        except queue.Full:
            self.dropped += 1
            return False
        return True

    async def close(self) -> None:
        """Write what waits, then delete the writers."""
        if self._thread is not None:
            await asyncio.to_thread(self._queue.put, None)
            await asyncio.to_thread(self._thread.join)
        for writer, matches in self._writers.values():
            self._discovery.forget(matches)
            await asyncio.to_thread(self._participant.delete, writer)

    def _run(self) -> None:
        while (event := self._queue.get()) is not None:
            topic, values, last = event
            try:
                self._write(topic, values, last=last)
            except Exception as failure:  # noqa: BLE001 - whatever one has, the thread goes on with the next
                self.dropped += 1
                log.debug("an event could not be written: %s", failure)

    def _write(self, topic: str, values: Mapping[str, Any], *, last: bool) -> None:
        struct = TOPICS[topic].struct
        writer, _ = self._writers[topic]
        sample = sample_of(struct, values)
        if write(writer, serialized(sample)) is Outcome.FULL:
            self.dropped += 1
        if last and struct.keyed:
            unregister(writer, serialized_key(sample))


def _writer(participant: Participant, topic: str) -> DataWriter[Any]:
    about = TOPICS[topic]
    return participant.writer(participant.topic(about.struct, topic), writer_qos(about.profile))
