"""Sights of steps come in any order, twice, or in part: the tree is the same."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.monitoring.chains import Chains
from enginehost.monitoring.seen import Node, Seen, merged, tree_of

CALLS = [f"{n:016x}" for n in range(6)]
_calls = st.sampled_from(CALLS)
_sights = st.builds(
    Seen,
    chain=st.just("c"),
    call=_calls,
    parent=st.sampled_from(["", "unknown", *CALLS]),
    kind=st.sampled_from(["", "call", "turn"]),
    name=st.sampled_from(["", "add"]),
    started=st.sampled_from([0.0, 1.0, 2.0]),
    ended=st.sampled_from([0.0, 3.0]),
    seconds=st.sampled_from([-1.0, 0.5]),
    outcome=st.sampled_from(["", "ok", "internal"]),
)


def everything(nodes: list[Node]) -> Iterator[Seen]:
    for node in nodes:
        yield node.seen
        yield from everything(node.below)


def built(sights: list[Seen]) -> list[Node]:
    chains = Chains()
    for one in sights:
        chains.take(one, time.monotonic())
    return tree_of(chains.steps("c"))


@settings(max_examples=150, deadline=None)
@given(st.lists(_sights, max_size=12), st.randoms(use_true_random=False))
def test_order_and_repetition_change_nothing_and_each_step_stands_once(
    sights: list[Seen], shuffle: random.Random
) -> None:
    tree = built(sights)
    others = [*sights, *sights[::2]]
    shuffle.shuffle(others)
    assert built(others) == tree
    assert sorted(seen.call for seen in everything(tree)) == sorted({one.call for one in sights})


@settings(max_examples=100, deadline=None)
@given(_sights, _sights, _sights)
def test_sights_of_one_step_can_be_merged_in_any_grouping(a: Seen, b: Seen, c: Seen) -> None:
    one, two, three = (replace(sight, call=CALLS[0]) for sight in (a, b, c))
    assert merged(merged(one, two), three) == merged(one, merged(three, two))
    assert merged(one, one) == one


def test_a_step_without_its_start_stands_below_its_parent_all_the_same() -> None:
    parent = Seen("c", CALLS[0], kind="call", started=1.0)
    child = Seen("c", CALLS[1], parent=CALLS[0], ended=2.0, outcome="ok")
    (top,) = tree_of({one.call: one for one in (child, parent)})
    assert top.seen is parent
    assert [node.seen for node in top.below] == [child]


def test_rates_count_each_end_once() -> None:
    chains = Chains()
    end = Seen("c", CALLS[0], name="add", ended=2.0, outcome="internal")
    for one in (Seen("c", CALLS[0], name="add", started=1.0), end, end):
        chains.take(one, 100.0)
    assert chains.rates(101.0, 10.0) == {"add": (0.1, 0.1)}
