"""LocalPython: what a file leaves out is completed from the function's hints and docstring."""

from __future__ import annotations

import enum
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator

from enginehost import Host, HostSettings
from enginehost.engine import Function
from enginehost.errors import InvalidArguments
from enginehost.validation import Validator, check_arguments
from enginehost.values import from_json, to_json
from enginehost_engines.python_hints import Hints
from enginehost_engines.python_signature import describe
from enginehost_engines.python_source import read_source
from enginehost_engines.worker.arguments import converted

from .conftest import eventually

HEAD = """
from __future__ import annotations
import datetime as dt, decimal, enum, pathlib, typing, uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, Optional, TypedDict, Union
from pydantic import BaseModel, Field
from annotated_types import Ge, MaxLen

class Colour(enum.Enum):
    RED = "r"
    BLUE = "b"

@dataclass
class Point:
    "A place."
    x: float
    y: float = 0.0
    marks: list[str] = field(default_factory=list)
    size: float = field(init=False, default=1.0)

@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)

class Span(NamedTuple):
    start: date
    days: int = 1

class Options(TypedDict, total=False):
    deep: typing.Required[bool]
    limit: int

class Order(BaseModel):
    number: int = Field(ge=1, description="Its number", alias="no")
    note: str | None = None

UserId = NewType("UserId", int)
Names = list[str]
"""


class Colour(enum.Enum):
    RED = "r"
    BLUE = "b"


@dataclass
class Place:
    x: int


def described(tmp_path: Path, definition: str) -> Any:
    """What is read of the function ``f`` in a script."""
    script = tmp_path / "script.py"
    script.write_text(HEAD + textwrap.dedent(definition))
    return describe(read_source(script), "f")


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


# values for the hints


def kinds(
    when: date,
    span: timedelta | None = None,
    by: dict[int, date] | None = None,
    either: date | str = "",
    unknown: NotThere = None,  # noqa: F821 # pyright: ignore
) -> Any:
    """Has hints that JSON has no values for."""


def test_arguments_become_what_the_hints_say() -> None:
    given_ = {
        "when": "2026-01-31",
        "span": "P1DT2H",
        "by": {"1": "2026-02-01"},
        "either": "soon",
        "unknown": "u",
    }
    assert converted(kinds, "kinds", given_) == {
        "when": date(2026, 1, 31),
        "span": timedelta(days=1, hours=2),
        "by": {1: date(2026, 2, 1)},
        "either": "soon",
        "unknown": "u",
    }
    assert converted(kinds, "kinds", {"when": date(2026, 1, 31), "span": None})["when"] == date(2026, 1, 31)


class Kind(enum.Enum):
    """Two of them."""

    A = "a"
    B = 2


@dataclass
class Part:
    """Has hints of its own."""

    day: date
    parts: list[Part]


