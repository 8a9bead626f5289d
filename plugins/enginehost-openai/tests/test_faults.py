"""Providers that fail in every way, seen through ``host.llm``."""

from __future__ import annotations

import asyncio
import gc
import resource
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from openai_wire import Exchange, Provider, call, chat, delta, says

from enginehost.errors import (
    CallTimeout,
    EngineHostError,
    EngineUnavailable,
    ExecutionFailed,
    InvalidRequest,
    Overloaded,
)
from enginehost.llm.message import Message, Role, Status, Type, user


async def fine(exchange: Exchange) -> None:
    await chat(exchange, *says("fine"))


def after(provider: Provider, *first: Any) -> None:
    """Answer the first requests like this, the rest as one should."""
    left = list(first)

    async def answer(exchange: Exchange) -> bool | None:
        return await (left.pop(0) if left else fine)(exchange)

    provider.answer = answer


def status(code: int, **headers: str) -> Any:
    async def answer(exchange: Exchange) -> None:
        await exchange.status(code, {"error": {"message": "not now"}}, **headers)

    return answer


async def hung_up(exchange: Exchange) -> bool:
    return False


async def cut(exchange: Exchange) -> bool:
    await exchange.begin()
    return False


async def of_nothing(exchange: Exchange) -> None:
    await exchange.begin()
    await exchange.end()


async def failing_inside(exchange: Exchange) -> None:
    await exchange.begin()
    await exchange.event({"error": {"message": "The server is overloaded", "code": 503}})
    await exchange.end()


@pytest.mark.parametrize(
    "failure",
    [
        status(408),
        status(409),
        status(429),
        status(500),
        status(503),
        hung_up,
        cut,
        of_nothing,
        failing_inside,
    ],
    ids=["408", "409", "429", "500", "503", "hung up", "cut", "of nothing", "failing inside"],
)
async def test_what_fails_before_its_first_piece_is_sent_again_whole(
    failure: Any, provider: Provider, hosting: Any
) -> None:
    after(provider, failure)
    async with hosting() as host:
        assert (await host.llm().send(one async for one in rows("go", "on"))).text == "fine"
    assert len(provider.requests) == 2
    assert provider.bodies[0] == provider.bodies[1]
    assert provider.requests[1].size > 50


async def rows(*texts: str) -> AsyncGenerator[Message, None]:
    for text in texts:
        yield user(text)


async def test_retry_after_is_waited_and_too_long_a_one_is_told(provider: Provider, hosting: Any) -> None:
    async with hosting() as host:
        after(provider, status(429, retry_after="0.3"))
        begun = time.monotonic()
        assert (await host.llm().send("go")).text == "fine"
        assert time.monotonic() - begun >= 0.3
        after(provider, status(429, retry_after="3600"))
        with pytest.raises(Overloaded) as raised:
            await host.llm().send("go")
        assert raised.value.retry_after == 3600


@pytest.mark.parametrize("code", [400, 401, 403, 404, 422])
async def test_a_refusal_is_final_and_says_what_the_provider_says(
    code: int, provider: Provider, hosting: Any
) -> None:
    after(provider, status(code))
    async with hosting() as host:
        with pytest.raises(ExecutionFailed, match="not now") as raised:
            await host.llm().send("go")
    assert (raised.value.detail["status"], raised.value.detail["retryable"]) == (code, False)
    assert len(provider.requests) == 1


async def test_an_empty_account_is_no_rate_limit(provider: Provider, hosting: Any) -> None:
    async def broke(exchange: Exchange) -> None:
        await exchange.status(429, {"error": {"message": "no money", "code": "insufficient_quota"}})

    after(provider, broke)
    async with hosting() as host:
        with pytest.raises(ExecutionFailed, match="no money"):
            await host.llm().send("go")
    assert len(provider.requests) == 1


async def test_after_the_first_piece_nothing_is_sent_again(provider: Provider, hosting: Any) -> None:
    async def broken(exchange: Exchange) -> bool:
        await exchange.begin()
        await exchange.event(delta(content="It"))
        return False

    after(provider, broken)
    async with hosting() as host:
        with pytest.raises(ExecutionFailed, match="broke off"):
            await host.llm().send("go")
    assert len(provider.requests) == 1


async def test_half_a_tool_call_fails_the_answer(provider: Provider, hosting: Any) -> None:
    async def half(exchange: Exchange) -> None:
        await chat(exchange, delta(tool_calls=[call(0, "x", "add", '{"a": ')]), delta("length"))

    after(provider, half)
    async with hosting(RETRIES=0) as host:
        with pytest.raises(ExecutionFailed, match="arguments of its call of add"):
            await host.llm().send("go")


