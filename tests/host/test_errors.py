"""What every face can rely on about errors."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost import errors
from enginehost.errors import (
    ERROR_TABLE,
    CallTimeout,
    ConfigError,
    EngineHostError,
    EngineUnavailable,
    ExecutionFailed,
    InvalidArguments,
    Overloaded,
    TooLarge,
    UnknownFunction,
    UnknownSession,
    error_from_json,
)
from enginehost.testing.strategies import json_values

TREE = [
    found for found in vars(errors).values() if isinstance(found, type) and issubclass(found, EngineHostError)
]


def instances() -> Iterator[EngineHostError]:
    yield ConfigError("wrong", path="a.smss", line=3, column=4, hint="mend", reason="odd", key="URL")
    yield UnknownFunction("ad", nearest=["add"])
    yield UnknownSession("s")
    yield InvalidArguments("no", errors=[{"pointer": "/a", "message": "x"}])
    yield TooLarge("the result", limit=3, size=4)
    yield TooLarge("the result", limit=3)
    yield Overloaded("later", retry_after=2.5)
    yield CallTimeout("f", 2.0)
    yield EngineUnavailable("gone", state="failed", reason="why")
    yield ExecutionFailed("f failed", detail={"type": "ValueError"})
    special = {
        ConfigError,
        UnknownFunction,
        UnknownSession,
        InvalidArguments,
        TooLarge,
        Overloaded,
        CallTimeout,
    }
    yield from (
        cls("text", detail={"a": [1, None]}) for cls in TREE if cls not in {*special, EngineUnavailable}
    )


@pytest.mark.parametrize("error", list(instances()), ids=lambda error: type(error).__name__)
def test_an_error_that_travels_as_json_comes_back_as_it_was(error: EngineHostError) -> None:
    body = json.loads(json.dumps(error.to_json()))
    back = error_from_json(body)
    assert type(back) is type(error)
    assert (back.message, back.detail, back.code) == (error.message, error.detail, error.code)
    assert back.to_json() == body
    assert str(back)
    if isinstance(error, Overloaded):
        assert back.retry_after == error.retry_after  # type: ignore[attr-defined]


@pytest.mark.parametrize("error", list(instances()), ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_copy_of_an_error_says_the_same(error: EngineHostError, way: Any) -> None:
    back = way(error)
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert vars(back) == vars(error)


@given(
    code=st.sampled_from([*ERROR_TABLE, "from_the_future", ""]) | st.none() | st.integers(),
    message=st.text() | st.none() | st.integers(),
    detail=json_values(),
)
@settings(max_examples=200, deadline=None)
def test_no_body_of_an_error_is_too_odd_to_read(code: Any, message: Any, detail: Any) -> None:
    error = error_from_json({"code": code, "message": message, "detail": detail})
    assert error.code == (code if code in ERROR_TABLE else "internal")
    assert error.row == ERROR_TABLE[error.code]
    assert error_from_json(error.to_json()).to_json() == error.to_json()


def test_every_class_has_its_row_and_every_row_its_class() -> None:
    codes = [cls.code for cls in TREE]
    assert len(set(codes)) == len(codes)
    assert set(codes) == set(ERROR_TABLE)


def test_the_docstring_draws_the_whole_tree() -> None:
    drawing = errors.__doc__ or ""
    for cls in TREE:
        (line,) = [line for line in drawing.splitlines() if f" {cls.__name__} " in f" {line} "]
        assert f" {cls.code} " in line


def test_every_row_is_one_that_its_faces_know() -> None:
    rows = list(ERROR_TABLE.values())
    assert len({row.bus for row in rows}) == len(rows)
    assert all(row.bus > 0 for row in rows)  # 0 is success
    assert all(400 <= row.http <= 599 for row in rows)
    assert all(0 < row.exit < 256 for row in rows)
    assert all(-32_899 <= row.jsonrpc <= -32_000 for row in rows)
    assert all(row.title for row in rows)


def test_a_plugins_error_with_a_code_of_its_own_reads_as_an_internal_one() -> None:
    class Odd(EngineHostError):
        code = "quite_odd"

    assert Odd("x").row == ERROR_TABLE["internal"]


def test_a_plugins_subclass_travels_as_its_parent() -> None:
    class Mine(ExecutionFailed):
        def __init__(self, one: int, two: int) -> None:
            super().__init__(f"{one} {two}")

    back = error_from_json(Mine(1, 2).to_json())
    assert type(back) is ExecutionFailed
    assert back.message == "1 2"


def test_a_wrong_file_says_where_and_how_to_mend_it() -> None:
    error = ConfigError("no such key", path="a.smss", line=3, column=7, hint="write URL")
    assert str(error) == "a.smss:3:7: no such key (write URL)"
    assert "a.smss" not in json.dumps(error.to_json())


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (30.0, "30"),
        (0.25, "0.25"),
        (0.4999, "0.5"),
        (1.23456, "1.235"),
        (0.0004, "0.0004"),
        (0.00001, "1e-05"),
        (0.0, "0"),
    ],
)
def test_a_short_time_is_not_told_as_no_time(seconds: float, told: str) -> None:
    error = CallTimeout("f", seconds)
    assert error.message == f"f did not answer within {told} s"
    assert error.detail["timeout"] == float(told)
