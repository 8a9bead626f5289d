"""A step of a chain as somebody saw it, in one piece or in several that come in any order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from enginehost.errors import ERROR_TABLE, is_failure

_CODES = {row.bus: code for code, row in ERROR_TABLE.items()}


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of a step; a member that is empty is not known (yet).

    ``chain`` and ``call`` are the W3C trace and span id, ``parent`` the ``call`` of the step in which it
    happened. ``kind`` is one of :class:`~enginehost.steps.StepKind`. ``started`` and ``ended`` are seconds
    since 1970 by the clock of ``host`` (its id on the bus, else ``local``); ``seconds`` is measured.
    ``outcome`` is ``ok`` or an error code, empty while it runs. ``version`` is a hash of the function's
    signature and ``start`` the incarnation of the host. ``given`` and ``gave`` are JSON.
    """

    chain: str
    call: str
    parent: str = ""
    kind: str = ""
    name: str = ""
    host: str = ""
    source: str = ""
    agent: str = ""
    started: float = 0.0
    ended: float = 0.0
    seconds: float = -1.0
    outcome: str = ""
    version: str = ""
    start: str = ""
    function_id: str = ""
    about: str = ""
    given: str = ""
    gave: str = ""

    @property
    def failed(self) -> bool:
        """Whether it ended with an error. A wait for a person is none."""
        return is_failure(self.outcome)

    @property
    def running(self) -> bool:
        """Whether its end was not seen."""
        return not self.outcome

    @property
    def duration(self) -> float | None:
        """Seconds: as measured, else by the clock; ``None`` while it runs."""
        if self.seconds >= 0:
            return self.seconds
        return max(0.0, self.ended - self.started) if self.ended and self.started else None

    def to_json(self) -> dict[str, Any]:
        """What is known, as a JSON object: ``given``, ``gave`` and ``about`` as values."""
        from enginehost.monitoring.texts import value_of

        found = {one.name: getattr(self, one.name) for one in fields(self)}
        known = {name: value for name, value in found.items() if value not in ("", 0.0, -1.0)}
        for name in ("about", "given", "gave"):
            if name in known:
                known[name] = value_of(known[name])
        if (seconds := self.duration) is not None:
            known["duration_ms"] = round(seconds * 1000, 4)
        known.pop("seconds", None)
        return known | {"status": self.outcome or "running"}


def merged(one: Seen, other: Seen) -> Seen:
    """Two sights of one step as one. Order and repetition change nothing."""
    changes: dict[str, Any] = {}
    for name in _NAMES:
        mine, theirs = getattr(one, name), getattr(other, name)
        if mine != theirs:
            changes[name] = _first(mine, theirs) if name == "started" else max(mine, theirs)
    if "outcome" in changes:
        changes["outcome"] = _told(one.outcome, other.outcome)
    return replace(one, **changes) if changes else one


def code_of(status: int) -> str:
    """The outcome that a status on the bus stands for."""
    return "ok" if status == 0 else _CODES.get(status, "internal")


_NAMES = tuple(one.name for one in fields(Seen))[2:]


def _first(mine: float, theirs: float) -> float:
    return min(mine, theirs) if mine and theirs else max(mine, theirs)


def _told(mine: str, theirs: str) -> str:
    """An error goes before ``ok``, and anything before nothing."""
    known = sorted({mine, theirs} - {"", "ok"})
    return known[-1] if known else max(mine, theirs)


@dataclass(slots=True)
class Node:
    """A step with those that happened within it, in the order in which they began."""

    seen: Seen
    below: list[Node] = field(default_factory=list["Node"])


def tree_of(steps: Mapping[str, Seen]) -> list[Node]:
    """The steps of one chain (by call id) as trees, in the order in which they began.

    A step whose parent was not seen stands at the top; so does one that would be its own ancestor.
    """
    nodes = {call: Node(seen) for call, seen in steps.items()}
    tops = [node for call, node in nodes.items() if not _has_place(call, steps)]
    for call, node in nodes.items():
        if _has_place(call, steps):
            nodes[steps[call].parent].below.append(node)
    for node in nodes.values():
        node.below.sort(key=_when)
    return sorted(tops, key=_when)


def _has_place(call: str, steps: Mapping[str, Seen]) -> bool:
    """Whether going up from a step's parent ends at a top. In a circle, its least member is the top."""
    parent = steps[call].parent
    if parent not in steps:
        return False
    way = [call]
    while parent in steps and parent not in way:
        way.append(parent)
        parent = steps[parent].parent
    circle = way[way.index(parent) :] if parent in way else []
    return not circle or call not in circle or call != min(circle)


def _when(node: Node) -> tuple[float, str]:
    return node.seen.started or node.seen.ended, node.seen.call
