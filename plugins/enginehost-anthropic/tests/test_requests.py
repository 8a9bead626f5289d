"""What is sent to the Messages API."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import orjson
import pytest
from enginehost_anthropic import AnthropicConfig
from enginehost_anthropic.request import head_of
from enginehost_anthropic.rows import Rows
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.errors import InvalidRequest
from enginehost.llm.body import written
from enginehost.llm.message import Message, Role, Status, Type, system, user
from enginehost.llm.model import ModelRequest, ToolChoice
from enginehost.llm.structured import closed, tool_schema
from enginehost.signature import FunctionSignature

WEATHER = FunctionSignature("weather.now", "The weather.", {"type": "object", "properties": {"city": {}}})
REQUEST = ModelRequest("m", tools=[WEATHER], names={"weather.now": "weather_now"})
PNG = base64.b64encode(b"\x89PNG").decode()


def call(id: str, tool: str = "weather.now", **args: Any) -> Message:
    return Message(Role.ASSISTANT, Type.TOOL_CALL, query={"tool": tool, "id": id, "args": args})


def result(id: str, content: str, **query: Any) -> Message:
    return Message(Role.TOOL, Type.TOOL_RESULT, content, {"tool": "weather.now", "id": id, **query})


async def body(rows: Sequence[Message], request: ModelRequest = REQUEST) -> Any:
    async def given() -> AsyncIterator[Message]:
        for row in rows:
            yield row

    chunks = [chunk async for chunk in written(b"{", given(), Rows(request), b"}")]
    return orjson.loads(b"".join(chunks))


def head(config: dict[str, Any] | None = None, **request: Any) -> dict[str, Any]:
    return head_of(ModelRequest("m", **request), AnthropicConfig.model_validate(config or {}))[0]


async def test_rows_become_turns_of_blocks_with_results_on_the_users_side() -> None:
    rows = [
        system("Be brief."),
        system("Be kind."),
        user("Weather?"),
        Message(Role.ASSISTANT, Type.REASONING, "hm", provider={"anthropic": {"signature": "sig=="}}),
        Message(Role.ASSISTANT, content="I look."),
        call("a", city="Bonn"),
        call("b", city="Köln"),
        result("a", '"sun"'),
        result("b", '"no"', error=True),
        user("Thanks"),
    ]
    found = await body(rows)
    mark = {"type": "ephemeral"}
    assert found["system"] == [
        {"type": "text", "text": "Be brief."},
        {"type": "text", "text": "Be kind.", "cache_control": mark},
    ]
    assert [turn["role"] for turn in found["messages"]] == ["user", "assistant", "user"]
    assert found["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig=="},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "a", "name": "weather_now", "input": {"city": "Bonn"}},
        {"type": "tool_use", "id": "b", "name": "weather_now", "input": {"city": "Köln"}},
    ]
    assert found["messages"][2]["content"] == [
        {"type": "tool_result", "content": '"sun"', "tool_use_id": "a"},
        {"type": "tool_result", "content": '"no"', "tool_use_id": "b", "is_error": True},
        {"type": "text", "text": "Thanks", "cache_control": mark},
    ]


async def test_images_and_documents_stand_where_the_api_has_them() -> None:
    rows = [
        Message(Role.USER, Type.IMAGE, PNG, {"media_type": "image/png"}),
        Message(Role.USER, Type.IMAGE, query={"url": "https://x/y.png"}),
        Message(Role.USER, Type.FILE, "JVBERg==", {"media_type": "application/pdf", "name": "a.pdf"}),
        Message(
            Role.USER, Type.FILE, base64.b64encode("Größe".encode()).decode(), {"media_type": "text/csv"}
        ),
        Message(Role.USER, Type.FILE, query={"url": "https://x/y.pdf", "media_type": "application/pdf"}),
    ]
    blocks = (await body(rows, ModelRequest("m", cache=False)))["messages"][0]["content"]
    assert blocks == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
        {
            "type": "document",
            "title": "a.pdf",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
        },
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Größe"}},
        {"type": "document", "source": {"type": "url", "url": "https://x/y.pdf"}},
    ]


async def test_thoughts_keep_their_signature_and_those_of_others_stay_out() -> None:
    rows = [
        user("?"),
        Message(Role.ASSISTANT, Type.REASONING, provider={"anthropic": {"redacted": "xyz"}}),
        Message(Role.ASSISTANT, Type.REASONING, "theirs", provider={"openai": {"id": 1}}),
        Message(Role.ASSISTANT, Type.REASONING, "unsigned"),
        call("not/ours 1"),
        result("not/ours 1", "1"),
    ]
    found = (await body(rows))["messages"]
    assert found[1]["content"][0] == {"type": "redacted_thinking", "data": "xyz"}
    assert [block["type"] for block in found[1]["content"]] == ["redacted_thinking", "tool_use"]
    assert found[1]["content"][1]["id"] == found[2]["content"][0]["tool_use_id"] != "not/ours 1"


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (Message(Role.USER, Type.IMAGE, PNG, {"media_type": "image/tiff"}), "image/tiff"),
        (Message(Role.USER, Type.FILE, PNG, {"media_type": "application/zip"}), "application/zip"),
        (Message(Role.SYSTEM, Type.IMAGE, PNG, {"media_type": "image/png"}), "text"),
        (Message(Role.ASSISTANT, Type.APPROVAL), "approval"),
        (Message(Role.ASSISTANT, Type.FILE, PNG, {"media_type": "application/pdf"}), "file"),
    ],
)
async def test_what_the_api_has_no_place_for_is_refused_with_the_reason(row: Message, told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        await body([row])


def test_without_a_message_there_is_nothing_to_answer() -> None:
    with pytest.raises(ValueError, match="no message"):
        Rows(REQUEST).end()


PIECES = st.lists(st.text(max_size=5), min_size=1, max_size=5)
KINDS = st.sampled_from(["text", "result", "thought", "image", "textfile", "call"])


@settings(max_examples=60)
@given(st.lists(st.tuples(KINDS, PIECES), max_size=8), st.booleans())
async def test_pieces_give_the_same_body_as_whole_rows(
    rows: list[tuple[str, list[str]]], query_first: bool
) -> None:
    whole, split = [user("begin")], [user("begin")]
    for at, (kind, pieces) in enumerate(rows):
        message = _row(kind, "".join(pieces), str(at))
        parts = {"call": [""], "image": [message.content[:3], message.content[3:]]}
        parts["textfile"] = parts["image"]
        whole.append(message)
        split += _split(message, parts.get(kind, pieces), query_first)
    assert await body(split) == await body(whole)


def _row(kind: str, text: str, id: str) -> Message:
    if kind == "text":
        return Message(Role.ASSISTANT, content=text, id=id)
    if kind == "result":
        return Message(Role.TOOL, Type.TOOL_RESULT, text, {"tool": "t", "id": id}, id=id)
    if kind == "thought":
        return Message(
            Role.ASSISTANT, Type.REASONING, text, provider={"anthropic": {"signature": "s"}}, id=id
        )
    encoded = base64.b64encode(text.encode("utf-8", "replace")).decode()
    if kind == "image":
        return Message(Role.USER, Type.IMAGE, encoded, {"media_type": "image/png"}, id=id)
    if kind == "textfile":
        return Message(Role.USER, Type.FILE, encoded, {"media_type": "text/plain"}, id=id)
    return Message(Role.ASSISTANT, Type.TOOL_CALL, query={"tool": "t", "id": id, "args": {}}, id=id)


def _split(message: Message, pieces: list[str], query_first: bool) -> list[Message]:
    head = message.query if query_first else None
    opened = [
        Message(message.role, message.type, piece, head, status=Status.OPEN, id=message.id)
        for piece in pieces
    ]
    end = Message(message.role, message.type, "", message.query, message.provider, id=message.id)
    return [*opened, end]


def test_a_request_says_tools_choice_limits_and_thinking() -> None:
    tools: dict[str, Any] = {"tools": [WEATHER], "names": {"weather.now": "weather_now"}}
    choice = ToolChoice("tool", "weather.now")
    with pytest.raises(InvalidRequest, match="temperature"):
        head(temperature=1.0)
    old = {"api_version": "2023-06-01"}
    found = head(old, tool_choice=choice, parallel_tools=False, temperature=0.5, stop=["x"], **tools)
    assert found["tools"][0]["name"] == "weather_now"
    assert found["tool_choice"] == {
        "type": "tool",
        "name": "weather_now",
        "disable_parallel_tool_use": True,
    }
    assert (found["max_tokens"], found["temperature"], found["stop_sequences"]) == (8192, 0.5, ["x"])
    assert head(reasoning="high")["output_config"] == {"effort": "high"}
    budget = head({"thinking": "BUDGET"}, reasoning="low")
    assert (budget["thinking"]["budget_tokens"], budget["max_tokens"]) == (2048, 10240)
    assert head(extra={"metadata": {"user_id": "u"}})["metadata"] == {"user_id": "u"}
    for name in ("messages", "model", "stream"):
        with pytest.raises(InvalidRequest, match=name):
            head(extra={name: "x"})
    with pytest.raises(InvalidRequest, match="reasoning"):
        head(reasoning="extreme")


def test_structured_output_is_the_apis_own_or_a_tool_that_must_be_called() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
    found = head(schema=schema)
    shown = {"type": "integer", "description": "(minimum: 1)"}
    assert found["output_config"]["format"]["schema"] == {
        "type": "object",
        "properties": {"n": shown},
        "additionalProperties": False,
    }
    forced = head({"structured_output": "tool"}, schema={"type": "array", "items": {}})
    assert forced["tool_choice"] == {
        "type": "tool",
        "name": "answer",
        "disable_parallel_tool_use": True,
    }
    assert forced["tools"][0]["input_schema"]["properties"]["answer"] == {"type": "array", "items": {}}
    with pytest.raises(InvalidRequest, match="thinks"):
        head({"structured_output": "tool"}, schema=schema, reasoning="low")
    assert tool_schema(schema) == (schema, False)
    assert closed({"anyOf": [{"type": "object"}], "items": {"maxLength": 1}})["items"] == {
        "description": "(maxLength: 1)"
    }


async def test_the_official_client_sends_the_same_members(server: Any, model: Callable[..., Any]) -> None:
    """What the vendor's own client says of the same conversation."""
    anthropic = pytest.importorskip("anthropic")
    from enginehost.testing.wire import Reply

    refused = Reply((b'{"type":"error","error":{"type":"invalid_request_error","message":"no"}}',), 400)
    server.says(refused, refused)
    engine = await model()

    async def rows() -> AsyncIterator[Message]:
        yield system("S")
        yield user("U")

    with pytest.raises(Exception, match="no"):
        await anext(engine.stream(rows, ModelRequest("m", cache=False)))
    async with anthropic.AsyncAnthropic(api_key="sk-secret", base_url=server.url, max_retries=0) as client:
        with pytest.raises(anthropic.BadRequestError):
            await client.messages.create(
                model="m",
                max_tokens=8192,
                stream=True,
                system=[{"type": "text", "text": "S"}],
                messages=[{"role": "user", "content": [{"type": "text", "text": "U"}]}],
            )
    ours, theirs = server.seen
    assert ours.json() == theirs.json()
    assert ours.headers["x-api-key"] in theirs.headers["authorization"]
    for name in ("anthropic-version", "content-type"):
        assert ours.headers[name] == theirs.headers[name]
    assert (ours.path, ours.method) == (theirs.path, theirs.method)
    assert ours.chunked
