"""What stands on a command line, whatever a caller gives."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.config import BadValue
from enginehost.errors import InvalidArguments, TooLarge
from enginehost_engines.command.template import Slot, parse
from enginehost_engines.command.words import CommandLine, read_command

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
PLAIN = st.integers() | st.booleans() | TEXT
VALUES = st.none() | PLAIN | st.lists(PLAIN, max_size=3) | st.dictionaries(TEXT, st.integers(), max_size=2)


def words(elements: list[Any], dashed: tuple[str, ...] = (), /, **arguments: Any) -> list[str]:
    return CommandLine(read_command(["program", *elements])[1], dashed).words(arguments)


@pytest.mark.parametrize(
    ("elements", "arguments", "expected"),
    [
        (["a", "{x}"], {"x": 1}, ["a", "1"]),
        (["{x}"], {}, []),
        (["{x}"], {"x": None}, []),
        (["{x}"], {"x": ""}, [""]),
        (["{x}"], {"x": True}, ["true"]),
        (["{x}"], {"x": 1.5}, ["1.5"]),
        (["{x}"], {"x": [1, "b c", None]}, ["1", "b c", "null"]),
        (["{x}"], {"x": []}, []),
        (["{x}"], {"x": {"a": [1]}}, ['{"a":[1]}']),
        (["--n={x}"], {"x": [1, 2]}, ["--n=1", "--n=2"]),
        (["--n={x}", "z"], {}, ["z"]),
        ([["--n", "{x}"], "z"], {}, ["z"]),
        ([["--n", "{x}"], "z"], {"x": 3}, ["--n", "3", "z"]),
        ([["--n", "{x}"]], {"x": []}, []),
        ([["--n", "{x}"]], {"x": [1, 2]}, ["--n", "1", "2"]),
        ([["{x}", "{y}"]], {"x": 1}, []),
        ([{"v": "--verbose", "w": ["-w", "{x}"]}], {"v": True, "w": True, "x": 1}, ["--verbose", "-w", "1"]),
        ([{"v": "--verbose"}], {"v": False}, []),
        ([{"v": "--verbose"}], {}, []),
        ([{"v": "--verbose"}], {"v": "true"}, []),
        (["{x}-{y}"], {"x": "a", "y": [1, 2]}, ["a-1", "a-2"]),
        (
            ["{{x}}", "{print $1}", "${x}", "{}", "{ x }"],
            {"x": 1},
            ["{x}", "{print $1}", "$1", "{}", "{ x }"],
        ),
    ],
)
def test_arguments_become_words(elements: list[Any], arguments: dict[str, Any], expected: list[str]) -> None:
    assert words(elements, **arguments) == expected


@settings(max_examples=150, deadline=None)
@given(value=VALUES)
def test_a_value_is_words_of_its_own_and_nothing_else(value: Any) -> None:
    made = words(["a", "--", "{x}", "z"], x=value)
    assert (made[:2], made[-1]) == (["a", "--"], "z")
    if value is None:
        assert len(made) == 3
    elif isinstance(value, list):
        assert len(made) == 3 + len(value)
    elif isinstance(value, str):
        assert made[2] == value
    else:
        assert json.loads(made[2]) == value


@settings(max_examples=150, deadline=None)
@given(value=VALUES)
def test_no_value_becomes_an_option(value: Any) -> None:
    made: list[str] = []
    with suppress(InvalidArguments):
        made = words(["{x}", "{x}.txt"], x=value)
    assert not [word for word in made if word.startswith("-")]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["{x}", "{{x}}", "{", "}", "{{", "}}", "a", "{y-1}", " "]), max_size=8))
def test_a_template_without_places_filled_is_its_text(parts: list[str]) -> None:
    text = "".join(parts)
    template = parse(text)
    again = "".join(f"{{{part.name}}}" if isinstance(part, Slot) else part for part in template.parts)
    assert again == re.sub(r"\{\{([^\W\d][\w-]*)\}\}", r"{\1}", text)


@pytest.mark.parametrize("elements", [["{x}"], [["-n", "{x}"]], ["{x}.txt"], ["{y}{x}"]])
def test_a_value_that_begins_with_a_dash_is_refused(elements: list[Any]) -> None:
    with pytest.raises(InvalidArguments, match="may not begin with -"):
        words(elements, x="-rf", y="")


def test_a_negative_number_is_one_too() -> None:
    with pytest.raises(InvalidArguments, match="may not begin with -"):
        words(["{x}"], x=-1)


@pytest.mark.parametrize(
    ("elements", "dashed", "expected"),
    [
        (["--", "{x}"], (), ["--", "-rf"]),
        (["--n={x}"], (), ["--n=-rf"]),
        (["-{x}"], (), ["--rf"]),
        (["{x}"], ("x",), ["-rf"]),
    ],
)
def test_a_dash_is_let_in_where_the_file_says_so(
    elements: list[Any], dashed: tuple[str, ...], expected: list[str]
) -> None:
    assert words(elements, dashed, x="-rf") == expected


def test_a_double_dash_that_is_left_out_ends_no_options() -> None:
    with pytest.raises(InvalidArguments):
        words([["--", "{y}"], "{x}"], x="-rf")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("a\0b", "zero byte"),
        ("\ud800", "lone surrogate"),
        (b"x", "bytes have no place"),
        ([b"x"], "bytes have no place"),
        (float("nan"), "nan|NaN"),
        (object(), "object"),
    ],
)
def test_what_no_word_can_hold_is_refused_with_its_pointer(value: Any, message: str) -> None:
    with pytest.raises(InvalidArguments, match=message) as caught:
        words(["--", "a{x}"], x=value)
    assert caught.value.detail["errors"][0]["pointer"] == "/x"


def test_two_lists_in_one_word_are_refused() -> None:
    with pytest.raises(InvalidArguments, match="may not be a list where x is one"):
        words(["{x}={y}"], x=[1], y=[2])


def test_a_word_that_no_program_can_get_is_too_large() -> None:
    assert len(words(["{x}"], x="x" * 131071)[0]) == 131071
    with pytest.raises(TooLarge, match="the argument x on a command line"):
        words(["{x}"], x="x" * 131072)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ([], "names no program"),
        ([""], "begin with the program"),
        ([["a"]], "begin with the program"),
        (["a\0"], "begin with the program"),
        (["{x}"], "may not choose the program"),
        (["a", 5], "element 2 is no text"),
        (["a", "b", ["c", 5]], "element 3 is no text"),
        (["a", {"v": 1}], "element 2 is no text"),
        (["a", None], "element 2 is no text"),
        (["a", "b\0"], "element 2 is no text"),
    ],
)
def test_a_command_that_is_none_is_told(command: list[Any], message: str) -> None:
    with pytest.raises(BadValue, match=message):
        read_command(command)
