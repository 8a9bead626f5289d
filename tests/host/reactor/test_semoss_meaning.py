"""What reactors mean in SEMOSS: keys and their order, rows, operation types, reactors that run reactors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from typing import Any, ClassVar

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
    SemossPixelException,
    UnknownReactor,
    describe,
    run,
)

# Keys


class Keys(Reactor):
    def execute(self) -> Any:
        return self.key_value


def keys(to_get: list[str], required: list[int] | None = None, multi: list[int] | None = None) -> type[Keys]:
    given_marks: dict[str, Any] = {"key_required": required or [], "key_multi": multi or []}
    return type("Made", (Keys,), {"keys_to_get": to_get, **given_marks})


NAMES = ["a", "b", "c", "d", "e"]
VALUE = st.integers() | st.text(max_size=3) | st.none()


@settings(max_examples=80, deadline=None)
@given(
    named=st.dictionaries(st.sampled_from(NAMES), VALUE),
    positional=st.lists(VALUE, max_size=7),
    count=st.integers(1, len(NAMES)),
)
def test_named_nouns_count_first_and_the_others_fill_what_is_left_in_order(
    named: dict[str, Any], positional: list[Any], count: int
) -> None:
    to_get = NAMES[:count]
    arguments = named | ({"all": positional} if positional else {})
    organised = run(keys(to_get), arguments)
    assert {key: value for key, value in organised.items() if key in named} == {
        key: named[key] for key in to_get if key in named
    }
    free = [key for key in to_get if key not in named]
    assert {key: organised[key] for key in free if key in organised} == dict(
        zip(free, positional, strict=False)
    )
    assert set(organised) <= set(to_get)


@settings(max_examples=80, deadline=None)
@given(
    marks=st.lists(st.sampled_from([0, 1]), min_size=1, max_size=5), present=st.sets(st.sampled_from(NAMES))
)
def test_missing_are_those_that_are_marked_and_not_given(marks: list[int], present: set[str]) -> None:
    missing = [name for name, mark in zip(NAMES, marks, strict=False) if mark and name not in present]
    made = keys(NAMES, marks)
    if missing and any(marks):
        with pytest.raises(MissingNouns) as caught:
            run(made, dict.fromkeys(present, 1))
        assert str(caught.value) == f"must define {', '.join(missing)}"
    else:
        assert set(run(made, dict.fromkeys(present, 1))) == present


@settings(max_examples=60, deadline=None)
@given(st.lists(VALUE, max_size=4))
def test_a_list_is_as_many_nouns(values: list[Any]) -> None:
    class Counts(Reactor):
        keys_to_get = ("many",)

        def execute(self) -> Any:
            row = self.store["many"]
            return [row.size(), row.values(), self.get_nouns("many"), self.key_value["many"]]

    assert run(Counts, {"many": values}) == [len(values), values, values, values]


def test_without_marks_nothing_is_missing_while_it_runs() -> None:
    assert run(keys(["a", "b"]), {"b": 1}) == {"b": 1}


def test_fewer_marks_than_keys_leave_the_rest_optional() -> None:
    assert run(keys(["a", "b"], [1]), {"a": 1}) == {"a": 1}
    assert describe(keys(["a", "b"], [1]))["required"] == ["a"]


def test_a_key_may_have_aliases() -> None:
    made = keys(["engine,database, db", "limit"], [1, 0])
    assert run(made, {"db": 1}) == {"engine": 1}
    assert run(made, {"engine": 2, "database": 1}) == {"engine": 2}
    assert run(made, {"all": [3, 4]}) == {"engine": 3, "limit": 4}
    assert describe(made)["keys"] == ["engine", "limit"]
    with pytest.raises(MissingNouns, match="must define engine/database/db"):
        run(made, {})


def test_a_key_of_which_there_may_be_several_has_a_list() -> None:
    made = keys(["a", "b"], [1, 0], [1])
    assert run(made, {"a": 1, "b": 2}) == {"a": [1], "b": 2}
    assert run(made, {"all": [1]}) == {"a": [1]}
    assert run(made, {"a": [1, 2]}) == {"a": [1, 2]}


# What it says of itself


class Declared(Reactor):
    """Text of the class."""

    keys_to_get = ("n", "names", "when", "shape", "free", "limit")
    key_multi = (0, 1, 0, 0, 1)
    key_types: ClassVar[dict[str, Any]] = {
        "n": int,
        "names": "string",
        "when": "date",
        "shape": {"enum": ["a", "b"]},
    }
    key_descriptions: ClassVar[dict[str, str]] = {"n": "How many"}


def test_declared_types_and_descriptions_complete_the_schema() -> None:
    assert describe(Declared)["schemas"] == {
        "n": {"type": "integer", "description": "How many"},
        "names": {"type": "array", "items": {"type": "string"}},
        "when": {"type": "string", "format": "date"},
        "shape": {"enum": ["a", "b"]},
        "free": {"type": "array"},
        "limit": {"type": "integer"},
    }


@pytest.mark.parametrize(
    ("declared", "schema"),
    [
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (int | None, {"type": ["integer", "null"]}),
        ("Map<String,Object>", {"type": "object"}),
        (dict, {"type": "object"}),
        (Decimal, {"type": "number"}),
    ],
)
def test_types_are_those_of_python_and_of_java(declared: Any, schema: dict[str, Any]) -> None:
    made = type("Made", (Keys,), {"keys_to_get": ["x"], "key_types": {"x": declared}})
    assert describe(made)["schemas"]["x"] == schema


def test_a_type_that_is_none_is_told_with_its_key() -> None:
    made = type("Made", (Keys,), {"keys_to_get": ["x"], "key_types": {"x": "whatever"}})
    with pytest.raises(ValueError, match="the type 'whatever' of the key x is not known"):
        describe(made)


def test_methods_say_it_too_in_either_spelling() -> None:
    class Semoss(Declared):
        def getReactorDescription(self) -> str:  # noqa: N802
            return "As written."

        def getDescriptionForKey(self, key: str) -> str | None:  # noqa: N802
            return "When it was" if key == "when" else super().getDescriptionForKey(key)

        def getKeyTypeForMCP(self, key: str) -> Any:  # noqa: N802
            return "boolean" if key == "free" else super().getKeyTypeForMCP(key)

        def getResponseSchema(self) -> dict[str, Any]:  # noqa: N802
            return {"type": "number"}

    class Ours(Semoss):
        pass

    for made in (Semoss, Ours):
        told = describe(made)
        assert told["doc"] == "As written."
        assert told["result"] == {"type": "number"}
        assert told["schemas"]["when"]["description"] == "When it was"
        assert told["schemas"]["n"]["description"] == "How many"
        assert told["schemas"]["free"] == {"type": "array", "items": {"type": "boolean"}}


# Answers


def answers(noun: Any) -> type[Reactor]:
    return type("Answers", (Reactor,), {"execute": lambda self: noun})


@pytest.mark.parametrize(
    "noun",
    [
        NounMetadata.error("no such order"),
        NounMetadata.getErrorNounMessage("no such order", "PANEL"),
        NounMetadata("no such order", PixelDataType.CONST_STRING, PixelOperationType.ERROR),
        NounMetadata("no such order", PixelDataType.ERROR),
        NounMetadata("no such order", PixelDataType.INVALID_SYNTAX),
        NounMetadata("no such order", "CONST_STRING", "LOGGIN_REQUIRED_ERROR"),
        NounMetadata("no such order", "CONST_STRING", "ANONYMOUS_USER_ERROR"),
        NounMetadata({"errorMessage": "no such order"}, PixelDataType.ERROR),
        NounMetadata({"message": "no such order", "code": 1}, PixelDataType.MAP, "ERROR"),
    ],
)
def test_an_error_fails_the_call_with_its_text(noun: NounMetadata) -> None:
    with pytest.raises(ReactorFailed) as caught:
        run(answers(noun), {})
    assert str(caught.value) == "no such order"
    assert caught.value.get_noun() is noun


def test_an_error_without_a_message_shows_its_value() -> None:
    with pytest.raises(ReactorFailed, match=r'\{"code": 7\}'):
        run(answers(NounMetadata.error({"code": 7})), {})


def test_raising_semoss_exception_is_answering_with_an_error() -> None:
    class Raises(Reactor):
        def execute(self) -> Any:
            raise SemossPixelException("not today")

    with pytest.raises(ReactorFailed, match="not today") as caught:
        run(Raises, {})
    assert caught.value.noun.failed
    assert str(SemossPixelException(NounMetadata.error("e"))) == "e"


def test_a_warning_is_the_result_and_stands_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    assert run(answers(NounMetadata.warning("only half of it")), {}) == "only half of it"
    noun = NounMetadata({"rows": 1}, PixelDataType.MAP, "WARNING")
    assert run(answers(noun), {}) == {"rows": 1}
    assert [(one.name, one.levelname, one.getMessage()) for one in caplog.records] == [
        ("Answers", "WARNING", "only half of it"),
        ("Answers", "WARNING", '{"rows": 1}'),
    ]


def test_nouns_beside_the_result_go_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    noun = NounMetadata([1], PixelDataType.VECTOR)
    noun.addAdditionalReturn(NounMetadata.getWarningNounMessage("one was left out"))
    noun.addAllAdditionalReturn([NounMetadata.getSuccessNounMessage("saved"), NounMetadata.error("and lost")])
    assert run(answers(noun), {}) == [1]
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
        ("WARNING", "one was left out"),
        ("INFO", "saved"),
        ("ERROR", "and lost"),
    ]
    assert len(noun.getAdditionalReturn()) == 3


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        (NounMetadata("x"), "x"),
        (NounMetadata("whatever", PixelDataType.NULL_VALUE), None),
        (NounMetadata([NounMetadata(1), NounMetadata([NounMetadata(2)])], "VECTOR"), [1, [2]]),
        (NounMetadata({"a": NounMetadata(None), "b": 2}, "MAP"), {"a": None, "b": 2}),
        (NounMetadata(NounMetadata(3)), 3),
        ([NounMetadata(1), 2], [1, 2]),
        (None, None),
    ],
)
def test_no_noun_is_left_in_a_result(answer: Any, value: Any) -> None:
    assert run(answers(answer), {}) == value


def test_a_noun_is_an_operation_where_nothing_is_said() -> None:
    noun = NounMetadata(1)
    assert noun.getOpType() == ["OPERATION"]
    noun.addAdditionalOpTypes("PANEL_OPEN", PixelOperationType.SUCCESS)
    assert noun.getOpType() == ["OPERATION", "PANEL_OPEN", "SUCCESS"]
    assert (noun.failed, noun.warns) == (False, False)
    with pytest.raises(ValueError, match="NO_SUCH_TYPE"):
        NounMetadata(1, "NO_SUCH_TYPE")


# Streams


class Counting(Reactor):
    keys_to_get = ("to",)
    closed: ClassVar[list[str]] = []

    def execute(self) -> Iterator[Any]:
        try:
            for number in range(self.key_value["to"]):
                yield NounMetadata.error("three") if number == 3 else NounMetadata(number)
        finally:
            self.closed.append("sync")


class CountingLater(Counting):
    async def execute(self) -> AsyncIterator[Any]:  # type: ignore[override]
        try:
            for number in range(self.key_value["to"]):
                yield number
        finally:
            self.closed.append("async")


def test_a_generator_streams_plain_values_and_ends_at_an_error() -> None:
    assert list(run(Counting, {"to": 2})) == [0, 1]
    items = run(Counting, {"to": 9})
    assert [next(items), next(items), next(items)] == [0, 1, 2]
    with pytest.raises(ReactorFailed, match="three"):
        next(items)


def test_a_stream_that_is_left_is_closed() -> None:
    Counting.closed.clear()
    items = run(Counting, {"to": 2})
    next(items)
    items.close()
    assert Counting.closed == ["sync"]


async def test_an_async_generator_streams_too() -> None:
    Counting.closed.clear()
    items = run(CountingLater, {"to": 2})
    assert await anext(items) == 0
    await items.aclose()
    assert Counting.closed == ["async"]


# Reactors that run reactors


class AddReactor(Reactor):
    keys_to_get = ("a", "b")
    key_required = (1, 0)

    def execute(self) -> Any:
        if self.key_value["a"] == "?":
            return NounMetadata.error("a is no number")
        return NounMetadata(self.key_value["a"] + self.key_value.get("b", 0), PixelDataType.CONST_INT)


class AddLaterReactor(AddReactor):
    async def execute(self) -> Any:
        await asyncio.sleep(0)
        return super().execute()


class Outer(Reactor):
    keys_to_get = ("reactor", "a", "b")
    key_required = (0, 0, 0)

    def execute(self) -> Any:
        noun = self.run_reactor(self.key_value.get("reactor", AddReactor), {"a": self.key_value["a"]}, 10)
        (child,) = self.getChildReactors()
        assert child.getParentReactor() is self
        return [noun.value, noun.data_type]


class OuterLater(Outer):
    async def execute(self) -> Any:
        return (await self.await_reactor(self.key_value["reactor"], {"a": 1, "b": 2})).value


@pytest.mark.parametrize(
    "name", [None, "AddReactor", "Add", "AddLater", f"{__name__}.AddReactor", f"{__name__}:AddReactor"]
)
def test_a_reactor_runs_another_by_class_or_name(name: str | None) -> None:
    arguments = {"a": 1} | ({"reactor": name} if name else {})
    assert run(Outer, arguments) == [11, PixelDataType.CONST_INT]


@pytest.mark.parametrize("name", ["Add", "AddLater"])
async def test_an_async_reactor_awaits_another(name: str) -> None:
    assert await run(OuterLater, {"reactor": name}) == 3


async def test_running_an_async_reactor_on_a_loop_says_what_to_write() -> None:
    with pytest.raises(TypeError, match="AddLaterReactor is async: write await self"):
        run(Outer, {"a": 1, "reactor": "AddLater"})


def test_a_generator_that_is_run_by_another_gives_its_items() -> None:
    class Collects(Reactor):
        def execute(self) -> Any:
            return [self.run_reactor(one, {"to": 2}).value for one in (Counting, CountingLater)]

    assert run(Collects, {}) == [[0, 1], [0, 1]]


def test_an_error_of_an_inner_reactor_is_raised_in_the_outer_one() -> None:
    with pytest.raises(ReactorFailed, match="a is no number"):
        run(Outer, {"a": "?"})


def test_an_unknown_reactor_is_told_with_those_that_look_like_it() -> None:
    with pytest.raises(UnknownReactor, match="there is no reactor Addd; did you mean AddReactor"):
        run(Outer, {"a": 1, "reactor": "Addd"})
    with pytest.raises(UnknownReactor, match="has no reactor run"):
        run(Outer, {"a": 1, "reactor": "enginehost.reactor.run"})
    with pytest.raises(UnknownReactor, match="no reactor PixelDataType"):
        run(Outer, {"a": 1, "reactor": "enginehost.reactor:PixelDataType"})


def test_a_name_that_several_reactors_have_is_refused() -> None:
    made = [type("TwinOfTheTest", (Reactor,), {"__module__": f"m{number}"}) for number in (1, 2)]
    with pytest.raises(UnknownReactor, match="several reactors are named TwinOfTheTest: m1:"):
        run(Outer, {"a": 1, "reactor": made[0].__name__})


def test_a_reactor_may_be_run_as_java_code_does_it() -> None:
    child = AddReactor()
    child.In()
    child.getNounStore().makeNoun("a").add(1)
    child.curRow.add(2)
    child.organizeKeys()
    assert child.execute() == NounMetadata(3, PixelDataType.CONST_INT)


def test_execute_may_take_the_store_and_the_row_as_reactor_functions_do() -> None:
    class OfEngine(Reactor):
        def __init__(self) -> None:
            self.keysToGet = ["a", "b"]
            self.keyRequired = [1, 1]

        def execute(self, store: NounStore, row: GenRowStruct) -> Any:
            keyed = self.organizeKeys(store, row)
            return [keyed["a"], keyed["b"], row.size(), store.getGenRowStruct("b").get(0)]

    assert run(OfEngine, {"b": 2, "all": [1]}) == [1, 2, 1, 2]


# Reading


class Reads(Reactor):
    keys_to_get = ("x", "y")

    def execute(self) -> Any:
        read = getattr(self, self.get_string("y") or "")
        return read(0)


@pytest.mark.parametrize(
    ("read", "given_value", "value"),
    [
        ("getString", 5, "5"),
        ("getString", True, "true"),
        ("getInt", "5", 5),
        ("getInt", 5.9, 5),
        ("getLong", 2**60, 2**60),
        ("getDouble", "0.5", 0.5),
        ("getBoolean", "TRUE", True),
        ("getBoolean", "yes", False),
        ("getBoolean", False, False),
        ("getMap", {"a": 1}, {"a": 1}),
        ("getMap", [1, {"a": 1}], {"a": 1}),
        ("getMap", 5, None),
        ("getList", [1, 2], [1, 2]),
        ("getList", [], None),
        ("getListString", [1, "a"], ["1", "a"]),
        ("getNounAsStringList", "a", ["a"]),
        ("getInt", None, None),
    ],
)
def test_nouns_are_read_as_the_type_that_is_asked_for(read: str, given_value: Any, value: Any) -> None:
    assert run(Reads, {"x": given_value, "y": read}) == value
    if not isinstance(given_value, list):
        assert run(Reads, {"all": [given_value], "y": read}) == value


def test_what_cannot_be_read_is_told_with_its_key() -> None:
    with pytest.raises(ValueError, match="the noun 0: invalid literal"):
        run(Reads, {"x": "five", "y": "getInt"})


def test_what_is_not_there_is_the_default() -> None:
    reactor = Reads()
    assert reactor.getInt("x", 3) == 3
    assert reactor.get_list("x", [1]) == [1]
    assert reactor.getString("nowhere") is None


# Rows and stores


def test_a_row_answers_by_type() -> None:
    row = GenRowStruct()
    for value in ("a", 1, 2.5, None, {"k": 1}):
        row.add(value)
    row.add("col", PixelDataType.COLUMN)
    assert row.getAllStrValues() == ["a", "col"]
    assert row.getAllNumericColumns() == [1, 2.5]
    assert row.getValuesOfType("MAP") == [{"k": 1}]
    assert (row.get(1), row.getMeta(1), row.getNoun(0).value) == (1, PixelDataType.CONST_INT, "a")
    assert predict_of(Decimal("1.5")) is PixelDataType.CONST_DECIMAL


def predict_of(value: Any) -> PixelDataType:
    return NounMetadata(value).data_type


def test_rows_under_one_name_are_counted() -> None:
    store = NounStore()
    for values in ([1, 2], [3]):
        row = GenRowStruct()
        row.add(values)
        store.addNoun("x", row)
    assert store.getNoun("x") == [NounMetadata(1), NounMetadata(2), NounMetadata(3)]
    assert store.getCountForNoun("x") == 2
    assert [noun.value for noun in store.getNoun("x", 1) or ()] == [1, 2]
    assert [noun.value for noun in store.getNoun("x", 2) or ()] == [3]
    assert store.getNoun("x", 3) is store.getNoun("x", 0) is store.getNoun("y") is None
    assert store.removeNoun("x") is not None
    assert (store.size(), store.getCountForNoun("x")) == (0, 0)


def test_loggers_have_the_name_of_the_class(caplog: pytest.LogCaptureFixture) -> None:
    Reads().getLogger().warning("here")
    assert caplog.records[0].name == "Reads"
