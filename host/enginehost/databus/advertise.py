"""Keeps the bus equal to the catalog: one capability per function while it can be called."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from enginehost.catalog import Catalog, Change, ChangeKind, Entry
from enginehost.databus.capability import capability_of
from enginehost.databus.identity import Identity
from enginehost.databus.port import Capability, Transport
from enginehost.policy import CALL, VIEW
from enginehost.signature import FunctionSignature

log = logging.getLogger("enginehost.databus")

BATCH = 100
"""Functions described and written in one go, on a thread; between two the event loop has its turn."""

GONE_KEPT = 10_000
"""Ids of functions that went: a peer that calls one late is told so."""

WRITE_PATIENCE = 30.0
"""Seconds that writing one batch may take; then the next has its turn."""

WITHDRAW_PATIENCE = 1.0
"""Seconds that withdrawing everything may take when the host leaves the bus."""


class Advertiser:
    """Follows the catalog. ``rights`` says what peers may do with a function (see ``policy.py``).

    Changes are noted at once and written by one task in order; of several changes of one function
    only the last is written.
    """

    def __init__(
        self,
        catalog: Catalog,
        transport: Transport,
        identity: Identity,
        service: str,
        rights: Callable[[FunctionSignature], int],
    ) -> None:
        self._catalog = catalog
        self._transport = transport
        self._identity = identity
        self._service = service
        self._rights = rights
        self._names: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._gone: dict[str, str] = {}
        self._pending: dict[str, Entry | None] = {}
        self._writing = 0
        self._wake = asyncio.Event()
        self.refresh()
        self._unsubscribe = catalog.subscribe(self._heard)
        self._task = asyncio.get_running_loop().create_task(self._follow(), name="databus-advertiser")

    @property
    def offered(self) -> int:
        """Functions that are on the bus now."""
        return len(self._names)

    @property
    def pending(self) -> int:
        """Functions whose latest state is not yet written."""
        return len(self._pending) + self._writing

    def name_of(self, function_id: str) -> str | None:
        """The function of ours that has this id, also one that went; ``None`` for other hosts' ids."""
        return self._names.get(function_id) or self._gone.get(function_id)

    def refresh(self) -> None:
        """Write everything anew: what peers may see has changed."""
        self._pending = dict.fromkeys(self._ids) | {entry.name: entry for entry in self._catalog}
        self._wake.set()

    async def close(self) -> None:
        """Stop following, and withdraw all functions."""
        self._unsubscribe()
        self._task.cancel()
        await asyncio.wait((self._task,))
        try:
            async with asyncio.timeout(WITHDRAW_PATIENCE):
                await self._withdraw(list(self._ids))
        except TimeoutError:
            log.warning("peers are slow to hear that functions go; leaving the bus tells them too")

    def _heard(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self._pending[change.entry.name] = None if change.kind is ChangeKind.REMOVED else change.entry
        self._wake.set()

    async def _follow(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._pending:
                batch = {name: self._pending.pop(name) for name in list(islice(self._pending, BATCH))}
                self._writing = len(batch)
                try:
                    async with asyncio.timeout(WRITE_PATIENCE):
                        await self._write(batch)
                except Exception:  # the plugin boundary: a transport that fails once may recover
                    log.exception("the databus does not hear of %s", ", ".join(batch))
                self._writing = 0

    async def _write(self, batch: Mapping[str, Entry | None]) -> None:
        rights = {name: self._rights(entry.signature) for name, entry in batch.items() if entry}
        await self._withdraw([name for name in batch if not rights.get(name, 0) & VIEW and name in self._ids])
        offered = [(entry.signature, rights[name]) for name, entry in batch.items() if entry]
        await self._offer([(signature, may) for signature, may in offered if may & VIEW])

    async def _offer(self, offered: Sequence[tuple[FunctionSignature, int]]) -> None:
        described = await asyncio.to_thread(self._describe, offered) if offered else {}
        for name, capability in described.items():
            self._names[capability.function_id] = name
            self._ids[name] = capability.function_id
            self._gone.pop(capability.function_id, None)
        if described:
            await self._transport.publish(list(described.values()))

    def _describe(self, offered: Sequence[tuple[FunctionSignature, int]]) -> dict[str, Capability]:
        now = time.time_ns() // 1_000_000
        described: dict[str, Capability] = {}
        for signature, rights in offered:
            public = rights & CALL != 0
            try:
                described[signature.name] = capability_of(
                    signature, self._identity, self._service, now, public=public
                )
            except (TypeError, ValueError, RecursionError) as failure:
                log.error("%s cannot be shown on the databus: %s", signature.name, failure)
        return described

    async def _withdraw(self, names: Sequence[str]) -> None:
        ids = [self._ids.pop(name) for name in names]
        for name, function_id in zip(names, ids, strict=True):
            del self._names[function_id]
            self._gone[function_id] = name
        for oldest in list(islice(self._gone, max(0, len(self._gone) - GONE_KEPT))):
            del self._gone[oldest]
        if ids:
            await self._transport.withdraw(ids)
