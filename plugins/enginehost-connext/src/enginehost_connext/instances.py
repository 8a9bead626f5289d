"""The instances of a durable topic, as they come, change and go."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import rti.connextdds as dds

from enginehost.databus import TOPICS, Instance, InstanceWatcher
from enginehost_connext.entities import Entities
from enginehost_connext.peers import Endpoints, writers_of
from enginehost_connext.pump import Pump
from enginehost_connext.structs import members_of

ANEW_SECONDS = 2.0
"""At least between two readers: writers that come and go by the second are seen a little later."""


class Following(ABC):
    """Reads a durable topic for ``watcher``.

    A writer that was not heard of for the length of its lease and is back has not written its instances
    again: a reader that saw them lost holds them as lost. So the reader is made anew then.
    """

    def __init__(self, entities: Entities, topic: str, watcher: Any) -> None:
        self.topic = TOPICS[topic]
        self._entities = entities
        self._watcher = watcher
        self._lost = False
        self._made = time.monotonic()
        self._again: asyncio.Task[None] | None = None
        self._malformed = 0
        self._pump = self._read()

    @abstractmethod
    def told(self, key: str, members: dict[str, Any] | None, participant: str, *, lost: bool) -> Any:
        """One instance, as the watcher takes it."""

    @property
    def malformed(self) -> int:
        """Instances that were dropped."""
        return self._malformed + self._pump.malformed

    async def again(self) -> None:
        """Read everything anew."""
        old, self._made = self._pump, time.monotonic()
        self._watcher.anew()
        self._pump = self._read()
        self._malformed += old.malformed
        await old.close()

    async def close(self) -> None:
        """Watch no more."""
        if self._again is not None:
            self._again.cancel()
            await asyncio.wait((self._again,))
        await self._pump.close()

    def _read(self) -> Pump:
        reader = self._entities.reader(self.topic.name, self.topic.struct, self.topic.profile)
        writers = writers_of(reader)

        def decode(sample: dds.DynamicData, info: dds.SampleInfo) -> Any:
            return self._seen(reader, writers, sample, info)

        async def deliver(instances: Sequence[Any]) -> None:
            if self._pump.reader == reader:  # what an older one had still to say is said by the newer
                self._watcher.seen(instances)

        return Pump(
            self._entities.library,
            reader,
            decode,
            deliver_and_wait=deliver,
            statuses=dds.StatusMask.LIVELINESS_CHANGED,
            noticed=self._liveliness,
        )

    def _seen(self, reader: Any, writers: Endpoints, sample: dds.DynamicData, info: dds.SampleInfo) -> Any:
        participant = writers.participant(info.publication_handle)
        key_name = next(member.name for member in self.topic.struct.members if member.key)
        if info.valid:
            members = texts(members_of(self.topic.struct, sample))
            return self.told(members[key_name], members, participant, lost=False)
        if info.state.instance_state == dds.InstanceState.ALIVE:
            return None
        key = texts(members_of(self.topic.struct, reader.key_value(info.instance_handle)))
        lost = info.state.instance_state == dds.InstanceState.NOT_ALIVE_NO_WRITERS
        return self.told(key[key_name], None, participant, lost=lost)

    def _liveliness(self) -> None:
        status = self._pump.reader.liveliness_changed_status
        if status.not_alive_count_change > 0:
            self._lost = True
        if self._lost and status.alive_count_change > 0:
            self._lost = status.not_alive_count > 0
            if self._again is None or self._again.done():
                self._again = asyncio.get_running_loop().create_task(self._soon())

    async def _soon(self) -> None:
        await asyncio.sleep(max(0.0, self._made + ANEW_SECONDS - time.monotonic()))
        await self.again()


class Instances(Following):
    """Tells an :class:`~enginehost.databus.InstanceWatcher` of any topic."""

    def __init__(self, entities: Entities, topic: str, watcher: InstanceWatcher) -> None:
        super().__init__(entities, topic, watcher)

    def told(self, key: str, members: dict[str, Any] | None, participant: str, *, lost: bool) -> Instance:
        """See :class:`Following`."""
        return Instance(key, members, participant, lost)


def texts(members: dict[str, Any]) -> dict[str, Any]:
    """Members with texts as such. Raises :class:`ValueError` for what is no UTF-8."""
    return {name: one.decode() if isinstance(one, bytes) else one for name, one in members.items()}
