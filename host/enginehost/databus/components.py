"""The components of a host that monitors see, and what became of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from enginehost.agents.facts import facts_of
from enginehost.catalog import Catalog, Change, Entry
from enginehost.databus.capability import shorten
from enginehost.databus.directory import KIND as OTHERS
from enginehost.databus.identity import Identity
from enginehost.databus.types import FUNCTION_CAPABILITY
from enginehost.engine import EngineState
from enginehost.monitoring.versions import Versions
from enginehost.policy import VIEW
from enginehost.signature import FunctionSignature
from enginehost.steps import StepKind

NAME_BOUND = FUNCTION_CAPABILITY.bound("name")

JOINING, READY, DEGRADED, OFFLINE = "JOINING", "READY", "DEGRADED", "OFFLINE"
"""The states that are published, as ``COMPONENT_STATE`` in ``types.py`` names them."""


@dataclass(frozen=True, slots=True)
class Component:
    """A host (``SERVICE``), a function (``FUNCTION``) or an agent of it, or an interface.

    An agent is a ``PRIMARY_AGENT`` where it answers by default, else a ``SPECIALIZED_AGENT``.
    """

    component_id: str
    kind: str
    name: str
    state: str
    about: dict[str, Any]
    """Facts, as a JSON object."""
    reason: str = ""


class Became(NamedTuple):
    """A component before and after a change; ``None`` where there was, or is, none."""

    before: Component | None
    after: Component | None


class Shown:
    """What of a host its peers may know: its id, and those functions that they may view.

    ``rights`` says what peers may do with a function (see ``policy.py``).
    """

    def __init__(
        self, catalog: Catalog, identity: Identity, service: str, rights: Callable[[FunctionSignature], int]
    ) -> None:
        self.catalog = catalog
        self.service = service
        self._identity = identity
        self._rights = rights
        self._versions = Versions()

    @property
    def host_id(self) -> str:
        """The ``provider_id`` of the host's functions."""
        return self._identity.host_id

    def function_id(self, name: str) -> str:
        """The id on the bus of the function ``name``; empty where peers may not know that there is one."""
        entry = self.catalog.get(name)
        return self._id(entry) if entry is not None else ""

    @property
    def incarnation(self) -> str:
        """Which start of the host this is."""
        return self._identity.incarnation

    def called(self, name: str) -> tuple[str, str]:
        """Id and name of a function that is called; empty where peers may not know that there is one.

        Of a function of another host there is no id here. What is no function is what a caller made up.
        """
        entry = self.catalog.get(name)
        if entry is None:
            return "", ""
        function_id = self._id(entry)
        return function_id, shorten(
            entry.name, NAME_BOUND
        ) if function_id or entry.record.kind == OTHERS else ""

    def step(self, kind: StepKind, name: str) -> tuple[str, str]:
        """Likewise of what a step names: a function, an agent, a tool of an agent's own, a model."""
        if kind in (StepKind.MODEL, StepKind.CHOICE) or self.catalog.get(name) is None:
            return "", shorten(name, NAME_BOUND)
        return self.called(name)

    def version(self, name: str) -> str:
        """A hash of a function's signature: whether it is the same function still."""
        entry = self.catalog.get(name)
        return self._versions.of(entry.signature) if entry is not None else ""

    def function(self, name: str) -> Component | None:
        """The function ``name`` as peers see it."""
        entry = self.catalog.get(name)
        if entry is None or entry.name != name or not (function_id := self._id(entry)):
            return None
        name = shorten(name, NAME_BOUND)
        about = {
            "name": name,
            "service_name": entry.function.service or self.service,
            "provider_id": self.host_id,
            "tags": [shorten(tag, NAME_BOUND) for tag in entry.signature.tags],
            "streaming": entry.signature.streaming,
        }
        reason = entry.record.shown_reason
        facts = facts_of(entry.record.engine)
        kind = "FUNCTION"
        if facts is not None:
            kind = "PRIMARY_AGENT" if facts.default_capable else "SPECIALIZED_AGENT"
            about["specializations"] = [shorten(one, NAME_BOUND) for one in facts.specializations]
        return Component(function_id, kind, name, state_of(entry), about, reason)

    def host(self, state: str, reason: str = "") -> Component:
        """The host itself."""
        about = {"service_name": self.service, "incarnation": self._identity.incarnation}
        return Component(self.host_id, "SERVICE", self.service, state, about, reason)

    def _id(self, entry: Entry) -> str:
        if entry.record.kind == OTHERS or not self._rights(entry.signature) & VIEW:
            return ""
        return self._identity.function_id(entry.function.service or self.service, entry.name)


def state_of(entry: Entry) -> str:
    """A function's state in Genesis's words: one is degraded whose file has a newer version that fails."""
    return DEGRADED if entry.record.state is EngineState.STALE else READY


class Followed:
    """The functions that peers see, and which of them have changed since somebody last asked.

    ``wake`` is called when there is something to ask for.
    """

    def __init__(self, shown: Shown, wake: Callable[[], None] = lambda: None) -> None:
        self.known: dict[str, Component] = {}
        self._shown = shown
        self._wake = wake
        self._pending: dict[str, None] = {}
        self._version = shown.catalog.version
        self._unsubscribe: Callable[[], None] | None = None

    @property
    def on(self) -> bool:
        """Whether changes are noted."""
        return self._unsubscribe is not None

    def start(self) -> None:
        """Follow from now on; what is there already comes as a change."""
        if not self.on:
            self._unsubscribe = self._shown.catalog.subscribe(self._heard)
        self.again()

    def stop(self) -> None:
        """Follow no longer, and forget all."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        self.known.clear()
        self._pending.clear()

    def again(self) -> None:
        """Let every function come as a change once more."""
        self._pending |= dict.fromkeys(self.known) | {entry.name: None for entry in self._shown.catalog}
        self._wake()

    def look(self) -> None:
        """Note functions whose engine has changed its state without a change of the function."""
        catalog = self._shown.catalog
        if not self.on or catalog.version == self._version:
            return
        self._version = catalog.version
        for name, component in self.known.items():
            entry = catalog.get(name)
            if entry is not None and state_of(entry) != component.state:
                self._pending[name] = None
        if self._pending:
            self._wake()

    def changes(self, most: int) -> list[Became]:
        """The next changes, of so many functions at most."""
        found: list[Became] = []
        for name in list(islice(self._pending, most)):
            del self._pending[name]
            before, after = self.known.pop(name, None), self._shown.function(name)
            if after is not None:
                self.known[name] = after
            if before is not None or after is not None:
                found.append(Became(before, after))
        return found

    def _heard(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self._pending[change.entry.name] = None
        self._wake()
