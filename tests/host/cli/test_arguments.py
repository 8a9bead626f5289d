from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.cli.arguments import read_arguments
from enginehost.cli.failures import CommandError

NAMES = st.text(st.characters(exclude_characters="=:", exclude_categories=["Cs"]), min_size=1).filter(
    lambda name: name != "-"
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text("ab", min_size=1, max_size=3), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


@settings(max_examples=60)
@given(NAMES, st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_arrives_as_it_was_written(name: str, text: str) -> None:
    word = f"{name}=@{text}" if text.startswith("@") else f"{name}={text}"
    assert read_arguments([word], None).texts == {name: text}


@settings(max_examples=60)
@given(NAMES, VALUES)
def test_any_json_arrives_as_it_was_written(name: str, value: object) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assert read_arguments([f"{name}:={text}"], None).exact == {name: value}
    assert read_arguments([], json.dumps({name: value})).exact == {name: value}


@settings(max_examples=80)
@given(st.lists(st.text(max_size=12).filter(lambda word: "@" not in word and word != "-"), max_size=4))
def test_any_words_are_arguments_or_a_clear_error(words: list[str]) -> None:
    with suppress(CommandError):
        read_arguments(words, None)


def test_text_is_fitted_and_json_is_not() -> None:
    parameters = {"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}, "c": {"type": "array"}}}
    given = read_arguments(["a=7", 'b:="7"', "c=[1]"], None)
    assert given.fitted(parameters) == {"a": 7, "b": "7", "c": [1]}


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(CommandError, match="not UTF-8"):
        read_arguments([f"a=@{path}"], None)
