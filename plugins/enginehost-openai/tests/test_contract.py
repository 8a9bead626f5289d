"""Both APIs pass the suite that every model engine passes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from enginehost_openai.engine import OpenAiEngine
from openai_wire import Answer, Exchange, call, chat, delta, on_a_thread, says

from enginehost.testing import ModelContract

KEY = "sk-a-key-of-the-file"
TOWNS = ("Bath", "York")


def last_text(messages: list[Any]) -> str:
    """What the last item of a conversation says, or the kind of item that it is."""
    last = messages[-1]
    content = last.get("content")
    if isinstance(content, list):
        content = content[-1].get("text")
    return str(content) if last.get("role") == "user" else str(last.get("role") or last.get("type"))


async def chat_script(exchange: Exchange) -> bool | None:
    assert exchange.request.headers["authorization"] == f"Bearer {KEY}"
    body = exchange.request.json
    match last_text(body["messages"]):
        case "call":
            name = body["tools"][0]["function"]["name"]
            calls = [call(0, "c1", name, '{"to'), call(1, "c2", name), call(0, arguments='wn": "Bath"}')]
            calls.append(call(1, arguments='{"town": "York"}'))
            await chat(exchange, *(delta(tool_calls=[one]) for one in calls), delta("tool_calls"))
        case "tool":
            made, *results = body["messages"][-3:]
            assert [one["tool_call_id"] for one in results] == [one["id"] for one in made["tool_calls"]]
            assert json.loads(made["tool_calls"][1]["function"]["arguments"]) == {"town": "York"}
            await chat(exchange, *says("It is ", "21 ", "degrees"))
        case "data":
            assert body["response_format"]["json_schema"]["schema"]["type"] == "object"
            await chat(exchange, *says('{"town": "Bath",', ' "degrees": 21.5}'))
        case "think":
            thoughts = [delta(reasoning_content=one) for one in ("It ", "is ")]
            await chat(exchange, *thoughts, *says("so"))
        case "hang":
            await exchange.begin()
            await exchange.event(delta(content="It"))
            await exchange.left()
        case "cut":
            await exchange.begin()
            await exchange.event(delta(content="It"))
            await exchange.end()
        case "refuse":
            await exchange.status(400, {"error": {"message": "that is nothing", "code": "invalid_value"}})
        case _:
            await chat(exchange, *says("Good ", "morning", "!"))
    return None


async def responses_script(exchange: Exchange) -> bool | None:
    body = exchange.request.json
    assert body["store"] is False
    items = body["input"]

    async def text(*parts: str) -> None:
        for part in parts:
            await exchange.event({"type": "response.output_text.delta", "output_index": 9, "delta": part})
        await exchange.event({"type": "response.output_item.done", "item": {"type": "message", "id": "m"}})

    async def over() -> None:
        usage = {"input_tokens": 12, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 4}}
        await exchange.event({"type": "response.completed", "response": {"usage": usage, "output": []}})
        await exchange.end()

    kind = last_text(items)
    if kind == "refuse":
        await exchange.status(400, {"error": {"message": "that is nothing", "code": "invalid_value"}})
        return None
    await exchange.begin()
    await exchange.event({"type": "response.created", "response": {}}, "response.created")
    match kind:
        case "call":
            for index, town in enumerate(TOWNS):
                item = {"type": "function_call", "id": f"f{index}", "call_id": f"c{index}"}
                item |= {"name": body["tools"][0]["name"], "arguments": json.dumps({"town": town})}
                await exchange.event(
                    {"type": "response.output_item.done", "output_index": index, "item": item}
                )
        case "function_call_output":
            *_, first, second, one, other = items
            assert [one["call_id"], other["call_id"]] == [first["call_id"], second["call_id"]]
            await text("It is ", "21 ", "degrees")
        case "data":
            assert body["text"]["format"]["type"] == "json_schema"
            await text('{"town": "Bath",', ' "degrees": 21.5}')
        case "think":
            await exchange.event({"type": "response.reasoning_summary_text.delta", "delta": "It is so"})
            item = {"type": "reasoning", "id": "r", "encrypted_content": "opaque", "summary": []}
            await exchange.event({"type": "response.output_item.done", "item": item})
            await text("so")
        case "hang":
            await text("It")
            await exchange.left()
        case "cut":
            await text("It")
            await exchange.end()
            return None
        case _:
            thought = [one for one in items if one.get("type") == "reasoning"]
            assert all(one["encrypted_content"] == "opaque" for one in thought)
            assert bool(thought) == any(one.get("role") == "assistant" for one in items)
            await text("Good ", "morning", "!")
    await over()
    return None


class OfBoth(ModelContract):
    engine_class = OpenAiEngine
    says = "Hello"
    calls_a_tool = "call"
    gives_data = "data"
    thinks = "think"
    never_ends = "hang"
    is_cut = "cut"
    fails = "refuse"
    script: Answer
    api: str

    @pytest.fixture(autouse=True)
    def provider_on_a_thread(self) -> Iterator[None]:
        with on_a_thread(type(self).script) as made:
            self.smss = (
                f"ENGINE_CLASS = OpenAI\nMODEL = large-1\nAPI = {self.api}\n"
                f"BASE_URL = {made.url}\nAPI_KEY = {KEY}\n"
            )
            yield


class TestChatCompletions(OfBoth):
    script = staticmethod(chat_script)
    api = "chat"


class TestResponses(OfBoth):
    script = staticmethod(responses_script)
    api = "responses"


del OfBoth, ModelContract
