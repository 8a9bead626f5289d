"""A signed request counts once: against a model that remembers everything."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enginehost.databus.replays import IDLE_SECONDS, WINDOW, Replays
from enginehost.errors import Overloaded, Unauthorized


def admitted(replays: Replays, seq: int, sender: str = "s", key: str = "k") -> bool:
    detail = {}
    try:
        replays.admit(key, sender, seq)
    except Unauthorized as error:
        detail = error.detail
    assert detail in ({}, {"reason": "replayed"})
    return not detail


numbers = st.one_of(st.integers(1, 40), st.integers(1, 2**63 - 1))


@given(st.integers(1, 12), st.lists(st.tuples(st.sampled_from("ab"), numbers), max_size=60))
def test_each_number_counts_once_and_those_too_old_to_tell_never(
    window: int, given: list[tuple[str, int]]
) -> None:
    replays = Replays(window=window)
    seen: dict[str, set[int]] = {"a": set(), "b": set()}
    for sender, seq in given:
        new = seq not in seen[sender] and seq > max(seen[sender], default=0) - window
        assert admitted(replays, seq, sender) is new
        if new:
            seen[sender].add(seq)


def test_requests_may_overtake_each_other_as_far_as_the_window_goes() -> None:
    replays = Replays()
    assert admitted(replays, WINDOW)
    assert all(admitted(replays, seq) for seq in range(WINDOW - 1, 0, -1))
    assert not any(admitted(replays, seq) for seq in range(1, WINDOW + 1))
    assert admitted(replays, WINDOW + 2)
    assert not admitted(replays, 2)
    assert admitted(replays, WINDOW + 1)


def test_requesters_and_keys_have_numbers_of_their_own() -> None:
    replays = Replays()
    assert all(admitted(replays, 1, sender, key) for sender in "xy" for key in "ab")
    assert len(replays) == 4


def started(milliseconds: int) -> str:
    """An incarnation that began then."""
    return f"{milliseconds:012x}{'0' * 20}"


def test_no_requester_that_has_just_asked_is_forgotten_to_make_room_for_another() -> None:
    replays = Replays(senders=2)
    assert admitted(replays, 1, "a")
    assert admitted(replays, 1, "b")
    with pytest.raises(Overloaded, match="remembers 2 requesters") as caught:
        replays.admit("k", "c", 1)
    assert caught.value.retry_after > 0
    assert not admitted(replays, 1, "a")
    assert admitted(replays, 2, "a")
    assert len(replays) == 2


def test_what_a_requester_had_signed_that_was_forgotten_never_counts_again() -> None:
    now = 0.0
    replays = Replays(senders=2, now=lambda: now)
    busy, idle, later = started(1_000), started(2_000), started(3_000)
    assert admitted(replays, 1, busy)
    assert admitted(replays, 1, idle)
    now = 2 * IDLE_SECONDS
    assert admitted(replays, 2, busy)
    assert admitted(replays, 1, later)
    assert len(replays) == 2
    assert not admitted(replays, 1, idle)
    assert not admitted(replays, 2, idle)
    assert admitted(replays, 3, busy), "it is remembered, though it began earlier"
    now = 4 * IDLE_SECONDS
    assert admitted(replays, 1, started(1), "another key"), "every key has a floor of its own"


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 3), st.integers(0, 700)), max_size=80))
def test_with_little_memory_nothing_counts_twice_either(given: list[tuple[int, int, int]]) -> None:
    now = 0.0
    replays = Replays(senders=2, now=lambda: now)
    counted: set[tuple[int, int]] = set()
    for sender, seq, seconds in given:
        now += seconds
        try:
            new = admitted(replays, seq, started(sender))
        except Overloaded:
            continue
        assert not (new and (sender, seq) in counted)
        if new:
            counted.add((sender, seq))


def test_the_largest_number_costs_no_more_than_the_window() -> None:
    replays = Replays()
    assert admitted(replays, 2**63 - 1)
    assert admitted(replays, 2**63 - 2)
    assert sum(map(sys.getsizeof, replays._missing.values())) < 1_000
