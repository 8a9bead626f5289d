"""A function gets its arguments as the values that its hints name; what cannot become one is told."""

from __future__ import annotations

import enum
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

from enginehost.errors import InvalidArguments
from enginehost.validation import Validator, check_arguments
from enginehost.values import from_json, to_json
from enginehost_engines.worker.arguments import converted

from .hinted import described


class Colour(enum.Enum):
    RED = "r"
    BLUE = "b"


@dataclass
class Place:
    x: int


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