async def test_a_provider_that_hangs_is_given_up(provider: Provider, hosting: Any) -> None:
    async def silent(exchange: Exchange) -> bool:
        await exchange.left()
        return False

    provider.answer = silent
    async with hosting(RETRIES=0, READ_TIMEOUT=0.2) as host:
        with pytest.raises(CallTimeout, match="next byte"):
            await host.llm().send("go")
        with pytest.raises(CallTimeout, match=r"within 0\.1 s"):
            await host.llm().send("go", timeout=30, total_timeout=0.1)
    async with hosting(TIMEOUT_SECONDS=0.2) as host:
        with pytest.raises(CallTimeout, match="TIMEOUT_SECONDS"):
            await host.llm().send("go")


async def test_leaving_the_answer_closes_the_providers_socket(provider: Provider, hosting: Any) -> None:
    seen = asyncio.Event()

    async def endless(exchange: Exchange) -> bool:
        await exchange.begin()
        await exchange.event(delta(content="It"))
        await exchange.left()
        seen.set()
        return False

    provider.answer = endless
    async with hosting() as host, asyncio.timeout(10):
        async with aclosing(host.llm().send("go", stream=True)) as answer:
            assert (await anext(answer)).content == "It"
        await seen.wait()
        seen.clear()
        waiting = asyncio.create_task(host.llm().send("go"))
        while len(provider.requests) < 2:  # noqa: ASYNC110 - the provider has no event for it
            await asyncio.sleep(0.01)
        waiting.cancel()
        await seen.wait()
        assert b'outcome="cancelled"} 2' in await asyncio.to_thread(host.metrics)


async def test_a_reader_that_stops_reading_stops_the_provider(provider: Provider, hosting: Any) -> None:
    sent = 0

    async def flood(exchange: Exchange) -> None:
        nonlocal sent
        await exchange.begin()
        for _ in range(3000):
            await exchange.event(delta(content="x" * 10_000))
            sent += 1
        await exchange.event(delta("stop"))
        await exchange.end()

    provider.answer = flood
    async with hosting() as host, aclosing(host.llm().send("go", stream=True)) as answer:
        await anext(answer)
        before = -1
        while before != sent:  # until the socket's buffers are full
            before = sent
            await asyncio.sleep(0.2)
        assert sent < 2500
        assert sum([len(one.content) async for one in answer]) == 2999 * 10_000


async def test_a_hundred_megabytes_are_sent_in_flat_memory(provider: Provider, hosting: Any) -> None:
    after(provider)
    text = "word " * 400

    async def context() -> AsyncGenerator[Message, None]:
        for _ in range(25_000):
            yield user(text)
        half = Message(Role.USER, content=text, status=Status.OPEN, id="long")
        for _ in range(25_000):
            yield half
        yield Message(Role.USER, content="", id="long")

    async with hosting() as host:
        await host.llm().send("warm up")
        gc.collect()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert (await host.llm().send(context)).text == "fine"
        growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert provider.requests[-1].size > 100_000_000
    assert growth < 40_000, f"{growth} kB"  # the provider of the test, in this process, keeps 4 MB of it


async def test_the_circuit_opens_and_another_model_answers(
    provider: Provider, hosting: Any, tmp_path: Path
) -> None:
    async def by_model(exchange: Exchange) -> None:
        await (fine if exchange.request.json["model"] == "small-1" else status(500))(exchange)

    provider.answer = by_model
    folder = tmp_path / "smss"
    folder.mkdir()
    other = f"ENGINE_CLASS = OpenAI\nMODEL = small-1\nBASE_URL = {provider.url}\n"
    (folder / "other.smss").write_text(other)
    async with hosting(RETRIES=1, BREAKER_FAILURES=3, FALLBACK_MODEL="other") as host:
        for _ in range(2):  # two tries each; the breaker refuses the last one
            assert (await host.llm("gpt").send("go")).text == "fine"
        assert (await host.llm("gpt").send("go")).text == "fine"
        models = [body["model"] for body in provider.bodies]
        assert models == ["large-1", "large-1", "small-1", "large-1", "small-1", "small-1"]
    async with hosting(RETRIES=0, BREAKER_FAILURES=1, FALLBACK_MODEL="") as host:
        after(provider, status(500))
        with pytest.raises(ExecutionFailed):
            await host.llm("gpt").send("go")
        with pytest.raises(EngineUnavailable, match="failed 1 times in a row"):
            await host.llm("gpt").send("go")


async def test_nobody_at_the_address_is_told(hosting: Any) -> None:
    async with hosting(BASE_URL="http://127.0.0.1:9/v1", RETRIES=1) as host:
        with pytest.raises(EngineUnavailable, match="no connection"):
            await host.llm().send("go")


