import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from enginehost.config import check_keys, read_config
from enginehost.engine import EngineContext
from enginehost.interpret import Sources, interpret
from enginehost.parameters import read_signature
from enginehost_engines.rest import RestConfig, RestEngine, StreamRestEngine

SEMOSS = """\
# made by the form, edited by hand
ENGINE = 1f0a5c1e-59ce-4a0c-8a61-3fb9c2a4a0f2
ENGINE_ALIAS = Town Weather
ENGINE_TYPE = prerna.engine.impl.function.RESTFunctionEngine
FUNCTION_TYPE = REST
NAME = Town Weather
URL = {url}/v1/current
HTTP_METHOD = {method}
CONTENT_TYPE = {content_type}
HEADERS = {{"X-Api-Key": "replace-me", "Accept": "application/json"}}
FUNCTION_NAME = current_weather
FUNCTION_DESCRIPTION = Temperature and wind for one place
FUNCTION_PARAMETERS = [{{"parameterName":"lat","parameterType":"String","parameterDescription":"Latitude"}}]
FUNCTION_REQUIRED_PARAMETERS = ["lat"]
PIPELINE = pipeline.json
MCP_ENABLED = false
"""


def load(text: str, kind: Any = RestEngine) -> tuple[Any, Any]:
    nothing = Sources(env=lambda _: None, file=lambda _: "", secret=lambda _: None)
    declaration = interpret(text.encode(), Path("weather.smss"), nothing)
    parts = read_signature(declaration)
    config = read_config(declaration, RestConfig)
    check_keys(declaration, RestConfig)
    if config is None or declaration.has_errors:
        return None, declaration
    context = EngineContext("e", path=Path("weather.smss"), signature=parts.signature)
    return kind(context, config), declaration


@pytest.mark.parametrize(
    ("method", "content_type", "target", "body"),
    [
        ("get", "json", b"/v1/current?lat=1%262", b""),
        ("POST", "JSON", b"/v1/current", b'{"lat":"1&2"}'),
        ("put", "", b"/v1/current", b"lat=1%262"),
        ("POST", "x-www-form-urlencoded", b"/v1/current", b"lat=1%262"),
    ],
)
async def test_a_file_of_semoss_runs_as_its_author_meant(
    server: Any, kit: Any, method: str, content_type: str, target: bytes, body: bytes
) -> None:
    engine, declaration = load(SEMOSS.format(url=server.url, method=method, content_type=content_type))
    assert not declaration.diagnostics
    await engine.execute({"lat": "1&2"}, kit.call())
    await engine.close()
    assert (server.last.method, server.last.target, server.last.body) == (method.upper(), target, body)
    assert server.last.header("x-api-key") == b"replace-me"
    assert server.last.header("accept") == b"application/json"


NAUGHTY = {
    "lat": '51.5 & more = ?#/\\ {x} "y" + 100%',
    "count": 2**60,
    "exact": True,
    "names": ["a b", "c,d"],
    "more": {"deep": [1, None]},
    "nothing": None,
}
"""Values that SEMOSS breaks, or sends as text of Java."""

TYPES = {
    "lat": "String",
    "count": "Integer",
    "exact": "boolean",
    "names": "List<String>",
    "more": "Map<String,Object>",
}
TYPED = SEMOSS.replace(
    next(line for line in SEMOSS.splitlines() if line.startswith("FUNCTION_PARAMETERS")),
    "FUNCTION_PARAMETERS = "
    + json.dumps(
        [{"parameterName": n, "parameterType": t} for n, t in {**TYPES, "nothing": "Object"}.items()]
    )
    .replace("{", "{{")
    .replace("}", "}}"),
)


async def test_values_keep_their_types_in_json_and_are_encoded_in_a_query_and_a_form(
    server: Any, kit: Any
) -> None:
    for method, content_type in (("POST", "json"), ("GET", "json"), ("POST", "x-www-form-urlencoded")):
        engine, _ = load(TYPED.format(url=server.url, method=method, content_type=content_type))
        await engine.execute(NAUGHTY, kit.call())
        await engine.close()
        if method == "POST" and content_type == "json":
            assert json.loads(server.last.body) == NAUGHTY
            continue
        text = server.last.body if method == "POST" else server.last.target.partition(b"?")[2]
        assert parse_qsl(text.decode("ascii"), keep_blank_values=True) == [
            ("lat", NAUGHTY["lat"]),
            ("count", str(2**60)),
            ("exact", "true"),
            ("names", "a b"),
            ("names", "c,d"),
            ("more", '{"deep":[1,null]}'),
        ]


async def test_a_query_in_the_url_stays_and_takes_more(server: Any, kit: Any) -> None:
    text = SEMOSS.format(url=server.url, method="get", content_type="json")
    engine, _ = load(text.replace("/v1/current", "/v1/current?key=a%20b"))
    await engine.execute({"lat": "é"}, kit.call())
    await engine.close()
    assert server.last.target == b"/v1/current?key=a%20b&lat=%C3%A9"


async def test_a_function_without_parameters_sends_an_empty_object_or_form(server: Any, kit: Any) -> None:
    bare = (
        "\n".join(line for line in SEMOSS.splitlines() if "PARAMETERS" not in line)
        + "\nFUNCTION_PARAMETERS = "
    )
    for content_type, body in (("JSON", b"{}"), ("", b"")):
        engine, _ = load(bare.format(url=server.url, method="POST", content_type=content_type))
        await engine.execute({}, kit.call())
        await engine.close()
        assert (server.last.body, server.last.header("content-length")) == (body, b"%d" % len(body))


async def test_a_streaming_file_gives_the_lines_as_they_come(server: Any, kit: Any) -> None:
    text = SEMOSS.replace("impl.function.RESTF", "impl.function.StreamRESTF")
    server.answer = kit.chunked(b"erste\r\nzwei", "te é\n\nlast".encode(), content_type="text/plain")
    engine, declaration = load(
        text.format(url=server.url, method="POST", content_type="json"), StreamRestEngine
    )
    assert not declaration.diagnostics
    found = [line async for line in engine.execute({"lat": 1.5}, kit.call())]
    await engine.close()
    assert found == ["erste", "zweite é", "", "last"]
    assert server.last.body == b'{"lat":1.5}'


@pytest.mark.parametrize(
    ("before", "after", "key", "line"),
    [
        ("URL = ", "#", "API_ENDPOINT_URL", 0),
        ("HTTP_METHOD = get", "HTTP_METHOD = fetch", "HTTP_METHOD", 8),
        ('HEADERS = {"X-Api-Key": "replace-me"', 'HEADERS = {"X-Api-Key" "replace-me"', "HEADERS", 10),
    ],
)
def test_a_wrong_key_is_shown_with_its_line(kit: Any, before: str, after: str, key: str, line: int) -> None:
    text = SEMOSS.format(url="http://x", method="get", content_type="json")
    assert before in text
    engine, declaration = load(text.replace(before, after))
    assert engine is None
    shown = [(found.line, found.message) for found in declaration.diagnostics if found.severity == "error"]
    assert shown[0][0] == line
    assert key in shown[0][1]
