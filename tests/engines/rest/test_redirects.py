"""Where a redirect is followed, what goes along, and what is not sent again."""

import json
from typing import Any

import pytest
from httpx2 import Response

from enginehost.errors import ExecutionFailed
from enginehost_engines.rest import transport
from enginehost_engines.rest.redirects import following_of
from enginehost_engines.rest.request import Message
from enginehost_engines.rest.url import Origin


@pytest.mark.parametrize(
    ("status", "sent", "rule", "method"),
    [
        (301, "GET", "same-origin", "GET"),
        (302, "HEAD", "same-origin", "HEAD"),
        (308, "GET", "same-origin", "GET"),
        (303, "POST", "same-origin", "GET"),
        (303, "PATCH", "any-method", "GET"),
        (307, "POST", "any-method", "POST"),
        (308, "POST", "any-method", "POST"),
        (302, "PUT", "any-method", "PUT"),
        (302, "POST", "any-method", "GET"),
    ],
)
async def test_a_redirect_on_the_same_host_is_followed(
    make: Any, server: Any, kit: Any, status: int, sent: str, rule: str, method: str
) -> None:
    server.answer = kit.redirect_once
    url = f"{server.url}/a/{status}-there%20%C3%A9"
    keys = {"HTTP_METHOD": sent, "AUTH_TOKEN": "t", "FOLLOW_REDIRECTS": rule}
    engine = make(parameters=["q"], URL=url, PARAMETER_PLACEMENT={"q": "header:Q"}, **keys)
    await engine.execute({"q": "1"}, kit.call())
    assert (server.last.method, server.last.target) == (method, b"/a/there%20%C3%A9")
    assert server.last.header("authorization") == b"Bearer t"
    assert server.last.header("q") == b"1"


async def test_a_body_goes_along_only_where_the_method_does(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.redirect_once
    for status, method, body in ((307, "POST", b'{"q":1}'), (302, "GET", b"")):
        keys = {"HTTP_METHOD": "POST", "FOLLOW_REDIRECTS": "any-method"}
        engine = make(parameters=["q"], URL=f"{server.url}/a/{status}-there", **keys)
        assert await engine.execute({"q": 1}, kit.call()) == "there"
        assert (server.last.method, server.last.body) == (method, body)
        assert (server.last.header("content-type") is None) == (method == "GET")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_what_changes_something_is_not_sent_twice_unless_the_file_says_so(
    make: Any, server: Any, kit: Any, method: str, status: int
) -> None:
    server.answer = kit.redirect_once
    with pytest.raises(
        ExecutionFailed, match=f"answered {status}, a redirect that FOLLOW_REDIRECTS = same-o"
    ):
        await make(URL=f"{server.url}/a/{status}-there", HTTP_METHOD=method).execute({}, kit.call())
    assert len(server.seen) == 1


async def test_no_redirect_is_followed_where_the_file_forbids_it(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.redirect_once
    with pytest.raises(ExecutionFailed, match="answered 303, a redirect that FOLLOW_REDIRECTS = never"):
        await make(URL=f"{server.url}/a/303-there", FOLLOW_REDIRECTS="never").execute({}, kit.call())
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("http://evil.example/hush", "to http://evil.example,"),
        ("//u:hush@evil.example/x?hush=1#hush", "to http://evil.example,"),
        ("http://127.0.0.1:1/", "to http://127.0.0.1:1,"),
        ("https://127.0.0.1/", "to https://127.0.0.1,"),
        ("ftp://127.0.0.1/", "that leads nowhere"),
        ("http://[", "that leads nowhere"),
        ("", "that leads nowhere"),
    ],
)
async def test_a_redirect_elsewhere_is_not_followed(
    make: Any, server: Any, kit: Any, location: str, told: str
) -> None:
    server.answer = kit.plain(b"", "", 302, Location=location)
    with pytest.raises(ExecutionFailed, match=f"answered 302, a redirect {told}") as failed:
        await make().execute({}, kit.call())
    assert len(server.seen) == 1
    assert "hush" not in json.dumps(failed.value.to_json())


async def test_redirects_in_a_circle_end(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.plain(b"", "", 302, Location="/path")
    with pytest.raises(ExecutionFailed, match="redirect"):
        await make().execute({}, kit.call())
    assert len(server.seen) == transport.MOST_REDIRECTS + 1


async def test_redirects_lead_to_hosts_that_the_file_allows_and_take_nothing_along(
    make: Any, server: Any, kit: Any
) -> None:
    async def lead(seen: Any, writer: Any) -> None:
        if seen.target == b"/there":
            await kit.plain(b'"there"')(seen, writer)
        else:
            status = int(seen.target.rpartition(b"/")[2])
            await kit.plain(b"", "", status, Location=f"http://localhost:{server.port}/there")(seen, writer)

    server.answer = lead
    keys: dict[str, Any] = {
        "HEADERS": {"X-Key": "hush", "Cookie": "hush=1"},
        "AUTH_TOKEN": "hush",
        "PARAMETER_PLACEMENT": {"q": "header:Q"},
    }
    hosts = ["LocalHost", "x.example"]
    for method, status in (("GET", 302), ("GET", 307), ("POST", 303)):
        url = f"{server.url}/a/{status}"
        engine = make(parameters=["q"], URL=url, HTTP_METHOD=method, REDIRECT_HOSTS=hosts, **keys)
        assert await engine.execute({"q": "hush"}, kit.call()) == "there"
        assert server.last.header("host") == f"localhost:{server.port}".encode()
        assert {name.lower() for name, _ in server.last.headers} == {
            *(b"host", b"accept", b"accept-encoding", b"user-agent")
        }
    never: list[dict[str, Any]] = [
        {"REDIRECT_HOSTS": ["x.example"]},
        {"REDIRECT_HOSTS": hosts, "HTTP_METHOD": "POST", "FOLLOW_REDIRECTS": "any-method"},
        {"REDIRECT_HOSTS": hosts, "FOLLOW_REDIRECTS": "never"},
    ]
    for rule in never:
        seen = len(server.seen)
        with pytest.raises(ExecutionFailed, match="a redirect"):
            await make(parameters=["q"], URL=f"{server.url}/a/307", **keys, **rule).execute(
                {"q": 1}, kit.call()
            )
        assert len(server.seen) == seen + 1


def test_no_redirect_leads_from_https_to_http() -> None:
    message = Message("GET", Origin("https", "a.example", 443), b"/", (), b"")
    for location, host in (("http://b.example/", None), ("https://b.example:8443/", b"b.example:8443")):
        answer = Response(302, headers={"Location": location})
        following = following_of(message, answer, "same-origin", frozenset({"b.example"}))
        assert (dict(following.headers)[b"Host"] if following else None) == host
