"""LocalPython: what a file leaves out is completed from the function's hints and docstring."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator

from enginehost_engines.python_hints import Hints
from enginehost_engines.python_source import read_source

from .hinted import described


def of_hint(tmp_path: Path, hint: str) -> Any:
    """The schema of one parameter."""
    return described(tmp_path, f"def f(x: {hint}): ...").parameters["properties"]["x"]


NULLABLE_DATE = {"type": ["string", "null"], "format": "date"}

POINT = {
    "type": "object",
    "description": "A place.",
    "properties": {
        "x": {"type": "number"},
        "y": {"type": "number"},
        "marks": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["x"],
    "additionalProperties": False,
}

ANSWERED_POINT = {key: value for key, value in POINT.items() if key != "additionalProperties"}


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        ("int", {"type": "integer"}),
        ("'float'", {"type": "number"}),
        ("Any", {}),
        ("Optional[str]", {"type": ["string", "null"]}),
        ("int | str | None", {"type": ["integer", "string", "null"]}),
        (
            "Union[int, list[int]]",
            {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]},
        ),
        ("Optional[date]", NULLABLE_DATE),
        ("dt.datetime", {"type": "string", "examples": ["2026-01-31T12:30:00Z"]}),
        ("Literal['a', 'b']", {"type": "string", "enum": ["a", "b"]}),
        ("Literal[1, -2]", {"type": "integer", "enum": [1, -2]}),
        ("Optional[Literal['a']]", {"type": ["string", "null"], "enum": ["a", None]}),
        ("Colour", {"type": "string", "enum": ["r", "b"]}),
        ("Literal[Colour.RED]", {"type": "string", "enum": ["r"]}),
        ("Sequence[int]", {"type": "array", "items": {"type": "integer"}}),
        ("set[str]", {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        ("tuple[int, ...]", {"type": "array", "items": {"type": "integer"}}),
        (
            "tuple[int, str]",
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "minItems": 2,
                "maxItems": 2,
            },
        ),
        ("Mapping[str, int]", {"type": "object", "additionalProperties": {"type": "integer"}}),
        ("dict", {"type": "object"}),
        ("Annotated[int, Ge(3), 'how many']", {"type": "integer", "minimum": 3, "description": "how many"}),
        ("Annotated[Names, MaxLen(2)]", {"type": "array", "items": {"type": "string"}, "maxItems": 2}),
        (
            "Annotated[str, Field(min_length=1, pattern='^a')]",
            {"type": "string", "minLength": 1, "pattern": "^a"},
        ),
        ("UserId", {"type": "integer"}),
        ("Point", POINT),
        (
            "Span",
            {
                "type": "object",
                "properties": {"start": {"type": "string", "format": "date"}, "days": {"type": "integer"}},
                "required": ["start"],
                "additionalProperties": False,
            },
        ),
        ("bytes", {"type": "string", "contentEncoding": "base64"}),
        (
            "Options",
            {
                "type": "object",
                "properties": {"deep": {"type": "boolean"}, "limit": {"type": "integer"}},
                "required": ["deep"],
            },
        ),
        (
            "Order",
            {
                "type": "object",
                "properties": {
                    "no": {"type": "integer", "minimum": 1, "description": "Its number"},
                    "note": {"type": ["string", "null"]},
                },
                "required": ["no"],
            },
        ),
        ("Unheard", {}),
        ("'no hint ('", {}),
    ],
)
def test_a_hint_becomes_a_schema(tmp_path: Path, hint: str, schema: dict[str, Any]) -> None:
    assert of_hint(tmp_path, hint) == schema


def test_a_class_that_contains_itself_is_a_definition(tmp_path: Path) -> None:
    found = described(tmp_path, "def f(tree: Tree) -> Tree: ...")
    reference = {"$ref": "#/$defs/Tree"}
    assert found.parameters["properties"]["tree"] == reference
    assert found.parameters["$defs"]["Tree"]["properties"]["children"] == {
        "type": "array",
        "items": reference,
    }
    Draft202012Validator(found.parameters)
    assert Draft202012Validator(found.result).is_valid({"name": "a", "children": [{"name": "b"}]})


@pytest.mark.parametrize(
    ("parameter", "expected"),
    [
        ("x: int = 3", {"type": "integer", "default": 3}),
        ("x: int = None", {"type": ["integer", "null"], "default": None}),
        ("x: date | None = None", NULLABLE_DATE | {"default": None}),
        ("x: Colour = Colour.BLUE", {"type": "string", "enum": ["r", "b"], "default": "b"}),
        ("x: int = ''", {"type": "integer"}),
        ("x=HEAVY", {}),
        ("x: float = float('nan')", {"type": "number"}),
        ("x: int = Field(5, le=9)", {"type": "integer", "maximum": 9, "default": 5}),
    ],
)
def test_a_default_is_told_where_callers_could_send_it(
    tmp_path: Path, parameter: str, expected: dict[str, Any]
) -> None:
    found = described(tmp_path, f"def f({parameter}): ...").parameters
    assert found["properties"]["x"] == expected
    assert "required" not in found


def test_what_must_be_given_and_what_else_may_be(tmp_path: Path) -> None:
    found = described(tmp_path, "def f(a, b=1, *args, c, d=2, **rest: int): ...").parameters
    assert list(found["properties"]) == ["a", "b", "c", "d"]
    assert found["required"] == ["a", "c"]
    assert found["additionalProperties"] == {"type": "integer"}
    spread = described(tmp_path, "def f(a, **rest: typing.Unpack[Options]): ...").parameters
    assert spread["required"] == ["a", "deep"]
    assert "additionalProperties" not in spread


GOOGLE = '''
    """Add things.

    And more.

    Args:
        a: The first,
            on two lines.
        b (int, optional): The second.

    Returns:
        The sum.
    """
'''

NUMPY = '''
    """Add things.

    And more.

    Parameters
    ----------
    a
        The first,
        on two lines.
    b : int, optional
        The second.

    Returns
    -------
    int
        The sum.
    """
'''

REST = '''
    """Add things.

    And more.

    :param a: The first,
        on two lines.
    :param int b: The second.
    :returns: The sum.
    """
'''


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, REST], ids=["google", "numpy", "rest"])
def test_a_docstring_describes_function_parameters_and_result(tmp_path: Path, docstring: str) -> None:
    found = described(tmp_path, f"def f(a: str, b=2) -> int:{docstring}")
    assert found.description == "Add things.\n\nAnd more."
    assert found.parameters["properties"] == {
        "a": {"type": "string", "description": "The first, on two lines."},
        "b": {"type": "integer", "description": "The second.", "default": 2},
    }
    assert found.result == {"type": "integer", "description": "The sum."}


@pytest.mark.parametrize(
    ("definition", "result"),
    [
        ("def f() -> Iterator[int]: yield 1", {"type": "integer"}),
        ("async def f() -> AsyncIterator[Point]: yield 1", ANSWERED_POINT),
        ("async def f() -> list[int]: ...", {"type": "array", "items": {"type": "integer"}}),
        ("def f() -> None: ...", {"type": "null"}),
        ("def f(): ...", None),
    ],
)
def test_the_result_is_what_the_function_returns_or_yields(
    tmp_path: Path, definition: str, result: dict[str, Any] | None
) -> None:
    assert described(tmp_path, definition).result == result


NAMES = st.sampled_from(
    [
        "int",
        "str",
        "None",
        "Any",
        "date",
        "Colour",
        "Point",
        "Tree",
        "Options",
        "Order",
        "Nope",
        "'x y'",
        "...",
    ]
)

HINTS = st.recursive(
    NAMES,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(" | ".join),
        st.tuples(
            st.sampled_from(
                ["list", "Optional", "tuple", "dict", "Annotated", "Literal", "Nope", "typing.Unpack"]
            ),
            st.lists(inner, min_size=1, max_size=3),
        ).map(lambda made: f"{made[0]}[{', '.join(made[1])}]"),
    ),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(hint=HINTS)
def test_any_hint_gives_a_schema(tmp_path_factory: pytest.TempPathFactory, hint: str) -> None:
    found = described(tmp_path_factory.getbasetemp(), f"def f(x: {hint}) -> {hint}: ...")
    Draft202012Validator(found.parameters)
    Draft202012Validator(found.result or {})


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=80) | HINTS)
def test_any_text_of_a_docstring_gives_a_type(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    script = tmp_path_factory.getbasetemp() / "empty.py"
    script.write_text("")
    Draft202012Validator(Hints(read_source(script)).text(text))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def a(): ...\ndef _b(): ...\nasync def c(): ...", ["a", "c"]),
        ("__all__ = ['b', 'a', 'a', 'nope']\ndef a(): ...\ndef b(): ...", ["b", "a"]),
        ("__all__ = ['_a']\n__all__ += ('b',)\ndef _a(): ...\ndef b(): ...", ["_a", "b"]),
        ("__all__ = [n for n in x]\ndef a(): ...", ["a"]),
        ("if x:\n    def a(): ...\nelse:\n    def a(y): ...\nclass C:\n    def m(self): ...", ["a"]),
    ],
)
def test_public_functions_are_those_of_the_module_itself(tmp_path: Path, text: str, names: list[str]) -> None:
    script = tmp_path / "s.py"
    script.write_text(text)
    assert read_source(script).public == names
