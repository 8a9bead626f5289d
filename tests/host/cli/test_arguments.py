from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.cli.arguments import read_arguments
from enginehost.cli.failures import CommandError
from enginehost.errors import TooLarge

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


@pytest.mark.parametrize("word", ["a=@/dev/zero", "a:=@/dev/zero"])
def test_a_file_without_an_end_is_refused(word: str) -> None:
    with pytest.raises(TooLarge, match="/dev/zero may have 1000 bytes"):
        read_arguments([word], None, lambda: 1000)


def test_a_file_may_be_as_large_as_the_limit(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("x" * 1000)
    assert read_arguments([f"a=@{tmp_path / 'text'}"], None, lambda: 1000).texts == {"a": "x" * 1000}
    with pytest.raises(TooLarge):
        read_arguments([f"a=@{tmp_path / 'text'}"], None, lambda: 999)


@pytest.mark.parametrize(
    ("words", "document", "key"),
    [
        ([], '{"a": 1, "a": 2}', "a"),
        (['v:={"x": [{"b": 1, "b": 2}]}'], None, "b"),
        (['v:={"": 1, "": 2}'], None, ""),
    ],
)
def test_a_key_that_stands_twice_in_json_is_refused(words: list[str], document: str | None, key: str) -> None:
    with pytest.raises(CommandError, match=f"the key {key!r} stands twice in one object"):
        read_arguments(words, document)
