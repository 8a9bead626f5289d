import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from enginehost import Host
from enginehost.errors import ConfigError, ExecutionFailed, InvalidArguments, TooLarge
from enginehost_engines.rest import StreamRestEngine
from enginehost_engines.rest.pages import same_origin
from enginehost_engines.rest.request import Message
from enginehost_engines.rest.url import Origin

ALL = [{"n": n} for n in range(7)]


def query(seen: Any) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(urlsplit(seen.target.decode()).query).items()}


def answering(kit: Any, page: Any) -> Any:
    """An answer that ``page(query)`` makes: a value, or a value and headers."""

    async def answer(seen: Any, writer: Any) -> None:
        made = page(query(seen))
        value, headers = made if isinstance(made, tuple) else (made, {})
        await kit.plain(json.dumps(value).encode(), **headers)(seen, writer)

    return answer


def numbered(first: int, size: int = 3) -> Any:
    def page(asked: dict[str, str]) -> Any:
        number = int(asked["page"]) - first
        return {
            "data": {"items": ALL[number * size : (number + 1) * size]},
            "more": (number + 1) * size < len(ALL),
        }

    return page


def linked(asked: dict[str, str]) -> Any:
    start = int(asked.get("start", 0))
    more = {"Link": f'</path?start=0>; rel="first prev", </path?q=a,b&start={start + 3}>; rel="last next"'}
    return ALL[start : start + 3], more if start + 3 < len(ALL) else {}


def linked_in_body(asked: dict[str, str]) -> Any:
    start = int(asked.get("start", 0))
    return {"items": ALL[start : start + 3], "next": f"?start={start + 3}" if start + 3 < len(ALL) else None}


def with_cursor(asked: dict[str, str]) -> Any:
    start = int(asked.get("after", "c0")[1:])
    following = {"cursor": f"c{start + 3}"} if start + 3 < len(ALL) else {}
    return {"items": ALL[start : start + 3], "meta": following}


def with_offset(asked: dict[str, str]) -> Any:
    start = int(asked["offset"])
    return {"items": ALL[start : start + min(3, int(asked.get("limit", 3)))]}


STYLES: dict[str, tuple[Any, dict[str, Any], int]] = {
    "link": (linked, {"style": "link"}, 3),
    "link in the body": (linked_in_body, {"style": "link", "next": "/next", "items": "items"}, 3),
    "cursor": (
        with_cursor,
        {"style": "cursor", "cursor": "/meta/cursor", "parameter": "after", "items": "/items"},
        3,
    ),
    "page": (numbered(1), {"style": "page", "parameter": "page", "items": "data.items"}, 4),
    "page with more": (
        numbered(0),
        {"style": "page", "parameter": "page", "start": 0, "items": "/data/items", "more": "/more"},
        3,
    ),
    "offset": (with_offset, {"style": "offset", "parameter": "offset", "items": "/items"}, 4),
    "offset with a step": (
        with_offset,
        {"style": "offset", "parameter": "offset", "items": "/items", "step": 3},
        4,
    ),
}


@pytest.mark.parametrize(("page", "rule", "requests"), STYLES.values(), ids=list(STYLES))
async def test_a_plain_function_joins_the_pages_and_a_stream_gives_their_items(
    make: Any, server: Any, kit: Any, page: Any, rule: Any, requests: int
) -> None:
    server.answer = answering(kit, page)
    assert await make(PAGINATION=rule, HEADERS={"X-Fixed": "1"}).execute({}, kit.call()) == ALL
    assert len(server.seen) == requests
    assert {seen.header("x-fixed") for seen in server.seen} == {b"1"}
    stream = make(StreamRestEngine, PAGINATION=rule).execute({}, kit.call())
    assert [item async for item in stream] == ALL


