"""Files, from a caller on any face to the bytes that a service receives."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from enginehost import Host
from enginehost.engine import EngineContext
from enginehost.errors import InvalidArguments
from enginehost.serve.server import HttpServer
from enginehost.settings import HostSettings
from enginehost_engines.rest import RestEngine
from enginehost_engines.rest.files import with_files
from enginehost_engines.rest.placement import Place, Placement

TOKEN = "the-caller-s-own-token-of-32-characters"
SMSS = """\
ENGINE_CLASS = REST
API_ENDPOINT_URL = {url}/up
HTTP_METHOD = POST
FUNCTION_NAME = up
FUNCTION_DESCRIPTION = Send it.
FUNCTION_PARAMETERS = [{{"name": "doc", "type": "{type}"}}, {{"name": "note", "type": "string"}}]
PARAMETER_PLACEMENT = {{"doc": "{place}"}}
"""


@pytest.fixture
async def up(server: Any, tmp_path: Path) -> Any:
    """``up(doc, type, place)``: the request that arrives for an argument, given to the host or over HTTP."""

    async def send(doc: Any, kind: str = "bytes", place: str = "file", http: bool = False) -> Any:
        text = SMSS.format(url=server.url, type=kind, place=place)
        if place == "raw":
            text = text.replace(', {"name": "note", "type": "string"}', "")
        (tmp_path / "up.smss").write_text(text)
        settings = HostSettings(tokens=[{"name": "me", "token": TOKEN}])
        async with Host(tmp_path, settings=settings) as host:
            if not http:
                await host.call("up", {"doc": doc})
                return server.last
            face = HttpServer(host, "127.0.0.1:0")
            await face.start()
            try:
                async with httpx2.AsyncClient(base_url=face.url) as client:
                    headers = {"Authorization": f"Bearer {TOKEN}", "Cookie": "session=the-caller-s"}
                    answer = await client.post("/v1/functions/up", json={"doc": doc}, headers=headers)
                    assert answer.status_code == 200, answer.text
            finally:
                await face.stop()
        return server.last

    return send


@pytest.mark.parametrize(
    ("doc", "kind", "name", "media_type", "content"),
    [
        (b"\x00\xff", "bytes", "file", "application/octet-stream", b"\x00\xff"),
        ("AP8=", "bytes", "file", "application/octet-stream", b"\x00\xff"),
        ("AP8=", "string", "file", "application/octet-stream", b"AP8="),
        ({"content": b"\x00", "filename": "é.png"}, "bytes", "é.png", "image/png", b"\x00"),
        ({"content": "AP8=", "content_type": "x/y"}, "bytes", "file", "x/y", b"\x00\xff"),
        ({"content": "tëxt", "filename": "a.txt"}, "string", "a.txt", "text/plain", "tëxt".encode()),
    ],
)
async def test_a_file_may_be_text_base64_or_bytes_with_name_and_media_type(
    up: Any, kit: Any, doc: Any, kind: str, name: str, media_type: str, content: bytes
) -> None:
    assert await kit.form(await up(doc, kind)) == {"doc": (name, media_type, content)}


async def test_a_caller_over_http_sends_bytes_and_its_own_credentials_stay_behind(up: Any, kit: Any) -> None:
    for doc in ({"$bytes": "AP8="}, "AP8=", {"content": {"$bytes": "AP8="}}, {"content": "AP8="}):
        seen = await up(doc, http=True)
        assert (await kit.form(seen))["doc"][2] == b"\x00\xff"
        assert seen.header("authorization") is None
        assert seen.header("cookie") is None
        assert b"the-caller-s" not in seen.body + b"".join(value for _, value in seen.headers)


async def test_several_files_of_one_name(up: Any, kit: Any) -> None:
    seen = await up([b"1", {"content": b"2", "filename": "two"}], kind="list[bytes]")
    assert [seen.body.count(part) for part in (b'name="doc"', b'filename="two"')] == [2, 1]


async def test_a_raw_body_may_be_bytes_too(up: Any) -> None:
    for doc in (b"\x00\xff", "AP8="):
        assert (await up(doc, place="raw")).body == b"\x00\xff"
    with pytest.raises(InvalidArguments, match="is not of type"):
        await up({"x": 1}, place="raw")


@pytest.mark.parametrize(
    ("doc", "problem"),
    [
        ("no base64!", "must be base64"),
        ({"filename": "x"}, '"content" is a required property'),
        ({"content": 5}, "5 is not of type"),
        ({"content": b"", "filename": "../../x.png"}, "file name that is a path"),
        ({"content": b"", "filename": ".."}, "file name that is a path"),
        ({"content": b"", "filename": 'a"\r\nX: y'}, "file name"),
        (5, "is not of type"),
    ],
)
async def test_what_is_no_file_is_refused_with_its_place(
    up: Any, server: Any, doc: Any, problem: str
) -> None:
    with pytest.raises(InvalidArguments, match=problem) as refused:
        await up(doc)
    assert refused.value.detail["errors"][0]["pointer"] in ("/doc", "/doc/content")
    assert not server.seen


def test_callers_see_what_a_file_may_be(kit: Any) -> None:
    parameters = kit.signature(doc={"type": "string", "description": "The scan."}, other={"type": "string"})
    keys = {"HTTP_METHOD": "POST", "PARAMETER_PLACEMENT": {"doc": "file"}}
    engine = RestEngine(EngineContext("e", signature=parameters), kit.config(URL="http://h", **keys))
    seen = next(iter(engine.functions())).signature.properties
    assert seen["doc"]["type"] == ["string", "object"]
    assert seen["doc"]["description"].startswith("The scan. (text, or an object with content")
    assert seen["doc"]["properties"]["content"] == {"type": "string"}
    assert seen["doc"]["required"] == ["content"]
    assert seen["other"] == {"type": "string"}
    json.dumps(seen)


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"type": "string", "enum": ["a"]}, True])
def test_a_schema_that_says_more_stays_as_it_is(schema: Any) -> None:
    parameters = {"type": "object", "properties": {"doc": schema}}
    assert with_files(parameters, [Placement("doc", Place.FILE, "doc")]) is parameters
