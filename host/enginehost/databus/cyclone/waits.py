"""A wait set that says which of its entities woke it, and can be woken."""

from __future__ import annotations

import asyncio
import ctypes as ct
import logging
import time
from collections.abc import Callable
from typing import Any

from cyclonedds.core import DDSException, Entity, GuardCondition, WaitSet
from cyclonedds.domain import DomainParticipant

from enginehost.databus.cyclone.wire import c_function

log = logging.getLogger("enginehost.databus")

_MOST = 64
"""Entities that one wait names at most; the next wait names the others."""

_GUARD = 0

FOR_EVER_NS = 2**63 - 1


_attach = c_function("dds_waitset_attach", ct.c_int32, ct.c_ssize_t)
_detach = c_function("dds_waitset_detach", ct.c_int32)
_wait = c_function("dds_waitset_wait", ct.POINTER(ct.c_ssize_t), ct.c_size_t, ct.c_int64)

AFTER_FAILURE = 1.0
"""Seconds of rest after a thread's step has failed."""


def keep_on(step: Callable[[], None], stopping: Callable[[], bool]) -> None:
    """Take one step after the other, until stopped or the event loop is closed.

    What fails in one step (peers choose what the library is to read) is told, and must not be the last of it.
    """
    while not stopping():
        try:
            step()
        except LoopClosed:
            return
        except Exception:
            if stopping():
                return
            log.exception("a thread of the databus failed, and goes on")
            time.sleep(AFTER_FAILURE)


class LoopClosed(Exception):
    """Nobody is left to hand anything to."""


def post(loop: asyncio.AbstractEventLoop, act: Callable[..., Any], *arguments: Any) -> None:
    """Have ``act`` called on the event loop. Raises :class:`LoopClosed`."""
    try:
        loop.call_soon_threadsafe(act, *arguments)
    except RuntimeError as closed:
        raise LoopClosed from closed


class Waits:
    """One thread waits; any thread attaches, detaches and wakes."""

    def __init__(self, participant: DomainParticipant) -> None:
        self._set = WaitSet(participant)
        self._guard = GuardCondition(participant)
        self._tags = (ct.c_ssize_t * _MOST)()
        self.attach(self._guard, _GUARD)

    def attach(self, entity: Entity, tag: int) -> None:
        """Wait for ``entity`` too: a condition, or a reader or writer with a status mask.

        ``tag``, above 0, names it.
        """
        if (code := _attach(self._set._ref, entity._ref, tag)) < 0:
            raise DDSException(code, "while attaching to a wait set")

    def detach(self, entity: Entity) -> None:
        """Wait for ``entity`` no more."""
        _detach(self._set._ref, entity._ref)

    def wait(self, timeout_ns: int = FOR_EVER_NS) -> list[int]:
        """The tags of the entities that have something to say; empty when only :meth:`wake` was called."""
        count = _wait(self._set._ref, self._tags, _MOST, timeout_ns)
        if count < 0:
            raise DDSException(count, "while waiting")
        tags = self._tags[: min(count, _MOST)]
        if _GUARD in tags:
            self._guard.set(False)
        return [tag for tag in tags if tag != _GUARD]

    def wake(self) -> None:
        """Let the thread that waits return; or the next one, at once."""
        self._guard.set(True)

    def close(self) -> None:
        """Nobody waits any more."""
        self.detach(self._guard)
        self._guard.__del__()
        self._set.__del__()
