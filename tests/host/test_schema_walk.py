"""The check that takes a bounded number of steps: what it says, and what it costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator

from enginehost.schema_references import MOST_AT_ONCE, is_endless
from enginehost.schema_walk import Budget, TooMuch, Walk

MANY = 1_000_000
AGAIN = {"$ref": "#/$defs/t"}


def walk(schema: dict[str, Any], steps: int = MANY) -> Walk:
    return Walk(schema, Budget(steps, 60.0))


def tree(of: dict[str, Any], **further: Any) -> dict[str, Any]:
    """A schema that refers to itself."""
    return {**AGAIN, "$defs": {"t": of, **further}}


LEAVES = st.sampled_from(
    [True, False, {"type": "object"}, {"type": "integer"}, {"required": ["x"]}, {"minProperties": 2}, {}]
)
REFERENCES = st.sampled_from([AGAIN, {"$ref": "#/$defs/u"}, {"$dynamicRef": "#anchor"}])


def inside(here: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas of parts of a value, which may begin again, in schemas of the value."""
    part = here | REFERENCES
    some = st.lists(here, min_size=1, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "properties": st.fixed_dictionaries({}, optional={"k": part, "x": part}),
            "patternProperties": st.fixed_dictionaries({"^k": part}),
            "additionalProperties": part,
            "propertyNames": here,
            "unevaluatedProperties": part,
            "items": part,
            "prefixItems": st.lists(part, min_size=1, max_size=2),
            "contains": part,
            "unevaluatedItems": part,
            "dependentSchemas": st.fixed_dictionaries({"k": here}),
            "anyOf": some,
            "oneOf": some,
            "allOf": some,
            "not": here,
            "if": here,
            "then": here,
            "else": here,
            "type": st.sampled_from(["object", "array", ["integer", "object"]]),
        },
    )


SCHEMAS = inside(st.recursive(LEAVES, inside, max_leaves=4))
VALUES = st.recursive(
    st.integers(0, 2) | st.just("text"),
    lambda value: (
        st.lists(value, max_size=2) | st.dictionaries(st.sampled_from(["k", "x", "other"]), value, max_size=3)
    ),
    max_leaves=6,
)


@given(first=SCHEMAS, second=SCHEMAS, value=VALUES)
@settings(max_examples=300, deadline=None)
def test_any_schema_that_refers_to_itself_says_what_the_compiled_check_says(
    first: dict[str, Any], second: dict[str, Any], value: Any
) -> None:
    schema = tree({"$dynamicAnchor": "anchor", **first}, u=second)
    try:
        fits = Draft202012Validator(schema).is_valid(value)
    except RuntimeError:  # some dynamic references are too much for it
        assume(False)
    assert walk(schema).fits(value) is fits
    assert (next(walk(schema).faults(value), None) is None) is fits


def steps_of(ask: Callable[[Walk], object], schema: dict[str, Any]) -> int:
    budget = Budget(MANY, 60.0)
    ask(Walk(schema, budget))
    return MANY - budget.steps


def nested(depth: int, leaf: Any, key: str | None = "k") -> Any:
    for _ in range(depth):
        leaf = {key: leaf} if key else [leaf]
    return leaf


BRANCHES = [{"properties": {"k": AGAIN, "x": {"type": "string"}}}, {"properties": {"k": AGAIN, "y": False}}]
ENDLESS = {
    "anyOf": (tree({"anyOf": BRANCHES}), nested),
    "oneOf": (tree({"oneOf": [{"type": "integer"}, *BRANCHES]}), nested),
    "allOf": (tree({"allOf": BRANCHES}), nested),
    "if": (tree({"if": BRANCHES[0], "then": BRANCHES[1], "else": BRANCHES[1]}), nested),
    "unevaluatedProperties": (tree({"allOf": BRANCHES, "unevaluatedProperties": {"type": "string"}}), nested),
    "unevaluatedItems": (
        tree({"anyOf": [{"prefixItems": [AGAIN]}, {"contains": AGAIN}], "unevaluatedItems": AGAIN}),
        lambda depth, leaf: nested(depth, leaf, None),
    ),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_the_steps_grow_evenly_with_the_depth_of_the_value(name: str) -> None:
    schema, value_of = ENDLESS[name]
    for ask in (lambda one: one.fits, lambda one: lambda value: list(one.faults(value))):
        few, many = (
            steps_of(lambda one, d=depth, a=ask: a(one)(value_of(d, {"x": 1, "y": 1})), schema)
            for depth in (10, 100)
        )
        assert few < 400
        assert many < 11 * few


def test_a_schema_that_doubles_from_one_definition_to_the_next_takes_a_step_for_each() -> None:
    chain = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(50)}
    schema = {"$ref": "#/$defs/a0", "$defs": {**chain, "a50": {"type": "integer"}}}
    assert is_endless(schema)
    assert steps_of(lambda one: one.fits("text"), schema) < 300
    (fault,) = walk(schema).faults("text")
    assert (fault.keyword, fault.rule) == ("type", ("$defs", "a50", "type"))


