"""The body of a call: exact, unambiguous, never a crash."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.errors import InvalidRequest
from enginehost.json_arguments import MOST_CONTAINERS, read_object

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def has_marker(value: object) -> bool:
    """``$bytes`` objects stand for bytes and are checked with the values."""
    if isinstance(value, dict):
        return any(str(key).endswith("$bytes") or has_marker(part) for key, part in value.items())
    return isinstance(value, list) and any(has_marker(part) for part in value)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.text(), values, max_size=5), st.sampled_from([None, 1]), st.booleans())
def test_every_object_arrives_as_it_was_sent(
    value: dict[str, object], indent: int | None, escaped: bool
) -> None:
    body = json.dumps(value, indent=indent, ensure_ascii=escaped).encode()
    if not has_marker(value):
        assert read_object(body) == value
        assert repr(read_object(body)) == repr(value)


@settings(max_examples=100, deadline=None)
@given(st.text(), values, values, values)
def test_a_key_given_twice_is_refused_at_any_depth(
    key: str, one: object, two: object, around: object
) -> None:
    pair = json.dumps(key)
    twice = f"{{{pair}: {json.dumps(one)}, {pair}: {json.dumps(two)}}}"
    for body in (twice, f'{{"x": [{json.dumps(around)}, {twice}]}}'):
        with pytest.raises(InvalidRequest, match="stands twice"):
            read_object(body.encode())


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode(errors="replace")))
def test_no_bytes_crash_the_reader(body: bytes) -> None:
    with suppress(InvalidRequest):
        assert isinstance(read_object(body), dict)


@pytest.mark.parametrize(
    "number", [2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**40, 12345678901234567890123456789012345]
)
def test_integers_of_any_size_keep_every_digit(number: int) -> None:
    assert read_object(b'{"n": [%d]}' % number) == {"n": [number]}


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 1e999}',
        b'{"a": "\\ud800"}',
        b'{"a": "\xed\xa0\x80"}',
        b'{"a": "\xff"}',
        b"{'a': 1}",
        b'{"a": 1,}',
        b"\xef\xbb\xbf{}",
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a": ' + b"9" * 5000 + b"}",
    ],
    ids=repr,
)
def test_what_is_no_json_is_refused_with_a_reason(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="JSON"):
        read_object(body)


@pytest.mark.parametrize(
    ("body", "kind"),
    [(b"[1]", "a list"), (b'"x"', "a string"), (b"1", "a number"), (b"null", "null"), (b"true", "a boolean")],
)
def test_only_an_object_holds_arguments(body: bytes, kind: str) -> None:
    with pytest.raises(InvalidRequest, match=f"not {kind}"):
        read_object(body)


def test_a_long_number_deep_inside_is_kept_or_refused() -> None:
    for depth in (100, 900, 20_000):
        with suppress(InvalidRequest):
            value = read_object(b'{"a": ' + b"[" * depth + b"9" * 20 + b"]" * depth + b"}")["a"]
            for _ in range(depth):
                (value,) = value
            assert value == int("9" * 20)


def test_no_body_is_no_arguments() -> None:
    assert read_object(b"") == {}


def test_colons_and_quotes_in_text_are_no_keys() -> None:
    value = {"a:b": 'x": "y\\', 'q"\\': ["{:}", {"\\": ':\\"'}], "$b": {"$bytes": "AAE="}}
    assert read_object(json.dumps(value).encode()) == value | {"$b": b"\x00\x01"}


def test_the_lists_and_objects_of_one_body_are_counted_but_not_those_in_text() -> None:
    many = b'{"v":["' + b"[{" * MOST_CONTAINERS + b'"' + b',"\\"["' * 3 + b"]}"
    assert len(read_object(many)["v"]) == 4
    most = MOST_CONTAINERS - 2
    assert len(read_object(b'{"v":[' + b",".join([b"[]"] * most) + b"]}")["v"]) == most
    with pytest.raises(
        InvalidRequest, match=f"parameters holds more than {MOST_CONTAINERS} lists and objects"
    ):
        read_object(b'{"v":[' + b",".join([b"[]"] * (most + 1)) + b"]}", "parameters")


@pytest.mark.parametrize("depth", [1, 90])
def test_a_key_that_stands_twice_is_found_in_a_large_body(depth: int) -> None:
    inner = ",".join(f'"k{n}":{{"a":{n}}}' for n in range(3000))
    body = '{"v":' * depth + "{" + inner + "}" + "}" * depth
    assert read_object(body.encode())
    with pytest.raises(InvalidRequest, match="the key 'k7' stands twice"):
        read_object(body.replace('"k8"', '"k7"').encode())
