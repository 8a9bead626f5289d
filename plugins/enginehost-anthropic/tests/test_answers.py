"""What becomes of the Messages API's answers, over a real connection."""

from __future__ import annotations

import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import anyio
import orjson
import pytest
from enginehost_anthropic import AnthropicModel
from enginehost_anthropic.answer import Answer
from hypothesis import given, settings
from hypothesis import strategies as st
from messages_wire import START, STOP, block, delta, text, tool

from enginehost.errors import (
    CallTimeout,
    EngineHostError,
    EngineUnavailable,
    ExecutionFailed,
    InvalidRequest,
    Overloaded,
)
from enginehost.llm.message import Message, Status, Type, Usage, user
from enginehost.llm.model import ModelRequest
from enginehost.testing import engine_registry, running_host
from enginehost.testing.wire import CUT, HANG, Provider, Reply, sse

Make = Callable[..., Any]


async def rows() -> AsyncIterator[Message]:
    yield user("hello")


async def ask(engine: Any, **request: Any) -> list[Message]:
    return [one async for one in engine.stream(rows, ModelRequest("claude-x", **request))]


async def test_an_answer_comes_in_pieces_with_its_usage_at_the_end(server: Provider, model: Make) -> None:
    thinking = block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": "si"},
        {"type": "signature_delta", "signature": "g"},
    )
    hidden = block(1, {"type": "redacted_thinking", "data": "enc"})
    said = text(2, "Hel", "lo")
    calls = [*tool(3, "toolu_1", '{"a"', ": 1}"), *tool(4, "toolu_1", "")]
    ping = {"type": "ping"}
    strange = [{"type": "news"}, *block(9, {"type": "server_tool_use"}, {"type": "odd_delta"})]
    server.says(sse(START, ping, *thinking, *hidden, *said, *strange, *calls, delta("end_turn"), STOP))
    found = await ask(await model())
    whole = [one for one in found if one.whole]
    assert [one.type for one in whole] == ["reasoning", "reasoning", "text", "tool_call", "tool_call"]
    assert whole[0].provider == {"anthropic": {"signature": "sig"}}
    assert whole[1].provider == {"anthropic": {"redacted": "enc"}}
    assert [one.content for one in found if one.type is Type.TEXT] == ["Hel", "lo", ""]
    first, second = (one.query or {} for one in whole[3:])
    assert (first["tool"], first["args"], second["args"]) == ("add", {"a": 1}, {})
    assert first["id"] != second["id"], "an id that the provider uses twice is two ids here"
    assert whole[3].provider == {"anthropic": {"id": "toolu_1"}}
    assert [one.usage for one in found[:-1]] == [None] * (len(found) - 1)
    assert found[-1].usage == Usage(7, 9, 5, 3, 4, model="claude-x")
    assert server.seen[0].headers["x-api-key"] == "sk-secret"


async def test_a_text_that_reached_its_limit_says_so(server: Provider, model: Make) -> None:
    server.says(sse(START, *text(0, "Once"), delta("max_tokens"), STOP))
    assert (await ask(await model()))[-1].provider == {
        "anthropic": {"stop_reason": "max_tokens"},
        "finish": "length",
    }


async def test_an_empty_answer_is_an_empty_text(server: Provider, model: Make) -> None:
    server.says(sse(START, delta("end_turn", 0), STOP))
    (only,) = await ask(await model())
    assert (only.type, only.content, only.status) == (Type.TEXT, "", Status.DONE)
    assert only.usage is not None


SCHEMA = {"type": "object", "properties": {"n": {}}}


async def test_structured_output_is_data_in_both_ways(server: Provider, model: Make) -> None:
    server.says(sse(START, *text(0, '{"n"', ":1}"), delta("end_turn"), STOP))
    (only,) = await ask(await model(), schema=SCHEMA)
    assert (only.type, orjson.loads(only.content)) == (Type.DATA, {"n": 1})
    server.says(sse(START, *tool(0, "t", '{"answer": [1]}', name="answer"), delta("tool_use"), STOP))
    (only,) = await ask(await model(structured_output="tool"), schema={"type": "array"})
    assert (only.type, orjson.loads(only.content)) == (Type.DATA, [1])


