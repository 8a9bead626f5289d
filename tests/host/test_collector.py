"""What the garbage collector walks after much was made."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from enginehost.collector import uncollected

PROGRAM = """
import gc
from enginehost.collector import uncollected
if {frozen}:
    gc.freeze()
before = gc.get_freeze_count()
with uncollected(stays={stays}):
    kept = [[] for _ in range(50_000)]
young = len(gc.get_objects(generation=0)) + len(gc.get_objects(generation=1))
assert gc.isenabled()
assert gc.get_freeze_count() == before
assert (young < 10_000) == {old}, young
"""


@pytest.mark.parametrize(
    ("stays", "frozen", "old"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_what_stays_is_old_at_once_and_what_a_program_froze_stays_frozen(
    stays: bool, frozen: bool, old: bool
) -> None:
    code = PROGRAM.format(stays=stays, frozen=frozen, old=old)
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with uncollected(stays=True):
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


SELDOM = """
import gc
from enginehost.collector import collect_seldom
collect_seldom()
gc.collect()
before = [one["collections"] for one in gc.get_stats()]
kept = [[] for _ in range(40_000)]  # what is in flight of thousands of sessions
assert [one["collections"] for one in gc.get_stats()] == before
for _ in range(200_000):
    cycle = []
    cycle.append(cycle)
del cycle
young = len(gc.get_objects(generation=0)) - len(kept)
assert gc.get_stats()[0]["collections"] > before[0]
assert young < 60_000, young
"""


def test_a_host_collects_seldom_and_garbage_in_cycles_does_not_pile_up() -> None:
    subprocess.run([sys.executable, "-c", SELDOM], check=True, timeout=60)
