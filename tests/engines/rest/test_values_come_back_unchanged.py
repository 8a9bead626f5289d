import asyncio
import json
import re
from typing import Any
from unicodedata import normalize
from urllib.parse import parse_qsl, unquote, unquote_plus

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from enginehost.errors import InvalidArguments

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NASTY = st.text(st.sampled_from("./\\%2fFeE;?#&=+ :@[]{}\"'<>,\r\n\t\0é𝄞"), max_size=12)
TEXTS = ANY_TEXT | NASTY
FILE_NAMES = st.text(
    st.characters(exclude_categories=["C", "Z"], exclude_characters='"\\/'), min_size=1
).filter(lambda name: name not in (".", ".."))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def readings(value: str) -> list[str]:
    """What a server may make of a path."""
    decoded = [value, unquote(value), unquote(unquote(value))]
    return [*decoded, *(normalize("NFKC", text) for text in decoded)]


@quick
@given(TEXTS)
@example("../admin")
@example("..%2fadmin")
@example("%2e%2e")
@example("..;x")
@example("a/../../b")
@example("a\\..\\b")
@example("\uff0e\uff0e")
@example("a\uff0fb")
@example("a%2fb")
@example("a%255cb")
@example(".")
@example("")
@example("a/b?c=d#e;f")
@example("@evil.example/")
@example("x\r\nHost: evil.example")
def test_a_path_value_stays_in_its_segment(sender: Any, value: str) -> None:
    for placement in ("path", "path:encoded"):
        keys: dict[str, Any] = {"PARAMETER_PLACEMENT": {"id": placement}}
        try:
            seen = sender.send({"id": value}, path="/users/{id}/posts?fixed=1", **keys)
        except InvalidArguments:
            told = "".join(readings(value))
            slash = placement == "path" and re.search(r"[/\\]", told)
            assert value == "" or re.search(r"[\x00-\x1f\x7f]", value) or "." in told or slash
            assert not sender.server.seen
            continue
        path, _, query = seen.target.decode("ascii").partition("?")
        before, segment, after = path.split("/")[1:]
        assert (before, unquote(segment, errors="strict"), after, query) == (
            "users", value, "posts", "fixed=1",
        )  # fmt: skip
        assert seen.header("host") == f"127.0.0.1:{sender.server.port}".encode()
        for reading in readings(path):
            parts = [part.partition(";")[0] for part in re.split(r"[/\\]", reading)]
            assert ".." not in parts
            assert "." not in parts
            assert placement == "path:encoded" or len(parts) == 4


@quick
@given(TEXTS, TEXTS)
def test_two_values_in_one_segment_cannot_make_dots_together(sender: Any, one: str, two: str) -> None:
    for first, second in ((one, two), (".", ".")):
        try:
            seen = sender.send({"a": first, "b": second}, path="/x/{a}{b}/y")
        except InvalidArguments:
            continue
        assert unquote(seen.target.decode().split("/")[2]) == first + second not in (".", "..")


@quick
@given(TEXTS, TEXTS)
def test_query_values_arrive_as_given(sender: Any, one: str, two: str) -> None:
    keys = {"PARAMETER_PLACEMENT": {"q": "query", "r": "query:r[]&="}}
    seen = sender.send({"q": one, "r": two}, path="/p?key=1", **keys)
    query = seen.target.decode("ascii").partition("?")[2]
    pairs = parse_qsl(query, keep_blank_values=True, errors="strict")
    assert pairs == [("key", "1"), ("q", one), ("r[]&=", two)]


@quick
@given(st.lists(TEXTS, max_size=4))
def test_lists_in_a_query_arrive_as_given(sender: Any, items: list[str]) -> None:
    for style in ("exploded", "joined"):
        keys = {"PARAMETER_PLACEMENT": {"q": "query"}, "QUERY_STYLE": style}
        query = sender.send({"q": items}, **keys).target.decode("ascii").partition("?")[2]
        if style == "exploded":
            assert parse_qsl(query, keep_blank_values=True) == [("q", item) for item in items]
        elif items:
            assert [unquote(item) for item in query.removeprefix("q=").split(",")] == items


@quick
@given(st.dictionaries(TEXTS, TEXTS, max_size=4))
def test_a_deep_object_keeps_its_members_inside_its_name(sender: Any, members: dict[str, str]) -> None:
    keys = {"PARAMETER_PLACEMENT": {"q": "query"}, "QUERY_STYLE": "deepobject"}
    try:
        seen = sender.send({"q": members}, **keys)
    except InvalidArguments:
        assert any("[" in key or "]" in key for key in members)
        return
    pairs = parse_qsl(seen.target.decode("ascii").partition("?")[2], keep_blank_values=True)
    assert pairs == [(f"q[{key}]", value) for key, value in members.items()]


