"""The host and its functions as they come, change and go: events for monitors."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from enginehost.databus.capability import shorten
from enginehost.databus.components import JOINING, OFFLINE, READY, Component, Followed, Shown
from enginehost.databus.outbox import Outbox
from enginehost.databus.types import (
    COMPONENT_LIFECYCLE_EVENT,
    COMPONENT_STATE,
    COMPONENT_TYPE,
    EVENT_CATEGORY,
)
from enginehost.databus.unified import EVENT, GENERAL, LIFECYCLE, unified
from enginehost.safe_text import Redact
from enginehost.values import encode

NODE_DISCOVERY, EDGE_DISCOVERY, STATE_CHANGE = "NODE_DISCOVERY", "EDGE_DISCOVERY", "STATE_CHANGE"
SERVICE_TO_FUNCTION = "SERVICE_TO_FUNCTION"
OFFERED = frozenset({"FUNCTION", "PRIMARY_AGENT", "SPECIALIZED_AGENT"})
"""Kinds of components that a host has: functions, and agents, which are functions too."""
ACTIVE = "ACTIVE"
"""The state of an edge."""

_MOST_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class Transition:
    """What became of a component; ``timestamp`` is in milliseconds since 1970."""

    component: Component
    previous: str
    category: str
    reason: str
    timestamp: int


class LifecycleEvents:
    """Tells of the host and of the functions that peers may view, while anybody listens.

    Who begins to listen where nobody did is told of all that is there. That a function runs a call is not
    told here (``BUSY``): chain events say it, and twice as many events would say nothing more.
    """

    def __init__(self, outbox: Outbox, shown: Shown, redact: Redact) -> None:
        self._outbox = outbox
        self._shown = shown
        self._redact = redact
        self._topics: frozenset[str] = frozenset()
        self._functions = Followed(shown)
        self._story: list[Transition] = []
        """How the host came to the state it is in."""

    def host(self, state: str, reason: str) -> None:
        """The host itself is in ``state`` now."""
        previous = self._story[-1].component.state if self._story else JOINING
        category = STATE_CHANGE if self._story else NODE_DISCOVERY
        step = Transition(self._shown.host(state), previous, category, reason, _now())
        self._story.append(step)
        self._tell(step, must=True)

    def listen(self, topics: frozenset[str]) -> None:
        """``topics`` are read from now on."""
        new, self._topics = topics - self._topics, topics
        if not topics:
            self._functions.stop()
        elif new:
            for step in self._story:
                self._tell(step, must=True)
            self._functions.known.clear()
            self._functions.start()

    def look(self) -> None:
        """Tell of what has changed, as far as there is room for it."""
        self._functions.look()
        while self._outbox.room(4 * _MOST_AT_ONCE):
            changes = self._functions.changes(_MOST_AT_ONCE)
            if not changes:
                return
            for before, after in changes:
                self._changed(before, after)

    def refresh(self) -> None:
        """What peers may view, or the host's id, has changed."""
        if self._story and self._story[-1].component.component_id != self._shown.host_id:
            self._story.clear()
            self.host(JOINING, "took another id")
            self.host(READY, "took another id")
        if self._functions.on:
            self._functions.again()

    def stop(self, reason: str) -> None:
        """The host leaves the bus, and all its functions with it."""
        self.look()
        for component in self._functions.known.values():
            self._tell(_step(_as(component, OFFLINE), component.state, STATE_CHANGE, reason))
        self.host(OFFLINE, reason)
        self._functions.stop()

    def _changed(self, before: Component | None, after: Component | None) -> None:
        if after is None:
            if before is not None:
                self._tell(_step(_as(before, OFFLINE), before.state, STATE_CHANGE, "removed"))
        elif before is None or before.component_id != after.component_id:
            self._tell(_step(after, JOINING, NODE_DISCOVERY, after.reason or "added"))
        else:
            self._tell(_step(after, before.state, STATE_CHANGE, after.reason or "changed"))

    def _tell(self, step: Transition, *, must: bool = False) -> None:
        last = step.component.state == OFFLINE
        if COMPONENT_LIFECYCLE_EVENT.name in self._topics:
            values = lifecycle_values(step, self._shown.host_id, self._redact)
            self._outbox.put(COMPONENT_LIFECYCLE_EVENT.name, values, last=last, must=must or last)
        if EVENT in self._topics:
            for values in unified_values(step, self._shown.host_id, self._redact):
                self._outbox.put(EVENT, values, must=must)


