"""The agents that this host has on the bus now: beside their functions, under the same ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from enginehost.databus.agents_capability import (
    agent_advertisement,
    front_agents,
    interface_service,
    registration,
    second_id,
)
from enginehost.databus.offering import ADVERTISEMENTS
from enginehost.databus.port import Transport

AGENTS = "AgentCapability"
REGISTRATIONS = "GenesisRegistration"
"""Topics of the first era."""

Offered = Callable[[Mapping[str, Mapping[str, Any]]], None]
"""Hears which agents are on offer, by name, whenever that has changed."""


class AgentOffering:
    """Follows :class:`~enginehost.databus.advertise.Advertiser`, which says what to write and when."""

    def __init__(
        self,
        transport: Transport,
        host_id: Callable[[], str],
        *,
        second_era: bool,
        changed: Offered = lambda _: None,
    ) -> None:
        self._transport = transport
        self._host_id = host_id
        self._second_era = second_era
        self._changed = changed
        self._agents: dict[str, Mapping[str, Any]] = {}
        self._fronts: Mapping[str, str] = {}

    async def offer(self, agents: Mapping[str, Mapping[str, Any]], gone: Sequence[str]) -> None:
        """Offer these (``AGENT_CAPABILITY`` by name), or offer them anew; take back those ``gone``."""
        left = {name: self._agents.pop(name) for name in gone if name in self._agents}
        for name, one in agents.items():  # under another service it has another id
            if (old := self._agents.get(name)) is not None and old["agent_id"] != one["agent_id"]:
                left[name] = old
        if not agents and not left:
            return
        self._agents.update(agents)
        before, self._fronts = self._fronts, front_agents(self._agents)
        moved = {name for _, name in before.items() ^ self._fronts.items()}
        written = {name: one for name, one in self._agents.items() if name in agents or name in moved}
        self._changed(self._agents)
        await self._write(written)
        await self._drop([str(one["agent_id"]) for one in left.values()])

    async def withdraw(self) -> None:
        """Take all back."""
        await self.offer({}, list(self._agents))

    async def leave_to_others(self) -> None:
        """Forget all: another host has their ids, and what it offers under them stays."""
        ids = [str(one["agent_id"]) for one in self._agents.values()]
        self._agents.clear()
        self._fronts = {}
        self._changed(self._agents)
        await self._drop(ids, dispose=False)

    async def _write(self, agents: Mapping[str, Mapping[str, Any]]) -> None:
        if not agents:
            return
        services = {name: interface_service(one, self._fronts) for name, one in agents.items()}
        await self._transport.put(AGENTS, list(agents.values()))
        registered = [registration(one, services[name]) for name, one in agents.items()]
        await self._transport.put(REGISTRATIONS, registered)
        if self._second_era:
            told = [agent_advertisement(one, services[name], self._host_id()) for name, one in agents.items()]
            await self._transport.put(ADVERTISEMENTS, [asdict(one) for one in told])

    async def _drop(self, ids: Sequence[str], *, dispose: bool = True) -> None:
        if not ids:
            return
        await self._transport.drop(AGENTS, ids, dispose=dispose)
        await self._transport.drop(REGISTRATIONS, ids, dispose=dispose)
        if self._second_era:
            await self._transport.drop(ADVERTISEMENTS, [second_id(one) for one in ids], dispose=dispose)
