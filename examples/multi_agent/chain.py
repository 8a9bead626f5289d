"""Chains as trees, of the audits that the programs of a network keep.

Each call stands there with its own id, that of its chain, and that of what it belongs to. A call from one
program to another is in both audits; the tree has it once, with the time that it was on its way.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path


@dataclass
class Hop:
    """A call as one program saw it; times are seconds."""

    program: str
    name: str
    chain: str
    call: str
    parent: str
    started: float
    seconds: float
    outcome: str
    below: list[Hop] = field(default_factory=list)

    @property
    def ended(self) -> float:
        return self.started + self.seconds


def read(audits: Iterable[Path]) -> list[Hop]:
    """All calls of some audits, each named after its program."""
    lines = ((path.stem, json.loads(line)) for path in audits for line in path.read_text().splitlines())
    return [
        Hop(
            program,
            one["function"],
            one["chain_id"],
            one["call_id"],
            one.get("parent_id", ""),
            datetime.fromisoformat(one["time"]).timestamp(),
            one["duration_ms"] / 1000,
            one["outcome"],
        )
        for program, one in lines
    ]


def trees(hops: Iterable[Hop]) -> list[Hop]:
    """The first call of each chain, with those below it, in the order of time."""
    ordered = sorted(hops, key=lambda hop: hop.started)
    known = {hop.call: hop for hop in ordered}
    roots: list[Hop] = []
    for hop in ordered:
        above = known.get(hop.parent) or _around(hop, ordered)
        (roots if above is None else above.below).append(hop)
    return roots


def _around(hop: Hop, hops: Sequence[Hop]) -> Hop | None:
    """The call in which an agent's turn made this one: the innermost of its program that was running."""
    outer = [
        one
        for one in hops
        if one is not hop
        and (one.chain, one.program) == (hop.chain, hop.program)
        and one.started <= hop.started
        and one.ended >= hop.ended
    ]
    return max(outer, key=lambda one: one.started, default=None)


def drawn(root: Hop, interface: str) -> Iterator[str]:
    """The lines of a tree."""
    yield f"chain {root.chain}"
    yield interface
    yield from _drawn([root], "")


def _drawn(hops: Sequence[Hop], indent: str) -> Iterator[str]:
    for hop in hops:
        last = hop is hops[-1]
        there = _answering(hop)
        way = f", {(hop.seconds - there.seconds) * 1000:.1f} ms of it on the way" if there is not hop else ""
        took = f"{hop.seconds * 1000:.1f} ms{way}"
        yield f"{indent}{'└─ ' if last else '├─ '}{there.program}: {there.name}  {hop.outcome}, {took}"
        yield from _drawn(there.below, f"{indent}{'   ' if last else '│  '}")


def _answering(hop: Hop) -> Hop:
    """The same call in the program that answered it."""
    alone = hop.below[0] if len(hop.below) == 1 else None
    return alone if alone is not None and alone.parent == hop.call and alone.program != hop.program else hop
