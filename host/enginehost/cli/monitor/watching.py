"""What a monitor knows: components, chains, rates, errors; told event by event."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from enginehost.databus.config import DatabusConfig
from enginehost.databus.heard_events import (
    GONE,
    IMPLIED,
    TOPICS_HEARD,
    VANISHED,
    ComponentSeen,
    Heard,
    LogSeen,
    heard,
)
from enginehost.databus.transports import load_cyclone
from enginehost.monitoring.chains import Chains, component_of
from enginehost.monitoring.seen import Seen, tree_of

MOST_COMPONENTS = 10_000
MOST_ERRORS = 200
RATE_SECONDS = 10.0
TICK = 0.1


@dataclass(frozen=True, slots=True)
class Filter:
    """What is shown. ``component`` is a part of a name or an id; ``chain`` the beginning of an id."""

    component: str = ""
    chain: str = ""
    errors: bool = False

    def lets_in(self, one: Heard, name: str = "") -> bool:
        """Whether an event is one of those that are asked for."""
        if isinstance(one, LogSeen):
            return not self.component and not self.chain
        if isinstance(one, ComponentSeen):
            words = (one.name, one.id, one.service)
            return not self.chain and not self.errors and self._is_meant(words)
        words = (one.name, name, one.function_id, one.agent, one.host)
        return one.chain.startswith(self.chain) and (one.failed or not self.errors) and self._is_meant(words)

    def lets_chain_in(self, chain: str, steps: Mapping[str, Seen], names: Mapping[str, str]) -> bool:
        """Whether a chain has a step that is asked for."""
        return chain.startswith(self.chain) and any(
            self.lets_in(one, names.get(one.function_id, "")) for one in steps.values()
        )

    def _is_meant(self, words: tuple[str, ...]) -> bool:
        wanted = self.component.casefold()
        return not wanted or any(wanted in word.casefold() for word in words)


class Watched:
    """Takes what is heard; the parts say what is known."""

    def __init__(self) -> None:
        self.chains = Chains()
        self.components: dict[str, ComponentSeen] = {}
        self.names: dict[str, str] = {}
        """Of functions and agents, by id; also of those that went."""
        self.errors: deque[Seen | LogSeen] = deque(maxlen=MOST_ERRORS)
        self.events = 0

    def take(self, one: Heard) -> Heard | None:
        """What is known now; ``None`` where that is nothing new."""
        if isinstance(one, ComponentSeen):
            return self._component(one)
        self.events += 1
        if isinstance(one, LogSeen):
            self.errors.append(one)
            return one
        named = self.names.get(one.name, one.name) or self.names.get(one.function_id, "")
        if named != one.name:
            one = replace(one, name=named)
        before = self.chains.steps(one.chain).get(one.call)
        known = self.chains.take(one, time.monotonic())
        if known.failed and (before is None or not before.failed):
            self.errors.append(known)
        return known if known != before else None

    def _component(self, one: ComponentSeen) -> ComponentSeen | None:
        before = self.components.get(one.id)
        if one.reason == IMPLIED and before is not None and before.state != "OFFLINE":
            return None
        if not one.kind:  # only that it went is known
            if before is None or (one.reason == GONE and not _is_program(before)):
                return None
            one = replace(before, state=one.state, reason=one.reason, time=time.time())
            if one.reason in (VANISHED, GONE):
                self.chains.lose({one.id, one.host} - {""}, time.time())
                self._implied_no_more(one.host)
        if before is not None and before.kind.endswith("_AGENT") and one.kind == "FUNCTION":
            one = replace(one, kind=before.kind)  # an agent is a function too
        if one.name:
            self.names[one.id] = one.name
        self.components.pop(one.id, None)
        self.components[one.id] = one
        if len(self.components) > MOST_COMPONENTS:
            del self.components[next(iter(self.components))]
        same = before is not None and (before.kind, before.name, before.state) == (
            one.kind,
            one.name,
            one.state,
        )
        return None if same else one

    def _implied_no_more(self, host: str) -> None:
        """A host vanished with its functions; of one that never told of itself nobody else says so."""
        known = self.components.get(host)
        if known is not None and known.reason == IMPLIED:
            self.components[host] = replace(known, state="OFFLINE", reason=GONE, time=time.time())

    def rates(self) -> dict[str, tuple[float, float]]:
        """Steps and errors a second, by component."""
        return self.chains.rates(time.monotonic(), RATE_SECONDS)

    def graph(self) -> dict[str, Any]:
        """Who is there, and who called whom in the chains that were seen."""
        edges: dict[tuple[str, str], list[float]] = {}
        for _, steps in self.chains.latest():
            waiting = [(top, top.seen.source) for top in tree_of(steps)]
            while waiting:
                node, source = waiting.pop()
                name = self._name(node.seen)
                ends = self.names.get(source, source) or "?", name
                count = edges.setdefault(ends, [0, 0, 0.0])
                count[0] += 1
                count[1] += node.seen.failed
                count[2] = max(count[2], node.seen.ended or node.seen.started)
                waiting += [(below, name) for below in node.below]
        nodes = [
            {"id": one.id, "kind": one.kind, "name": one.name, "state": one.state, "host": one.host}
            | {"service": one.service, "host_name": self.names.get(one.host, "")}
            for one in self.components.values()
        ]
        found = [
            {"from": source, "to": target, "calls": int(calls), "errors": int(errors), "last": last}
            for (source, target), (calls, errors, last) in sorted(edges.items())
        ]
        return {"nodes": nodes, "edges": found}

    def _name(self, seen: Seen) -> str:
        """Whose step it is: also where its name became known later."""
        return seen.name or self.names.get(seen.function_id, "") or component_of(seen)


def _is_program(one: ComponentSeen) -> bool:
    """Whether it is a host or an interface that is there, as far as is known."""
    return one.kind in ("SERVICE", "INTERFACE") and one.state != "OFFLINE"


def listening(config: DatabusConfig, seconds: float | None) -> Iterator[list[Heard]]:
    """What is heard, tick by tick, for so many seconds (or for ever). Raises ``EngineUnavailable``."""
    end = None if seconds is None else time.monotonic() + seconds
    with load_cyclone("listening").Listener(config, TOPICS_HEARD) as listener:
        while end is None or time.monotonic() < end:
            yield [one for taken in listener.take(TICK) for one in heard(*taken)]