async def test_a_stream_asks_for_a_page_only_when_its_items_are_wanted(
    make: Any, server: Any, kit: Any
) -> None:
    server.answer = answering(kit, linked)
    stream = make(StreamRestEngine, PAGINATION={"style": "link"}, RESPONSE_PATH="/").execute({}, kit.call())
    await stream.aclose()
    stream = make(StreamRestEngine, PAGINATION={"style": "link"}).execute({}, kit.call())
    assert [await anext(stream) for _ in range(3)] == ALL[:3]
    assert len(server.seen) == 1
    await anext(stream)
    assert len(server.seen) == 2
    await stream.aclose()


@pytest.mark.parametrize("kind", ["REST", "prerna.engine.impl.function.StreamRESTFunctionEngine"])
async def test_a_file_s_pages_come_through_the_host_and_are_kept(
    server: Any, kit: Any, tmp_path: Path, kind: str
) -> None:
    lines = [
        f"ENGINE_CLASS = {kind}",
        f"API_ENDPOINT_URL = {server.url}/path",
        "FUNCTION_NAME = all",
        "FUNCTION_DESCRIPTION = All of them.",
        'PAGINATION = {"style": "cursor", "cursor": "meta.cursor", "parameter": "after", "items": "/items"}',
        'RESPONSE_SCHEMA = {"type": ["array", "object"]}',
        "CACHE_SECONDS = 60",
    ]
    (tmp_path / "all.smss").write_text("\n".join(lines))
    server.answer = answering(kit, with_cursor)
    async with Host(tmp_path) as host:
        assert not host.catalog.diagnostics()
        for _ in range(2):
            assert await host.call("all") == ALL
        streamed = [item async for item in host.stream("all")]
        assert streamed == (ALL if "Stream" in kind else [ALL])
    assert len(server.seen) == 3


async def test_response_path_finds_the_items_or_a_part_of_each(make: Any, server: Any, kit: Any) -> None:
    server.answer = answering(kit, linked_in_body)
    rule = {"style": "link", "next": "/next"}
    assert await make(PAGINATION=rule, RESPONSE_PATH="/items").execute({}, kit.call()) == ALL
    rule["items"] = "/items"
    for kind in ("plain", "stream"):
        keys: Any = {"PAGINATION": rule, "RESPONSE_PATH": "/n"}
        if kind == "plain":
            found = await make(**keys).execute({}, kit.call())
        else:
            found = [item async for item in make(StreamRestEngine, **keys).execute({}, kit.call())]
        assert found == list(range(7))


async def test_the_parameter_goes_where_the_file_places_it_and_a_caller_may_set_where_to_begin(
    make: Any, server: Any, kit: Any
) -> None:
    bodies: list[Any] = []

    async def answer(seen: Any, writer: Any) -> None:
        bodies.append(json.loads(seen.body))
        start = bodies[-1]["paging"]["from"]
        await kit.plain(json.dumps(ALL[start : start + 3]).encode())(seen, writer)

    server.answer = answer
    keys = {
        "HTTP_METHOD": "POST",
        "PAGINATION": {"style": "offset", "parameter": "from", "step": 3},
        "PARAMETER_PLACEMENT": {"from": "body:/paging/from"},
    }
    assert await make(parameters=["q"], **keys).execute({"q": "é"}, kit.call()) == ALL
    assert bodies[1] == {"q": "é", "paging": {"from": 3}}
    engine = make(parameters=["q", "from"], **keys)
    for start in (4, "4"):
        assert await engine.execute({"from": start}, kit.call()) == ALL[4:]
    for start in ("x", -1, True, 1.5):
        with pytest.raises(InvalidArguments, match="f at /from: must be a whole number"):
            await engine.execute({"from": start}, kit.call())


@pytest.mark.parametrize(
    ("limits", "found", "requests"),
    [
        ({"max_pages": 2}, 6, 2),
        ({"max_items": 4}, 4, 2),
        ({"max_items": 3}, 3, 1),
        ({"max_items": 100}, 7, 3),
    ],
)
async def test_limits_end_the_pages(
    make: Any, server: Any, kit: Any, limits: Any, found: int, requests: int
) -> None:
    server.answer = answering(kit, linked)
    assert await make(PAGINATION={"style": "link", **limits}).execute({}, kit.call()) == ALL[:found]
    assert len(server.seen) == requests


