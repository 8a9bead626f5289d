"""Why a chain went as it did: the step that it failed at, or that took the time, and what was different."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from enginehost.errors import OutcomeUnknown, WaitsForPerson
from enginehost.monitoring.seen import Node, Seen, tree_of

_NOTABLE = 0.05
"""Share of a step's time from which on a wait is worth a word."""


@dataclass(frozen=True, slots=True)
class Waited:
    """What a step spent its time on. ``share`` is of the step's own time."""

    what: str
    seconds: float
    share: float


@dataclass(frozen=True, slots=True)
class Cause:
    """``verdict`` is ``failed``, ``unfinished`` (a step began and its end was not seen), ``waits`` (for a
    person) or ``slowest``. ``because`` says more of the end of the step, where more is known.

    ``way`` are the names from the first step to the cause. ``changed`` says what was different when the
    chain's first function last worked; ``last_good`` is that chain.
    """

    verdict: str
    step: Seen
    way: tuple[str, ...]
    waited: tuple[Waited, ...] = ()
    changed: tuple[str, ...] = ()
    last_good: str = ""
    failed_too: tuple[str, ...] = field(default=())
    because: str = ""

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        waits = [
            {"what": w.what, "ms": round(w.seconds * 1000, 3), "share": round(w.share, 3)}
            for w in self.waited
        ]
        return {
            "verdict": self.verdict,
            "step": self.step.to_json(),
            "way": list(self.way),
            "waited": waits,
            "changed": list(self.changed),
            "last_good": self.last_good,
            "failed_too": list(self.failed_too),
            "because": self.because,
        }


def cause_of(
    steps: Mapping[str, Seen],
    last_good: str = "",
    before: Mapping[str, Seen] | None = None,
    *,
    waits: bool = False,
) -> Cause | None:
    """The cause; ``before`` are the steps of the chain ``last_good``. ``None`` for a chain without steps.

    ``waits``: the chain waits for a person now.
    """
    tops = tree_of(steps)
    ways = _ways(tops)
    if not ways:
        return None
    verdict, node, way = (_waiting(ways) if waits else None) or _found(ways)
    names = tuple(name_of(one.seen) for one in way)
    changed = _changes(node.seen, _same_step(names, before or {})) if before else ()
    also = [name_of(one.seen) for one in way[:-1] if one.seen.failed]
    because = _because(verdict, node.seen)
    return Cause(verdict, node.seen, names, _waits(node, way), changed, last_good, tuple(also), because)


def name_of(seen: Seen) -> str:
    """A step in a word."""
    return seen.name or seen.function_id or seen.kind or seen.call


def _ways(tops: Sequence[Node]) -> list[tuple[Node, ...]]:
    """Each step with those above it, in the order in which they began."""
    found: list[tuple[Node, ...]] = []
    waiting = [(top,) for top in reversed(tops)]
    while waiting:
        way = waiting.pop()
        found.append(way)
        waiting += [(*way, below) for below in reversed(way[-1].below)]
    return found


def _because(verdict: str, step: Seen) -> str:
    if step.outcome == OutcomeUnknown.code:
        lost = "the host or the process in which it ran died, or was stopped, before it told how it ended"
        return f"{lost}; nobody knows whether it took effect"
    return "its end was never told: its host may have died" if verdict == "unfinished" else ""


def _waiting(ways: Sequence[tuple[Node, ...]]) -> tuple[str, Node, tuple[Node, ...]] | None:
    """The deepest step that waits for a person, of several the last."""
    found = [way for way in ways if way[-1].seen.outcome == WaitsForPerson.code]
    way = max(found, key=lambda way: (len(way), way[-1].seen.ended), default=None)
    return ("waits", way[-1], way) if way is not None else None


def _found(ways: Sequence[tuple[Node, ...]]) -> tuple[str, Node, tuple[Node, ...]]:
    failing = [way for way in ways if way[-1].seen.failed and not any(b.seen.failed for b in way[-1].below)]
    open_ones = [
        way for way in ways if way[-1].seen.running and not any(b.seen.running for b in way[-1].below)
    ]
    # of one that another waits for in vain, the end is missing; the error above it says only that
    if failing:
        way = min(failing, key=lambda way: (way[-1].seen.ended, -len(way)))
        below = [one for one in open_ones if one[: len(way)] == way and len(one) > len(way)]
        if not below:
            return "failed", way[-1], way
        return "unfinished", below[0][-1], below[0]
    if open_ones:
        return "unfinished", open_ones[0][-1], open_ones[0]
    way = max(ways, key=lambda way: (own_seconds(way[-1]), len(way)))
    return "slowest", way[-1], way


def own_seconds(node: Node) -> float:
    """Seconds of a step in which none of those below it ran."""
    whole = node.seen.duration or 0.0
    return max(0.0, whole - _covered(node.below))


def _covered(nodes: Sequence[Node]) -> float:
    """Seconds in which at least one of them ran."""
    total, until = 0.0, float("-inf")
    for node in sorted(nodes, key=lambda one: one.seen.started):
        start, end = node.seen.started, node.seen.started + (node.seen.duration or 0.0)
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def _waits(node: Node, way: Sequence[Node]) -> tuple[Waited, ...]:
    whole = node.seen.duration or 0.0
    found: list[Waited] = []
    if len(way) > 1 and way[-2].seen.name == node.seen.name and way[-2].seen.host != node.seen.host:
        queued = node.seen.started - way[-2].seen.started
        above = way[-2].seen.duration or 0.0
        if queued > 0 and above and queued / above >= _NOTABLE:
            found.append(
                Waited("the way to its host, and its place in the queue there", queued, queued / above)
            )
    if whole:
        for below in sorted(node.below, key=lambda one: -(one.seen.duration or 0.0)):
            seconds = below.seen.duration or 0.0
            if seconds / whole >= _NOTABLE:
                found.append(Waited(name_of(below.seen), seconds, min(1.0, seconds / whole)))
        own = own_seconds(node)
        if own / whole >= _NOTABLE:
            found.append(Waited("itself", own, own / whole))
    return tuple(found)


def _same_step(names: tuple[str, ...], before: Mapping[str, Seen]) -> Seen | None:
    """The step of another chain at the end of the same way; else the first of its name."""
    ways = _ways(tree_of(before))
    for way in ways:
        if tuple(name_of(node.seen) for node in way) == names:
            return way[-1].seen
    return next((way[-1].seen for way in ways if name_of(way[-1].seen) == names[-1]), None)


def _changes(now: Seen, then: Seen | None) -> tuple[str, ...]:
    if then is None:
        return ("this step did not happen then",)
    found: list[str] = []
    if now.version and then.version and now.version != then.version:
        found.append(f"the function has another signature (version {then.version} then, {now.version} now)")
    if now.host and then.host and now.host != then.host:
        found.append(f"it ran on another host ({then.host} then, {now.host} now)")
    elif now.start and then.start and now.start != then.start:
        found.append("its host has been started anew since")
    if now.given and then.given and now.given != then.given:
        found.append("it was given something else")
    if now.failed and not then.failed:
        found.append(f"it worked then ({then.outcome or 'still running'}), and ends with {now.outcome} now")
    spent, before = now.duration, then.duration
    if spent is not None and before and spent > 2 * before and spent - before > 0.01:
        found.append(f"it took {spent * 1000:.0f} ms, and {before * 1000:.0f} ms then")
    return tuple(found)
