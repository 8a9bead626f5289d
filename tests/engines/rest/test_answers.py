import gzip
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from enginehost.errors import ExecutionFailed, TooLarge


@pytest.mark.parametrize(
    ("content_type", "body", "result"),
    [
        ("application/json", b'{"a": [1, null]}', {"a": [1, None]}),
        ("Application/JSON; charset=utf-8", b"1.5", 1.5),
        ("application/problem+json", b'"x"', "x"),
        ("application/json", b"12345678901234567890123", 12345678901234567890123),
        ("application/json", b'\xef\xbb\xbf{"a":1}', {"a": 1}),
        ('application/json; charset="latin-1"', '"é"'.encode("latin-1"), "é"),
        ("application/json; charset=utf-16", '{"a":"é"}'.encode("utf-16"), {"a": "é"}),
        ("application/json", b"", None),
        ("text/plain", "é".encode(), "é"),
        ("text/plain; charset=iso-8859-1", b"\xe9", "é"),
        ("text/plain; charset=no-such-thing", b"abc", "abc"),
        ("text/plain; charset=base64", b"abc", "abc"),
        ("text/plain; charset=idna", b"\xff", "\ufffd"),
        ("text/plain", b"\xff", "\ufffd"),
        ("text/html", b'{"a":1}', '{"a":1}'),
        ("application/xml", b"<a/>", "<a/>"),
        ("image/svg+xml", b"<svg/>", "<svg/>"),
        ("image/png", b"\x89PNG", b"\x89PNG"),
        ("application/octet-stream", b"text", b"text"),
        ("", b"text", "text"),
        ("", b"\xff\xfe", b"\xff\xfe"),
    ],
)
async def test_the_content_type_decides_what_the_result_is(
    make: Any, server: Any, kit: Any, content_type: str, body: bytes, result: Any
) -> None:
    server.answer = kit.plain(body, content_type)
    assert await make().execute({}, kit.call()) == result


async def test_an_answer_without_content_is_none(make: Any, server: Any, kit: Any) -> None:
    async def no_content(seen: Any, writer: Any) -> None:
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    server.answer = no_content
    assert await make().execute({}, kit.call()) is None


async def test_head_answers_with_the_headers(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.plain(b"12345", "text/plain", X_Count="7")
    result = await make(HTTP_METHOD="HEAD").execute({}, kit.call())
    assert result == {"content-length": "5", "content-type": "text/plain", "x-count": "7"}


async def test_json_that_is_none_is_a_clear_error(make: Any, server: Any, kit: Any) -> None:
    for body in (b"{", b"NaN", b"\xff", b"1 2"):
        server.answer = kit.plain(body)
        with pytest.raises(ExecutionFailed, match="is no JSON") as failed:
            await make().execute({}, kit.call())
        assert failed.value.detail == {"status": 200}


async def test_an_answer_over_the_limit_is_cut_off(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.chunked(*[b"x" * 1000] * 100)
    with pytest.raises(TooLarge) as refused:
        await make(MAX_RESPONSE_BYTES=5000).execute({}, kit.call())
    assert refused.value.detail == {"limit": 5000}


async def test_compression_is_undone_and_cannot_get_past_the_limit(make: Any, server: Any, kit: Any) -> None:
    server.answer = kit.plain(gzip.compress(b'{"a":1}'), Content_Encoding="gzip")
    assert await make().execute({}, kit.call()) == {"a": 1}
    assert server.last.header("accept-encoding") == b"gzip, deflate"
    server.answer = kit.plain(gzip.compress(b"0" * 50_000_000), Content_Encoding="gzip")
    with pytest.raises(TooLarge):
        await make(MAX_RESPONSE_BYTES=100_000).execute({}, kit.call())
    server.answer = kit.plain(b"not gzip at all", Content_Encoding="gzip")
    with pytest.raises(ExecutionFailed, match="Content-Encoding"):
        await make().execute({}, kit.call())


@pytest.mark.parametrize(
    ("path", "result"),
    [
        ("/data/1/name", "b"),
        ("/data/0/a~1b", 1),
        ("data[1].name", "b"),
        ("data[*].name", ["b"]),
        ("length(data)", 2),
    ],
)
async def test_response_path_picks_a_part(make: Any, server: Any, kit: Any, path: str, result: Any) -> None:
    server.answer = kit.plain(json.dumps({"data": [{"a/b": 1}, {"name": "b"}]}).encode())
    assert await make(RESPONSE_PATH=path).execute({}, kit.call()) == result


@pytest.mark.parametrize("path", ["/data/2", "/nothing", "/data/0/x", "nothing.here", "length(nothing)"])
async def test_a_response_path_that_leads_nowhere_is_an_error(
    make: Any, server: Any, kit: Any, path: str
) -> None:
    server.answer = kit.plain(b'{"data":[1]}')
    with pytest.raises(ExecutionFailed) as failed:
        await make(RESPONSE_PATH=path).execute({}, kit.call())
    where = f"127.0.0.1:{server.port}"
    assert failed.value.message == f"f: the answer of {where} has nothing at RESPONSE_PATH = {path}"
    assert failed.value.detail.get("pointer") == (path if path.startswith("/") else None)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=50), st.text(st.characters(codec="latin-1", exclude_categories=["C"]), max_size=20))
def test_no_answer_crashes_the_engine(sender: Any, kit: Any, body: bytes, content_type: str) -> None:
    sender.server.answer = kit.plain(body, content_type.strip())
    try:
        sender.send({})
    except ExecutionFailed:
        assert "json" in content_type.lower()
