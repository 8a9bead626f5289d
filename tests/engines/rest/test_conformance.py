"""The REST engines pass the suite that every engine kind has to pass."""

import asyncio
import json
from typing import Any, ClassVar

import pytest

from enginehost.testing import EngineContract
from enginehost_engines.rest import RestEngine, StreamRestEngine

SMSS = """\
ENGINE_CLASS = REST
FUNCTION_NAME = double
FUNCTION_DESCRIPTION = Twice a number.
FUNCTION_PARAMETERS = [{{"name": "n", "type": "number", "description": "The number.", "required": true}}]
API_ENDPOINT_URL = {url}/double?key=not-for-callers
HTTP_METHOD = POST
API_KEY_VALUE = a-secret-key
"""


async def double(seen: Any, writer: Any) -> None:
    number = json.loads(seen.body)["n"]
    if number == 7:
        await asyncio.sleep(3600)
    body, status = (
        (b"a-secret-key does not like it", 418) if number == 13 else (str(2 * number).encode(), 200)
    )
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)


class RestContract(EngineContract):
    slow_arguments: ClassVar = {"n": 7}
    failing_arguments = ({"n": 13},)

    @pytest.fixture(autouse=True)
    def served(self, server: Any) -> None:
        server.answer = double
        type(self).smss = SMSS.format(url=server.url)


class TestRestEngine(RestContract):
    engine_class = RestEngine
    examples = (({"n": 2}, 4), ({"n": 0.5}, 1.0))


class TestStreamRestEngine(RestContract):
    engine_class = StreamRestEngine
    examples = (({"n": 2}, ["4"]), ({"n": 0.5}, ["1.0"]))