@quick
@given(TEXTS)
@example("x\r\nSet-Cookie: a=b")
@example(" x")
def test_a_header_value_arrives_as_given_or_not_at_all(sender: Any, value: str) -> None:
    try:
        seen = sender.send({"q": value}, PARAMETER_PLACEMENT={"q": "header:X-Value"})
    except InvalidArguments:
        assert re.search(r"[\x00-\x08\x0a-\x1f\x7f]", value) or value != value.strip(" \t")
        assert not sender.server.seen
        return
    arrived = seen.header("x-value")
    assert arrived is not None
    assert arrived.decode() == value


@quick
@given(TEXTS, TEXTS)
def test_cookies_arrive_as_given(sender: Any, one: str, two: str) -> None:
    keys = {"HEADERS": {"Cookie": "fixed=1"}, "PARAMETER_PLACEMENT": {"a": "cookie", "b": "cookie:bee"}}
    arrived = sender.send({"a": one, "b": two}, **keys).header("cookie")
    pairs = [pair.partition("=")[::2] for pair in arrived.decode().split("; ")]
    assert [(name, unquote(value)) for name, value in pairs] == [("fixed", "1"), ("a", one), ("bee", two)]


@quick
@given(JSON, JSON)
@example(2**70, -(2**53) - 1)
def test_json_values_arrive_as_given(sender: Any, one: Any, two: Any) -> None:
    keys = {
        "PARAMETER_PLACEMENT": {"b": "body:/deep/list/1/a~1b"},
        "BODY_CONSTANTS": {"deep": {"list": [0, {"keep": "this"}]}},
    }
    seen = sender.send({"a": one, "b": two}, **keys)
    assert seen.header("content-type") == b"application/json"
    body = json.loads(seen.body)
    assert body == {"a": one, "deep": {"list": [0, {"keep": "this", "a/b": two}]}}


@quick
@given(TEXTS, st.lists(TEXTS, max_size=3))
def test_form_fields_arrive_as_given(sender: Any, one: str, many: list[str]) -> None:
    seen = sender.send({"a": one, "b": many}, CONTENT_TYPE="", BODY_CONSTANTS={"c": "&="})
    assert seen.header("content-type") == b"application/x-www-form-urlencoded"
    pairs = parse_qsl(seen.body.decode("ascii"), keep_blank_values=True, errors="strict")
    assert pairs == [("c", "&="), ("a", one), *(("b", item) for item in many)]


@quick
@given(
    st.binary(),
    TEXTS,
    FILE_NAMES,
)
def test_files_and_fields_arrive_as_given(
    sender: Any, kit: Any, content: bytes, field: str, name: str
) -> None:
    arguments = {"doc": {"content": content, "filename": name, "content_type": "text/x"}, "note": field}
    seen = sender.send(arguments, PARAMETER_PLACEMENT={"doc": "file", "note": "form"})
    assert asyncio.run(kit.form(seen)) == {"note": field, "doc": (name, "text/x", content)}


def unfolded(pairs: list[tuple[str, str]]) -> Any:
    """What a server makes of ``k[a][0]=x``: objects by name, lists by number, text at the end."""
    whole: dict[str, Any] = {}
    for name, value in pairs:
        first, *others = re.split(r"\]\[|\[", name.removesuffix("]"))
        at: Any = whole
        for step in (way := [first, *others])[:-1]:
            at = at.setdefault(step, {})
        at[way[-1]] = value
    return whole


def folded(value: Any) -> Any:
    """The same, made of the value itself: lists as objects by number, nothing that is null or empty."""
    if isinstance(value, list):
        value = {str(index): item for index, item in enumerate(value)}
    if isinstance(value, dict):
        return {key: found for key, item in value.items() if (found := folded(item)) not in (None, {})}
    return value


PLAIN_NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="[]"), max_size=8)
NESTED = st.recursive(
    TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PLAIN_NAMES, inner, max_size=3),
    max_leaves=8,
)


