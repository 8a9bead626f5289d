"""Reactors: nouns in, a noun out, in SEMOSS's meaning."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.reactor import (
    GenRowStruct,
    MissingNouns,
    NounMetadata,
    NounStore,
    PixelDataType,
    PixelOperationType,
    Reactor,
    ReactorFailed,
    describe,
    predict_type,
    run,
)

VALUES = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=6,
)


class Echo(Reactor):
    """Gives back what it took."""

    keys_to_get = ("first", "second", "third")
    key_required = (1, 0, 0)
    key_descriptions = {"first": "The first one"}  # noqa: RUF012 - as authors write it

    def execute(self) -> Any:
        return self.key_value


class SemossSpelling(Reactor):
    def __init__(self) -> None:
        self.keysToGet = ["a", "b"]
        self.keyRequired = [1, 1]

    def execute(self) -> NounMetadata:
        self.organizeKeys()
        return NounMetadata(self.keyValue["a"] + self.keyValue["b"], PixelDataType.CONST_INT)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, PixelDataType.NULL_VALUE),
        (True, PixelDataType.BOOLEAN),
        (1, PixelDataType.CONST_INT),
        (1.5, PixelDataType.CONST_DECIMAL),
        ("x", PixelDataType.CONST_STRING),
        (date(2026, 1, 2), PixelDataType.CONST_DATE),
        (datetime(2026, 1, 2, tzinfo=UTC), PixelDataType.CONST_TIMESTAMP),
        ({}, PixelDataType.MAP),
        ([], PixelDataType.VECTOR),
        (object(), PixelDataType.CUSTOM_DATA_STRUCTURE),
    ],
)
def test_every_value_has_a_predicted_type(value: Any, kind: PixelDataType) -> None:
    assert predict_type(value) is kind
    assert NounMetadata(value).data_type is kind


def test_a_collection_is_added_element_by_element() -> None:
    store = NounStore.of({"many": [1, "two"], "one": 3, "map": {"a": 1}})
    assert store.name == "reactorExecution"
    assert store.get_noun_keys() == ["many", "one", "map"]
    assert [(noun.value, noun.data_type) for noun in store["many"]] == [
        (1, PixelDataType.CONST_INT),
        ("two", PixelDataType.CONST_STRING),
    ]
    assert store["one"].value() == 3
    assert store["map"].values() == [{"a": 1}]
    assert store["none"].is_empty()
    assert store.get_noun("none") is None


def test_named_values_come_first_then_those_without_a_name() -> None:
    assert run(Echo, {"second": 2, "all": [1, 3]}) == {"first": 1, "second": 2, "third": 3}


@pytest.mark.parametrize("given_list", [[], [5], [None], [[1, 2]], [[]], [1, 2]])
def test_a_list_stays_a_list_however_long(given_list: list[Any]) -> None:
    assert run(Echo, {"first": given_list}) == {"first": given_list}
    assert run(Echo, {"all": [given_list]}) == {"first": given_list}


def test_what_is_no_list_becomes_none() -> None:
    row = GenRowStruct()
    assert row.value() is None
    row.add(5)
    assert row.value() == 5
    row.add(6)
    assert row.value() == [5, 6]


def test_missing_nouns_are_listed_in_one_message() -> None:
    with pytest.raises(MissingNouns, match="must define a, b"):
        run(SemossSpelling, {})
    assert run(Echo, {"first": 1}) == {"first": 1}


def test_semoss_spelling_works() -> None:
    assert run(SemossSpelling, {"a": 1, "b": 2}) == 3
    assert describe(SemossSpelling)["keys"] == ["a", "b"]
    noun = NounMetadata(1, "CONST_INT", "SUCCESS")
    assert (noun.getValue(), noun.getNounType(), noun.getOpType()) == (
        1,
        PixelDataType.CONST_INT,
        [PixelOperationType.SUCCESS],
    )


def test_without_marks_every_key_is_required() -> None:
    class Plain(Reactor):
        keys_to_get = ("a", "b")

    assert describe(Plain)["required"] == ["a", "b"]


def test_a_reactor_describes_itself() -> None:
    assert describe(Echo) == {
        "keys": ["first", "second", "third"],
        "required": ["first"],
        "schemas": {"first": {"description": "The first one"}, "second": {}, "third": {}},
        "doc": "Gives back what it took.",
        "result": None,
    }


def test_an_error_noun_is_a_failure() -> None:
    class Fails(Reactor):
        def execute(self) -> NounMetadata:
            return NounMetadata("no such order", PixelDataType.CONST_STRING, PixelOperationType.ERROR)

    class FailsByType(Fails):
        def execute(self) -> NounMetadata:
            return NounMetadata("no such order", PixelDataType.ERROR)

    for reactor in (Fails, FailsByType):
        with pytest.raises(ReactorFailed, match="no such order"):
            run(reactor, {})


async def test_a_reactor_may_be_async() -> None:
    class Later(Reactor):
        async def execute(self) -> NounMetadata:
            return NounMetadata({"a": 1})

    assert await run(Later, {}) == {"a": 1}


def test_each_call_has_an_instance_of_its_own() -> None:
    class Counts(Reactor):
        count = 0

        def execute(self) -> int:
            self.count += 1
            return self.count

    assert [run(Counts, {}), run(Counts, {})] == [1, 1]


def test_what_is_no_reactor_is_refused() -> None:
    with pytest.raises(TypeError, match="int is no Reactor"):
        run(int, {})


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(min_size=1), VALUES))
def test_every_argument_comes_out_of_the_store_as_it_went_in(arguments: dict[str, Any]) -> None:
    store = NounStore.of(arguments)
    assert {name: store[name].value() for name in store} == arguments


def test_a_row_takes_nouns_and_values() -> None:
    row = GenRowStruct()
    row.add(NounMetadata(1))
    row.add((2, 3))
    row.add("4", "CONST_STRING")
    assert row.getAllValues() == [1, 2, 3, "4"]
