"""What goes over the wire of Chat Completions, and what is made of what comes."""

from __future__ import annotations

import base64
import json
import string
from typing import Any

import pytest
from enginehost_openai import chat_body, responses_body
from enginehost_openai.chat_stream import ChatReader
from enginehost_openai.config import OpenAiConfig
from enginehost_openai.tools import Tools
from hypothesis import given, settings
from hypothesis import strategies as st
from openai_wire import Exchange, Provider, call, chat, delta, says

from enginehost.errors import EngineHostError, InvalidRequest
from enginehost.llm.body import written
from enginehost.llm.message import Message, Role, Status, Type, system, user
from enginehost.llm.model import ModelRequest, ToolChoice
from enginehost.signature import FunctionSignature

ADD = FunctionSignature("add", "Adds", {"type": "object", "properties": {"a": {"type": "integer"}}})


def called(id_: str, wire: str, text: str = "{}") -> Message:
    query = {"tool": "add", "id": id_, "args": json.loads(text)}
    return Message(Role.ASSISTANT, Type.TOOL_CALL, "", query, {"api": chat_body.API, "id": wire}, id=id_)


def result(id_: str, content: str = "3") -> Message:
    return Message(Role.TOOL, Type.TOOL_RESULT, content, {"tool": "add", "id": id_}, id=f"r{id_}")


async def body(*rows: Message, api: str = "chat", config: str = "", **fields: Any) -> Any:
    request = ModelRequest("large-1", **fields)
    made = OpenAiConfig.model_validate(json.loads(config) if config else {})
    tools = Tools(request, "openai")

    async def given_rows() -> Any:
        for row in rows:
            yield row

    if api == "chat":
        writer: Any = chat_body.ChatWriter(tools, return_reasoning=made.return_reasoning)
        head = chat_body.head(made, request, tools, None)
    else:
        writer = responses_body.ResponsesWriter(tools, "large-1")
        head = responses_body.head(made, request, tools, None)
    return json.loads(b"".join([chunk async for chunk in written(head, given_rows(), writer, b"]}")]))


async def test_a_turn_of_the_model_is_one_message_and_ids_tell_calls_apart() -> None:
    rows = [user("go"), Message(Role.ASSISTANT, content="Well", id="t")]
    rows += [called("a", "call_1"), called("b", "call_1"), result("b", "4"), result("a")]
    rows += [called("c", "call_1"), result("c")]
    messages = (await body(*rows))["messages"]
    said, *results = messages[1:4]
    assert said["content"] == "Well"
    assert [one["id"] for one in said["tool_calls"]] == ["call_1", "b"]
    assert [(one["tool_call_id"], one["content"]) for one in results] == [("b", "4"), ("call_1", "3")]
    assert messages[4]["content"] is None
    assert messages[4]["tool_calls"][0]["id"] == messages[5]["tool_call_id"] == "call_1"


