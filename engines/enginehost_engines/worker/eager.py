"""Tasks whose first step is done at once: most calls of ``async def`` functions are over then."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any


def begin(coroutine: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> asyncio.Task[None]:
    """A task that runs ``coroutine``, stepped once. Not to be called from within a task."""
    if sys.version_info >= (3, 12):
        return asyncio.Task(coroutine, loop=loop, eager_start=True)
    task = asyncio.Task(coroutine, loop=loop)
    ready: Any = getattr(loop, "_ready", None)
    if ready:  # a loop of the standard library: what it has just put last is the task's first step
        ready.pop()._run()
    return task
