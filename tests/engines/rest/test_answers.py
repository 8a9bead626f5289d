import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from enginehost import Host
from enginehost.errors import ConfigError, ExecutionFailed, ResultInvalid, TooLarge
from enginehost.signature import FunctionSignature
from enginehost_engines.rest import StreamRestEngine


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
        ("text/plain; charset=idna", b"abc", "abc"),
        ("text/plain", b"\xef\xbb\xbf\xc3\xa9", "é"),
        ("text/plain; charset=iso-8859-1", b"\xef\xbb\xbf\xc3\xa9", "é"),
        ("text/csv", "é".encode("utf-16"), "é"),
        ("text/xml", b'<?xml version="1.0" encoding="iso-8859-1"?><a>\xe9</a>', "é"),
        ("text/html", b"<html><head><meta charset=windows-1252></head>\x80", "€"),
        ("text/html; charset=utf-8", '<meta charset="windows-1252">€'.encode(), "€"),
        ("text/html", "<meta name=x content='charset=nonsense'>é".encode(), "é"),
        ("application/x-ndjson", b'{"a":1}\r\n\n[2]\n"\xe2\x80\xa8"', [{"a": 1}, [2], "\u2028"]),
        ("application/jsonl", b"", None),
        ("text/csv; charset=utf-16-be", "é".encode("utf-16-be"), "é"),
        ("application/json; charset=no-such-thing", '"é"'.encode(), "é"),
        ("application/json", '"é"'.encode("utf-16"), "é"),
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
    found = await make().execute({}, kit.call())
    markup = ("/xml", "/html") if isinstance(result, str) and len(result) == 1 else ()
    assert (result in found) if any(kind in content_type for kind in markup) else (found == result)


@pytest.mark.parametrize(
    ("content_type", "problem"),
    [
        ("text/plain", "is not utf-8"),
        ("text/plain; charset=ascii", "is not ascii"),
        ("text/plain; charset=shift_jis", "is not shift_jis"),
        ("text/plain; charset=utf-16-be", "is not utf-16-be"),
        ("text/plain; charset=x-klingon", "declares the charset 'x-klingon', which is none"),
        ("text/plain; charset=idna", "declares the charset 'idna', which is none"),
        ("text/plain; charset=unicode_escape", "declares the charset 'unicode_escape', which is none"),
        ("application/json; charset=ascii", "is not ascii"),
    ],
)
async def test_text_that_its_charset_does_not_fit_is_a_clear_error(
    make: Any, server: Any, kit: Any, content_type: str, problem: str
) -> None:
    server.answer = kit.plain(b'"\x81\xff\xfd!', content_type)
    with pytest.raises(ExecutionFailed) as failed:
        await make().execute({}, kit.call())
    assert failed.value.message == f"f: 127.0.0.1:{server.port} answered 200 with text that {problem}"
    assert failed.value.detail == {"status": 200, "hint": "RESPONSE_CHARSET says what it really is"}


async def test_the_file_knows_the_charset_better(make: Any, server: Any, kit: Any) -> None:
    for content_type in ("text/plain", "text/plain; charset=utf-8", "text/plain; charset=nonsense"):
        server.answer = kit.plain("5 €".encode("windows-1252"), content_type)
        assert await make(RESPONSE_CHARSET="windows-1252").execute({}, kit.call()) == "5 €"
    for charset in ("nonsense", "base64", "idna"):
        with pytest.raises(ConfigError, match="RESPONSE_CHARSET"):
            kit.config(URL="http://h", RESPONSE_CHARSET=charset)


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


@pytest.mark.parametrize("coding", ["br", "zstd", "x-gzip", "gzip, br", "gibberish"])
async def test_a_compression_that_was_not_asked_for_does_not_pass_for_the_content(
    make: Any, server: Any, kit: Any, coding: str
) -> None:
    server.answer = kit.plain(b"compressed", "text/plain", Content_Encoding=coding)
    with pytest.raises(ExecutionFailed, match="Content-Encoding"):
        await make().execute({}, kit.call())
    with pytest.raises(ExecutionFailed, match="Content-Encoding"):
        await anext(make(StreamRestEngine).execute({}, kit.call()))


