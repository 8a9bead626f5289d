"""How much memory a process uses, by what Linux says. (Elsewhere nothing is known, and nothing limited.)"""

from __future__ import annotations

import os
from collections.abc import Iterator

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
MB = 1024 * 1024


def own_bytes(pid: int) -> int:
    """What the process holds in memory and shares with no file and no other program; 0 where it has gone."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123 - a few microseconds, many times a second
            _, resident, shared, *_ = file.read().split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * _PAGE


def tree_uses(pid: int, limit: int) -> bool:
    """Whether a process and those that it started use more than ``limit`` bytes together."""
    tree = [pid, *_descendants(pid)]
    if sum(map(own_bytes, tree)) <= limit:
        return False
    # what forked processes have in common was counted for each of them; the exact number takes longer
    return sum(map(_proportional_bytes, tree)) > limit


def _descendants(pid: int) -> Iterator[int]:
    for child in _children(pid):
        yield child
        yield from _descendants(child)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:  # noqa: PTH123
                found += map(int, file.read().split())
    except OSError:  # it has gone, or the kernel does not tell
        return found
    return found


def _proportional_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:  # noqa: PTH123
            lines = dict(line.split(b":", 1) for line in file if b":" in line)
        return int(lines[b"Pss_Anon"].split()[0]) * 1024
    except (OSError, KeyError, ValueError, IndexError):
        return own_bytes(pid)
