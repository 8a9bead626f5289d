"""Keeps the bus equal to the catalog: one capability per function while it can be called."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from itertools import islice
from typing import Any

from enginehost.agents.facts import facts_of
from enginehost.catalog import Catalog, Change, ChangeKind, Entry
from enginehost.databus.agents_capability import agent_capability
from enginehost.databus.agents_offering import AgentOffering, Offered
from enginehost.databus.capability import capability_of
from enginehost.databus.describing import DESCRIBE
from enginehost.databus.directory import KIND
from enginehost.databus.guard import Guard
from enginehost.databus.identity import Identity
from enginehost.databus.offering import Offering
from enginehost.databus.port import Capability, Transport
from enginehost.engine import Function
from enginehost.policy import CALL, VIEW
from enginehost.record import Stats
from enginehost.signature import FunctionSignature

log = logging.getLogger("enginehost.databus")

BATCH = 100
"""Functions described and written in one go, on a thread; between two the event loop has its turn."""

WRITE_PATIENCE = 30.0
"""Seconds that writing one batch may take; then the next has its turn."""

WITHDRAW_PATIENCE = 1.0
"""Seconds that withdrawing everything may take when the host leaves the bus."""

MEASURE_EVERY = 30.0
"""Seconds between two looks at what was measured of functions; only what changed is written."""

Rights = Callable[[FunctionSignature], int]
"""Whether some peer may view a function (``VIEW``), and whether any may call it (``CALL``)."""


def _unmeasured(name: str) -> Stats | None:
    """The default of ``stats``."""
    return None


class Advertiser:
    """Follows the catalog. ``stats`` has what was measured of a function; ``guard`` signs; ``second_era``:
    Genesis 0.3 hears of the functions too.

    Changes are noted at once and written by one task in order; of several changes of one function
    only the last is written.
    """

    def __init__(
        self,
        catalog: Catalog,
        transport: Transport,
        identity: Identity,
        service: str,
        rights: Rights,
        *,
        stats: Callable[[str], Stats | None] = _unmeasured,
        guard: Guard | None = None,
        second_era: bool = False,
        agents_changed: Offered = lambda _: None,
    ) -> None:
        self._catalog = catalog
        self._identity = identity
        self._service = service
        self._rights = rights
        self._stats = stats
        self._guard = guard
        self._offering = Offering(transport, second_era=second_era)
        self._agents = AgentOffering(
            transport,
            lambda: identity.host_id,
            second_era=second_era,
            changed=agents_changed,
        )
        self._describe_ids: dict[str, None] = {}
        self._describes(service)
        self._pending: dict[str, Entry | None] = {}
        self._told: dict[str, int] = {}
        """Calls of each function that its capability counts."""
        self._writing = 0
        self._renewing = False
        self._wake = asyncio.Event()
        self.refresh()
        self._unsubscribe = catalog.subscribe(self._heard)
        loop = asyncio.get_running_loop()
        self._tasks = (
            loop.create_task(self._follow(), name="databus-advertiser"),
            loop.create_task(self._measure(), name="databus-measures"),
        )

    @property
    def offered(self) -> int:
        """Functions that are on the bus now."""
        return len(self._offering)

    @property
    def pending(self) -> int:
        """Functions whose latest state is not yet written."""
        return len(self._pending) + self._writing

    def name_of(self, function_id: str) -> str | None:
        """The function of ours that has this id, also one that went; ``None`` for other hosts' ids."""
        return DESCRIBE if function_id in self._describe_ids else self._offering.name_of(function_id)

    def refresh(self) -> None:
        """Write everything anew: what peers may see has changed, or what was written is lost."""
        self._pending = dict.fromkeys(self._offering.names) | {entry.name: entry for entry in self._catalog}
        self._wake.set()

    def renew(self) -> None:
        """Take another host id: let go of everything under the old one, which another host has, and go on."""
        self._renewing = True
        self._wake.set()

    async def close(self) -> None:
        """Stop following, and withdraw all functions."""
        self._unsubscribe()
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        try:
            async with asyncio.timeout(WITHDRAW_PATIENCE):
                await self._agents.withdraw()
                await self._offering.withdraw(self._offering.names)
        except TimeoutError:
            log.warning("peers are slow to hear that functions go; leaving the bus tells them too")
        except Exception:  # the plugin boundary: the host stops in any case
            log.exception("peers do not hear that functions go; leaving the bus tells them")

    def _heard(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self._pending[change.entry.name] = None if change.kind is ChangeKind.REMOVED else change.entry
        self._wake.set()

    async def _follow(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._pending or self._renewing:
                if self._renewing:
                    self._renewing = False
                    await self._patiently(self._renew(), "this host's new id")
                batch = {name: self._pending.pop(name) for name in list(islice(self._pending, BATCH))}
                self._writing = len(batch)
                await self._patiently(self._write(batch), ", ".join(batch))
                self._writing = 0

    async def _patiently(self, writing: Coroutine[Any, Any, None], what: str) -> None:
        try:
            async with asyncio.timeout(WRITE_PATIENCE):
                await writing
        except Exception:  # the plugin boundary: a transport that fails once may recover
            log.exception("the databus does not hear of %s", what)

    async def _renew(self) -> None:
        self._identity.renew()
        self._describe_ids.clear()
        self._describes(self._service)
        try:
            await self._offering.leave_to_others()
            await self._agents.leave_to_others()
        finally:
            self.refresh()

    async def _measure(self) -> None:
        while True:
            await asyncio.sleep(MEASURE_EVERY)
            names = self._offering.names
            for start in range(0, len(names), BATCH):
                for name in names[start : start + BATCH]:
                    self._look(name)
                await asyncio.sleep(0)
            if self._pending:
                self._wake.set()

    def _look(self, name: str) -> None:
        stats, entry = self._stats(name), self._catalog.get(name)
        if stats is not None and entry is not None and stats.calls != self._told.get(name, 0):
            self._pending.setdefault(name, entry)

    async def _write(self, batch: Mapping[str, Entry | None]) -> None:
        entries = [entry for entry in batch.values() if entry is not None and _ours(entry)]
        rights = {entry.name: self._rights(entry.signature) for entry in entries}
        gone = [name for name in batch if not rights.get(name, 0) & VIEW]
        for name in gone:
            self._told.pop(name, None)
        await self._offering.withdraw(gone)
        offered = [entry.function for entry in entries if rights[entry.name] & VIEW]
        if offered:
            described = await asyncio.to_thread(self._describe, offered, rights)
            await self._offering.offer(described)
        shown = {name: self._agent(entry) for entry in entries if rights[name := entry.name] & VIEW}
        agents = {name: one for name, one in shown.items() if one is not None}
        await self._agents.offer(agents, [name for name in batch if name not in agents])

    def _agent(self, entry: Entry) -> Mapping[str, Any] | None:
        """The agent that a function is; ``None`` where it is none."""
        facts = facts_of(entry.record.engine)
        if facts is None:
            return None
        stats = self._stats(entry.name)
        service = entry.function.service or self._service
        values = agent_capability(entry.signature, facts, self._identity, service, stats)
        return values if self._guard is None else self._guard.sign_agent(values)

    def _describe(self, offered: Sequence[Function], rights: Mapping[str, int]) -> dict[str, Capability]:
        now = time.time_ns() // 1_000_000
        described: dict[str, Capability] = {}
        for function in offered:
            signature = function.signature
            try:
                described[signature.name] = self._described(function, now, rights[signature.name])
            except (TypeError, ValueError, RecursionError) as failure:
                log.error("%s cannot be shown on the databus: %s", signature.name, failure)
        return described

    def _described(self, function: Function, now: int, rights: int) -> Capability:
        signature, service = function.signature, function.service or self._service
        self._describes(service)
        stats = self._stats(signature.name)
        if stats is not None:
            self._told[signature.name] = stats.calls
        capability = capability_of(
            signature, self._identity, service, now, public=rights & CALL != 0, stats=stats
        )
        return capability if self._guard is None else self._guard.sign_capability(capability)

    def _describes(self, service: str) -> None:
        """Answer ``enginehost.describe`` under the id that it has for who sees a function of ``service``."""
        self._describe_ids[self._identity.function_id(service, DESCRIBE)] = None


def _ours(entry: Entry) -> bool:
    """Whether it is for this host to offer: what others have here, they offer themselves."""
    return entry.record.kind != KIND and entry.name != DESCRIBE
