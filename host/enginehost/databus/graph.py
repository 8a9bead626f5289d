"""The host and its functions in the second era's picture of all components: durable nodes and edges."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from enginehost.databus.capability import shorten
from enginehost.databus.components import OFFLINE, READY, Became, Component, Followed, Shown
from enginehost.databus.lifecycle_events import ACTIVE, SERVICE_TO_FUNCTION, edge_id
from enginehost.databus.port import Transport
from enginehost.databus.types import GRAPH_ELEMENT_KIND
from enginehost.safe_text import Redact
from enginehost.values import encode

log = logging.getLogger("enginehost.databus")

TOPOLOGY = "rti/connext/genesis/monitoring/GraphTopology"
"""The topic."""

BATCH = 100
"""Functions written in one go; between two the event loop has its turn."""

WRITE_PATIENCE = 30.0
"""Seconds that writing one batch may take; then the next has its turn."""

_LEAVE_PATIENCE = 1.0
_REASON_BOUND = 1_024


class Graph:
    """Keeps the nodes and edges on the bus equal to what peers may view of the host."""

    def __init__(self, transport: Transport, shown: Shown, redact: Redact) -> None:
        self._transport = transport
        self._shown = shown
        self._redact = redact
        self._host = shown.host(READY)
        self._wake = asyncio.Event()
        self._fresh = True
        """Whether the node of the host itself is to be written."""
        self._functions = Followed(shown, self._wake.set)
        self._functions.start()
        self._task = asyncio.get_running_loop().create_task(self._follow(), name="databus-graph")

    def look(self) -> None:
        """Note changes of states."""
        self._functions.look()

    def refresh(self) -> None:
        """Write everything anew: what peers may view or the host's id has changed, or they forgot it."""
        self._host = self._shown.host(READY)
        self._fresh = True
        self._functions.again()

    async def close(self) -> None:
        """Take everything back."""
        self._task.cancel()
        await asyncio.wait((self._task,))
        gone = [Became(component, None) for component in self._functions.known.values()]
        self._functions.stop()
        try:
            async with asyncio.timeout(_LEAVE_PATIENCE):
                offline = self._shown.host(OFFLINE, "the host stops")
                await self._transport.put(TOPOLOGY, [self._node(offline)])
                await self._write(gone)
                await self._transport.drop(TOPOLOGY, [offline.component_id])
        except TimeoutError:
            log.warning("monitors are slow to hear that functions go; leaving the bus tells them too")
        except Exception:  # the plugin boundary: the host stops in any case
            log.exception("monitors do not hear that functions go")

    async def _follow(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while True:
                fresh, self._fresh = self._fresh, False
                changes = self._functions.changes(BATCH)
                if not fresh and not changes:
                    break
                try:
                    async with asyncio.timeout(WRITE_PATIENCE):
                        if fresh:
                            await self._transport.put(TOPOLOGY, [self._node(self._host)])
                        await self._write(changes)
                except Exception:  # the plugin boundary: a transport that fails once may recover
                    log.exception("monitors do not hear of %d functions", len(changes))

    async def _write(self, changes: list[Became]) -> None:
        gone = [before for before, after in changes if before is not None and after is None]
        there = [after for _, after in changes if after is not None]
        samples = [self._node(component) for component in there] + [self._edge(one) for one in there]
        samples += [self._node(component, OFFLINE) for component in gone]
        if samples:
            await self._transport.put(TOPOLOGY, samples)
        if gone:
            edges = [edge_id(one.about["provider_id"], one.component_id) for one in gone]
            await self._transport.drop(TOPOLOGY, [one.component_id for one in gone] + edges)

    def _node(self, component: Component, state: str = "") -> dict[str, Any]:
        state = state or component.state
        reason = shorten(self._redact(component.reason), _REASON_BOUND)
        metadata = {
            "node_type": component.kind,
            "node_state": state,
            "capabilities": component.about | {"reason": reason},
        }
        return _element("NODE", component.component_id, component.name, component.kind, state, metadata)

    def _edge(self, component: Component) -> dict[str, Any]:
        host_id, function_id = component.about["provider_id"], component.component_id
        metadata = {
            "source_id": host_id,
            "target_id": function_id,
            "edge_type": SERVICE_TO_FUNCTION,
            "attributes": {"name": component.name, "service_name": self._shown.service},
        }
        name, edge = edge_id(host_id, function_id), SERVICE_TO_FUNCTION
        return _element("EDGE", name, component.name, edge, ACTIVE, metadata)


def _element(
    kind: str, element_id: str, name: str, component_type: str, state: str, metadata: dict[str, Any]
) -> dict[str, Any]:
    return {
        "element_id": element_id,
        "kind": GRAPH_ELEMENT_KIND.value(kind),
        "timestamp": time.time_ns() // 1_000_000,
        "component_name": name,
        "component_type": component_type,
        "state": state,
        "metadata": encode(metadata).decode(),
    }