async def test_models_are_found_by_a_unique_part_of_their_id(provider: Provider, hosting: Any) -> None:
    after(provider)
    async with hosting() as host:
        llm = host.llm("gpt")
        await asyncio.gather(*(llm.send("go", model="small") for _ in range(20)))
        assert provider.bodies[-1]["model"] == "small-1"
        with pytest.raises(InvalidRequest, match=r"several models of .*: large-1, large-2"):
            await llm.send("go", model="large")
        with pytest.raises(InvalidRequest, match="large-1"):
            await llm.send("go", model="large-3")
        assert provider.listed == 1
        assert await llm.models() == ("small-1", "large-1", "large-2")
    provider.models = None
    async with hosting(MODEL="anything") as host:
        await host.llm("gpt").send("go")
        assert provider.bodies[-1]["model"] == "anything"


async def test_a_file_of_semoss_opens_as_it_is(provider: Provider, tmp_path: Path) -> None:
    from enginehost_openai.engine import OpenAiEngine

    from enginehost.testing import load_engine

    text = f"""ENGINE=1a2b
ENGINE_ALIAS=Chat
ENGINE_TYPE=prerna.engine.impl.model.OpenAiEngine
OPEN_AI_KEY=sk-1
MODEL=large-1
MODEL_TYPE=OPEN_AI
VAR_NAME=smss_var
CHAT_TYPE=chat-completion
MAX_TOKENS=4096
KEEP_CONVERSATION_HISTORY=true
KEEP_INPUT_OUTPUT=false
ENDPOINT={provider.url}
INIT_MODEL_ENGINE=import genai_client;${{VAR_NAME}} = genai_client.OpenAiClient(chat_type='${{CHAT_TYPE}}')
"""
    loaded = load_engine(OpenAiEngine, text, tmp_path)
    assert loaded.record.diagnostics == ()
    engine: Any = loaded.engine
    assert (engine.default_model, engine.config.base_url) == ("large-1", provider.url)
    assert engine.config.api_key.get_secret_value() == "sk-1"


async def test_errors_hold_no_secret(provider: Provider, hosting: Any) -> None:
    async def telling(exchange: Exchange) -> None:
        key = exchange.request.headers["authorization"]
        await exchange.status(401, {"error": {"message": f"wrong key {key}"}})

    provider.answer = telling
    async with hosting(API_KEY="sk-very-secret-key", HEADERS='{"X-Api-Token": "another-secret"}') as host:
        with pytest.raises(EngineHostError) as raised:
            await host.llm().send("go")
    assert "sk-very-secret-key" not in str(raised.value.to_json())
    assert raised.value.detail["status"] == 401


async def test_structured_answers_are_checked_and_made(provider: Provider, hosting: Any) -> None:
    from dataclasses import dataclass

    from enginehost.errors import ResultInvalid

    @dataclass
    class Weather:
        town: str
        degrees: float | None = None

    answers = ['{"town": "Bath", "degrees": null}', '{"value": [1, 2]}', '{"town": 1}']

    async def answer(exchange: Exchange) -> None:
        await chat(exchange, *says(answers.pop(0)))

    provider.answer = answer
    async with hosting() as host:
        llm = host.llm()
        assert (await llm.send("go", schema=Weather)).data == Weather("Bath")
        assert (await llm.send("go", schema={"type": "array", "items": {"type": "integer"}})).data == [1, 2]
        with pytest.raises(ResultInvalid):
            await llm.send("go", schema=Weather)


async def test_tools_of_the_catalog_are_offered_by_name(
    provider: Provider, hosting: Any, tmp_path: Path
) -> None:
    async def answer(exchange: Exchange) -> None:
        name = exchange.request.json["tools"][0]["function"]["name"]
        await chat(exchange, delta(tool_calls=[call(0, "x", name, '{"n": 2}')]), delta("tool_calls"))

    from enginehost.signature import FunctionSignature

    provider.answer = answer
    parameters = {"type": "object", "properties": {"n": {"type": "integer"}}}
    async with hosting() as host:
        tool = FunctionSignature("größe.rechnen", "It", parameters)
        (made,) = (await host.llm().send("go", tools=[tool])).tool_calls
        assert made.type is Type.TOOL_CALL
        assert made.query is not None
        assert (made.query["tool"], made.query["args"]) == ("größe.rechnen", {"n": 2})
        with pytest.raises(EngineHostError, match="nobody_has_it"):
            await host.llm().send("go", tools=["nobody_has_it"])


