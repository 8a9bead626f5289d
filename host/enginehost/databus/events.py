"""What the host tells monitors on the bus: components, calls, log, as far as anybody listens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

from enginehost.catalog import Catalog
from enginehost.databus.chain_events import ChainEvents, WatchedCalls
from enginehost.databus.components import JOINING, READY, Shown
from enginehost.databus.config import DatabusConfig
from enginehost.databus.graph import Graph
from enginehost.databus.identity import Identity
from enginehost.databus.lifecycle_events import LifecycleEvents
from enginehost.databus.log_events import LEVELS, LOGS, LogEvents
from enginehost.databus.outbox import Outbox
from enginehost.databus.port import Transport
from enginehost.databus.types import CHAIN_EVENT, COMPONENT_LIFECYCLE_EVENT, MONITORING_EVENT
from enginehost.databus.unified import EVENT
from enginehost.safe_text import Redact
from enginehost.signature import FunctionSignature

log = logging.getLogger("enginehost.databus")

LOOK_EVERY = 0.25
"""Seconds between two looks at who listens."""

LAST_RECORDS = 0.2
"""Seconds in which the records of the last calls come, when the host stops."""

LAST_EVENTS = 0.5
"""Seconds that the last events may take to be written."""

_LIFECYCLE = frozenset({COMPONENT_LIFECYCLE_EVENT.name, EVENT})
_CHAIN = frozenset({CHAIN_EVENT.name, MONITORING_EVENT.name, EVENT})
_FIRST_ERA = (COMPONENT_LIFECYCLE_EVENT.name, CHAIN_EVENT.name, MONITORING_EVENT.name)


class EventHost(WatchedCalls, Protocol):
    """What events need of a host."""

    @property
    def catalog(self) -> Catalog:
        """Its functions."""
        ...

    @property
    def redactor(self) -> Redact:
        """Takes known secrets out of a text."""
        ...


class Events:
    """The host's events, from :meth:`start` to :meth:`stop`. Made and used on the event loop.

    ``rights`` says what peers may do with a function (see ``policy.py``): of one that they may not view no
    event tells the id or the name. On an interface that others can reach, events do not name callers.
    """

    def __init__(
        self,
        transport: Transport,
        host: EventHost,
        identity: Identity,
        config: DatabusConfig,
        rights: Callable[[FunctionSignature], int],
    ) -> None:
        self._transport = transport
        self._host = host
        self._config = config
        self._second_era = config.second_era
        self._shown = Shown(host.catalog, identity, config.service, rights)
        self._outbox = Outbox(transport)
        self._level = log_level(config)
        topics = (*_FIRST_ERA, *((LOGS,) if self._level else ()), *((EVENT,) if self._second_era else ()))
        self._topics = topics if config.events else ()
        self._listened: frozenset[str] = frozenset()
        self._parts: _Parts | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Tell of the host, and of what happens in it, from now on."""
        if not self._topics:
            return
        self._parts = parts = _Parts(self._transport, self._host, self._shown, self._outbox, self._config)
        parts.lifecycle.host(JOINING, "joins the databus")
        parts.lifecycle.host(READY, "is on the databus")
        running = (self._outbox.run(), self._keep_looking(parts))
        self._tasks = [asyncio.get_running_loop().create_task(one, name="databus-events") for one in running]

    async def stop(self) -> None:
        """Tell of the last calls and of the end; then of nothing more."""
        parts, self._parts = self._parts, None
        if parts is None:
            return
        writing, looking = self._tasks
        looking.cancel()
        try:
            if self._listened:
                await parts.chains.ended(LAST_RECORDS)
                parts.lifecycle.stop("the host stops")
                await self._outbox.emptied(LAST_EVENTS)
        finally:
            parts.close()
            writing.cancel()
            await asyncio.wait(self._tasks)
            if parts.graph is not None:
                await parts.graph.close()

    def refresh(self) -> None:
        """What peers may view or the host's id has changed, or peers have forgotten what they had."""
        if self._parts is not None:
            self._parts.lifecycle.refresh()
            if self._parts.graph is not None:
                self._parts.graph.refresh()

    def describe(self) -> dict[str, Any]:
        """Facts for an operator, as a JSON object."""
        return {
            "listened": sorted(self._listened),
            "sent": self._outbox.sent,
            "dropped": self._outbox.dropped,
        }

    async def _keep_looking(self, parts: _Parts) -> None:
        failing = False
        while True:
            try:
                self._look(parts)
                failing = False
            except Exception:  # the plugin boundary: a transport that fails once may recover
                if not failing:
                    log.exception("the databus cannot say who listens to events")
                failing = True
            await asyncio.sleep(LOOK_EVERY)

    def _look(self, parts: _Parts) -> None:
        listened = frozenset(topic for topic in self._topics if self._transport.listened(topic))
        if listened != self._listened:
            self._listened = listened
            parts.chains.listen(listened & _CHAIN)
            parts.lifecycle.listen(listened & _LIFECYCLE)
            parts.logs.listen(LOGS in listened)
        if listened & _LIFECYCLE:
            parts.lifecycle.look()
        if parts.graph is not None:
            parts.graph.look()


class _Parts:
    """What there is while events are told."""

    def __init__(
        self, transport: Transport, host: EventHost, shown: Shown, outbox: Outbox, config: DatabusConfig
    ) -> None:
        redact = host.redactor
        self.chains = ChainEvents(
            host, outbox, shown, naming=config.loopback, values=config.event_values, redact=redact
        )
        self.lifecycle = LifecycleEvents(outbox, shown, redact)
        self.logs = LogEvents(outbox, shown, redact, log_level(config) or logging.CRITICAL)
        self.graph = Graph(transport, shown, redact) if config.second_era else None

    def close(self) -> None:
        self.logs.listen(wanted=False)
        self.chains.close()


def log_level(config: DatabusConfig) -> int | None:
    """The least severe level of the log that is told on the bus; ``None`` where none of it is."""
    if config.log_level == "auto":
        return logging.WARNING if config.loopback else None
    return LEVELS.get(config.log_level)
