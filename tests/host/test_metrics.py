"""What a Prometheus server reads."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from enginehost.catalog import Catalog, EngineRecord
from enginehost.engine import EngineState
from enginehost.metrics import METRICS, OTHERS, escaped, render
from enginehost.record import BUCKETS, Stats

names = st.text(st.characters(), min_size=1, max_size=20) | st.sampled_from(
    ['a"b', "a\\", "a\nb", "\\n", '",x="', "\ud800", "\r", "\x85", "#", "{}"]
)


def invoker(stats: dict[str, Stats], refused: dict[str, int] | None = None) -> Any:
    recorder = SimpleNamespace(dropped=3)
    return SimpleNamespace(stats=stats, refused=refused or {}, in_flight=2, recorder=recorder)


def shown(name: str) -> str:
    return name.encode("utf-8", "backslashreplace").decode()


@given(
    calls=st.dictionaries(
        names, st.lists(st.tuples(st.sampled_from(("ok", "timeout", 'odd"')), st.floats(0, 60)), max_size=4)
    )
)
@settings(max_examples=80, deadline=None)
def test_every_name_and_number_is_read_back(calls: dict[str, list[tuple[str, float]]]) -> None:
    stats: dict[str, Stats] = {}
    for name, ended in calls.items():
        counted = stats[name] = Stats()
        for outcome, seconds in ended:
            counted.add(outcome, seconds)
    text = render(invoker(stats, {"unknown_function": 7}), Catalog()).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    found = {
        (s.labels["function"], s.labels["outcome"]): s.value for s in families["enginehost_calls"].samples
    }
    expected: dict[tuple[str, str], float] = {}
    for name, counted in stats.items():
        for outcome, count in counted.outcomes.items():
            expected[shown(name), outcome] = expected.get((shown(name), outcome), 0) + count
    assert found == expected
    buckets = families["enginehost_call_duration_seconds"].samples
    for name, counted in stats.items():
        mine = [sample for sample in buckets if sample.labels["function"] == shown(name)]
        bounds = {sample.labels["le"]: sample.value for sample in mine if "le" in sample.labels}
        assert len(bounds) == len(BUCKETS) + 1
        assert bounds["+Inf"] == counted.calls
        assert list(bounds.values()) == sorted(bounds.values())
    assert families["enginehost_calls_refused"].samples[0].value == 7
    assert families["enginehost_records_dropped"].samples[0].value == 3


def test_every_metric_is_there_with_its_type_and_meaning() -> None:
    text = render(invoker({}), Catalog()).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    for name, (kind, meaning) in METRICS.items():
        family = families[name.removesuffix("_total")]
        assert (family.type, family.documentation) == (kind, meaning)


def test_engines_are_counted_by_state() -> None:
    catalog = Catalog()
    for number, state in enumerate((EngineState.READY, EngineState.READY, EngineState.FAILED)):
        catalog.put(EngineRecord(str(number), "Test", state=state), ())
    text = render(invoker({}), catalog).decode()
    assert 'enginehost_engines{state="ready"} 2\n' in text
    assert 'enginehost_engines{state="failed"} 1\n' in text


@given(
    st.dictionaries(names, st.tuples(st.booleans(), st.integers(0, 5), st.integers(0, 3)), max_size=6),
)
@settings(max_examples=60, deadline=None)
def test_totals_are_the_same_for_every_reader(functions: dict[str, tuple[bool, int, int]]) -> None:
    stats: dict[str, Stats] = {}
    for name, (_, calls, running) in functions.items():
        counted = stats[name] = Stats()
        counted.running = running
        for _ in range(calls):
            counted.add("ok", 0.1)

    def totals(text: bytes) -> list[float]:
        families = {family.name: family for family in text_string_to_metric_families(text.decode())}
        return [
            sum(sample.value for sample in families[family].samples if sample.name in (family, suffixed))
            for family, suffixed in (
                ("enginehost_calls", "enginehost_calls_total"),
                ("enginehost_calls_running", ""),
                ("enginehost_call_duration_seconds", "enginehost_call_duration_seconds_count"),
            )
        ]

    part = render(invoker(stats), Catalog(), lambda signature: functions[signature.name][0])
    assert totals(part) == totals(render(invoker(stats), Catalog()))
    for name, (visible, _, _) in functions.items():
        if not visible:
            assert f'function="{escaped(name)}"' not in part.decode()


def test_a_function_that_has_the_name_of_the_sum_is_a_part_of_it() -> None:
    stats = {OTHERS: Stats(), "hidden": Stats()}
    for counted in stats.values():
        counted.add("ok", 0.1)
    text = render(invoker(stats), Catalog(), lambda signature: signature.name != "hidden").decode()
    assert f'enginehost_calls_total{{function="{OTHERS}",outcome="ok"}} 2\n' in text


async def test_the_event_loop_goes_on_while_ten_thousand_functions_are_rendered() -> None:
    stats = {f"function_{number}": Stats() for number in range(10_000)}
    for counted in stats.values():
        counted.add("ok", 0.001)
        counted.add("timeout", 1.0)
    rendering = asyncio.create_task(asyncio.to_thread(render, invoker(stats), Catalog()))
    turns = 0
    while not rendering.done():
        if len(stats) < 11_000:  # functions come meanwhile
            stats[f"new {len(stats)}"] = Stats()
        await asyncio.sleep(0)
        turns += 1
    assert (await rendering).count(b"enginehost_calls_total{") == 20_000
    assert turns > 50  # a loop that was held would turn once or twice; thousands, measured
