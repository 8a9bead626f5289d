"""Hints and docstrings as JSON Schema, and arguments as the types that the hints ask for."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator, Callable, Generator
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Optional, Required, TypedDict, Union
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field

from enginehost import Service, tool
from enginehost.engine import Call, Function, RunMode
from enginehost.errors import ConfigError, InvalidArguments
from enginehost.specs import spec_kinds, to_spec
from enginehost.values import from_json, to_json

if TYPE_CHECKING:
    from fractions import Fraction


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Options(TypedDict, total=False):
    depth: Required[int]
    points: list[Point]


@dataclasses.dataclass
class Holder:
    options: Options


class Model(BaseModel):
    point: Point
    limit: int = Field(5, ge=1)


class Pair(NamedTuple):
    left: int
    right: str


class Everything(Service):
    """Takes every kind of value."""

    @tool
    def every(
        self,
        whole: int,
        colour: Colour,
        point: Point,
        options: Options,
        model: Model,
        holder: Holder,
        day: date,
        moment: datetime,
        span: timedelta,
        id: UUID,
        price: Decimal,
        pair: tuple[int, str],
        rows: list[list[float]],
        table: dict[str, list[Point]],
        named: Pair,
        word: Literal["a", "b"] = "a",
        maybe: Optional[int] = None,  # noqa: UP045
        either: Union[int, str] = 3,  # noqa: UP007
        some: Annotated[int, "told in the hint"] = 1,
        field: int = Field(5, ge=1, description="told by a field"),
        none: int = None,  # type: ignore[assignment]  # noqa: RUF013
        other: Colour = Colour.BLUE,
        start: Point = Point(1, 2),  # noqa: B008
        anything=None,
        *,
        call: Call,
    ) -> dict[str, Any]:
        """Take all.

        Args:
            whole: a number,
                in two lines
            price (Decimal): with every digit

        Returns:
            what came
        """
        return {name: value for name, value in locals().items() if name not in ("self", "call")}


GIVEN = {
    "whole": 1,
    "colour": "red",
    "point": {"x": 1},
    "options": {"depth": 2, "points": [{"x": 3}]},
    "model": {"point": {"x": 1}},
    "holder": {"options": {"depth": 1}},
    "day": "2026-01-02",
    "moment": "2026-01-02T03:04:05",
    "span": "PT90S",
    "id": "12345678-1234-5678-1234-567812345678",
    "price": "0.10",
    "pair": [1, "a"],
    "rows": [[1, 2.5]],
    "table": {"k": [{"x": 9, "y": 8}]},
    "named": [1, "b"],
}


def only(service: Service) -> Function:
    (function,) = service.functions()
    return function


@pytest.fixture(scope="module")
def every() -> Function:
    return only(Everything())


def test_arguments_arrive_as_the_types_that_the_hints_ask_for(every: Function) -> None:
    schema = every.signature.parameters
    assert Draft202012Validator(schema).is_valid(GIVEN)
    taken = every.run(dict(GIVEN), Call("every"))
    assert taken == {
        "whole": 1,
        "colour": Colour.RED,
        "point": Point(1),
        "options": {"depth": 2, "points": [Point(3)]},
        "model": Model(point=Point(1)),
        "holder": Holder({"depth": 1}),
        "day": date(2026, 1, 2),
        "moment": datetime(2026, 1, 2, 3, 4, 5),  # noqa: DTZ001
        "span": timedelta(seconds=90),
        "id": UUID(GIVEN["id"]),
        "price": Decimal("0.10"),
        "pair": (1, "a"),
        "rows": [[1.0, 2.5]],
        "table": {"k": [Point(9, 8)]},
        "named": Pair(1, "b"),
        "word": "a",
        "maybe": None,
        "either": 3,
        "some": 1,
        "field": 5,
        "none": None,
        "other": Colour.BLUE,
        "start": Point(1, 2),
        "anything": None,
    }


@pytest.mark.parametrize("kind", spec_kinds())
def test_every_kind_of_tool_takes_the_schema(every: Function, kind: str) -> None:
    Draft202012Validator.check_schema(dict(every.signature.parameters))
    json.dumps(to_spec(every.signature, kind))


def test_defaults_descriptions_and_what_is_required_stand_in_the_schema(every: Function) -> None:
    properties = every.signature.properties
    assert set(every.signature.required) == set(GIVEN)
    assert "call" not in properties
    assert properties["whole"] == {"type": "integer", "description": "a number, in two lines"}
    assert properties["price"]["description"] == "with every digit"
    assert properties["some"] == {"type": "integer", "default": 1, "description": "told in the hint"}
    assert properties["field"] == {
        "type": "integer",
        "default": 5,
        "minimum": 1,
        "description": "told by a field",
    }
    assert properties["other"]["default"] == "blue"
    assert properties["start"]["default"] == {"x": 1, "y": 2}
    definitions = every.signature.parameters["$defs"]
    assert definitions["Options"]["required"] == ["depth"]
    assert definitions["Point"]["required"] == ["x"]
    assert every.signature.description == "Take all."


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("whole", "one"),
        ("colour", "green"),
        ("point", {"x": 1, "z": 2}),
        ("options", {"points": []}),
        ("pair", [1]),
        ("rows", [["a"]]),
        ("word", "c"),
        ("field", 0),
    ],
)
def test_what_does_not_fit_fits_neither_schema_nor_method(every: Function, name: str, value: Any) -> None:
    given_so = GIVEN | {name: value}
    assert not Draft202012Validator(every.signature.parameters).is_valid(given_so)
    with pytest.raises(InvalidArguments, match=name):
        every.run(given_so, Call("every"))


class Styles(Service):
    """Docstrings of each style."""

    @tool
    def google(self, a: int) -> int:
        """Do it.

        Args:
            a (int): the first
        """
        return a

    @tool
    def numpy(self, a: int, b: int) -> int:
        """Do it.

        Parameters
        ----------
        a, b : int
            the first
        """
        return a + b

    @tool
    def rest(self, a: int) -> int:
        """Do it.

        :param a: the first
        """
        return a


def test_every_style_of_docstring_describes_parameters() -> None:
    for function in Styles().functions():
        assert function.signature.description == "Do it."
        for schema in function.signature.properties.values():
            assert schema["description"] == "the first"


class Answers(Service):
    @tool
    def plain(self) -> list[Point]:
        """Returns:
        points.
        """
        return []

    @tool
    async def stream(self) -> AsyncIterator[Point]:
        yield Point(1)

    @tool
    def sync_stream(self) -> Generator[Decimal]:
        yield Decimal(1)

    @tool
    def named(self) -> Pair:
        return Pair(1, "a")

    @tool
    def unknown(self) -> Callable[[], int]:
        return int

    @tool
    def silent(self):
        return 1


def test_return_hints_are_schemas_of_results_and_of_items() -> None:
    found = {one.signature.name: one for one in Answers().functions()}
    results = {name: one.signature.result for name, one in found.items()}
    assert results["plain"] is not None
    assert results["plain"]["items"] == {"$ref": "#/$defs/Point"}
    assert results["stream"] is not None
    assert set(results["stream"]["properties"]) == {"x", "y"}
    assert results["sync_stream"] == {"type": "string"}
    assert results["named"] is not None
    assert results["named"]["properties"] == {"left": {"type": "integer"}, "right": {"type": "string"}}
    assert results["unknown"] is results["silent"] is None
    modes = [found[name].mode for name in ("plain", "stream", "sync_stream")]
    assert modes == [RunMode.SYNC, RunMode.ASYNC_STREAM, RunMode.SYNC_STREAM]


def _not_read(self: Any, amount: Fraction) -> int:
    return 1


def _no_json(self: Any, work: Callable[[], int]) -> int:
    return 1


def _no_name(self: Any, *numbers: int) -> int:
    return 1


class _Odd:
    pass


def _odd_class(self: Any, things: list[_Odd]) -> int:
    return 1


def _nothing_fits(self: Any, word: Literal[()]) -> int:  # type: ignore[valid-type]
    return 1


def _wrong_default(self: Any, amount: int = "a") -> int:  # type: ignore[assignment]
    return 1


@pytest.mark.parametrize(
    ("method", "parameter", "says"),
    [
        (_not_read, "amount", "cannot be read"),
        (_no_json, "work", "JSON"),
        (_no_name, "numbers", "parameter such as"),
        (_odd_class, "things", "JSON"),
        (_nothing_fits, "word", "JSON"),
        (_wrong_default, "amount", "does not fit"),
    ],
)
def test_a_wrong_hint_is_told_with_class_method_and_parameter(method: Any, parameter: str, says: str) -> None:
    name = method.__name__
    made = type("Shop", (Service,), {name: tool(method)})
    with pytest.raises(ConfigError, match=says) as caught:
        made()
    assert caught.value.message.startswith(f"Shop.{name}, parameter {parameter}: ")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"timeout": -1}, r"Shop\.act, @tool\(timeout=-1\)"),
        ({"timeout": float("nan")}, r"Shop\.act, @tool\(timeout=nan\)"),
        ({"approval": "bogus"}, r"Shop\.act, @tool\(approval='bogus'\)"),
    ],
)
def test_a_setting_that_cannot_work_is_told_with_class_and_method(setting: Any, says: str) -> None:
    class Shop(Service):
        @tool(**setting)
        def act(self) -> int:
            return 1

    with pytest.raises(ConfigError, match=says):
        Shop()


def test_two_methods_of_one_name_are_refused() -> None:
    class Shop(Service):
        @tool(name="sell")
        def one(self) -> int:
            return 1

        @tool(name="sell")
        def two(self) -> int:
            return 2

    with pytest.raises(ConfigError, match=r"Shop\.two: one is the tool 'sell' already"):
        Shop()


def test_tags_that_are_a_text_are_no_letters() -> None:
    class Shop(Service):
        tags = "hall"

        @tool
        def act(self) -> int:
            return 1

    with pytest.raises(ConfigError, match="Shop, tags: 'hall' is a text"):
        Shop()


def test_a_service_without_functions_says_what_to_do() -> None:
    class Empty(Service):
        pass

    with pytest.raises(ConfigError, match="Empty has no function"):
        Empty().functions()


def test_bytes_come_as_text_or_in_base64_and_faults_have_their_place() -> None:
    class Dated(Service):
        @tool
        def day(self, data: bytes, days: list[datetime]) -> bytes:
            return data

    function = only(Dated())
    for data in ("ab", {"$bytes": "YWI="}, b"ab"):
        assert function.run({"data": data, "days": []}, Call("day")) == b"ab"
    with pytest.raises(InvalidArguments) as caught:
        function.run({"data": "ab", "days": ["2026-01-01T00:00:00Z", "soon"]}, Call("day"))
    assert [one["pointer"] for one in caught.value.detail["errors"]] == ["/days/1"]
    assert function.signature.result is not None
    assert "$bytes" in function.signature.result["properties"]


def test_a_function_cannot_stand_in_the_place_of_what_the_base_class_needs() -> None:
    class Door(Service):
        @tool
        async def open(self) -> None:
            """Open the door."""

    with pytest.raises(ConfigError, match=r"Door\.open: Service has a method") as caught:
        Door()
    assert '@tool(name="open")' in caught.value.hint


def test_marks_stand_on_static_and_class_methods_and_on_inherited_ones() -> None:
    class Base(Service):
        tags = ("all",)

        @tool(name="first", tags="own", description="Said here.")
        @staticmethod
        def one(n: int) -> int:
            return n

        @tool
        @classmethod
        def two(cls, n: int) -> str:
            return cls.__name__

    class Child(Base):
        @tool
        def three(self) -> int:
            return 3

    found = {one.signature.name: one for one in Child("Shop").functions()}
    assert list(found) == ["first", "two", "three"]
    assert found["first"].signature.tags == ("all", "own")
    assert found["first"].signature.description == "Said here."
    assert found["two"].run({"n": 1}, Call("two")) == "Child"
    assert {one.service for one in found.values()} == {"Shop"}


class Echo(Service):
    @tool
    def echo(self, values: dict[str, list[Point | None]], day: date, price: Decimal, colour: Colour) -> Any:
        return [values, day, price, colour]


_POINTS = st.builds(Point, st.integers(-(2**60), 2**60), st.integers(0, 9))
_VALUES = st.dictionaries(st.text(max_size=3), st.lists(st.none() | _POINTS, max_size=3), max_size=3)
_PRICES = st.decimals(allow_nan=False, allow_infinity=False, places=2, max_value=10**9, min_value=-(10**9))


@settings(max_examples=60, deadline=None)
@given(values=_VALUES, day=st.dates(), price=_PRICES, colour=st.sampled_from(Colour))
def test_the_json_form_of_values_comes_back_as_the_values(
    values: Any, day: date, price: Decimal, colour: Colour
) -> None:
    function = only(Echo())
    given_so = from_json(to_json({"values": values, "day": day, "price": price, "colour": colour}))
    assert Draft202012Validator(function.signature.parameters).is_valid(given_so)
    assert function.run(given_so, Call("echo")) == [values, day, price, colour]