@quick
@given(st.dictionaries(PLAIN_NAMES, NESTED, max_size=3), st.sampled_from(["query", "form", "multipart"]))
def test_a_nested_value_arrives_as_given(sender: Any, kit: Any, value: Any, where: str) -> None:
    keys: dict[str, Any] = {
        "query": {"QUERY_STYLE": "indexed", "HTTP_METHOD": "GET"},
        "form": {"FORM_STYLE": "indexed", "CONTENT_TYPE": ""},
        "multipart": {"FORM_STYLE": "indexed", "CONTENT_TYPE": "multipart/form-data"},
    }[where]
    try:
        seen = sender.send({"q": value}, **keys)
    except InvalidArguments:
        assert where == "multipart"
        assert re.search(r'[\x00-\x1f\x7f"\\]', json.dumps(value, ensure_ascii=False).replace('"', ""))
        return
    if where == "multipart":
        pairs = list(asyncio.run(kit.form(seen)).items())
    else:
        text = (seen.body if where == "form" else seen.target.partition(b"?")[2]).decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict")
    assert unfolded(pairs) == folded({"q": value})


@quick
@given(st.lists(TEXTS, max_size=4), st.dictionaries(PLAIN_NAMES, TEXTS, max_size=3))
def test_a_form_has_the_styles_of_a_query(sender: Any, items: list[str], members: dict[str, str]) -> None:
    body = sender.send({"a": items, "b": members}, CONTENT_TYPE="", FORM_STYLE="joined").body.decode("ascii")
    fields = dict(pair.split("=") for pair in body.split("&")) if body else {}
    read = {name: [unquote_plus(one) for one in text.split(",")] for name, text in fields.items()}
    flat = [part for pair in members.items() for part in pair]
    assert read == ({"a": items} if items else {}) | ({"b": flat} if flat else {})
    seen = sender.send({"a": items, "b": members}, CONTENT_TYPE="", FORM_STYLE="deepObject")
    pairs = parse_qsl(seen.body.decode("ascii"), keep_blank_values=True, errors="strict")
    assert pairs == [("a", item) for item in items] + [(f"b[{key}]", value) for key, value in members.items()]


@quick
@given(TEXTS, TEXTS, TEXTS, TEXTS, JSON)
def test_all_places_at_once_do_not_disturb_each_other(
    sender: Any, one: str, two: str, three: str, four: str, five: Any
) -> None:
    place = {
        "a": "path:encoded",
        "b": "query",
        "c": "header:X-C",
        "d": "cookie",
        "e": "body:/in/e",
        "f": "body",
    }
    arguments = {"a": one, "b": two, "c": three, "d": four, "e": five, "f": one}
    try:
        seen = sender.send(arguments, path="/p/{a}/q?fixed=1", PARAMETER_PLACEMENT=place)
    except InvalidArguments as refused:
        pointer = refused.detail["errors"][0]["pointer"]
    else:
        path, _, query = seen.target.decode("ascii").partition("?")
        assert unquote(path.split("/")[2]) == one
        assert parse_qsl(query, keep_blank_values=True) == [("fixed", "1"), ("b", two)]
        assert seen.header("x-c") == three.encode()
        assert unquote(seen.header("cookie").decode().partition("=")[2]) == four
        assert json.loads(seen.body) == {"in": {"e": five}, "f": one}
        return
    assert pointer in ("/a", "/c")
    assert not sender.server.seen


@quick
@given(st.binary() | TEXTS | st.lists(st.integers()))
def test_a_raw_body_arrives_as_given(sender: Any, value: Any) -> None:
    seen = sender.send({"q": value}, PARAMETER_PLACEMENT={"q": "raw"})
    if isinstance(value, bytes):
        assert (seen.body, seen.header("content-type")) == (value, b"application/octet-stream")
    elif isinstance(value, str):
        assert seen.body.decode() == value
    else:
        assert json.loads(seen.body) == value


@pytest.mark.parametrize(
    "keys",
    [
        {"path": "/{q}"},
        {"PARAMETER_PLACEMENT": {"q": "query"}},
        {"PARAMETER_PLACEMENT": {"q": "header:X"}},
        {"PARAMETER_PLACEMENT": {"q": "cookie"}},
        {"PARAMETER_PLACEMENT": {"q": "raw"}},
        {"PARAMETER_PLACEMENT": {"q": "file"}},
        {"CONTENT_TYPE": "json"},
        {"CONTENT_TYPE": "form"},
    ],
)
def test_a_lone_surrogate_or_nan_is_refused_everywhere(sender: Any, keys: Any) -> None:
    for value in ("\ud800", float("nan"), float("inf")):
        if keys.get("PARAMETER_PLACEMENT") == {"q": "file"} and isinstance(value, float):
            continue
        with pytest.raises(InvalidArguments):
            sender.send({"q": value}, **keys)
    assert not sender.server.seen
