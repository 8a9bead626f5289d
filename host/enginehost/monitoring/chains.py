"""Chains as they are watched: what is seen of each, the latest ones, within bounds."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import replace

from enginehost.errors import OutcomeUnknown
from enginehost.monitoring.seen import Seen, merged

MOST_CHAINS = 2_000
"""Chains that are remembered; the longest unchanged is forgotten first."""
MOST_STEPS = 5_000
"""Steps of one chain; further ones are counted only."""
MOST_ENDS = 100_000
"""Ends of steps that rates are reckoned from."""


class Chains:
    """Takes sights of steps in any order."""

    def __init__(self) -> None:
        self.left_out = 0
        self._chains: dict[str, dict[str, Seen]] = {}
        self._given_up: set[str] = set()
        """Steps by call id whose end is not expected any more."""
        self._ends: deque[tuple[float, str, bool]] = deque(maxlen=MOST_ENDS)

    def take(self, seen: Seen, now: float) -> Seen:
        """What is known now of the step."""
        steps = self._chains.pop(seen.chain, {})
        self._chains[seen.chain] = steps  # the latest stands last
        if len(self._chains) > MOST_CHAINS:
            del self._chains[next(iter(self._chains))]
        known = steps.get(seen.call)
        if known is not None and seen.call in self._given_up:
            self._given_up.discard(seen.call)  # its host was there after all
            known = replace(known, outcome="", ended=0.0)
        if known is None and len(steps) >= MOST_STEPS:
            self.left_out += 1
            return seen
        found = seen if known is None else merged(known, seen)
        steps[seen.call] = found
        if (known is None or known.running) and not found.running:
            self._ends.append((now, component_of(found), found.failed))
        return found

    def lose(self, ids: Collection[str], now: float) -> None:
        """A host has vanished: what runs of it, or of its functions, and below that, ends unseen."""
        for steps in self._chains.values():
            lost = {
                call
                for call, one in steps.items()
                if one.running and (one.function_id in ids or one.host in ids)
            }
            while below := {
                call for call, one in steps.items() if one.running and one.parent in lost and call not in lost
            }:
                lost |= below
            self._given_up |= lost
            for call in lost:
                steps[call] = replace(steps[call], outcome=OutcomeUnknown.code, ended=now)

    def __len__(self) -> int:
        return len(self._chains)

    def steps(self, chain: str) -> dict[str, Seen]:
        """The steps of a chain by call id."""
        return self._chains.get(chain, {})

    def latest(self) -> Iterator[tuple[str, dict[str, Seen]]]:
        """The chains, the one that changed last first."""
        yield from reversed(self._chains.items())

    def rates(self, now: float, seconds: float) -> dict[str, tuple[float, float]]:
        """Ends and errors a second of each component, over the last ``seconds``."""
        found: dict[str, list[int]] = {}
        for when, component, failed in reversed(self._ends):
            if when < now - seconds:
                break
            counts = found.setdefault(component, [0, 0])
            counts[0] += 1
            counts[1] += failed
        return {name: (calls / seconds, errors / seconds) for name, (calls, errors) in found.items()}


def component_of(seen: Seen) -> str:
    """Whose step it is, for people."""
    return seen.name or seen.function_id or seen.kind or "?"
