"""What the benchmarks share: a core for each side, interleaved runs, tables."""

from __future__ import annotations

import os
import platform
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SERVER_CORE = 0
LOAD_CORE = 1

RUNS = 5
"""How often everything is measured; the runs of a table's rows take turns."""


@dataclass(frozen=True, slots=True)
class Spread:
    """What the runs of one row gave."""

    values: Sequence[float]

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.values)

    @property
    def lowest(self) -> float:
        """The smallest."""
        return min(self.values)

    @property
    def highest(self) -> float:
        """The largest."""
        return max(self.values)

    def cells(self, digits: int) -> list[str]:
        """Median, lowest and highest as cells of a table."""
        return [f"{value:.{digits}f}" for value in (self.median, self.lowest, self.highest)]


def pin(core: int) -> None:
    """Run this process, and what it starts from now on, on one core (where the system can do that)."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})


def in_turn(cases: Mapping[str, Callable[[], float]], runs: int = RUNS) -> dict[str, Spread]:
    """Measure every case ``runs`` times, one after the other."""
    found: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(runs):
        for name, measure in cases.items():
            found[name].append(measure())
    return {name: Spread(values) for name, values in found.items()}


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table: the first column of text, the others of numbers."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    print(f"\n{title}")
    for line in lines:
        first, *others = (
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        print("  ".join([first, *others]))


_missed: list[str] = []


def finish() -> None:
    """End the benchmark: with exit code 1 where a target was missed."""
    sys.exit(1 if _missed else 0)


def verdict(what: str, value: float, *, most: float | None = None, least: float | None = None) -> None:
    """Print whether ``value`` is what we promised."""
    if most is not None:
        kept, bound = value <= most, f"at most {most:g}"
    else:
        kept, bound = value >= (least or 0.0), f"at least {least:g}"
    if not kept:
        _missed.append(what)
    print(f"{'kept  ' if kept else 'MISSED'}  {what}: {value:.3g} ({bound})", flush=True)


def introduce(text: str) -> None:
    """Print what is measured, and on what: a busy machine makes absolute figures worthless."""
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{text}\n{os.cpu_count()} cores, {_processor()}, Python {platform.python_version()}, load {load}")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "unknown")
