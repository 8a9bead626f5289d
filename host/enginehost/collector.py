"""The garbage collector, held off where much is made that is no garbage."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

_SELDOM = (50_000, 3, 10)
"""New objects after which the young ones are walked, and how often until the older ones are: so often that
what 2,000 sessions need at their beginning is not walked in one go."""


def collect_seldom() -> None:
    """Let the collector walk less often, in a process that serves many at once.

    What serves somebody is freed when it is done with, without the collector. By Python's own measure that
    walks all new objects after each 700, and with thousands of sessions at work, all there are about every
    second: measured with 2,000 that stream, a third of the processor's time and pauses of 0.3 s. Garbage in
    cycles waits longer now: for 50,000 new objects, and what has become old for two millions.
    """
    gc.set_threshold(*_SELDOM)


@contextmanager
def uncollected(*, stays: bool = False) -> Generator[None]:
    """What is made here is no garbage: the collector would walk all of it again and again in vain.

    ``stays``: it is much, and lives as long as the host. It then counts as old at once; else the collector
    would walk all of it when the next object is made.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            if stays:
                _take_for_old()
            gc.enable()


def _take_for_old() -> None:
    """Frozen and thawed, all there is belongs to the oldest generation. What a program froze stays frozen."""
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
