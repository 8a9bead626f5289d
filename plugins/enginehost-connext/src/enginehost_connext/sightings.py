"""The capabilities that are on the bus, as they come, change and go."""

from __future__ import annotations

from typing import Any

from enginehost.databus import Capability, Sighting, Watcher
from enginehost_connext.entities import Entities
from enginehost_connext.instances import Following


class Sightings(Following):
    """Reads capabilities."""

    def __init__(self, entities: Entities, watcher: Watcher) -> None:
        super().__init__(entities, "FunctionCapability", watcher)

    def told(self, key: str, members: dict[str, Any] | None, participant: str, *, lost: bool) -> Sighting:
        """See :class:`Following`."""
        return Sighting(key, None if members is None else Capability(**members), participant, lost)
