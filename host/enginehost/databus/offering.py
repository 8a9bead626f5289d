"""What this host has on the bus now, and under which ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import islice

from enginehost.databus.advertisement import advertisement_of
from enginehost.databus.port import Capability, Transport

GONE_KEPT = 10_000
"""Ids of functions that went: a peer that calls one late is told so."""

ADVERTISEMENTS = "rti/connext/genesis/Advertisement"
"""The topic of the second era."""


class Offering:
    """The functions on offer, by name and by id. ``second_era``: also in the form of Genesis 0.3."""

    def __init__(self, transport: Transport, *, second_era: bool) -> None:
        self._transport = transport
        self._second_era = second_era
        self._names: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._gone: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def names(self) -> list[str]:
        """The functions that are on offer."""
        return list(self._ids)

    def name_of(self, function_id: str) -> str | None:
        """The function that has this id, or had it."""
        return self._names.get(function_id) or self._gone.get(function_id)

    async def offer(self, described: Mapping[str, Capability]) -> None:
        """Offer functions, or offer them anew."""
        for name, capability in described.items():
            self._names[capability.function_id] = name
            self._ids[name] = capability.function_id
            self._gone.pop(capability.function_id, None)
        capabilities = list(described.values())
        if capabilities:
            await self._transport.publish(capabilities)
        if capabilities and self._second_era:
            advertisements = [asdict(advertisement_of(one)) for one in capabilities]
            await self._transport.put(ADVERTISEMENTS, advertisements)

    async def withdraw(self, names: Sequence[str]) -> None:
        """Take functions back; names that are not on offer do not matter."""
        ids = {self._ids.pop(name): name for name in names if name in self._ids}
        for function_id, name in ids.items():
            del self._names[function_id]
            self._gone[function_id] = name
        for oldest in list(islice(self._gone, max(0, len(self._gone) - GONE_KEPT))):
            del self._gone[oldest]
        if ids:
            await self._transport.withdraw(list(ids))
        if ids and self._second_era:
            await self._transport.drop(ADVERTISEMENTS, list(ids))

    async def leave_to_others(self) -> None:
        """Forget all ids: another host has them, and what it offers under them stays."""
        ids = list(self._names)
        self._names.clear()
        self._ids.clear()
        self._gone.clear()
        if ids:
            await self._transport.withdraw(ids, dispose=False)