async def test_private_addresses_need_the_setting(provider: Provider, tmp_path: Path) -> None:
    from enginehost_openai.engine import OpenAiEngine

    from enginehost.engine import HostAccess
    from enginehost.testing import make_engine

    text = f"ENGINE_CLASS = OpenAI\nMODEL = m\nBASE_URL = {provider.url}\n"
    engine: Any = make_engine(OpenAiEngine, text, tmp_path, access=HostAccess(private_networks=False))
    await engine.open()
    with pytest.raises(EngineHostError, match="private"):
        await engine.models()
    await engine.close()
    assert not provider.listed


def ended_early(api: str, reason: str, text: str = "half an ans") -> Any:
    """An answer that the provider ends before the model does."""

    async def answer(exchange: Exchange) -> None:
        if api == "chat":
            await chat(exchange, delta(content=text), delta(reason))
            return
        response = {"incomplete_details": {"reason": reason}, "output": [], "model": "large-1"}
        await exchange.begin()
        await exchange.event({"type": "response.output_text.delta", "delta": text})
        await exchange.event({"type": "response.incomplete", "response": response})
        await exchange.end()

    return answer


@pytest.mark.parametrize(("api", "limit"), [("chat", "length"), ("responses", "max_output_tokens")])
async def test_what_a_filter_stops_is_an_error_and_what_a_limit_cuts_is_marked(
    api: str, limit: str, provider: Provider, hosting: Any
) -> None:
    async with hosting(API=api) as host:
        after(provider, ended_early(api, "content_filter"))
        with pytest.raises(ExecutionFailed, match="gpt: a content filter stopped the answer") as raised:
            await host.llm().send("go")
        assert (raised.value.detail["type"], raised.value.detail["retryable"]) == ("Refusal", False)
        after(provider, ended_early(api, limit))
        answer = await host.llm().send("go")
        assert (answer.text, answer[-1].status) == ("half an ans", Status.DONE)
        assert (answer[-1].provider or {})["finish"] == "length"
        after(provider, ended_early(api, limit, '{"a": '))
        with pytest.raises(ExecutionFailed) as raised:
            await host.llm().send("go", schema={"type": "object"})
        assert raised.value.detail["retryable"] is False
    assert len(provider.requests) == 3


@pytest.mark.parametrize(("api", "rows_in"), [("chat", "messages"), ("responses", "input")])
async def test_an_extra_that_the_engine_writes_itself_is_refused(
    api: str, rows_in: str, provider: Provider, hosting: Any
) -> None:
    async with hosting(API=api) as host:
        for name in ("model", "stream", rows_in, "temperature"):
            with pytest.raises(InvalidRequest, match=f"{name} cannot be given as an extra"):
                await host.llm().send("go", temperature=1, extra={name: []})
    assert not provider.requests


@pytest.mark.parametrize(
    "event",
    [
        delta(content=5),
        delta(reasoning_content={"a": 1}),
        {"choices": [5]},
        {"choices": 7},
        delta(tool_calls=[3]),
        [],
    ],
)
@pytest.mark.parametrize("schema", [None, {"type": "object"}])
async def test_events_of_another_form_are_a_malformed_answer(
    event: Any, schema: Any, provider: Provider, hosting: Any
) -> None:
    async def odd(exchange: Exchange) -> None:
        await chat(exchange, event, delta("stop"))

    provider.answer = odd
    async with hosting(RETRIES=0) as host:
        with pytest.raises(ExecutionFailed, match="cannot be read") as raised:
            await host.llm().send("go", schema=schema)
    assert raised.value.detail["type"] == "MalformedStream"


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": "many", "completion_tokens": -4, "cost": "dear"},
        {"prompt_tokens": -1, "completion_tokens": 10**30, "prompt_tokens_details": [5], "cost": -2},
        {"completion_tokens": True, "completion_tokens_details": {"reasoning_tokens": 0.5}},
        ["prompt_tokens"],
    ],
)
async def test_usage_that_makes_no_sense_costs_no_answer(
    usage: Any, provider: Provider, hosting: Any
) -> None:
    async def odd(exchange: Exchange) -> None:
        await chat(exchange, *says("fine"), usage=usage)

    provider.answer = odd
    async with hosting(PRICE_INPUT=1, PRICE_OUTPUT=1) as host:
        answer = await host.llm().send("go")
    assert (answer.text, answer.usage.total, answer.usage.cost) == ("fine", 0, None)


async def test_nothing_after_the_last_event_is_read(provider: Provider, hosting: Any) -> None:
    async def more(exchange: Exchange) -> None:
        await exchange.begin()
        for event in (delta(content="x"), delta("stop")):
            await exchange.event(event)
        await exchange.raw(b"data: [DONE]\n\n")
        await exchange.event(delta(content="LATER"))
        await exchange.end()

    provider.answer = more
    async with hosting() as host:
        assert (await host.llm().send("go")).text == "x"