@pytest.mark.parametrize(
    ("parts", "retryable"),
    [
        ((sse(START, *text(0, "Hel")),), True),
        ((sse(START, *text(0, "Hel")[:2]), CUT), True),
        ((sse(START, *tool(0, "t", '{"a": ')[:2]),), True),
        ((sse(START, *tool(0, "t", '{"a": '), delta("tool_use"), STOP),), True),
        ((sse(START, *tool(0, "t", '{"a": '), delta("max_tokens"), STOP),), False),
        ((sse(START, *tool(0, "t", "[1]"), delta("end_turn"), STOP),), True),
        ((sse(START, *text(0, "Hel")[:2], delta("end_turn"), STOP),), True),
        ((sse(START, *text(0, "no"), delta("refusal"), STOP),), False),
        ((b"data: {oh\n\n",), True),
    ],
)
async def test_an_answer_that_is_no_whole_one_is_an_error(
    server: Provider, model: Make, parts: Any, retryable: bool
) -> None:
    server.says(Reply(parts))
    with pytest.raises(ExecutionFailed) as caught:
        await ask(await model())
    assert caught.value.detail["retryable"] is retryable


def refused(status: int, kind: str, **headers: str) -> Reply:
    body = orjson.dumps({"type": "error", "error": {"type": kind, "message": "because"}})
    return Reply((body,), status, headers)


@pytest.mark.parametrize(
    ("reply", "kind", "detail"),
    [
        (refused(429, "rate_limit_error", **{"retry-after": "7"}), Overloaded, {"retry_after": 7.0}),
        (refused(529, "overloaded_error"), Overloaded, {"status": 529, "retryable": True}),
        (refused(400, "invalid_request_error"), ExecutionFailed, {"status": 400, "retryable": False}),
        (refused(401, "authentication_error"), ExecutionFailed, {"status": 401, "retryable": False}),
        (refused(500, "api_error"), ExecutionFailed, {"status": 500, "retryable": True}),
        (Reply((sse(START, {"type": "error", "error": {"type": "overloaded_error"}}),)), Overloaded, {}),
        (Reply((b"",), 302, {"location": "/elsewhere"}), ExecutionFailed, {"status": 302}),
    ],
)
async def test_a_refusal_keeps_its_status_and_when_to_come_again(
    server: Provider, model: Make, reply: Reply, kind: type[Exception], detail: dict[str, Any]
) -> None:
    server.says(reply)
    with pytest.raises(kind) as caught:
        await ask(await model())
    assert caught.value.detail.items() >= detail.items()  # pyright: ignore
    assert "sk-secret" not in str(caught.value)


async def test_leaving_the_answer_closes_the_providers_connection(server: Provider, model: Make) -> None:
    server.says(Reply((sse(START, *text(0, "Hel")[:2]), HANG)))
    engine = await model()
    async with aclosing(engine.stream(rows, ModelRequest("m"))) as answer:
        assert (await anext(answer)).content == "Hel"
    with anyio.fail_after(5):
        await server.left.wait()


async def test_a_provider_that_hangs_or_is_away_is_told(server: Provider, model: Make) -> None:
    server.says(Reply((sse(START), HANG)))
    with pytest.raises(CallTimeout):
        await ask(await model(), timeout=0.2)
    with pytest.raises(EngineUnavailable):
        await ask(await model(ENDPOINT="http://127.0.0.1:1"))
    with pytest.raises(EngineUnavailable, match="private"):
        await ask(await model(private_networks=False))


