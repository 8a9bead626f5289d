"""No resolved secret survives in a text."""

from __future__ import annotations

import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from enginehost.redaction import MIN_LENGTH, Redactor

SECRETS = st.lists(st.text('abc é"\\/&', min_size=1, max_size=8), max_size=6)


def redactor(*values: str) -> Redactor:
    made = Redactor()
    for value in values:
        made.add(value)
    return made


@settings(max_examples=300, deadline=None)
@given(SECRETS, st.text('abc é"\\/&x', max_size=40))
@example(["abcc", "bccabc"], "xabccabcx")
def test_no_secret_survives(secrets: list[str], text: str) -> None:
    redacted = redactor(*secrets)(text + "".join(secrets))
    assert not [secret for secret in secrets if len(secret) >= MIN_LENGTH and secret in redacted]


@settings(max_examples=200, deadline=None)
@given(SECRETS, st.text("xyz", max_size=40))
def test_a_text_without_secrets_stays_as_it_is(secrets: list[str], text: str) -> None:
    assert redactor(*secrets)(text) == text


@pytest.mark.parametrize("form", [json.dumps, lambda s: quote(s, safe=""), quote_plus, str])
def test_a_secret_is_found_in_json_and_in_urls(form: object) -> None:
    secret = 'pä"ss w&rd/1'
    assert redactor(secret)(f"key={form(secret)};").count("***") == 1  # type: ignore[operator]


def test_secrets_that_overlap_or_touch_become_one_mask() -> None:
    assert redactor("abcdef", "defghi")("-abcdefghi-") == "-***-"
    assert redactor("abcd")("abcdabcd abcd") == "*** ***"


def test_a_secret_at_the_start_and_the_longer_of_two_with_one_beginning() -> None:
    assert redactor("abcd", "abcdefg")("abcdefg, abcd") == "***, ***"


def test_short_values_and_lone_surrogates_do_no_harm() -> None:
    assert redactor("abc", "", "\ud800abc")("abc \ud800abc") == "abc ***"


def test_ten_thousand_secrets_cost_no_more_than_one() -> None:
    many = redactor(*(f"secret-{n:08}" for n in range(10_000)))
    assert many("the key secret-00001234 was refused") == "the key *** was refused"
