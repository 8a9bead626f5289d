"""The engine does what every model engine must, against a server that speaks the Messages API."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import orjson
import pytest
from enginehost_anthropic import AnthropicModel
from messages_wire import START, STOP, block, delta, text, tool

from enginehost.testing import ModelContract
from enginehost.testing.wire import CUT, HANG, Reply, Seen, provider_on_thread, sse

ENDS = [delta("end_turn"), STOP]


def weather(index: int, town: str) -> list[dict[str, Any]]:
    halves = (f'{{"town": "{town[:2]}', f'{town[2:]}"}}')
    return tool(index, f"toolu_{index}", *halves, name="weather_today")


def react(seen: Seen) -> Reply:
    """What the provider says to a request, by the last thing in it."""
    if seen.method == "GET":
        return Reply((orjson.dumps({"data": [{"id": "claude-test-1"}]}),))
    body = seen.json()
    last = body["messages"][-1]["content"][-1]
    said = last.get("text", "")
    if last["type"] == "tool_result":
        calls = [one["id"] for one in body["messages"][-2]["content"] if one["type"] == "tool_use"]
        results = [one["tool_use_id"] for one in body["messages"][-1]["content"]]
        assert calls == results
    if said == "fail":
        return Reply((b'{"error":{"type":"invalid_request_error","message":"no"}}',), 400)
    if said == "endless":
        return Reply((sse(START, *text(0, "Once")[:2]), HANG))
    if said == "cut":
        return Reply((sse(START, *text(0, "Once")[:2]), CUT))
    if said == "tools":
        return Reply((sse(START, *weather(0, "Bonn"), *weather(1, "Ulm"), *ENDS),))
    if said == "json":
        assert body["output_config"]["format"]["type"] == "json_schema"
        return Reply((sse(START, *text(0, json.dumps({"town": "Bonn", "degrees": 21})), *ENDS),))
    if said == "think":
        deltas = ({"type": "thinking_delta", "thinking": "hm"}, {"type": "signature_delta", "signature": "s"})
        thought = block(0, {"type": "thinking", "thinking": ""}, *deltas)
        return Reply((sse(START, *thought, *text(1, "I see."), *ENDS),))
    return Reply((sse(START, *text(0, "Hel", "lo ", "you"), *ENDS),))


class TestAnthropic(ModelContract):
    engine_class = AnthropicModel
    calls_a_tool = "tools"
    gives_data = "json"
    thinks = "think"
    never_ends = "endless"
    is_cut = "cut"
    fails = "fail"
    smss = "ENGINE_CLASS = Anthropic\nMODEL = claude-test\nAPI_KEY = very-secret\nRETRIES = 0\n"

    @pytest.fixture(autouse=True)
    def _served(self) -> Generator[None, None, None]:
        with provider_on_thread(react) as server:
            self.smss += f"ENDPOINT = {server.url}\n"
            yield
