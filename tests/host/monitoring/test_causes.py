"""Why a chain went as it did."""

from __future__ import annotations

import orjson

from enginehost.errors import UnknownFunction
from enginehost.monitoring.again import again, calls_of
from enginehost.monitoring.seen import Seen
from enginehost.monitoring.why import cause_of


def step(call: str, parent: str = "", outcome: str = "ok", **more: object) -> Seen:
    known = {"kind": "call", "name": call, "started": 10.0, "seconds": 1.0, "ended": 11.0} | more
    return Seen("c", call, parent, outcome=outcome, **known)  # type: ignore[arg-type]


def by_call(*steps: Seen) -> dict[str, Seen]:
    return {one.call: one for one in steps}


def test_the_cause_of_a_failure_is_the_deepest_step_that_failed_first() -> None:
    steps = by_call(
        step("top", outcome="execution_failed"),
        step("fine", "top"),
        step("agent", "top", "execution_failed", ended=10.9),
        step("broken", "agent", "timeout", ended=10.8),
        step("later", "top", "internal", ended=10.95),
    )
    cause = cause_of(steps)
    assert cause is not None
    assert (cause.verdict, cause.step.name, cause.way) == ("failed", "broken", ("top", "agent", "broken"))
    assert cause.failed_too == ("top", "agent")


def test_a_step_whose_host_died_is_the_cause_of_the_error_above_it() -> None:
    steps = by_call(step("top", outcome="outcome_unknown"), step("lost", "top", "", seconds=-1.0, ended=0.0))
    cause = cause_of(steps)
    assert cause is not None
    assert (cause.verdict, cause.step.name) == ("unfinished", "lost")


def test_of_a_call_whose_outcome_is_not_known_it_says_that_its_host_died() -> None:
    cause = cause_of(by_call(step("1"), step("2", "1", "outcome_unknown")))
    assert cause is not None
    assert (cause.verdict, cause.step.call) == ("failed", "2")
    assert cause.because.startswith("the host or the process in which it ran died")


def test_of_a_chain_that_waits_for_a_person_it_is_the_deepest_step_that_does() -> None:
    waits = "waits_for_person"
    steps = by_call(step("1", "", waits), step("2", "1", waits), step("3", "2", "execution_failed"))
    cause = cause_of(steps, waits=True)
    assert cause is not None
    assert (cause.verdict, cause.step.call) == ("waits", "2")
    went_on = cause_of(steps)
    assert went_on is not None
    assert went_on.verdict == "failed"


def test_of_a_chain_that_worked_it_is_the_step_with_the_most_time_of_its_own() -> None:
    steps = by_call(
        step("top", seconds=5.0), step("slow", "top", seconds=4.0), step("model", "slow", seconds=3.5)
    )
    cause = cause_of(steps)
    assert cause is not None
    assert (cause.verdict, cause.step.name) == ("slowest", "model")
    assert [(one.what, one.share) for one in cause.waited] == [("itself", 1.0)]


def test_waiting_for_another_hosts_queue_is_told() -> None:
    steps = by_call(
        step("a", name="add", host="one", seconds=1.0),
        step("b", "a", name="add", host="two", started=10.6, seconds=0.4, outcome="internal"),
    )
    cause = cause_of(steps)
    assert cause is not None
    assert "queue" in cause.waited[0].what
    assert round(cause.waited[0].seconds, 3) == 0.6


def test_what_changed_since_it_last_worked_is_told() -> None:
    now = by_call(step("top", outcome="internal", version="b", host="two", given='{"a":2}'))
    then = by_call(step("x", name="top", version="a", host="one", given='{"a":1}'))
    cause = cause_of(now, "good", then)
    assert cause is not None
    told = " ".join(cause.changed)
    assert all(
        part in told for part in ("another signature", "another host", "something else", "ends with internal")
    )
    assert cause_of({}) is None


class Today:
    """Functions as they are today."""

    async def describe(self, name: str) -> dict[str, object]:
        if name == "gone":
            raise UnknownFunction(name)
        return {"annotations": {"readOnly": name != "writes"}}

    async def call(self, name: str, arguments: object, timeout: float | None) -> bytes:
        assert name != "writes"
        return orjson.dumps({"sum": 3})


async def test_only_what_reads_is_called_again_and_the_difference_is_told() -> None:
    given = '{"a":1}'
    cases = {
        "same": step("same", given=given, gave='{"sum":3}'),
        "differs": step("old", given=given, gave='{"sum":4}'),
        "works": step("mended", outcome="internal", given=given),
        "gone": step("gone", given=given, gave="1"),
        "skipped": step("writes", given=given, gave="1"),
    }
    for verdict, seen in cases.items():
        assert (await again(seen, Today(), None)).verdict == verdict
    for unusable in ('{"password":"***"}', '{"$cut":"{","bytes":9}', ""):
        assert (await again(step("same", given=unusable), Today(), None)).verdict == "skipped"


def test_a_call_that_another_host_ran_is_one_call() -> None:
    steps = by_call(step("a", name="add", host="one"), step("b", "a", name="add", host="two", given="{}"))
    assert [one.call for one in calls_of(steps)] == ["b"]