async def test_without_private_networks_public_addresses_work_as_ever(
    server: Provider, model: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def as_if_public(host: str, port: int) -> str:
        return "127.0.0.1"

    monkeypatch.setattr("enginehost.llm.public_only.public_address", as_if_public)
    engine = await model(private_networks=False, ENDPOINT=f"http://api.example:{server.port}")
    server.says(sse(START, *text(0, "Hel", "lo"), delta("end_turn"), STOP))
    server.says(refused(429, "rate_limit_error"), Reply((sse(START, *text(0, "Hel")), CUT)))
    server.says(Reply((sse(START), HANG)), Reply((sse(START, *text(0, "Hel")[:2]), HANG)))
    assert "".join(one.content for one in await ask(engine)) == "Hello"
    assert server.seen[0].headers["host"] == f"api.example:{server.port}"
    with pytest.raises(Overloaded):
        await ask(engine)
    with pytest.raises(ExecutionFailed, match="broke off"):
        await ask(engine)
    with pytest.raises(CallTimeout):
        await ask(engine, timeout=0.2)
    async with aclosing(engine.stream(rows, ModelRequest("m"))) as answer:
        await anext(answer)
    with anyio.fail_after(5):
        await server.left.wait()


async def test_what_cannot_be_said_is_refused_before_an_answer(server: Provider, model: Make) -> None:
    async def odd() -> AsyncIterator[Message]:
        yield Message("user", Type.FILE, "AA==", {"media_type": "video/mp4"})  # pyright: ignore

    with pytest.raises(InvalidRequest, match="video/mp4"):
        await anext((await model()).stream(odd, ModelRequest("m")))


async def test_models_are_listed_page_by_page(server: Provider, model: Make) -> None:
    pages = ({"data": [{"id": "a"}], "has_more": True, "last_id": "a"}, {"data": [{"id": "b"}]})
    server.says(*map(orjson.dumps, pages))
    assert await (await model()).models() == ["a", "b"]
    assert server.seen[1].path.endswith("after_id=a")


@pytest.mark.parametrize("spool", [False, True])
async def test_a_long_context_is_sent_as_it_is_written(server: Provider, model: Make, spool: bool) -> None:
    async def many() -> AsyncIterator[Message]:
        for at in range(10_000):
            yield Message("user" if at % 2 == 0 else "assistant", content="x" * 2000)  # pyright: ignore

    server.says(sse(START, *text(0, "ok"), delta("end_turn"), STOP))
    engine = await model(spool_body=spool)
    tracemalloc.start()
    try:
        found = [one async for one in engine.stream(many, ModelRequest("m"))]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found[0].content == "ok"
    assert server.seen[0].size > 20_000_000
    assert peak < 12_000_000
    assert server.seen[0].chunked is not spool


async def test_the_service_sends_the_whole_body_again_and_counts_the_cost(
    server: Provider, tmp_path: Path
) -> None:
    smss = tmp_path / "smss"
    smss.mkdir()
    prices = "PRICE_INPUT = 1\nPRICE_OUTPUT = 10\nPRICE_CACHED = 0.1\nPRICE_CACHE_WRITE = 2\n"
    keys = f"MODEL = claude-x\nAPI_KEY = sk-secret\nENDPOINT = {server.url}\n"
    smss_text = f"ENGINE_CLASS = Anthropic\n{keys}{prices}"
    (smss / "claude.smss").write_text(f"{smss_text}RETRY_SECONDS = 0.01\nLIST_MODELS = false\n")
    server.says(refused(529, "overloaded_error"), refused(500, "api_error"))
    server.says(sse(START, *text(0, "Hello"), delta("end_turn"), STOP))
    async with running_host(smss, registry=engine_registry(AnthropicModel, smss_text)) as host:
        answer = await host.llm("claude").send("hello " * 100)
    assert answer.text == "Hello"
    first, second, third = (seen.body for seen in server.seen)
    assert first == second == third
    assert answer.usage.cost == pytest.approx((7 * 1 + 9 * 10 + 5 * 0.1 + 3 * 2) / 1_000_000)


async def test_a_server_that_wants_the_length_gets_it_from_the_second_request_on(
    server: Provider, model: Make
) -> None:
    fine = sse(START, *text(0, "ok"), delta("end_turn"), STOP)
    server.says(Reply([b"Length Required"], 411), fine, fine)
    engine = await model()
    for _ in range(2):
        assert (await ask(engine))[0].content == "ok"
    assert [seen.chunked for seen in server.seen] == [True, False, False]
    assert len({seen.body for seen in server.seen}) == 1


LEAVES = st.none() | st.booleans() | st.integers(0, 3) | st.text(max_size=4)
NAMES = st.sampled_from(
    [
        "type",
        "index",
        "delta",
        "content_block",
        "text",
        "thinking",
        "partial_json",
        "signature",
        "message",
        "usage",
        "input_tokens",
        "stop_reason",
        "name",
        "id",
        "error",
    ]
)
TYPES = st.sampled_from(
    [
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_start",
        "message_delta",
        "message_stop",
        "error",
        "text",
        "text_delta",
        "tool_use",
        "input_json_delta",
        "thinking_delta",
        "x",
    ]
)
EVENTS = st.lists(
    st.dictionaries(
        NAMES,
        TYPES | LEAVES | st.dictionaries(NAMES, TYPES | LEAVES | st.dictionaries(NAMES, LEAVES), max_size=4),
        max_size=5,
    ).map(lambda event: {"type": "content_block_delta", **event})
    | st.sampled_from([*text(0, "a"), *tool(1, "t", "{}"), delta("end_turn"), STOP, START]),
    max_size=12,
)


@settings(max_examples=150)
@given(EVENTS)
def test_whatever_comes_is_a_message_or_an_error_of_ours(given_events: list[Any]) -> None:
    answer = Answer("claude", "m")
    with suppress(EngineHostError):
        for event in given_events:
            for message in answer.take(event):
                assert isinstance(message.content, str)
                assert message.id
