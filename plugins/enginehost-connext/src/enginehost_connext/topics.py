"""The other topics that the host writes: advertisements of the second era, and events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from enginehost.databus import TOPICS
from enginehost_connext.entities import Entities
from enginehost_connext.outlet import Outlet, done
from enginehost_connext.structs import sample_of


class Written:
    """Writers of topics by name, each made when it is first needed."""

    def __init__(self, entities: Entities) -> None:
        self.dropped = 0
        self._entities = entities
        self._outlets: dict[str, Outlet] = {}

    async def put(self, topic: str, samples: Sequence[Mapping[str, Any]]) -> None:
        """Write instances."""
        struct = TOPICS[topic].struct
        await self.outlet(topic).write_all(lambda: (sample_of(struct, values) for values in samples))

    async def drop(self, topic: str, keys: Sequence[str], *, dispose: bool = True) -> None:
        """Dispose instances, or (without ``dispose``) only stop writing them."""
        struct = TOPICS[topic].struct
        (key,) = (member.name for member in struct.members if member.key)

        def samples() -> Iterator[Any]:
            return (sample_of(struct, {key: value}) for value in keys)

        await self.outlet(topic).dispose_all(samples, dispose=dispose)

    def listened(self, topic: str) -> bool:
        """Whether anybody reads it now."""
        return self.outlet(topic).writer.publication_matched_status.current_count > 0

    def announce(self, topic: str, values: Mapping[str, Any], *, last: bool = False) -> bool:
        """Write an event if anybody reads it and there is room. Never waits."""
        if not self.listened(topic):
            return False
        struct = TOPICS[topic].struct
        writer = self.outlet(topic).writer
        sample = sample_of(struct, values)
        written = done(writer.write, sample)
        if not written:
            self.dropped += 1
        if last and struct.keyed and not (handle := writer.lookup_instance(sample)).is_nil:
            done(writer.unregister_instance, handle)
        return written

    def existing(self, topic: str) -> Outlet | None:
        """The writer of a topic, where it was needed already."""
        return self._outlets.get(topic)

    def outlet(self, topic: str) -> Outlet:
        """The writer of a topic. Raises :class:`KeyError` for one that the databus does not have."""
        if topic not in self._outlets:
            found = TOPICS[topic]
            self._outlets[topic] = Outlet(self._entities.writer(found.name, found.struct, found.profile))
        return self._outlets[topic]

    async def close(self, patience: float) -> None:
        """Give what was written a moment to arrive."""
        await asyncio.gather(*(outlet.close(patience) for outlet in self._outlets.values()))
