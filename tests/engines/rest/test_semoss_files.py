from pathlib import Path
from typing import Any

import pytest

from enginehost.config import check_keys, read_config
from enginehost.engine import EngineContext
from enginehost.interpret import Sources, interpret
from enginehost.parameters import read_signature
from enginehost_engines.rest import RestConfig, RestEngine

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


def load(text: str) -> tuple[Any, Any]:
    nothing = Sources(env=lambda _: None, file=lambda _: "", secret=lambda _: None)
    declaration = interpret(text.encode(), Path("weather.smss"), nothing)
    parts = read_signature(declaration)
    config = read_config(declaration, RestConfig)
    check_keys(declaration, RestConfig)
    if config is None or declaration.has_errors:
        return None, declaration
    context = EngineContext("e", path=Path("weather.smss"), signature=parts.signature)
    return RestEngine(context, config), declaration


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