def lifecycle_values(step: Transition, host_id: str, redact: Redact) -> dict[str, Any]:
    """A transition as ``COMPONENT_LIFECYCLE_EVENT``: members by name, enumerators by number."""
    component = step.component
    offered = component.kind in OFFERED
    bound = COMPONENT_LIFECYCLE_EVENT.bound
    return {
        "component_id": component.component_id,
        "component_type": COMPONENT_TYPE.value(component.kind),
        "previous_state": COMPONENT_STATE.value(step.previous),
        "new_state": COMPONENT_STATE.value(component.state),
        "timestamp": step.timestamp,
        "reason": shorten(redact(step.reason), bound("reason")),
        "capabilities": fitted_json(component.about, bound("capabilities")),
        "chain_id": "",
        "call_id": "",
        "event_category": EVENT_CATEGORY.value(step.category),
        "source_id": host_id,
        "target_id": component.component_id if offered else "",
        "connection_type": SERVICE_TO_FUNCTION if offered else "",
    }


def unified_values(step: Transition, host_id: str, redact: Redact) -> list[dict[str, Any]]:
    """A transition in the second era: of a function that comes, also its edge and its discovery."""
    component = step.component
    reason = shorten(redact(step.reason), COMPONENT_LIFECYCLE_EVENT.bound("reason"))
    name, component_id = component.name, component.component_id

    def event(kind: int, about: str, message: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        return unified(kind, uuid.uuid4().hex, about, step.timestamp, message, payload)

    payload = {
        "previous_state": step.previous,
        "new_state": component.state,
        "reason": reason,
        "capabilities": component.about,
        "component_type": component.kind,
    }
    found = [event(LIFECYCLE, component_id, f"{name} is {component.state}", payload)]
    if component.kind not in OFFERED or step.category != NODE_DISCOVERY:
        return found
    edge = payload | {
        "previous_state": ACTIVE,
        "new_state": ACTIVE,
        "component_type": SERVICE_TO_FUNCTION,
        "event_category": EDGE_DISCOVERY,
    }
    discovery: dict[str, Any] = {
        "event_type": "FUNCTION_DISCOVERY",
        "entity_type": "FUNCTION" if component.kind == "FUNCTION" else "AGENT",
        "entity_id": component_id,
        "metadata": component.about,
        "call_data": {},
        "result_data": {},
        "status_data": {"state": component.state},
    }
    found.append(event(LIFECYCLE, edge_id(host_id, component_id), f"{name} is offered", edge))
    found.append(event(GENERAL, component_id, f"{name} was discovered", discovery))
    return found


def edge_id(host_id: str, function_id: str) -> str:
    """The id of the edge from a host to its function."""
    return f"{host_id}|{function_id}|{SERVICE_TO_FUNCTION}"


def fitted_json(about: Mapping[str, Any], bound: int) -> str:
    """Facts as JSON within ``bound`` UTF-8 bytes: without its longest members, where it must be."""
    left = dict(about)
    while len(text := encode(left)) > bound:
        longest = max(left, key=lambda name: len(encode(left[name])))
        del left[longest]
    return text.decode()


def _step(component: Component, previous: str, category: str, reason: str) -> Transition:
    return Transition(component, previous, category, reason, _now())


def _as(component: Component, state: str) -> Component:
    return Component(component.component_id, component.kind, component.name, state, component.about)


def _now() -> int:
    return time.time_ns() // 1_000_000
