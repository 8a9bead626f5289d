"""Anthropic's and Bedrock's wire as another project has it: npm's ``@copilotkit/aimock``."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from enginehost.config import config_of
from enginehost.engine import EngineContext
from enginehost.llm.message import Message, Role, Type, user
from enginehost.llm.model import AbstractModelEngine, ModelRequest
from enginehost.signature import FunctionSignature

PLUGINS = Path(__file__).parents[2] / "plugins"
sys.path[:0] = [str(PLUGINS / f"enginehost-{name}" / "src") for name in ("anthropic", "bedrock")]

pytestmark = pytest.mark.interop

FIXTURES: list[dict[str, Any]] = [
    {
        "match": {"userMessage": "hello", "hasToolResult": False},
        "response": {"content": "Hello, how are you today?"},
    },
    {
        "match": {"userMessage": "weather", "hasToolResult": False},
        "response": {
            "content": "Let me look.",
            "toolCalls": [
                {"name": "get_weather", "arguments": {"town": "Bonn"}},
                {"name": "get_weather", "arguments": {"town": "Ulm"}},
            ],
        },
    },
    {"match": {"userMessage": "weather", "hasToolResult": True}, "response": {"content": "It is sunny."}},
]
TOOL = FunctionSignature(
    "get_weather", "The weather.", {"type": "object", "properties": {"town": {"type": "string"}}}
)


def anthropic(url: str) -> tuple[AbstractModelEngine, str]:
    from enginehost_anthropic import AnthropicConfig, AnthropicModel

    config = config_of({"ENDPOINT": url, "API_KEY": "test"}, AnthropicConfig)
    return AnthropicModel(EngineContext("claude"), config), "claude-sonnet-4-5"


def bedrock(url: str) -> tuple[AbstractModelEngine, str]:
    from enginehost_bedrock import BedrockConfig, BedrockModel

    keys = {"AWS_ACCESS_KEY": "AKID", "AWS_SECRET_KEY": "secret", "AWS_REGION": "eu-central-1"}
    config = config_of({"ENDPOINT": url, **keys}, BedrockConfig)
    return BedrockModel(EngineContext("bedrock"), config), "anthropic.claude-3-5-sonnet-20241022-v2:0"


def converse(url: str) -> tuple[AbstractModelEngine, str]:
    from enginehost_bedrock import BedrockConfig, BedrockModel

    keys = {"API_KEY": "bearer", "AWS_REGION": "eu-central-1", "STREAM": "false"}
    config = config_of({"ENDPOINT": url, **keys}, BedrockConfig)
    return BedrockModel(EngineContext("bedrock"), config), "anthropic.claude-3-5-sonnet-20241022-v2:0"


async def ask(engine: AbstractModelEngine, model: str, rows: Sequence[Message], **more: Any) -> list[Message]:
    async def given() -> AsyncIterator[Message]:
        for row in rows:
            yield row

    return [one async for one in engine.stream(given, ModelRequest(model, **more))]


def said(messages: Sequence[Message]) -> str:
    return "".join(one.content for one in messages if one.type is Type.TEXT)


@pytest.mark.parametrize("make", [anthropic, bedrock, converse])
async def test_a_conversation_with_tools(
    aimock: Callable[[Any], str], make: Callable[[str], tuple[AbstractModelEngine, str]]
) -> None:
    engine, model = make(aimock(FIXTURES))
    await engine.open()
    try:
        hello = await ask(engine, model, [user("hello")])
        assert said(hello) == "Hello, how are you today?"
        assert hello[-1].usage is not None
        tools: dict[str, Any] = {"tools": (TOOL,), "names": {"get_weather": "get_weather"}}
        called = await ask(engine, model, [user("weather")], **tools)
        calls = [one for one in called if one.type is Type.TOOL_CALL]
        assert said(called) == "Let me look."
        assert [(one.query or {})["args"] for one in calls] == [{"town": "Bonn"}, {"town": "Ulm"}]
        results = [
            Message(Role.TOOL, Type.TOOL_RESULT, '"sun"', {"tool": "get_weather", "id": one.call_id})
            for one in calls
        ]
        assert said(await ask(engine, model, [user("weather"), *calls, *results], **tools)) == "It is sunny."
    finally:
        await engine.close()


# calls alone: it begins a text with an empty `start`, which boto3 refuses
CALLS: list[dict[str, Any]] = [
    {
        "match": {"userMessage": "weather"},
        "response": {
            "toolCalls": [
                {"name": "get_weather", "arguments": {"town": "Bonn"}},
                {"name": "get_weather", "arguments": {"town": "Ulm"}},
            ]
        },
    }
]


async def test_real_boto3_reads_the_same_calls_from_its_converse_stream(aimock: Callable[[Any], str]) -> None:
    url = aimock(CALLS)
    engine, model = bedrock(url)
    await engine.open()
    try:
        ours = await ask(
            engine, model, [user("weather")], tools=(TOOL,), names={"get_weather": "get_weather"}
        )
    finally:
        await engine.close()
    inputs: dict[int, str] = {}
    for one in await asyncio.to_thread(of_boto3, url, model):
        at = one["contentBlockIndex"]
        inputs[at] = inputs.get(at, "") + one["delta"]["toolUse"]["input"]
    calls = [(one.query or {})["args"] for one in ours if one.type is Type.TOOL_CALL]
    assert calls == [json.loads(one) for one in inputs.values()] == [{"town": "Bonn"}, {"town": "Ulm"}]


def of_boto3(url: str, model: str) -> list[dict[str, Any]]:
    """The pieces that AWS's own client gives."""
    import boto3

    client = boto3.client(
        "bedrock-runtime",
        region_name="eu-central-1",
        aws_access_key_id="AKID",
        aws_secret_access_key="secret",
        endpoint_url=url,
    )
    messages = [{"role": "user", "content": [{"text": "weather"}]}]
    stream = client.converse_stream(modelId=model, messages=messages)["stream"]
    deltas = [event["contentBlockDelta"] for event in stream if "contentBlockDelta" in event]
    client.close()
    return deltas