async def test_images_and_files_stand_beside_what_a_user_says() -> None:
    data = base64.b64encode(b"x" * 100).decode()
    image = Message(Role.USER, Type.IMAGE, data, {"media_type": "image/png"}, id="i")
    linked = Message(Role.USER, Type.IMAGE, "", {"media_type": "image/png", "url": "https://a/b.png"}, id="l")
    file = Message(Role.USER, Type.FILE, data, {"media_type": "application/pdf", "name": "a.pdf"}, id="f")
    (message,) = (await body(user("look"), image, linked, file))["messages"]
    text, one, two, three = message["content"]
    assert text == {"type": "text", "text": "look"}
    assert one["image_url"]["url"] == f"data:image/png;base64,{data}"
    assert two["image_url"]["url"] == "https://a/b.png"
    assert three["file"] == {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{data}"}
    (item,) = (await body(user("look"), image, linked, file, api="responses"))["input"]
    kinds = [one["type"] for one in item["content"]]
    assert kinds == ["input_text", "input_image", "input_image", "input_file"]


async def test_what_the_api_has_no_place_for_is_refused() -> None:
    file = Message(Role.USER, Type.FILE, "", {"url": "https://a/b.pdf"}, id="f")
    assert (await body(file, api="responses"))["input"][0]["content"][0]["file_url"] == "https://a/b.pdf"
    for rows, more in (
        ([file], {}),
        ([Message(Role.ASSISTANT, Type.IMAGE, "eA==", {"media_type": "image/png"}, id="i")], {}),
        ([Message(Role.USER, Type.IMAGE, "eA==", {}, id="i")], {}),
        ([user("go")], {"api": "responses", "stop": ("x",)}),
    ):
        with pytest.raises(InvalidRequest):
            await body(*rows, **more)


async def test_options_stand_in_the_request() -> None:
    sent = await body(
        system("be brief"),
        user("go"),
        config='{"reasoning_effort": "low", "PROMPT_CACHE_KEY": "k", "prompt_cache_key": "k"}',
        tools=(ADD,),
        tool_choice=ToolChoice("tool", "add"),
        parallel_tools=False,
        max_tokens=5,
        temperature=0.0,
        stop=("x",),
        reasoning="high",
        extra={"seed": 7},
    )
    assert sent["messages"][0] == {"role": "system", "content": "be brief"}
    assert sent["tool_choice"]["function"] == {"name": "add"}
    wanted = {"parallel_tool_calls": False, "max_completion_tokens": 5, "temperature": 0.0, "stop": ["x"]}
    wanted |= {"reasoning_effort": "high", "seed": 7, "prompt_cache_key": "k", "stream": True}
    assert {name: sent[name] for name in wanted} == wanted


async def test_thoughts_go_back_only_where_the_server_wants_them() -> None:
    thought = Message(
        Role.ASSISTANT, Type.REASONING, "so", None, {"api": chat_body.API, "field": "reasoning"}
    )
    foreign = Message(Role.ASSISTANT, Type.REASONING, "other", None, {"signature": "x"})
    rows = (user("go"), thought, foreign, Message(Role.ASSISTANT, content="yes"))
    assert (await body(*rows))["messages"][1] == {"role": "assistant", "content": "yes"}
    sent = await body(*rows, config='{"return_reasoning": true}')
    assert sent["messages"][1] == {"role": "assistant", "content": "yes", "reasoning": "so"}
    item = {"type": "reasoning", "id": "r", "encrypted_content": "e", "summary": []}
    kept = {"api": responses_body.API, "item": item}
    for model, there in (("large-1", True), ("small-1", False)):
        row = Message(Role.ASSISTANT, Type.REASONING, "so", None, {**kept, "model": model})
        assert (item in (await body(user("go"), row, api="responses"))["input"]) is there


TEXTS = st.text(st.characters(codec=None, exclude_categories=()), max_size=12)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["user", "assistant", "tool"]), st.lists(TEXTS, min_size=1, max_size=3))
    ),
    st.sampled_from(["chat", "responses"]),
)
async def test_any_rows_in_any_pieces_make_json_that_says_the_same(
    turns: list[tuple[str, list[str]]], api: str
) -> None:
    rows: list[Message] = []
    for number, (role, pieces) in enumerate(turns):
        if role == "tool":
            rows.append(called(str(number), f"call_{number % 2}"))
        type_ = Type.TOOL_RESULT if role == "tool" else Type.TEXT
        query = {"tool": "add", "id": str(number)} if role == "tool" else None
        for at, piece in enumerate(pieces):
            status = Status.DONE if at == len(pieces) - 1 else Status.OPEN
            id_ = f"m{number}"
            rows.append(Message(Role(role), type_, piece, query, status=status, id=id_))
    sent = await body(*rows, api=api)
    items = sent["messages"] if api == "chat" else sent["input"]
    found = "".join(texts_of(items))
    said = "".join("".join(pieces) for _, pieces in turns)
    assert found.replace("\n\n", "") == clean(said).replace("\n\n", "")


def texts_of(items: list[Any]) -> list[str]:
    found: list[str] = []
    for item in items:
        content = item.get("content", item.get("output"))
        found += [content] if isinstance(content, str) else [part["text"] for part in content or ()]
    return found


def clean(text: str) -> str:
    return "".join("\ufffd" if 0xD800 <= ord(char) < 0xE000 else char for char in text)


def read(*events: Any, request: ModelRequest | None = None) -> list[Message]:
    reader = ChatReader("gpt", Tools(request or ModelRequest("m", tools=(ADD,)), "openai"), None)
    found = [one for event in events for one in reader.feed(json.dumps(event).encode())]
    return [*found, *reader.end()]


