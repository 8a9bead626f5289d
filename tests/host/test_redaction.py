"""No resolved secret survives in a text."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from enginehost.redaction import MASK, MIN_LENGTH, Redactor

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


def test_one_of_ten_thousand_secrets_is_found() -> None:
    many = redactor(*(f"secret-{n:08}" for n in range(10_000)))
    assert many("the key secret-00001234 was refused") == "the key *** was refused"


SPELLINGS = {
    "JSON": json.dumps,
    "JSON in UTF-8": lambda text: json.dumps(text, ensure_ascii=False),
    "JSON with escaped slashes": lambda text: json.dumps(text).replace("/", "\\/"),
    "JSON in JSON": lambda text: json.dumps(json.dumps(text)),
    "escapes only": lambda text: "".join(f"\\u{ord(c):04X}" for c in text),
    "a repr": repr,
    "a repr of bytes": lambda text: repr(text.encode()),
    "a repr of JSON": lambda text: repr(json.dumps(text)),
    "HTML": html.escape,
    "a URL": lambda text: quote(text, safe=""),
    "a form": quote_plus,
    "a URL in JSON": lambda text: json.dumps(quote(text)),
}


@pytest.mark.parametrize("name", SPELLINGS)
@settings(max_examples=40, deadline=None)
@given(st.text("aZ19/\\\"'&<>+=% éß", min_size=24, max_size=40), st.integers(0, 30))
def test_a_secret_is_found_in_every_spelling_and_where_the_text_is_cut(
    name: str, secret: str, cut: int
) -> None:
    redact, spelled = redactor(secret), SPELLINGS[name](secret)
    assert len(redact(f"key: {spelled}, more").replace(MASK, "")) <= len("key: '\"b\\\"', more") + 4
    begun = f"key: {spelled}"[: 5 + min(cut + 5 * len(spelled) // 6, len(spelled))]
    left = redact(begun).removeprefix("key: ").replace(MASK, "")
    assert len(left) < max(len(spelled) / 2, 12)


def test_each_line_of_a_key_is_a_secret_too() -> None:
    lines = ["-----BEGIN KEY-----", "MIIEvQIBADANBgkqhkiG9w0B", "AQEFAASCBKcwggSjAgEAAoIB", "x=="]
    redact = redactor("\n".join(lines))
    assert [redact(f"it is {line}.") for line in lines] == 3 * ["it is ***."] + ["it is x==."]


@settings(max_examples=40, deadline=None)
@given(st.text(min_size=0, max_size=5), st.text("abc19é&", min_size=10, max_size=30), st.text(max_size=5))
def test_a_secret_is_found_within_base64(before: str, secret: str, after: str) -> None:
    data = "".join((before, secret, after)).encode("utf-8", "surrogatepass")
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        found = redactor(secret)(encode(data).decode())
        assert MASK in found
        middle = encode(secret.encode()[3:-3]).decode().rstrip("=")
        assert len(middle) < 8 or middle not in found


@settings(max_examples=60, deadline=None)
@given(st.text("xyz", max_size=5), st.permutations("abcdefgh12345"), st.text("xyz", max_size=5))
def test_what_is_left_of_base64_says_nothing_of_the_secret(
    before: str, letters: list[str], after: str
) -> None:
    def left(secret: str) -> str:
        return redactor(secret)(base64.b64encode(f"{before}{secret}{after}".encode()).decode())

    for length in (8, 9, 10):
        assert left("".join(letters[:length])) == left("ABCDEFGHIJ"[:length])


def test_many_secrets_with_one_beginning_are_learnt_in_time_for_each(grows_evenly: Any) -> None:
    def prepare(count: int) -> Callable[[], object]:
        def learn() -> None:
            assert redactor(*(f"secret-{n:08}" for n in range(count)))("secret-00001234") == "***"

        return learn

    grows_evenly(prepare, 1_250, 10_000)


def test_many_secrets_with_one_beginning_make_no_text_slow(grows_evenly: Any) -> None:
    def prepare(count: int) -> Callable[[], object]:
        many, text = redactor(*(f"secret-{n:08}" for n in range(count))), "secret-00000004 " * 500
        assert many(text) == "*** " * 500
        return lambda: many(text)

    grows_evenly(prepare, 10, 10_000, times=4)


@settings(max_examples=200, deadline=None)
@given(st.text("\\ux0d8%&;#aF\"'", max_size=60))
def test_no_text_stops_the_search(text: str) -> None:
    assert redactor("zzzz")(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("url = postgresql://u:pw@127.0.0.1:1/x", "url = postgresql://u:***@127.0.0.1:1/x"),
        ("'https://u:p/w@h:1/x'", "'https://u:***@h:1/x'"),
        ("a://u:p@s:s@h", "a://u:***@h"),
        ("a://u:12345@h", "a://u:***@h"),
        ("a://h:80/x,b://u:pw@h", "a://h:80/x,b://u:***@h"),
        ("a://h/x?sslpassword=pw&y=1", "a://h/x?sslpassword=***&y=1"),
        ("https://h:443/p?mail=a@b", "https://h:443/p?mail=a@b"),
        ("http://h/ and a@b:c", "http://h/ and a@b:c"),
        ("see https://h", "see https://h"),
    ],
)
def test_passwords_of_urls_are_masked_although_nobody_has_told_of_them(text: str, shown: str) -> None:
    assert Redactor()(text) == shown


def test_a_hostile_text_is_looked_through_once() -> None:
    for text in ("x://a:" * 100_000 + "@", "?" + "a" * 500_000 + "://", "?token" * 100_000 + "://@"):
        Redactor()(text)
