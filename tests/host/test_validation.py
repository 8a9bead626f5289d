"""What a caller is told about arguments that do not fit, and what text may become."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from enginehost.errors import ConfigError, InvalidArguments, ResultInvalid
from enginehost.schema_walk import TooMuch
from enginehost.testing import strategies
from enginehost.validation import Validator, check_arguments, check_result, closed, coerced, defaults, pointer
from enginehost.values import decode, encode

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


def refusal(validator: Validator, arguments: dict[str, Any]) -> InvalidArguments:
    with pytest.raises(InvalidArguments) as caught:
        check_arguments("f", validator, arguments)
    return caught.value


@pytest.mark.parametrize(
    "sent",
    [
        lambda size: {"a": "x" * size},
        lambda size: {"x" * size: 1, "a": 1},
        lambda size: {"a": 1, "deep": {"x" * size: {"b": []}}},
        lambda size: {f"{'x' * size}{n}": n for n in range(3)},
        lambda size: {f"unknown{n}": n for n in range(size)},
        lambda size: {"a": ["x"] * size},
        lambda size: {"a": 1, "list": ["x"] * size},
    ],
    ids=["value", "name", "path", "names", "many names", "list", "many wrong items"],
)
def test_a_refusal_stays_small_and_costs_what_was_sent_at_most(
    sent: Callable[[int], dict[str, Any]], grows_evenly: Any
) -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "list": {"type": "array", "items": {"type": "integer"}},
            "deep": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
    }
    validator = Validator(closed(schema))

    def prepare(size: int) -> Callable[[], object]:
        arguments = sent(size)
        return lambda: refusal(validator, arguments)

    grows_evenly(prepare, 10_000, 160_000)
    error = refusal(validator, sent(160_000))
    assert len(error.message) < 1000
    assert len(json.dumps(error.to_json())) < 30_000


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string", "pattern": "^(a+)+$"}, lambda n: "a" * n + "!"),
        ({"type": "array", "uniqueItems": True}, lambda n: [{"n": n} for n in range(n)] + [{"n": 0}]),
        ({"type": "object", "patternProperties": {"^(a+)+$": {"type": "integer"}}}, lambda n: {"a" * n: "x"}),
        (
            {"type": "object", "patternProperties": {"^(b+)+$": {}}, "additionalProperties": False},
            lambda n: {"b" * n + "!": "x"},
        ),
    ],
    ids=["pattern", "uniqueItems", "patternProperties", "additionalProperties"],
)
def test_no_text_of_a_caller_makes_the_explanation_take_for_ever(
    schema: dict[str, Any], value: Callable[[int], Any], grows_evenly: Any
) -> None:
    validator = Validator({"type": "object", "properties": {"x": schema}})

    def prepare(size: int) -> Callable[[], object]:
        arguments = {"x": value(size)}
        return lambda: refusal(validator, arguments)

    grows_evenly(prepare, 500, 8000)
    assert refusal(validator, {"x": value(8000)}).detail["errors"][0]["pointer"].startswith("/x")


NO_TYPE = "no type"


@pytest.mark.parametrize(
    ("odd", "fits"),
    [
        ({"a": float("nan")}, {NO_TYPE}),
        ({"a": [float("nan")]}, {NO_TYPE, "array"}),
        ({"a": float("inf")}, {NO_TYPE}),
        ({"a": object()}, {NO_TYPE}),
        ({"a": {1, 2}}, {NO_TYPE, "array"}),
        ({1: 2}, set()),
        ({"a": "\ud800"}, {NO_TYPE, "string"}),
        ({"a": {"\ud800": 1}}, {NO_TYPE, "object"}),
        ({"a": 10**5000}, {NO_TYPE, "integer"}),  # as a number it has too many digits to be looked at
        ({"\ud800": 1}, set()),
        ({("a", "b"): 1}, set()),
        ({"a": type}, {NO_TYPE}),
    ],
    ids=lambda odd: ascii(list(odd))[:20] if isinstance(odd, dict) else None,
)
def test_odd_values_fit_the_type_that_is_theirs_or_are_refused_and_never_break_the_host(
    odd: dict[Any, Any], fits: set[str]
) -> None:
    for kind in (NO_TYPE, *KINDS):
        schema = closed({"type": "object", "properties": {"a": {} if kind == NO_TYPE else {"type": kind}}})
        if kind in fits:
            check_arguments("f", Validator(schema), odd)
            continue
        with pytest.raises(InvalidArguments) as caught:
            check_arguments("f", Validator(schema), odd)
        assert decode(encode(caught.value.to_json()))["detail"]["errors"]


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        ({"type": "string", "contentEncoding": "base64"}, b"abc", True),
        ({"type": "array", "items": {"type": "string"}}, [b"abc", "d"], True),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, {"a": bytearray(b"abc")}, True),
        ({"type": "object", "required": ["$bytes"]}, b"abc", True),
        ({"type": "integer"}, b"abc", False),
        ({"type": "string"}, {"$bytes": "YWJj"}, False),
    ],
)
def test_bytes_count_as_the_text_that_a_parameter_of_bytes_declares(
    schema: dict[str, Any], value: Any, fits: bool
) -> None:
    validator = Validator(closed({"type": "object", "properties": {"v": schema}}))
    if fits:
        check_arguments("f", validator, {"v": value})
    else:
        with pytest.raises(InvalidArguments, match="at /v"):
            check_arguments("f", validator, {"v": value})


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


def test_one_line_says_all_that_is_wrong_the_misspelt_name_first() -> None:
    schema = {"type": "object", "properties": {"name": {}, "n": {"type": "integer"}}, "required": ["name"]}
    error = refusal(Validator(closed(schema)), {"nam": "Ada", "n": "x"})
    assert error.message == (
        'f: "nam" is not a parameter (did you mean "name"?); "name" is a required property; '
        'at /n: "x" is not of type "integer"'
    )
    assert len(error.detail["errors"]) == 3


def test_one_line_has_an_end() -> None:
    schema = {"type": "object", "properties": {f"p{n}": {"type": "integer"} for n in range(9)}}
    error = refusal(Validator(closed(schema)), {f"p{n}": "x" for n in range(9)})
    assert error.message.startswith('f at /p0: "x" is not of type "integer"; at /p1: ')
    assert error.message.endswith(" (and 4 more)")


RECURSIVE = {
    "type": "object",
    "properties": {"v": {"$ref": "#/$defs/t"}},
    "required": ["v"],
    "$defs": {
        "t": {
            "anyOf": [
                {"type": "object", "properties": {"k": {"$ref": "#/$defs/t"}}, "required": [name]}
                for name in ("x", "y")
            ]
        }
    },
}


def nested(depth: int, leaf: Any) -> dict[str, Any]:
    for _ in range(depth):
        leaf = {"k": leaf}
    return {"v": leaf}


def test_a_schema_that_refers_to_itself_is_explained_however_deep_the_value(grows_evenly: Any) -> None:
    validator = Validator(RECURSIVE)

    def prepare(depth: int) -> Callable[[], object]:
        arguments = nested(depth, {"z": 1})
        return lambda: (refusal(validator, arguments), validator.broken_rule(arguments))

    grows_evenly(prepare, 15, 120)
    error = refusal(validator, nested(15, {"z": 1}))
    assert [one["pointer"] for one in error.detail["errors"]] == ["/v"]
    assert error.message.startswith("f at /v: {")
    assert error.message.endswith(" is not valid under any of the given schemas")
    with pytest.raises(ResultInvalid, match=r"forbids: the rule /[$]defs/t/anyOf is "):
        check_result("f", validator, nested(15, {"z": 1}))


def test_a_verdict_that_would_take_for_ever_is_given_in_time(grows_evenly: Any) -> None:
    halves = [{"properties": {"k": {"$ref": "#/$defs/t"}}}, {"properties": {"k": {"$ref": "#/$defs/t"}}}]
    schema = {**RECURSIVE, "$defs": {"t": {"allOf": halves, "unevaluatedProperties": False}}}
    validator = Validator(schema)
    assert not validator.at_once(nested(3, {}))

    def prepare(depth: int) -> Callable[[], object]:
        fits, fits_not = nested(depth, {}), nested(depth, {"z": 1})
        return lambda: (check_arguments("f", validator, fits), refusal(validator, fits_not))

    grows_evenly(prepare, 15, 120)
    (found,) = refusal(validator, nested(2, {"z": 1})).detail["errors"]
    assert found == {"pointer": "/v/k/k", "message": '{"z":1} has names that are not allowed'}


def test_what_takes_longer_than_a_moment_is_said_not_to_be_known_yet() -> None:
    validator = Validator({**RECURSIVE, "$defs": {"t": {"items": {"$ref": "#/$defs/t"}, "type": "array"}}})
    arguments = {"v": [[[]] for _ in range(1000)] + [[1]]}
    with pytest.raises(TooMuch):
        check_arguments("f", validator, arguments, hurry=True)
    with pytest.raises(TooMuch):
        check_result("f", validator, arguments, hurry=True)
    assert refusal(validator, arguments).detail["errors"][0]["pointer"] == "/v/1000/0"


def test_what_cannot_be_judged_at_all_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("enginehost.validation._WITH_TIME", (50, 60.0))
    of = {"items": {"$ref": "#/$defs/t"}, "unevaluatedItems": False}
    validator = Validator({**RECURSIVE, "$defs": {"t": of}})
    arguments = {"v": [[] for _ in range(100)]}
    with pytest.raises(InvalidArguments, match="nest too deep, for a schema that refers to itself"):
        check_arguments("f", validator, arguments)
    with pytest.raises(ResultInvalid, match="nests too deep, for a schema that refers to itself"):
        check_result("f", validator, arguments)
    explained = Validator({**RECURSIVE, "$defs": {"t": {"items": {"$ref": "#/$defs/t"}, "maxItems": 200}}})
    arguments = {"v": [[] for _ in range(100)] + [[0] * 300]}
    assert refusal(explained, arguments).message == "f: the arguments do not fit the schema"


def test_one_wrong_item_at_the_end_of_a_long_list_is_found(grows_evenly: Any) -> None:
    items = {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}}
    validator = Validator({"type": "object", "properties": {"v": items}})

    def prepare(size: int) -> Callable[[], object]:
        arguments = {"v": ["x"] * size + [1]}
        return lambda: refusal(validator, arguments)

    grows_evenly(prepare, 2_000, 64_000)
    assert refusal(validator, {"v": ["x"] * 64_000 + [1]}).detail["errors"][0]["pointer"] == "/v/64000"


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (False, 1, "1 is not allowed here"),
        ({"type": ["string", "null"]}, 1, '1 is not of type "string", "null"'),
        ({"enum": ["a", 1]}, "b", '"b" is not one of ["a",1]'),
        ({"const": {"a": 1}}, 1, '{"a":1} was expected'),
        ({"minimum": 3}, 2, "2 is less than the minimum of 3"),
        ({"maximum": 3}, 4.5, "4.5 is greater than the maximum of 3"),
        ({"exclusiveMinimum": 3}, 3, "3 is not greater than 3"),
        ({"exclusiveMaximum": 3}, 3, "3 is not less than 3"),
        ({"multipleOf": 2}, 3, "3 is not a multiple of 2"),
        ({"minLength": 1}, "", '"" should not be empty'),
        ({"minLength": 3}, "ab", '"ab" is shorter than 3 characters'),
        ({"maxLength": 1}, "ab", '"ab" is longer than 1 character'),
        ({"pattern": "^a$"}, "b", '"b" does not match "^a$"'),
        ({"format": "date"}, "b", '"b" is not a "date"'),
        ({"minItems": 2}, [1], "[1] has fewer than 2 items"),
        ({"maxItems": 0}, [1], "[1] should be empty"),
        ({"uniqueItems": True}, [1, 1], "the items are not all different"),
        ({"contains": {"const": 2}}, [1], "[1] does not hold as many items of the kind that it should"),
        ({"unevaluatedItems": False}, [1], "[1] has items that are not allowed"),
        ({"minProperties": 2}, {"a": 1}, '{"a":1} has fewer than 2 names'),
        ({"maxProperties": 1}, {"a": 1, "b": 1}, '{"a":1,"b":1} has more than 1 name'),
        ({"required": ["b"]}, {"a": 1}, '"b" is a required property'),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, '{"a":1} lacks a property that another one requires'),
        ({"additionalProperties": False}, {"a": 1}, '"a" is not a parameter'),
        ({"unevaluatedProperties": False}, {"a": 1}, '{"a":1} has names that are not allowed'),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, '"ab" is longer than 1 character'),
        ({"anyOf": [{"type": "string"}]}, 1, "1 is not valid under any of the given schemas"),
        (
            {"oneOf": [{}, {}]},
            1,
            "1 is valid under none, or under several, of schemas of which it should fit",
        ),
        ({"not": {"type": "integer"}}, 1, '1 should not be valid under {"type":"integer"}'),
        ({"if": {"type": "integer"}, "then": {"minimum": 2}}, 1, "1 is less than the minimum of 2"),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, {"a": 1}, '"b" is a required property'),
    ],
    ids=str,
)
def test_each_keyword_has_words_of_its_own(schema: Any, value: Any, message: str) -> None:
    (found,) = refusal(Validator({"properties": {"x": schema}}), {"x": value}).detail["errors"]
    assert found["pointer"] == "/x"
    assert found["message"].startswith(message)


def test_values_that_stand_nowhere_in_json_are_told_with_one_place() -> None:
    validator = Validator({"type": "object", "properties": {"v": {"type": "string"}}})
    error = refusal(validator, {"v": [1, object()]})
    assert error.message == "f at /v/1: a value of type object has no JSON form"
    assert error.detail["errors"] == [
        {"pointer": "/v/1", "message": "a value of type object has no JSON form"}
    ]
