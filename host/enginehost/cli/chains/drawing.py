"""Chains on a terminal: trees and timelines as plain lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from enginehost.cli.output import emphasised, one_line
from enginehost.monitoring.seen import Node, Seen, tree_of
from enginehost.steps import DECIDES

if TYPE_CHECKING:
    from enginehost.monitoring.decisions import Linked

SHORT = 8
"""Characters of an id that are shown."""
_MOST = 60
_VALUE = 300


def tree_lines(steps: Mapping[str, Seen], names: Mapping[str, str] = {}) -> Iterator[str]:
    """A line for each step, below the step in which it happened. ``names`` are known by function id."""
    for top in tree_of(steps):
        yield from _lines(top, "", "", names)


def _lines(node: Node, before: str, under: str, names: Mapping[str, str]) -> Iterator[str]:
    yield f"{before}{step_words(node.seen, names)}"
    for place, below in enumerate(node.below):
        last = place == len(node.below) - 1
        yield from _lines(
            below, under + ("└─ " if last else "├─ "), under + ("   " if last else "│  "), names
        )


def step_words(seen: Seen, names: Mapping[str, str] = {}) -> str:
    """A step on one line: what, how long, how it ended, where."""
    name = seen.name or names.get(seen.function_id, "") or seen.function_id[:SHORT] or "?"
    where = f"  @{seen.host[:SHORT]}" if seen.host and seen.host != "local" else ""
    source = names.get(seen.source, seen.source)
    who = f"  by {cut(source)}" if source and not seen.parent else ""
    return f"{seen.kind or 'step'} {cut(name)}  {duration(seen)}  {status(seen)}{where}{who}"


def timeline(steps: Mapping[str, Seen]) -> Iterator[str]:
    """The steps in the order in which they began, with what went in and came out, where that is known."""
    begun = min((one.started for one in steps.values() if one.started), default=0.0)
    waiting = [(top, 0) for top in reversed(tree_of(steps))]
    while waiting:
        node, depth = waiting.pop()
        waiting += [(below, depth + 1) for below in reversed(node.below)]
        seen, indent = node.seen, "  " * depth
        offset = max(0.0, (seen.started or begun) - begun)
        yield f"{offset * 1000:10.1f} ms  {indent}{step_words(seen)}"
        for arrow, text in (("→", seen.given), ("←", seen.gave)):
            if text:
                yield f"{'':15}{indent}  {arrow} {cut(text, _VALUE)}"


def link_words(one: Linked) -> str:
    """The other chain of a decision."""
    way = "decides" if one.role == DECIDES else "was decided by"
    return f"{cut(one.decision)}: {way} chain {one.chain[: 2 * SHORT]}"


def duration(seen: Seen) -> str:
    """How long it took."""
    seconds = seen.duration
    if seconds is None:
        return "…"
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"


def status(seen: Seen) -> str:
    """How it ended, in colour where that is welcome."""
    if seen.running:
        return emphasised("running", sys.stdout, "yellow")
    return emphasised(one_line(seen.outcome), sys.stdout, "red" if seen.failed else "green")


def moment(seconds: float) -> str:
    """A time of day here, with its date."""
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def cut(text: str, most: int = _MOST) -> str:
    """A text on one line, printable, and not too long."""
    text = one_line(text[: 4 * most])
    return text if len(text) <= most else f"{text[: most - 1]}…"
