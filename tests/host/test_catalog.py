"""What a face can rely on that reads the catalog or listens to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.catalog import Catalog, Change, ChangeKind, EngineRecord, Entry
from enginehost.engine import TRANSITIONS, EngineState, Function
from enginehost.signature import FunctionSignature

NAMES = ("a", "b", "c")
IDS = ("one", "two", "three", "four")


async def run(arguments: dict[str, Any], call: Any) -> None:
    """Nothing; the catalog does not call."""


def function(name: str, description: str = "") -> Function:
    return Function(FunctionSignature(name, description), run)


def record(engine_id: str) -> EngineRecord:
    return EngineRecord(engine_id, "Test", path=Path(f"/x/{engine_id}.smss"))


STEPS = st.lists(
    st.tuples(st.sampled_from(IDS), st.none() | st.lists(st.sampled_from(NAMES), max_size=3)), max_size=25
)


class Replica:
    """What a listener knows from events alone."""

    def __init__(self, catalog: Catalog) -> None:
        self.entries: dict[str, Entry] = {}
        catalog.subscribe(self.hear)

    def hear(self, changes: Sequence[Change]) -> None:
        for change in changes:
            name = change.entry.name
            if change.kind is ChangeKind.REMOVED:
                assert self.entries.pop(name) is change.entry
            else:
                assert (name in self.entries) is (change.kind is ChangeKind.REPLACED)
                self.entries[name] = change.entry


def state(catalog: Catalog) -> Any:
    return (
        {entry.name: entry.record.engine_id for entry in catalog},
        sorted((c.name, c.kept.engine_id, c.refused.engine_id) for c in catalog.conflicts()),
        sorted(catalog.records),
    )


def play(catalog: Catalog, steps: list[tuple[str, list[str] | None]]) -> dict[str, list[str]]:
    """Do the steps; what each engine that is left declares."""
    left: dict[str, list[str]] = {}
    for engine_id, names in steps:
        if names is None:
            catalog.remove(engine_id)
            left.pop(engine_id, None)
        else:
            catalog.put(record(engine_id), [function(name) for name in names])
            left[engine_id] = names
    return left


@given(steps=STEPS)
@settings(max_examples=150, deadline=None)
def test_any_history_ends_in_the_state_that_the_remaining_engines_give_in_any_order(
    steps: list[tuple[str, list[str] | None]],
) -> None:
    lived, fresh, backwards = Catalog(), Catalog(), Catalog()
    left = play(lived, steps)
    fresh.update([(record(i), [function(n) for n in names]) for i, names in left.items()])
    play(backwards, list(reversed(left.items())))
    assert state(lived) == state(fresh) == state(backwards)
    owners, _, _ = state(lived)
    for name in NAMES:
        claimants = sorted(f"/x/{i}.smss" for i, names in left.items() if name in names)
        assert owners.get(name) == (Path(claimants[0]).stem if claimants else None)


@given(steps=STEPS)
@settings(max_examples=150, deadline=None)
def test_an_engine_is_in_conflict_while_others_have_every_name_that_it_declares(
    steps: list[tuple[str, list[str] | None]],
) -> None:
    catalog = Catalog()
    for engine_id, names in steps:
        if names is None:
            catalog.remove(engine_id)
        else:
            made = record(engine_id)
            made.move(EngineState.READY)
            catalog.put(made, [function(name) for name in names])
    for engine_id, shown in catalog.records.items():
        mine = catalog.entries_of(engine_id)
        lost = bool(mine) and not any(catalog.get(entry.name) is entry for entry in mine)
        assert (shown.state is EngineState.CONFLICT) is lost
        if lost:
            kept = catalog.get(mine[0].name)
            assert kept is not None
            assert shown.reason.startswith(f"the name {mine[0].name!r} is taken: {kept.record.title} ")
        else:
            assert (shown.state, shown.reason) == (EngineState.READY, "")


@given(steps=STEPS)
@settings(max_examples=150, deadline=None)
def test_replayed_events_give_the_catalog(steps: list[tuple[str, list[str] | None]]) -> None:
    catalog = Catalog()
    replica = Replica(catalog)
    play(catalog, steps)
    assert replica.entries == {entry.name: entry for entry in catalog}


@given(steps=STEPS, renames=st.lists(st.sampled_from(IDS), max_size=4, unique=True))
@settings(max_examples=80, deadline=None)
def test_an_engine_under_another_id_keeps_its_functions_without_an_event(
    steps: list[tuple[str, list[str] | None]], renames: list[str]
) -> None:
    catalog = Catalog()
    play(catalog, steps)
    before = {entry.name: entry for entry in catalog}
    heard: list[Any] = []
    catalog.subscribe(heard.append)
    for engine_id in renames:
        if engine_id in catalog.records:
            catalog.rename(catalog.records[engine_id], f"{engine_id}!")
    assert {entry.name: entry for entry in catalog} == before
    assert heard == []
    for engine_id in tuple(catalog.records):
        catalog.remove(engine_id)
    assert len(catalog) == 0
    assert catalog.conflicts() == []


def test_a_function_that_did_not_change_keeps_what_its_limits_know_and_makes_no_event() -> None:
    catalog = Catalog()
    owner = record("one")
    catalog.put(owner, [function("a"), function("b")])
    kept = catalog.get("a")
    heard: list[Change] = []
    catalog.subscribe(heard.extend)
    catalog.put(owner, [function("a"), function("b", "changed")])
    assert catalog.get("a") is kept
    assert [(change.kind, change.entry.name) for change in heard] == [(ChangeKind.REPLACED, "b")]


def test_an_engine_that_cannot_tell_its_functions_changes_nothing() -> None:
    def told() -> Any:
        yield function("b")
        raise RuntimeError("half way")

    catalog = Catalog()
    catalog.put(record("one"), [function("a")])
    version = catalog.version
    with pytest.raises(RuntimeError):
        catalog.update([(record("two"), [function("c")]), (record("one"), told())])
    assert state(catalog) == ({"a": "one"}, [], ["one"])
    assert catalog.version == version


def test_a_listener_that_fails_takes_no_news_from_the_others(caplog: pytest.LogCaptureFixture) -> None:
    def fails(changes: Sequence[Change]) -> None:
        raise RuntimeError("not today")

    catalog = Catalog()
    catalog.subscribe(fails)
    replica = Replica(catalog)
    catalog.put(record("one"), [function("a")])
    assert list(replica.entries) == ["a"]
    assert "a listener of the catalog failed" in caplog.text


def test_a_listener_can_leave_twice_and_while_it_listens() -> None:
    catalog = Catalog()
    heard: list[Any] = []

    def once(changes: Sequence[Change]) -> None:
        heard.append(changes)
        leave()

    leave = catalog.subscribe(once)
    for name in NAMES:
        catalog.put(record("one"), [function(name)])
    leave()
    assert len(heard) == 1


@pytest.mark.parametrize(("before", "after"), list(product(EngineState, EngineState)))
def test_an_engine_moves_only_as_the_table_says(before: EngineState, after: EngineState) -> None:
    moving = record("one")
    moving.state = before
    if after is before or after in TRANSITIONS[before]:
        moving.move(after, "why")
        assert (moving.state, moving.reason) == (after, "why")
    else:
        with pytest.raises(AssertionError, match="may not become"):
            moving.move(after)
        assert moving.state is before


def test_every_state_has_a_row_in_the_table_and_only_closing_has_no_way_on() -> None:
    assert set(TRANSITIONS) == set(EngineState)
    assert [state for state, onward in TRANSITIONS.items() if not onward] == [EngineState.CLOSING]


def test_the_nearest_names_are_those_one_may_see() -> None:
    catalog = Catalog()
    catalog.put(record("one"), [function("add"), function("adds"), function("sum")])
    assert catalog.nearest("ad", lambda entry: True) == ["add", "adds"]
    assert catalog.nearest("ad", lambda entry: entry.name != "add") == ["adds"]


def test_a_name_that_nobody_has_is_compared_with_few_of_ten_thousand() -> None:
    catalog, asked = Catalog(), list[str]()
    catalog.put(record("one"), [function(f"get_customer_order_{number}") for number in range(10_000)])

    def visible(entry: Entry) -> bool:
        asked.append(entry.name)
        return True

    found = catalog.nearest("get_customer_oder_4711", visible)
    assert found
    assert set(found) < set(asked)
    assert len(asked) <= 500


def test_a_long_name_that_nobody_has_costs_little_more_than_a_short_one(grows_evenly: Any) -> None:
    catalog = Catalog()
    catalog.put(record("one"), [function(f"get_customer_order_{number}") for number in range(500)])

    def prepare(length: int) -> Callable[[], object]:
        name = "get_customer_order_".ljust(length, "x")
        return lambda: catalog.nearest(name, lambda entry: True)

    grows_evenly(prepare, 200, 1_000_000, times=3)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("get_customer_order_47112", "get_customer_order_4711"),
        ("get_custmer_order_4711", "get_customer_order_4711"),
        ("GET_CUSTOMER_ORDER_4711x", "get_customer_order_4711"),
        ("et_customer_order_4711", "get_customer_order_4711"),
        ("Größe", "größe"),
    ],
)
def test_a_slip_anywhere_in_one_of_ten_thousand_names_is_found(asked: str, found: str) -> None:
    catalog = Catalog()
    names = [*(f"get_customer_order_{number}" for number in range(10_000)), "größe"]
    catalog.put(record("one"), list(map(function, names)))
    assert found in catalog.nearest(asked, lambda entry: True)


def test_few_are_asked_about_where_none_may_be_seen() -> None:
    catalog, asked = Catalog(), list[str]()
    catalog.put(record("one"), [function(f"f{number:05}") for number in range(10_000)])
    assert catalog.nearest("f0500x", lambda entry: bool(asked.append(entry.name))) == []
    assert len(asked) <= 400


def test_names_that_come_and_go_are_the_nearest_and_are_not() -> None:
    catalog = Catalog()
    for _ in range(2):
        catalog.put(record("one"), [function("add")])
        assert catalog.nearest("adds", lambda entry: True) == ["add"]
        catalog.remove("one")
        assert catalog.nearest("adds", lambda entry: True) == []


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(IDS), st.sampled_from([*NAMES, ""]), st.sampled_from(["put", "remove", "rename"])
        ),
        max_size=25,
    )
)
@settings(max_examples=150, deadline=None)
def test_any_history_leaves_who_declares_a_name(steps: list[tuple[str, str, str]]) -> None:
    catalog = Catalog()
    for engine_id, name, step in steps:
        if step == "put":
            made = record(engine_id)
            made.declared = FunctionSignature(name) if name else None
            catalog.put_record(made)
        elif step == "remove":
            catalog.remove(engine_id)
        elif engine_id in catalog.records and f"{engine_id}!" not in catalog.records:
            catalog.rename(catalog.records[engine_id], f"{engine_id}!")
    for name in NAMES:
        declaring = [one for one in catalog.records.values() if one.declared and one.declared.name == name]
        assert set(map(id, catalog.declaring(name))) == set(map(id, declaring))
        assert len(catalog.declaring(name)) == len(declaring)
