"""A whole number that is declared as an integer reaches the function as an ``int``, however it is written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost import Host, HostSettings
from enginehost.schema_walk import TooMuch
from enginehost.whole_numbers import WholeNumbers, whole_numbers

Case = tuple[dict[str, Any], Any, Any]
"""A schema, a value that fits it, and what the function is to get."""

WHOLE = st.integers(-(2**53), 2**53).map(float)
LEAVES: st.SearchStrategy[Case] = st.one_of(
    WHOLE.map(lambda n: ({"type": "integer"}, n, int(n))),
    WHOLE.map(lambda n: ({"type": ["null", "integer"]}, n, int(n))),
    WHOLE.map(lambda n: ({"type": "number"}, n, n)),
    WHOLE.map(lambda n: ({"type": ["integer", "number"]}, n, n)),
    WHOLE.map(lambda n: ({}, n, n)),
    st.integers().map(lambda n: ({"type": "integer"}, n, n)),
    st.text(max_size=3).map(lambda text: ({"type": ["string", "integer"]}, text, text)),
)


def _object(fields: dict[str, Case]) -> Case:
    properties = {name: schema for name, (schema, _, _) in fields.items()}
    value = {name: value for name, (_, value, _) in fields.items()}
    made = {name: made for name, (_, _, made) in fields.items()}
    return {"type": "object", "properties": properties}, value, made


def _wrapped(case: Case) -> list[Case]:
    """Other ways to say what a schema says."""
    schema, value, made = case
    text = {"type": "string"}
    return [
        case,
        ({"allOf": [{}, schema]}, value, made),
        ({"anyOf": [{"type": "array", "maxItems": 0}, schema]}, value, made),
        ({"if": text, "then": text, "else": schema} if not isinstance(value, str) else schema, value, made),
        ({"type": "array", "items": schema}, [value, value], [made, made]),
        ({"prefixItems": [text, schema], "items": text}, ["", value, ""], ["", made, ""]),
        ({"type": "object", "additionalProperties": schema}, {"x": value}, {"x": made}),
        ({"patternProperties": {"^x": schema}, "properties": {"y": {}}}, {"x": value}, {"x": made}),
        ({"properties": {"y": {}}, "unevaluatedProperties": schema}, {"x": value}, {"x": made}),
    ]


CASES = st.recursive(
    LEAVES,
    lambda inner: (
        st.dictionaries(st.text(max_size=3), inner, max_size=3).map(_object)
        | inner.flatmap(lambda case: st.sampled_from(_wrapped(case)))
    ),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(CASES)
def test_an_integer_is_an_int_wherever_the_schema_says_so_and_all_else_stays(case: Case) -> None:
    schema, value, expected = case
    before = repr(value)
    whole = whole_numbers({"properties": {"v": schema}})
    arguments = {"v": value}
    made = whole.made(arguments) if whole is not None else arguments
    assert repr(made) == repr({"v": expected})
    assert repr(value) == before  # the caller's own


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"$ref": "#/$defs/tree"}, {"n": 1.0, "of": [{"n": 2.0}]}, {"n": 1, "of": [{"n": 2}]}),
        # which branch it is decides another property
        (
            {
                "oneOf": [
                    {"properties": {"kind": {"const": "a"}, "n": {"type": "number"}}},
                    {"properties": {"kind": {"const": "b"}, "n": {"type": "integer"}}},
                ]
            },
            [{"kind": "a", "n": 1.0}, {"kind": "b", "n": 1.0}],
            [{"kind": "a", "n": 1.0}, {"kind": "b", "n": 1}],
        ),
        ({"dependentSchemas": {"a": {"properties": {"n": {"type": "integer"}}}}}, {"a": 0, "n": 1e1}, None),
        ({"if": {"properties": {"n": {"type": "integer"}}}, "then": {}}, {"n": 3.0}, {"n": 3}),
        ({"unevaluatedItems": {"type": "integer"}, "prefixItems": [{}]}, [1.0, 2.0], [1.0, 2]),
        ({"type": "integer"}, -0.0, 0),
        ({"type": "integer"}, 1e300, int(1e300)),
        ({"type": "number"}, 2.5, 2.5),
    ],
)
def test_what_a_schema_says_is_what_its_parts_say_that_the_value_fits(
    schema: dict[str, Any], value: Any, expected: Any
) -> None:
    tree = {"properties": {"n": {"type": "integer"}, "of": {"items": {"$ref": "#/$defs/tree"}}}}
    values = value if isinstance(value, list) and "oneOf" in schema else [value]
    wanted = expected if values is value else [{"a": 0, "n": 10} if expected is None else expected]
    for one, made in zip(values, wanted, strict=True):
        whole = WholeNumbers({"$defs": {"tree": tree}, "properties": {"v": schema}})
        assert repr(whole.made({"v": one})) == repr({"v": made})
        assert repr(whole.made({"v": one}, hurry=True)) == repr({"v": made})


def test_the_event_loop_is_not_held_by_a_long_list() -> None:
    whole = WholeNumbers({"properties": {"v": {"type": "array", "items": {"type": "integer"}}}})
    long = {"v": [1.0] * 100_000}
    with pytest.raises(TooMuch):
        whole.made(long, hurry=True)
    assert {type(item) for item in whole.made(long)["v"]} == {int}


FILE = """
ENGINE_CLASS = LocalPython
PYTHON_SCRIPT_PATH = tools.py
PYTHON_ISOLATION = {isolation}
PYTHON_FUNCTION_NAME = kinds
FUNCTION_NAME = {isolation}
FUNCTION_PARAMETERS = [{{"name": "n", "type": "integer", "default": 5.0}}, \\
    {{"name": "x", "type": "number"}}, \\
    {{"name": "list", "type": "array", "items": {{"type": "integer"}}}}]
"""
KINDS = """
def kinds(n, x=0.5, list=()):
    return [len(range(n)), repr(n), type(x).__name__, [type(item).__name__ for item in list]]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "smss"
    folder.mkdir()
    (folder / "tools.py").write_text(KINDS)
    for isolation in ("none", "process"):
        (folder / f"{isolation}.smss").write_text(FILE.format(isolation=isolation))
    return folder


async def test_every_way_in_gives_an_int_to_the_function(folder: Path) -> None:
    async with Host(folder, None, settings=HostSettings(in_process_python=True), watch=False) as host:
        for name in ("none", "process"):
            assert await host.call(name, {"n": 2.0, "x": 2.0}) == [2, "2", "float", []]
            assert await host.call(name) == [5, "5", "float", []]
            long = {"n": 1, "list": [1.0] * 5000}  # looked at aside
            assert await host.call(name, long) == [1, "1", "float", ["int"] * 5000]
            arguments = json.loads('{"n": 1e1, "list": [1.0, 2]}')
            answer = await host.call_json(host.new_call(name), arguments)
            assert json.loads(answer) == [10, "10", "float", ["int"] * 2]
            (item,) = [item async for item in host.stream(name, {"n": 3.0})]
            assert item == [3, "3", "float", []]


def test_the_command_line_gives_an_int_to_the_function(folder: Path) -> None:
    command = [sys.executable, "-m", "enginehost", "call", "process", "--json", '{"n": 2.0, "list": [1e0]}']
    done = subprocess.run(command, cwd=folder.parent, capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout) == [2, "2", "float", ["int"]]
