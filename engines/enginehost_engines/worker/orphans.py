"""Processes that a worker left behind, whatever they did to get away.

Those of its process group are killed with the group. What called ``setsid`` is known by a variable of its
environment that it inherited; what has cleared its environment too is not found. (Linux: elsewhere no process
sees another's environment.)
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from contextlib import suppress
from pathlib import Path
from weakref import WeakKeyDictionary

VARIABLE = "_FUNCTION_WORKER"
"""Names the variable that marks a worker and all that it starts."""

_PROCESSES = "/proc"
_CAN_LOOK = Path(_PROCESSES, "self", "environ").is_file()
_MOST_ROUNDS = 5


def new_mark() -> str:
    """What no other worker has."""
    return secrets.token_hex(8)


class Orphans:
    """Kills what dead workers left behind; one search is for all that died meanwhile."""

    def __init__(self) -> None:
        self._marks: set[str] = set()
        self._search: asyncio.Task[None] | None = None

    async def end(self, mark: str) -> None:
        """Return when nothing with this mark is left."""
        if not _CAN_LOOK:
            return
        self._marks.add(mark)
        if self._search is None:
            self._search = asyncio.get_running_loop().create_task(self._run(), name="enginehost-orphans")
        await asyncio.shield(self._search)

    async def _run(self) -> None:
        try:
            while self._marks:
                marks, self._marks = self._marks, set()
                await asyncio.to_thread(_kill_all, marks)
        finally:
            self._search = None


def _kill_all(marks: set[str]) -> None:
    """Kill all processes that have one of these marks, and those that they start meanwhile."""
    wanted = [f"{VARIABLE}={mark}".encode() for mark in marks]
    for _ in range(_MOST_ROUNDS):
        if not _kill_once(wanted):
            return


def _kill_once(wanted: list[bytes]) -> bool:
    found = False
    for name in os.listdir(_PROCESSES):  # noqa: PTH208 - thousands of names, each of them used once
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:  # noqa: PTH123
                environ = file.read()
        except OSError:  # it has gone, or is another user's
            continue
        if any(one in environ for one in wanted):
            found = True
            with suppress(OSError):
                os.kill(int(name), signal.SIGKILL)
    return found


_all: WeakKeyDictionary[asyncio.AbstractEventLoop, Orphans] = WeakKeyDictionary()


def orphans_of(loop: asyncio.AbstractEventLoop) -> Orphans:
    """The search of an event loop."""
    found = _all.get(loop)
    if found is None:
        found = _all[loop] = Orphans()
    return found
