"""Which replica is asked next."""

from __future__ import annotations

from collections import Counter

from enginehost.databus.replicas import AVOID_SECONDS, Provider, Replica, choose


def replica(name: str, **given: float) -> Replica:
    made = Replica(name, Provider(name, name, "", ""))
    made.seconds = given.get("seconds", 0.0)
    made.outstanding = int(given.get("outstanding", 0))
    return made


def test_idle_replicas_that_are_equally_fast_take_turns() -> None:
    three = [replica(name, seconds=0.02) for name in "abc"]
    asked: Counter[str] = Counter()
    for _ in range(300):
        found = choose(three, (), 0.0)
        assert found is not None
        asked[found.function_id] += 1
    assert min(asked.values()) > 60


def test_calls_on_their_way_and_slow_answers_count_against_a_replica() -> None:
    busy, idle = replica("busy", seconds=0.02, outstanding=3), replica("idle", seconds=0.02)
    slow, quick = replica("slow", seconds=1.0), replica("quick", seconds=0.01, outstanding=5)
    for _ in range(4):
        assert choose([busy, idle], (), 0.0) is idle
        assert choose([slow, quick], (), 0.0) is quick


def test_one_that_refused_lately_is_the_last_resort() -> None:
    refused, other = replica("refused", seconds=0.001), replica("other", seconds=5.0, outstanding=9)
    refused.avoid_until = 10.0 + AVOID_SECONDS
    assert choose([refused, other], (), 10.0) is other
    assert choose([refused, other], (other,), 10.0) is refused
    assert choose([refused, other], (), 12.0) is refused


def test_one_that_has_gone_is_never_asked() -> None:
    gone, there = replica("gone"), replica("there", outstanding=50)
    gone.provider.gone = True
    assert choose([gone, there], (), 0.0) is there
    assert choose([gone], (), 0.0) is None
    assert choose([there], (there,), 0.0) is None
    assert choose([], (), 0.0) is None