async def test_a_limit_that_the_file_does_not_name_is_told_loudly(
    make: Any, server: Any, kit: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server.answer = answering(kit, lambda asked: [int(asked["p"])] * 101)
    rule = {"style": "page", "parameter": "p"}
    with caplog.at_level("INFO"):
        assert len(await make(PAGINATION=rule).execute({}, kit.call())) == 10_000
        assert len(await make(PAGINATION={**rule, "max_pages": 3}).execute({}, kit.call())) == 303
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert told == [
        ("WARNING", "f: its pages end at max_items = 10000 (PAGINATION)"),
        ("INFO", "f: its pages end at max_pages = 3 (PAGINATION)"),
    ]


@pytest.mark.parametrize(
    ("page", "rule", "found"),
    [
        (lambda _: ([1], {"Link": "</path>; rel=next"}), {"style": "link"}, [1]),
        (lambda a: ([1], {"Link": "</path?x=1>; rel=next"}), {"style": "link"}, [1, 1]),
        (
            lambda _: {"items": [1], "next": "same"},
            {"style": "cursor", "cursor": "next", "parameter": "after", "items": "items"},
            [1, 1],
        ),
        (lambda _: [1, 2], {"style": "page", "parameter": "page"}, [1, 2]),
        (lambda _: [1, 2], {"style": "offset", "parameter": "offset"}, [1, 2]),
        (
            lambda _: {"d": [], "more": True},
            {"style": "page", "parameter": "page", "items": "/d", "more": "/more"},
            [],
        ),
    ],
)
async def test_pages_that_repeat_come_to_an_end(
    make: Any, server: Any, kit: Any, page: Any, rule: Any, found: list[int]
) -> None:
    server.answer = answering(kit, page)
    assert await make(PAGINATION=rule).execute({}, kit.call()) == found
    assert len(server.seen) <= 2


@pytest.mark.parametrize(
    "link",
    [
        "http://evil.example/path",
        "//evil.example/path",
        "https://127.0.0.1/path",
        "http://127.0.0.1:1/path",
        "file:///etc/passwd",
        "http://[::1",
        "\\\\evil.example\\x",
        "http://127.0.0.1:{port}@evil.example/",
    ],
)
async def test_a_next_page_elsewhere_is_not_asked(make: Any, server: Any, kit: Any, link: str) -> None:
    link = link.replace("{port}", str(server.port))
    server.answer = answering(kit, lambda _: {"items": [1], "next": link})
    rule = {"style": "link", "next": "/next", "items": "/items"}
    engine = make(PAGINATION=rule, AUTH_TOKEN="hush-token")
    if link.startswith("\\"):  # no URL of another host: a path of this one
        server.answer = answering(kit, lambda asked: {"items": [1], "next": None if asked else link + "?x=1"})
        assert await engine.execute({}, kit.call()) == [1, 1]
        return
    with pytest.raises(ExecutionFailed, match="next page"):
        await engine.execute({}, kit.call())
    assert len(server.seen) == 1


def test_a_link_with_the_other_scheme_keeps_that_of_the_file() -> None:
    message = Message("GET", Origin("https", "api.example", 443), b"/v1/x?page=1", (), b"")
    assert same_origin(message, "http://api.example/v1/x?page=2&q=a b") == b"/v1/x?page=2&q=a%20b"
    assert same_origin(message, "?page=2") == b"/v1/x?page=2"
    with pytest.raises(ExecutionFailed):
        same_origin(message, "http://api.example:8080/v1/x?page=2")


@settings(max_examples=150, deadline=None)
@given(st.text(st.sampled_from("htps:/\\@.?#[]%ab1 \r\n\t\0é"), max_size=25) | st.text(max_size=20))
def test_no_link_leads_off_the_host_or_splits_the_request(link: str) -> None:
    message = Message("GET", Origin("http", "ab", 80), b"/a/b", (), b"")
    try:
        target = same_origin(message, link)
    except ExecutionFailed:
        return
    assert target.startswith(b"/")
    assert all(0x20 < byte < 0x7F for byte in target)


async def test_what_is_no_page_is_a_clear_error(make: Any, server: Any, kit: Any) -> None:
    for answer, rule in (
        (kit.plain(b'{"a":1}'), {"style": "link"}),
        (kit.plain(b'{"a":1}'), {"style": "link", "items": "/items"}),
        (kit.plain(b"text", "text/plain"), {"style": "link"}),
    ):
        server.answer = answer
        with pytest.raises(ExecutionFailed, match="it has to be a list") as failed:
            await make(PAGINATION=rule).execute({}, kit.call())
        assert "PAGINATION" in failed.value.detail["hint"]
    server.answer = answering(kit, lambda _: {"next": "a\r\nb", "items": [1]})
    rule = {"style": "cursor", "cursor": "/next", "parameter": "after", "items": "/items"}
    keys: Any = {"PAGINATION": rule, "PARAMETER_PLACEMENT": {"after": "header:X-After"}}
    with pytest.raises(ExecutionFailed, match="no request can carry"):
        await make(**keys).execute({}, kit.call())


async def test_an_empty_answer_and_an_empty_list_have_no_items(make: Any, server: Any, kit: Any) -> None:
    for body in (b"", b"[]", b"null"):
        server.answer = kit.plain(body)
        assert await make(PAGINATION={"style": "link"}).execute({}, kit.call()) == []


async def test_pages_together_are_bounded_as_one_answer_is(make: Any, server: Any, kit: Any) -> None:
    server.answer = answering(kit, lambda asked: ["x" * 1000, asked["page"]])
    rule = {"style": "page", "parameter": "page"}
    with pytest.raises(TooLarge):
        await make(PAGINATION=rule, MAX_RESPONSE_BYTES=5000).execute({}, kit.call())
    assert len(server.seen) == 5


async def test_a_failing_page_fails_the_call(make: Any, server: Any, kit: Any) -> None:
    async def answer(seen: Any, writer: Any) -> None:
        page = kit.plain(b"[1]", Link="</path?p=2>; rel=next") if b"p=2" not in seen.target else None
        await (page or kit.plain(b"gone", "text/plain", 500))(seen, writer)

    server.answer = answer
    with pytest.raises(ExecutionFailed, match="answered 500"):
        await make(PAGINATION={"style": "link"}).execute({}, kit.call())


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ({"style": "link", "cursor": "/c"}, "cursor has no meaning"),
        ({"style": "link", "itms": "/c"}, "'itms' is not known"),
        ({"style": "cursor", "cursor": "/c"}, "needs parameter"),
        ({"style": "cursor", "parameter": "c"}, "needs cursor"),
        ({"style": "page"}, "needs parameter"),
        ({"style": "page", "parameter": "p", "items": "a["}, "neither a JSON Pointer nor"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_at_load(kit: Any, rule: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        kit.config(URL="http://h", PAGINATION=rule)
    with pytest.raises(ConfigError, match="HEAD"):
        kit.config(URL="http://h", HTTP_METHOD="HEAD", PAGINATION={"style": "link"})


async def test_a_wrong_argument_is_told_before_anything_is_asked(make: Any, server: Any, kit: Any) -> None:
    engine = make(URL=f"{server.url}/{{id}}", parameters=["id"], PAGINATION={"style": "link"})
    with pytest.raises(InvalidArguments, match="slash"):
        await engine.execute({"id": "a/b"}, kit.call())
    assert not server.seen


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.integers(), max_size=20, unique=True), st.integers(1, 7), st.sampled_from(["page", "offset"])
)
def test_no_item_is_lost_or_comes_twice(
    sender: Any, kit: Any, values: list[int], size: int, style: str
) -> None:
    def page(asked: dict[str, str]) -> Any:
        start = int(asked["at"]) * (size if style == "page" else 1)
        return values[start : start + size]

    sender.server.answer = answering(kit, page)
    rule = {"style": style, "parameter": "at", "start": 0}
    assert sender.result(HTTP_METHOD="GET", PAGINATION=rule) == values
