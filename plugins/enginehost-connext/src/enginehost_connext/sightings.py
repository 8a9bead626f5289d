"""The capabilities that are on the bus, as they come, change and go."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import rti.connextdds as dds

from enginehost.databus import FUNCTION_CAPABILITY, TOPICS, Capability, Sighting, Watcher
from enginehost_connext.entities import Entities
from enginehost_connext.peers import Endpoints, writers_of
from enginehost_connext.pump import Pump
from enginehost_connext.structs import members_of

TOPIC = TOPICS["FunctionCapability"]

ANEW_SECONDS = 2.0
"""At least between two readers: writers that come and go by the second are seen a little later."""


class Sightings:
    """Reads capabilities.

    A writer that was not heard of for the length of its lease and is back has not written its instances
    again: a reader that saw them lost holds them as lost. So the reader is made anew then.
    """

    def __init__(self, entities: Entities, watcher: Watcher) -> None:
        self._entities = entities
        self._watcher = watcher
        self._lost = False
        self._made = time.monotonic()
        self._again: asyncio.Task[None] | None = None
        self._malformed = 0
        self._pump = self._read()

    @property
    def malformed(self) -> int:
        """Capabilities that were dropped."""
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
        reader = self._entities.reader(TOPIC.name, TOPIC.struct, TOPIC.profile)
        writers = writers_of(reader)

        def decode(sample: dds.DynamicData, info: dds.SampleInfo) -> Sighting | None:
            return _sighting(reader, writers, sample, info)

        async def deliver(sightings: Sequence[Sighting]) -> None:
            if self._pump.reader == reader:  # what an older one had still to say is said by the newer
                self._watcher.seen(sightings)

        return Pump(
            self._entities.library,
            reader,
            decode,
            deliver_and_wait=deliver,
            statuses=dds.StatusMask.LIVELINESS_CHANGED,
            noticed=self._liveliness,
        )

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


def _sighting(
    reader: Any, writers: Endpoints, sample: dds.DynamicData, info: dds.SampleInfo
) -> Sighting | None:
    participant = writers.participant(info.publication_handle)
    if info.valid:
        capability = _capability(sample)
        return Sighting(capability.function_id, capability, participant)
    if info.state.instance_state == dds.InstanceState.ALIVE:
        return None
    key = members_of(FUNCTION_CAPABILITY, reader.key_value(info.instance_handle))
    lost = info.state.instance_state == dds.InstanceState.NOT_ALIVE_NO_WRITERS
    return Sighting(key["function_id"].decode(), None, participant, lost)


def _capability(sample: dds.DynamicData) -> Capability:
    members: dict[str, Any] = members_of(FUNCTION_CAPABILITY, sample)
    for name, value in members.items():
        members[name] = value.decode() if isinstance(value, bytes) else value
    return Capability(**members)
