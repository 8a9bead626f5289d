"""Waiting for code of others: for so long, and for so long again after it was cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")

GRACE_SECONDS = 2.0
"""How long code that was cancelled may clean up before it is left behind."""

_log = logging.getLogger("enginehost.patience")


class Impatient(TimeoutError):
    """The time was over (and not that the code itself raised ``TimeoutError``)."""


async def within(awaitable: Awaitable[T], seconds: float, what: str) -> T:
    """The result of ``awaitable``, which gets ``seconds``; then it is cancelled.

    Raises :class:`Impatient` then. It runs in a task of its own, so that code which ignores its
    cancellation is left behind instead of being waited for. What it raises comes out as an ``Exception``,
    also where it cancels itself or exits.
    """
    task = asyncio.ensure_future(_contained(awaitable, what))
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await _end(task, what)
        raise
    if not task.done():
        await _end(task, what)
        raise Impatient(f"{what} took longer than {seconds:g} s")
    if task.cancelled():
        raise RuntimeError(f"{what} cancelled itself")
    return task.result()


async def _contained(awaitable: Awaitable[T], what: str) -> T:
    try:
        return await awaitable
    except SystemExit as error:  # a task that exits would end the event loop
        raise RuntimeError(f"{what} tried to exit") from error


async def _end(task: asyncio.Task[T], what: str) -> None:
    task.cancel()
    await asyncio.wait({task}, timeout=GRACE_SECONDS)
    if not task.done():
        _log.error("%s ignores that it was cancelled and is left behind", what)
        task.add_done_callback(_forget)
    elif not task.cancelled():
        _forget(task)


def _forget(task: asyncio.Task[T]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.debug("what was cancelled raised", exc_info=error)