def test_a_budget_that_is_used_up_is_no_verdict() -> None:
    schema, value_of = ENDLESS["allOf"]
    with pytest.raises(TooMuch):
        walk(schema, 20).fits(value_of(50, {"x": 1}))
    with pytest.raises(TooMuch):
        list(walk(schema, 20).faults(value_of(50, {"x": 1})))
    with pytest.raises(TooMuch):
        Walk(schema, Budget(MANY, 0.0)).fits(value_of(50, {"x": 1}))


def test_what_nests_deeper_than_the_stack_is_no_verdict_either() -> None:
    schema, value_of = ENDLESS["allOf"]
    with pytest.raises(TooMuch):
        walk(schema).fits(value_of(900, {"x": 1}))


def test_long_lists_and_objects_of_what_fits_cost_a_step_for_a_thousand() -> None:
    schema = {
        "properties": {"list": {"items": {"type": "string"}}},
        "additionalProperties": {"type": "integer"},
        "patternProperties": {"^p": {"type": "integer"}},
    }
    value: dict[str, Any] = {f"n{n}": n for n in range(20_000)} | {f"p{n}": n for n in range(20_000)}
    value["list"] = ["text"] * 100_000 + [1] + ["text"] * 100_000
    value["last"] = "no integer"
    budget = Budget(5000, 60.0)
    found = [(fault.path, fault.keyword) for fault in Walk(schema, budget).faults(value)]
    assert found == [(("list", 100_000), "type"), (("last",), "type")]


def test_a_fault_says_which_part_breaks_which_rule() -> None:
    schema = {
        "properties": {
            "a/b": {"items": {"$ref": "#/$defs/~1odd%25"}},
            "c": {"prefixItems": [{"minimum": 3}], "items": False},
            "d": {"$ref": "#here"},
            "e": {"propertyNames": {"maxLength": 1}},
        },
        "required": ["f", "g"],
        "$defs": {"/odd%": {"enum": [1]}, "anchored": {"$anchor": "here", "type": "null"}},
    }
    value = {"a/b": [1, 2], "c": [1, 2], "d": 1, "e": {"long": 1}, "f": 1}
    found = [(fault.path, fault.rule, fault.wanted) for fault in walk(schema).faults(value)]
    assert found == [
        (("a/b", 1), ("$defs", "/odd%", "enum"), [1]),
        (("c", 0), ("properties", "c", "prefixItems", 0, "minimum"), 3),
        (("c", 1), ("properties", "c", "items"), False),
        (("d",), ("here", "type"), "null"),
        (("e",), ("properties", "e", "propertyNames", "maxLength"), 1),
        ((), ("required",), "g"),
    ]


def test_one_wrong_value_in_many_places_is_told_for_each_and_once_for_each() -> None:
    schema = tree({"allOf": [{"items": {"type": "string"}}, {"items": {"type": "string"}}, {"items": AGAIN}]})
    assert [fault.path for fault in walk(schema).faults([1, 1])] == [(0,), (1,), (0,), (1,)]


def test_what_only_asks_for_itself_asks_for_nothing() -> None:
    for schema in ({"$ref": "#"}, tree(AGAIN), tree({"anyOf": [AGAIN, {"type": "string"}]})):
        assert walk(schema).fits({"a": 1})
        assert list(walk(schema).faults({"a": 1})) == []


def test_references_between_parts_with_ids_of_their_own_are_left_to_the_compiled_check() -> None:
    schema = {"properties": {"a": {"$id": "urn:a", "$ref": "#/$defs/b", "$defs": {"b": {"type": "null"}}}}}
    assert not is_endless(schema)
    with pytest.raises(TooMuch):
        walk(schema).fits({"a": 1})


@pytest.mark.parametrize(
    ("schema", "endless"),
    [
        ({}, False),
        ({"properties": {"a": {"type": "string"}}, "unevaluatedProperties": False}, False),
        (tree({"anyOf": BRANCHES}), False),
        ({"allOf": [{"$ref": "#/$defs/base"}], "unevaluatedProperties": False, "$defs": {"base": {}}}, False),
        (tree({"allOf": BRANCHES, "unevaluatedProperties": False}), True),
        (tree({"$dynamicAnchor": "a", "properties": {"k": {"$dynamicRef": "#a"}}}), True),
        ({"allOf": [{"$ref": "#/$defs/a"}] * MOST_AT_ONCE, "$defs": {"a": {"type": "string"}}}, True),
        ({"properties": {f"p{n}": {"$ref": "#/$defs/a"} for n in range(5000)}, "$defs": {"a": {}}}, False),
        ({"description": "see $ref", "default": {"$ref": "#/nowhere"}}, False),
    ],
)
def test_the_schemas_that_the_compiled_check_may_not_judge_are_known(
    schema: dict[str, Any], endless: bool
) -> None:
    assert is_endless(schema) is endless