def args(messages: list[Message]) -> list[Any]:
    return [one.query["args"] for one in messages if one.type is Type.TOOL_CALL and one.query]


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([call(0, "x", "add", '{"a": 1}')], [{"a": 1}]),
        (
            [call(0, "x", "add", '{"a"'), call(1, "y", "add", '{"a": 2}'), call(0, "", "", ": 1}")],
            [{"a": 1}, {"a": 2}],
        ),
        ([call(0, "x", "add", '{"a": 1}'), call(0, "y", "add", '{"a": 2}')], [{"a": 1}, {"a": 2}]),
        ([call(0, "x", "add"), call(0, "x", "add", '{"a": 1}')], [{"a": 1}]),
        ([{"id": "x", "function": {"name": "add", "arguments": '{"a": 1}'}}], [{"a": 1}]),
        ([{"id": "x", "function": {"name": "add", "arguments": {"a": 1}}}], [{"a": 1}]),
        ([call(0, "x", "add", "")], [{}]),
    ],
    ids=["one", "by index", "one index twice", "name repeated", "no index", "an object", "no arguments"],
)
def test_tool_calls_are_put_together_as_servers_send_them(pieces: list[Any], expected: list[Any]) -> None:
    for finish in ("tool_calls", "stop", "length"):
        messages = read(*(delta(tool_calls=[piece]) for piece in pieces), delta(finish))
        assert args(messages) == expected
        assert len({one.call_id for one in messages if one.type is Type.TOOL_CALL}) == len(expected)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(string.ascii_letters, min_size=1), st.text(), max_size=3), st.data())
def test_arguments_in_any_pieces_are_the_arguments(given_args: dict[str, str], data: st.DataObject) -> None:
    text = json.dumps(given_args)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    pieces = [call(0, "x", "add"), *(call(0, arguments=part) for part in parts)]
    assert args(read(*(delta(tool_calls=[piece]) for piece in pieces), delta("tool_calls"))) == [given_args]


@pytest.mark.parametrize("text", ['{"a": ', "[1]", "nonsense"])
def test_arguments_that_are_no_whole_object_fail_the_answer(text: str) -> None:
    with pytest.raises(EngineHostError, match="no whole JSON object"):
        read(delta(tool_calls=[call(0, "x", "add", text)]), delta("tool_calls"))


def test_unknown_events_and_members_are_passed_over() -> None:
    events = [
        {"object": "ping"},
        {"choices": []},
        {"choices": [{"delta": None, "x": 1}]},
        delta(content="a", x=1),
    ]
    assert "".join(one.content for one in read(*events, delta("stop"))) == "a"


async def test_the_usage_counts_cached_tokens_apart_and_the_cost_is_known_by_prices(
    provider: Provider, hosting: Any
) -> None:
    async def answer(exchange: Exchange) -> None:
        await chat(exchange, *says("hi"))

    provider.answer = answer
    async with hosting(PRICE_INPUT=1, PRICE_OUTPUT=10, PRICE_CACHED=0.5) as host:
        usage = (await host.llm().send("go")).usage
    assert (usage.input, usage.cached, usage.output, usage.reasoning) == (8, 4, 5, 2)
    assert usage.cost == pytest.approx((8 + 2 + 50) / 1e6)
    assert usage.model == "large-1"


async def test_spooled_bodies_have_a_length_others_are_chunked(provider: Provider, hosting: Any) -> None:
    async def answer(exchange: Exchange) -> None:
        await chat(exchange, *says("hi"))

    provider.answer = answer
    async with hosting(SPOOL_BODY="true") as host:
        await host.llm().send("go")
    async with hosting() as host:
        await host.llm().send("go")
    spooled, chunked = provider.requests
    assert int(spooled.headers["content-length"]) == spooled.size == chunked.size
    assert "transfer-encoding" not in spooled.headers
    assert chunked.headers["transfer-encoding"] == "chunked"
    assert "authorization" not in chunked.headers


async def test_a_server_that_wants_the_length_gets_it_from_the_second_request_on(
    provider: Provider, hosting: Any
) -> None:
    async def answer(exchange: Exchange) -> None:
        if "content-length" in exchange.request.headers:
            await chat(exchange, *says("hi"))
        else:
            await exchange.status(411, {"error": {"message": "Length Required"}})

    provider.answer = answer
    async with hosting(RETRIES=0) as host:
        for _ in range(2):
            assert (await host.llm().send("go")).text == "hi"
    refused, *taken = provider.requests
    assert [request.data for request in taken] == [refused.data] * 2
