"""What an engine that was closed may not leave behind: tasks, threads, child processes."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

_SHARED_THREADS = ("asyncio_", "uvloop_", "AnyIO worker thread")
"""Threads of the event loop's own pools, which end with the loop."""

_CHILDREN = Path("/proc/self/task")


def snapshot() -> set[str]:
    """Names of the tasks, threads and (where ``/proc`` shows them) child processes there are now."""
    tasks = {f"task {task.get_name()}: {task.get_coro()!r}" for task in asyncio.all_tasks()}
    threads = {
        f"thread {thread.name} ({thread.ident})"
        for thread in threading.enumerate()
        if not thread.name.startswith(_SHARED_THREADS)
    }
    return tasks | threads | {f"process {child}" for child in _children()}


async def leftovers(before: set[str], within: float) -> set[str]:
    """What is there now and was not ``before``; waits up to ``within`` seconds for it to go."""
    deadline = time.monotonic() + within
    while (left := snapshot() - before) and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.01)  # nothing tells that a thread or a process has gone
    return left


def _children() -> list[str]:
    found: list[str] = []
    for thread in _CHILDREN.glob("*/children"):
        try:
            found += thread.read_text().split()
        except OSError:  # that thread has just ended
            continue
    return found
