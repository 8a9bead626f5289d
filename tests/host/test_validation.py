"""What a caller is told about arguments that do not fit, and what text may become."""

from __future__ import annotations

import json
import time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from enginehost.errors import ConfigError, InvalidArguments, ResultInvalid
from enginehost.testing import strategies
from enginehost.validation import Validator, check_arguments, check_result, closed, coerced, defaults, pointer

KINDS = ("integer", "number", "boolean", "array", "object", "null", "string")

numbers_as_text = st.one_of(
    st.integers().map(str),
    st.floats().map(repr),
    st.decimals(allow_nan=True).map(str),
    st.from_regex(r"-?[0-9]{1,25}(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,4})?", fullmatch=True),
)
texts = st.one_of(
    numbers_as_text,
    strategies.json_values().map(json.dumps),
    st.sampled_from(("", " ", "true", "TRUE", "null", "NaN", "[NaN]", "[1e999]", "7.0", "1e5", "007", "+5")),
    st.text(max_size=20),
)


def exactly(text: str) -> Any:
    """The JSON value with every digit; raises ``ValueError`` where there is none."""

    def refuse(constant: str) -> Any:
        raise ValueError(constant)

    return json.loads(text.strip(), parse_float=Decimal, parse_constant=refuse)


@given(text=texts, kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=3, unique=True))
@settings(max_examples=400, deadline=None)
@example(text="9007199254740993.0", kinds=["integer"])
@example(text="1e23", kinds=["integer"])
@example(text="1e999999999", kinds=["integer"])
@example(text="1e999", kinds=["number"])
@example(text="1" + "0" * 400, kinds=["number"])
@example(text="9" * 5000, kinds=["integer"])
@example(text="[NaN]", kinds=["array"])
@example(text="[1e999]", kinds=["array"])
@example(text="[" * 100_000, kinds=["array"])
def test_text_becomes_only_what_it_means(text: str, kinds: list[str]) -> None:
    schema = {"type": "object", "properties": {"x": {"type": kinds}}}
    value = coerced(schema, {"x": text})["x"]
    if value is text or value == text:
        return
    assert "string" not in kinds
    if isinstance(value, bool):
        assert text.strip().lower() == str(value).lower()
    elif value is None:
        assert text in ("null", "")
    elif isinstance(value, int):
        assert exactly(text) == value
    else:
        assert json.loads(text.strip()) == value
        assert "Infinity" not in json.dumps(value)
        assert "NaN" not in json.dumps(value)
    assert Validator(closed(schema)).is_valid({"x": value})


@given(value=st.integers() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=100, deadline=None)
def test_a_value_sent_as_its_json_text_arrives_as_itself(value: Any) -> None:
    kind = "boolean" if isinstance(value, bool) else "integer" if isinstance(value, int) else "number"
    schema = {"type": "object", "properties": {"x": {"type": kind}}}
    found = coerced(schema, {"x": json.dumps(value)})["x"]
    assert found == value
    assert type(found) is type(value)


@given(data=st.data(), signature=strategies.signatures())
@settings(max_examples=60, deadline=None)
def test_arguments_that_fit_are_left_alone_and_given_twice_give_the_same(
    data: st.DataObject, signature: Any
) -> None:
    arguments = data.draw(strategies.arguments(signature))
    check_arguments("f", Validator(signature.parameters), arguments)
    once = coerced(signature.parameters, arguments)
    assert {name: value for name, value in once.items() if not isinstance(arguments[name], str)} == {
        name: value for name, value in arguments.items() if not isinstance(value, str)
    }
    assert coerced(signature.parameters, once) == once


@given(
    signature=strategies.signatures(),
    arguments=st.dictionaries(strategies.names, strategies.json_values(), max_size=5),
)
@settings(max_examples=80, deadline=None)
def test_a_refusal_says_where_and_what_and_is_json(signature: Any, arguments: dict[str, Any]) -> None:
    validator = Validator(closed(signature.parameters))
    if validator.is_valid(arguments):
        return
    with pytest.raises(InvalidArguments) as caught:
        check_arguments("f", validator, arguments)
    errors = json.loads(json.dumps(caught.value.to_json()))["detail"]["errors"]
    assert 1 <= len(errors) <= 20
    for error in errors:
        assert error["message"]
        if "…" not in error["pointer"]:
            resolved(arguments, error["pointer"])


def resolved(document: Any, where: str) -> Any:
    """RFC 6901."""
    for part in where.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        document = document[int(key)] if isinstance(document, list) else document[key]
    return document


@given(path=st.lists(st.text() | st.integers(0, 3), max_size=5))
@settings(max_examples=150, deadline=None)
def test_a_pointer_leads_back_to_its_place(path: list[str | int]) -> None:
    document: Any = "found"
    for part in reversed(path):
        document = {part: document} if isinstance(part, str) else [None] * part + [document]
    assert resolved(document, pointer(path)) == "found"


