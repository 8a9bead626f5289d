"""JSON as people write it is read; what cannot be read is refused with its place."""

from __future__ import annotations

import json
from typing import Any

import json5
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.lenient_json import MAX_DEPTH, LenientJsonError, loads

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
_WORDS = """{ } [ ] , : = ; "q" word 1 -2.5 0x1F +.5 5. true null $x 'it\\'s' "\\u00e9" /*c*/"""
TOKENS = st.sampled_from([*_WORDS.split(), "'a b'", "// c\n", " ", "\n"])


@given(VALUES)
def test_plain_json_reads_as_json(value: Any) -> None:
    assert loads(json.dumps(value)) == value
    assert loads(json.dumps(value, ensure_ascii=False)) == value


@settings(max_examples=300, deadline=None)
@given(st.lists(TOKENS, max_size=12).map("".join))
def test_what_json5_reads_reads_the_same(text: str) -> None:
    try:
        expected = json5.loads(text)
    except ValueError:
        return
    assert loads(text) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[label]", ["label"]),
        ("[a, b;c,]", ["a", "b", "c"]),
        ("{name: String, type=List<String>}", {"name": "String", "type": "List<String>"}),
        ("{a => 1; b: 'it\\'s'}", {"a": 1, "b": "it's"}),
        ("{'a': TRUE, # so it is\n b: Null}", {"a": True, "b": None}),
        ("[0x1F, +1, .5, 5., -0X10, 1e3]", [31, 1, 0.5, 5.0, -16, 1000.0]),
        ("'one\\\ntwo\\x41\\v'", "onetwoA\v"),
        ("[123456789012345678901234567890]", [123456789012345678901234567890]),
        ("['\\ud83d\\ude00', '\\ud83d']", ["😀", "\ufffd"]),
    ],
)
def test_each_freedom(text: str, value: Any) -> None:
    assert loads(text) == value


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("[1", 2),
        ("[1 2]", 3),
        ("{a}", 2),
        ("{a: 1} b", 7),
        ("['open]", 1),
        ("[NaN]", 1),
        ("[1e999]", 1),
        ("/* open", 0),
        ("{'a': 'C:\\dir'}", 9),
        ("[,]", 1),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text: str, position: int) -> None:
    with pytest.raises(LenientJsonError) as caught:
        loads(text)
    assert caught.value.position == position


def test_depth_is_limited() -> None:
    assert loads("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    with pytest.raises(LenientJsonError, match="deeper"):
        loads("[" * 100_000)


@given(st.one_of(st.text(st.characters()), st.lists(TOKENS).map("".join)))
def test_no_text_crashes_the_reader(text: str) -> None:
    try:
        json.dumps(loads(text)).encode()
    except LenientJsonError as refused:
        error = refused
    else:
        return
    assert 0 <= error.position <= len(text)


@pytest.mark.parametrize("text", ["/* open", "/*", "/*/", "/* a *", "/**", "[1, /* open", "// a\n /* open 5"])
def test_a_comment_that_never_ends_is_refused(text: str) -> None:
    with pytest.raises(LenientJsonError) as caught:
        loads(text)
    assert caught.value.position == text.index("/*")


@pytest.mark.parametrize("comment", ["/**/", "/***/", "/* * / */", "/*/*/", "/*\n*/", "/* a **/ /* b */"])
def test_a_comment_ends_at_its_first_end(comment: str) -> None:
    assert loads(f"{comment}[1{comment}, 2]{comment}") == [1, 2]


def test_a_long_comment_is_read_in_linear_time() -> None:
    assert loads("/*" + "* /*" * 100_000 + "*/ 5") == 5
    with pytest.raises(LenientJsonError):
        loads("/*" + "* /*" * 100_000)