PARTS = st.recursive(
    st.builds(Part, st.dates(), st.just([])),
    lambda inner: st.builds(Part, st.dates(), st.lists(inner, max_size=2)),
)
VALUES = {
    "dt.date": (date, st.dates()),
    "dt.datetime": (datetime, st.datetimes(timezones=st.sampled_from([None, UTC]))),
    "dt.time": (time, st.times()),
    "dt.timedelta": (timedelta, st.timedeltas()),
    "decimal.Decimal": (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    "uuid.UUID": (UUID, st.uuids()),
    "pathlib.Path": (Path, st.sampled_from([Path("a/b"), Path("/c")])),
    "bytes": (bytes, st.binary(max_size=9)),
    "set[int]": (set[int], st.sets(st.integers(-9, 9))),
    "tuple[int, dt.date]": (tuple[int, date], st.tuples(st.integers(-9, 9), st.dates())),
    "dict[int, dt.date]": (dict[int, date], st.dictionaries(st.integers(-9, 9), st.dates(), max_size=3)),
    "Optional[uuid.UUID]": (UUID | None, st.none() | st.uuids()),
    "int | dt.date | str": (int | date | str, st.integers(-9, 9) | st.dates() | st.just("soon")),
    "Kind": (Kind, st.sampled_from(Kind)),
    "list[Part]": (list[Part], st.lists(PARTS, max_size=2)),
}
OWN = """
class Kind(enum.Enum):
    A = "a"
    B = 2

@dataclass
class Part:
    day: dt.date
    parts: list[Part]

"""


@pytest.mark.parametrize("hint", VALUES)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_a_value_as_results_have_it_fits_its_hints_schema_and_becomes_itself(
    tmp_path_factory: pytest.TempPathFactory, hint: str, data: st.DataObject
) -> None:
    kind, values = VALUES[hint]
    sent = to_json(data.draw(values))

    def function(x: Any) -> Any: ...

    function.__annotations__["x"] = kind
    found = described(tmp_path_factory.getbasetemp(), f"{OWN}def f(x: {hint}) -> {hint}: ...")
    check_arguments("f", Validator(found.parameters), {"x": from_json(sent)})
    assert Draft202012Validator(found.result, validate_formats=True).is_valid(sent)
    made = converted(function, "f", {"x": from_json(sent)})["x"]
    assert to_json(made) == sent
    assert found.converts


def test_an_argument_that_cannot_become_that_is_the_callers_fault() -> None:
    with pytest.raises(InvalidArguments, match="kinds at /when") as caught:
        converted(kinds, "kinds", {"when": "2026-99-31"})
    (fault,) = caught.value.detail["errors"]
    assert fault == {
        "pointer": "/when",
        "message": '"2026-99-31" is no date, such as 2026-01-31',
        "allowed": {"format": "date"},
    }


@pytest.mark.parametrize(
    ("hint", "value", "message", "allowed"),
    [
        (bytes, "AAA", '"AAA" is no base64 text (RFC 4648)', {"contentEncoding": "base64"}),
        (datetime, "noon", '"noon" is no date and time', {"examples": ["2026-01-31T12:30:00Z"]}),
        (UUID, 7, "7 is no UUID", {"format": "uuid"}),
        (Colour, "x", '"x" is no Colour', ["r", "b"]),
        (Place, {"x": 1, "z": 2}, '"z" is no field of Place', ["x"]),
    ],
)
def test_what_cannot_be_made_says_what_was_asked_for(
    hint: Any, value: Any, message: str, allowed: Any
) -> None:
    def function(x: Any) -> Any: ...

    function.__annotations__["x"] = hint
    with pytest.raises(InvalidArguments) as caught:
        converted(function, "f", {"x": value})
    (fault,) = caught.value.detail["errors"]
    assert fault["message"].startswith(message)
    assert fault["allowed"] == allowed


# whole files


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(textwrap.dedent(text))


SHAPES = """
    from dataclasses import dataclass
    from datetime import date

    @dataclass
    class Point:
        x: float
        y: float

    def area(a: Point, b: Point, day: date | None = None) -> float:
        '''The area between two corners.

        Args:
            a: One corner.
            b: The other.
        '''
        assert day is None or day.year == 2026
        return abs(a.x - b.x) * abs(a.y - b.y)

    def corner(x: float) -> Point:
        return Point(x, x)

    async def later(n: int = 1):
        "Wait."
        for i in range(n):
            yield i

    def _private(): ...

    from os.path import join
"""


async def test_a_file_that_names_a_function_alone_has_a_whole_signature(tmp_path: Path) -> None:
    write(tmp_path, "shapes.py", SHAPES)
    write(
        tmp_path,
        "area.smss",
        "ENGINE_CLASS=LocalPython\nPYTHON_SCRIPT_PATH=shapes.py\nPYTHON_FUNCTION_NAME=area",
    )
    async with Host(tmp_path, None, watch=False) as host:
        assert host.problems() == []
        (entry,) = host.functions()
        assert entry.signature.name == "area"
        assert entry.signature.description == "The area between two corners."
        assert entry.signature.properties["a"]["description"] == "One corner."
        assert entry.signature.required == ("a", "b")
        assert entry.signature.result == {"type": "number"}
        corners = {"a": {"x": 0, "y": 0}, "b": {"x": 2, "y": 3}}
        assert await host.call("area", {**corners, "day": "2026-01-01"}) == 6
        with pytest.raises(InvalidArguments, match="/b"):
            await host.call("area", {**corners, "b": 1})


async def test_what_the_file_says_counts(tmp_path: Path) -> None:
    write(tmp_path, "shapes.py", SHAPES)
    text = """
        ENGINE_CLASS=LocalPython
        PYTHON_SCRIPT_PATH=shapes.py
        FUNCTION_NAME=%s
        %s
    """
    write(tmp_path, "a.smss", text % ("later", "FUNCTION_PARAMETERS=[]\nFUNCTION_DESCRIPTION=Mine"))
    write(tmp_path, "b.smss", text % ("corner", 'FUNCTION_REQUIRED_PARAMETERS=["x", "y"]'))
    async with Host(tmp_path, None, watch=False) as host:
        a, b = (entry.signature for entry in sorted(host.functions(), key=lambda one: one.record.path))
        assert (a.description, dict(a.properties), a.streaming) == ("Mine", {}, True)
        assert b.required == ("x", "y")
        told = {(found.line, found.code): found.message for found in host.problems()}
        assert told == {
            (0, "no-description"): "FUNCTION_DESCRIPTION is missing",
            (5, "signature-mismatch"): "corner() takes no parameter 'y'",
        }


def by_name(functions: Any) -> Mapping[str, Function]:
    return {one.signature.name: one for one in functions}


async def test_a_star_serves_every_public_function_and_follows_the_script(tmp_path: Path) -> None:
    write(tmp_path, "shapes.py", SHAPES)
    text = """
        ENGINE_CLASS=LocalPython
        PYTHON_SCRIPT_PATH=shapes.py
        PYTHON_FUNCTION_NAME=*
        FUNCTION_NAME=geo_*
        FUNCTION_TAGS=shapes
        FUNCTION_BIND={"n": 2}
        FUNCTION_RESULT={}
    """
    write(tmp_path, "all.smss", text)
    async with Host(tmp_path, None) as host:
        found = by_name(host.functions())
        assert sorted(found) == ["geo_area", "geo_corner", "geo_later"]
        assert all(one.signature.tags == ("shapes",) for one in found.values())
        assert await host.call("geo_corner", {"x": 1}) == {"x": 1, "y": 1}
        assert await host.call("geo_later", {}) == [0, 1]  # n is bound
        assert dict(found["geo_later"].signature.properties) == {}
        told = [(found.line, found.code) for found in host.problems()]
        assert sorted(told) == [(4, "no-description"), (8, "no-effect")]
        write(tmp_path, "shapes.py", SHAPES + "\n    def more(): return 'there'")
        await eventually(lambda: "geo_more" in by_name(host.functions()))
        assert await host.call("geo_more", {}) == "there"


CALLED = """
    from datetime import date, datetime
    __all__ = ["place", "few", "lists", "told", "lost"]

    def place(a: int = 1, b: int = 2, /, *, on: date) -> list:
        "By position."
        return [a, b, type(on).__name__]

    def few(*args: int):
        "Any number."
        return len(args)

    def lists(row: list[float], rows: list[list[float]], either: "list[int] | tuple[int, ...]"):
        "Lists."
        return [type(row).__name__, type(rows[0]).__name__, type(either).__name__]

    def told(when, then):
        '''Documented types.

        :type when: datetime.date
        :param datetime then: a time
        '''
        return [type(when).__name__, type(then).__name__]
"""


@pytest.mark.parametrize("isolation", ["process", "none"])
async def test_functions_are_called_as_they_are_written(tmp_path: Path, isolation: str) -> None:
    numpy = pytest.importorskip("numpy")
    write(tmp_path, "called.py", CALLED)
    text = f"""
        ENGINE_CLASS=LocalPython
        PYTHON_SCRIPT_PATH=called.py
        PYTHON_FUNCTION_NAME=*
        PYTHON_ISOLATION={isolation}
    """
    write(tmp_path, "called.smss", text)
    settings = HostSettings(in_process_python=True)
    async with Host(tmp_path, None, settings=settings, watch=False) as host:
        assert await host.call("place", {"b": 7, "on": "2026-01-31"}) == [1, 7, "date"]
        assert await host.call("few", {}) == 0
        given = {"row": numpy.ones(2), "rows": numpy.ones((2, 2)), "either": (1, 2)}
        assert await host.call("lists", given) == ["list", "list", "tuple"]
        when = {"when": "2026-01-31", "then": "2026-01-31T12:00:00"}
        assert await host.call("told", when) == ["date", "datetime"]
        told = sorted(found.message for found in host.problems())
    assert told == [
        "called.py: __all__ names lost, which the script does not define",
        "few() takes *args, which callers cannot give: arguments have names",
    ]


MODELS = """
    import enum
    from dataclasses import dataclass

    class Size(enum.Enum):
        SMALL = 1
        LARGE = 2

    @dataclass
    class Box:
        size: Size
        label: str = ""

    def weigh(box: Box) -> int:
        "Weigh a box."
        return box.size.value
"""


async def test_classes_and_functions_of_modules_beside_the_script_are_read_and_followed(
    tmp_path: Path,
) -> None:
    write(tmp_path, "models.py", MODELS)
    script = """
        import models
        from models import Box, weigh

        def double(box: Box, size: models.Size = models.Size.SMALL) -> int:
            "Twice its size."
            return box.size.value * 2 + size.value
    """
    write(tmp_path, "boxes.py", script)
    head = "ENGINE_CLASS=LocalPython\nPYTHON_SCRIPT_PATH=boxes.py\nPYTHON_FUNCTION_NAME="
    write(tmp_path, "double.smss", f"{head}double")
    write(tmp_path, "weigh.smss", f"{head}weigh")
    async with Host(tmp_path, None) as host:
        assert host.problems() == []
        found = by_name(host.functions())
        size = {"type": "integer", "enum": [1, 2]}
        box = {"size": size, "label": {"type": "string"}}
        assert found["double"].signature.properties["box"]["properties"] == box
        assert found["double"].signature.properties["size"] == {**size, "default": 1}
        assert found["weigh"].signature.description == "Weigh a box."
        assert await host.call("double", {"box": {"size": 2}}) == 5
        assert await host.call("weigh", {"box": {"size": 2}}) == 2
        write(tmp_path, "models.py", MODELS.replace("label", "title"))

        def has_title() -> bool:
            return "title" in by_name(host.functions())["double"].signature.properties["box"]["properties"]

        await eventually(has_title)


async def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    write(tmp_path, "made.py", "f = eval('lambda: 1')")
    text = "ENGINE_CLASS=LocalPython\nPYTHON_SCRIPT_PATH=made.py\nFUNCTION_NAME=f\nFUNCTION_DESCRIPTION=Made."
    write(tmp_path, "made.smss", text)
    async with Host(tmp_path, None, watch=False) as host:
        assert [found.code for found in host.problems()] == ["unknown-parameters"]
        assert await host.call("f", {}) == 1


async def test_a_star_inside_the_host(tmp_path: Path) -> None:
    write(tmp_path, "shapes.py", SHAPES)
    text = "ENGINE_CLASS=LocalPython\nPYTHON_SCRIPT_PATH=shapes.py\nPYTHON_FUNCTION_NAME=*"
    write(tmp_path, "all.smss", f"{text}\nPYTHON_ISOLATION=none")
    async with Host(tmp_path, None, watch=False) as refused:
        assert [found.code for found in refused.problems() if found.severity == "error"] == ["not-allowed"]
    async with Host(tmp_path, None, settings=HostSettings(in_process_python=True), watch=False) as host:
        corners = {"a": {"x": 0, "y": 0}, "b": {"x": 2, "y": 3}}
        assert await host.call("area", {**corners, "day": "2026-01-01"}) == 6
        assert await host.call("later", {"n": 2}) == [0, 1]


@pytest.mark.parametrize(
    ("line", "script", "message"),
    [
        ("FUNCTION_NAME=one", "def f(): ...", "FUNCTION_NAME = one is one name"),
        ("", "def _f(): ...", "s.py defines no public function"),
        ("", "__all__ = ['g']\ndef f(): ...\nfrom m import g", "s.py defines no public function"),
    ],
)
async def test_a_star_that_serves_nothing_is_an_error(
    tmp_path: Path, line: str, script: str, message: str
) -> None:
    write(tmp_path, "s.py", script)
    head = "ENGINE_CLASS=LocalPython\nPYTHON_SCRIPT_PATH=s.py\nPYTHON_FUNCTION_NAME=*\n"
    write(tmp_path, "s.smss", head + line)
    async with Host(tmp_path, None, watch=False) as host:
        (found,) = host.problems()
        assert message in found.message
        assert found.line


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