async def test_a_bomb_within_a_bomb_is_cut_off(make: Any, server: Any, kit: Any) -> None:
    bomb = gzip.compress(gzip.compress(b"0" * 100_000_000, 1), 1)
    server.answer = kit.plain(bomb, "text/plain", Content_Encoding="gzip, gzip")
    with pytest.raises(TooLarge):
        await make(MAX_RESPONSE_BYTES=100_000).execute({}, kit.call())
    server.answer = kit.plain(bomb, "text/plain", Content_Encoding=", ".join(["gzip"] * 100))
    with pytest.raises(ExecutionFailed, match="Content-Encoding"):
        await make().execute({}, kit.call())


@pytest.mark.parametrize(
    ("head", "body", "result"),
    [
        ("Content-Length: 10", b'{"a":1}', None),
        ("Content-Length: 7\r\nContent-Length: 9", b'{"a":1}', None),
        ("Content-Length: 7x", b'{"a":1}', None),
        ("Transfer-Encoding: chunked", b'7\r\n{"a":1', None),
        ("Transfer-Encoding: chunked", b'zz\r\n{"a":1}', None),
        ("Content-Length: 7", b'{"a":1}HTTP/1.1 200 OK\r\n\r\nsmuggled', {"a": 1}),
        ("X: y", b'{"a":1}', {"a": 1}),
    ],
)
async def test_an_answer_that_lies_about_its_length_is_an_error_or_does_no_harm(
    make: Any, server: Any, kit: Any, head: str, body: bytes, result: Any
) -> None:
    engine = make()
    start = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{head}\r\n\r\n"
    server.answer = kit.raw(start.encode() + body)
    if result is None:
        with pytest.raises(ExecutionFailed, match=r"broke the connection off|sent what is no HTTP"):
            await engine.execute({}, kit.call())
    else:
        assert await engine.execute({}, kit.call()) == result
    server.answer = kit.plain(b'"the next answer"')
    assert await engine.execute({}, kit.call()) == "the next answer"


async def test_a_response_schema_is_checked_and_shown_to_callers(make: Any, server: Any, kit: Any) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    engine = make(RESPONSE_SCHEMA=schema, RESPONSE_PATH="/data")
    assert next(iter(engine.functions())).signature.result == schema
    stream = make(StreamRestEngine, RESPONSE_SCHEMA=schema)
    assert next(iter(stream.functions())).signature.result == schema
    assert next(iter(stream.functions())).signature.streaming
    declared = FunctionSignature("f", result={"type": "object"})
    both = make(parameters=declared, RESPONSE_SCHEMA=schema, RESPONSE_PATH="/data")
    assert next(iter(both.functions())).signature.result == {"type": "object"}
    server.answer = kit.plain(b'{"data": {"n": 1}}')
    assert await both.execute({}, kit.call()) == {"n": 1}
    server.answer = kit.plain(b'{"data": {"n": "hush"}}')
    with pytest.raises(ResultInvalid, match="RESPONSE_SCHEMA") as failed:
        await both.execute({}, kit.call())
    assert "hush" not in failed.value.message
    with pytest.raises(ConfigError, match="RESPONSE_SCHEMA is no JSON Schema"):
        kit.config(URL="http://h", RESPONSE_SCHEMA={"type": "nothing"})


async def test_the_host_refuses_a_result_that_the_response_schema_forbids(
    server: Any, kit: Any, tmp_path: Path
) -> None:
    lines = [
        "ENGINE_CLASS = REST",
        f"API_ENDPOINT_URL = {server.url}/path",
        "FUNCTION_NAME = f",
        "FUNCTION_DESCRIPTION = x",
        'RESPONSE_SCHEMA = {"type": "integer"}',
    ]
    (tmp_path / "f.smss").write_text("\n".join(lines))
    async with Host(tmp_path) as host:
        server.answer = kit.plain(b"1")
        assert await host.call("f") == 1
        server.answer = kit.plain(b'"1"')
        with pytest.raises(ResultInvalid):
            await host.call("f")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=50), st.text(st.characters(codec="latin-1", exclude_categories=["C"]), max_size=20))
def test_no_answer_crashes_the_engine(sender: Any, kit: Any, body: bytes, content_type: str) -> None:
    sender.server.answer = kit.plain(body, content_type.strip())
    try:
        sender.send({})
    except ExecutionFailed as error:
        told = error.message
    else:
        return
    assert "is no JSON" in told or "with text that" in told
