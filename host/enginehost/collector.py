"""The garbage collector, held off where much is made that is no garbage."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


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