HUGE = "x" * 300_000


@pytest.mark.parametrize(
    "arguments",
    [
        {"a": HUGE},
        {HUGE: 1, "a": 1},
        {"a": 1, "deep": {HUGE: {"b": []}}},
        {f"{HUGE}{n}": n for n in range(3)},
        {f"unknown{n}": n for n in range(100_000)},
        {"a": ["x"] * 100_000},
        {"a": 1, "list": ["x"] * 100_000},
    ],
    ids=["value", "name", "path", "names", "many names", "list", "many wrong items"],
)
def test_a_refusal_stays_small_and_quick_whatever_was_sent(arguments: dict[str, Any]) -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "list": {"type": "array", "items": {"type": "integer"}},
            "deep": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
    }
    started = time.perf_counter()
    with pytest.raises(InvalidArguments) as caught:
        check_arguments("f", Validator(closed(schema)), arguments)
    assert time.perf_counter() - started < 3  # a tenth of it, measured
    assert len(caught.value.message) < 1000
    assert len(json.dumps(caught.value.to_json())) < 30_000


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string", "pattern": "^(a+)+$"}, "a" * 40 + "!"),
        ({"type": "array", "uniqueItems": True}, [{"n": n} for n in range(8000)] + [{"n": 0}]),
        ({"type": "object", "patternProperties": {"^(a+)+$": {"type": "integer"}}}, {"a" * 40: "x"}),
        (
            {"type": "object", "patternProperties": {"^(b+)+$": {}}, "additionalProperties": False},
            {"b" * 40 + "!": "x"},
        ),
    ],
    ids=["pattern", "uniqueItems", "patternProperties", "additionalProperties"],
)
def test_no_text_of_a_caller_makes_the_explanation_run_for_ever(schema: dict[str, Any], value: Any) -> None:
    validator = Validator({"type": "object", "properties": {"x": schema}})
    started = time.perf_counter()
    with pytest.raises(InvalidArguments) as caught:
        check_arguments("f", validator, {"x": value})
    assert time.perf_counter() - started < 2  # milliseconds, measured
    assert caught.value.detail["errors"][0]["pointer"].startswith("/x")


@pytest.mark.parametrize(
    "odd",
    [
        {"a": float("nan")},
        {"a": float("inf")},
        {"a": object()},
        {"a": {1, 2}},
        {1: 2},
        {"a": "\ud800"},
        {"a": 10**5000},
        {"\ud800": 1},
        {("a", "b"): 1},
        {"a": type},
    ],
    ids=lambda odd: str(list(odd)).encode("ascii", "backslashreplace").decode()[:20],
)
def test_odd_values_are_refused_and_never_break_the_host(odd: dict[Any, Any]) -> None:
    schema = closed({"type": "object", "properties": {"a": {"type": "boolean"}}})
    with pytest.raises(InvalidArguments) as caught:
        check_arguments("f", Validator(schema), odd)
    assert caught.value.detail["errors"]


def test_a_cycle_is_refused() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    schema = closed({"type": "object", "properties": {"a": {"type": "boolean"}}})
    with pytest.raises(InvalidArguments):
        check_arguments("f", Validator(schema), {"a": cycle})


def test_a_result_that_cannot_be_json_is_refused_as_a_result() -> None:
    for result in (object(), float("nan"), {("a",): 1}, 10**5000, "\ud800"):
        with pytest.raises(ResultInvalid):
            check_result("f", Validator({"type": "boolean"}), result)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "http://localhost:9/nothing"}}},
        {"type": "strange"},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
    ],
)
def test_a_schema_that_is_none_is_the_authors_mistake(schema: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="schema") as caught:
        Validator(schema)
    assert len(caught.value.message) < 500


@given(signature=strategies.signatures(), more=strategies.names)
@settings(max_examples=60, deadline=None)
def test_an_argument_that_nobody_declared_is_refused_unless_the_schema_speaks_of_others(
    signature: Any, more: str
) -> None:
    parameters = signature.parameters
    shut = closed(parameters)
    assert {key: value for key, value in shut.items() if key != "additionalProperties"} == {
        key: value for key, value in parameters.items() if key != "additionalProperties"
    }
    assert closed(shut) == shut
    speaks = {"additionalProperties", "anyOf", "allOf", "not"} & set(parameters)
    if not speaks and more not in signature.properties:
        assert not Validator(shut).is_valid({more: 1})


def test_defaults_are_those_that_are_declared() -> None:
    schema = {"properties": {"a": {"default": None}, "b": {}, "c": {"default": 0}, "d": True}}
    assert defaults(schema) == {"a": None, "c": 0}
