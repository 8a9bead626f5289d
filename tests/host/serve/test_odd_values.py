"""What is no JSON reaches no function over HTTP, where the declared type would take it."""

from __future__ import annotations

from typing import Any

import pytest

ALL = {
    "type": "object",
    "properties": {
        "any": {},
        "text": {"type": "string"},
        "number": {"type": "number"},
        "list": {"type": "array"},
    },
    "additionalProperties": True,
}
JSON = {"content-type": "application/json"}
ROUTES = (
    ("/v1/functions/odd", {}),
    ("/v1/functions/odd", {"accept": "text/event-stream"}),
    ("/v1/functions/odd?format=openai", {}),
    ("/api/function-odd/execute", {}),
)


@pytest.mark.parametrize(
    "body",
    [
        rb'{"text": "\ud800"}',
        rb'{"text": "ab\udc00\ud800"}',
        rb'{"any": "\ud800"}',
        rb'{"any": {"\ud800": 1}}',
        rb'{"\ud800": 1}',
        rb'{"list": [1, ["\uDFFF"]]}',
        b'{"text": "\xed\xa0\x80"}',
        b'{"any": NaN}',
        b'{"number": NaN}',
        b'{"number": -Infinity}',
        b'{"any": [Infinity]}',
        b'{"number": 1e999}',
        b'{"any": {"a": -1e999}}',
    ],
    ids=repr,
)
async def test_what_is_no_json_is_refused_on_every_route_and_reaches_no_function(
    served: Any, body: bytes
) -> None:
    called: list[Any] = []

    async def take(arguments: dict[str, Any], call: Any) -> Any:
        called.append(arguments)

    await served.add("odd", take, ALL)
    for path, headers in ROUTES:
        answer = await served.client.post(path, content=body, headers=JSON | headers)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request"), path
        assert "JSON" in answer.json()["detail"]
    assert called == []


async def test_a_whole_pair_and_the_words_for_no_number_are_text(served: Any) -> None:
    await served.add("odd", parameters=ALL)
    body = rb'{"text": "\ud83d\ude00 \\ud800", "any": "NaN", "number": 1e308}'
    answer = await served.client.post("/v1/functions/odd", content=body, headers=JSON)
    expected = {"text": "\U0001f600 \\ud800", "any": "NaN", "number": 1e308}
    assert answer.json() == {"result": expected}
