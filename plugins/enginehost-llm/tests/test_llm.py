"""Models of ``llm``: asynchronous ones, synchronous ones of old plugins, and its own OpenAI plugin."""

from __future__ import annotations

import base64
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import llm
import pytest
from llm.parts import StreamEvent

from enginehost.errors import CallTimeout, ConfigError, ExecutionFailed, InvalidRequest, Overloaded
from enginehost.llm.message import Message, Role, Type, Usage, system, user
from enginehost.llm.model import ModelRequest, ToolChoice
from enginehost.signature import FunctionSignature
from enginehost.testing.wire import Provider, Reply, sse

Make = Callable[..., Any]
ADD = FunctionSignature("add.two", "Adds.", {"type": "object", "properties": {"a": {}}})
CLOSE = {"connection": "close"}  # llm's own plugin never closes what it keeps alive
TOOLS: dict[str, Any] = {"tools": [ADD], "names": {"add.two": "add_two"}}


class Told(llm.AsyncModel):
    """Says what it is told to, and remembers what it saw."""

    model_id = "told"
    can_stream = True
    supports_tools = True
    supports_schema = True
    attachment_types = frozenset({"image/png"})

    class Options(llm.Options):
        temperature: float | None = None
        stop: str | None = None

    def __init__(self, *script: Any) -> None:
        self.script = script
        self.seen: Any = None
        self.closed = anyio.Event()

    async def execute(self, prompt: Any, stream: Any, response: Any, conversation: Any) -> Any:
        self.seen = prompt
        try:
            for one in self.script:
                if isinstance(one, Exception):
                    raise one
                if one == "hang":
                    await anyio.sleep_forever()
                if isinstance(one, llm.ToolCall):
                    response.add_tool_call(one)
                else:
                    yield one
            details = {"prompt_tokens_details": {"cached_tokens": 2}, "reasoning_tokens": 1}
            response.set_usage(input=7, output=3, details=details)
        finally:
            self.closed.set()


class Old(llm.Model):
    """A synchronous plugin of before there were messages."""

    model_id = "old"
    can_stream = True

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.go = threading.Event()
        self.closed = threading.Event()

    def execute(self, prompt: Any, stream: Any, response: Any, conversation: Any) -> Any:
        for past in conversation.responses:
            self.seen += [past.prompt.system, past.prompt.prompt, past.text_or_raise()]
        self.seen += [prompt.system, prompt.prompt]
        try:
            yield "Hel"
            self.go.wait(5)
            yield "lo"
        finally:
            self.closed.set()


async def ask(engine: Any, rows: Sequence[Message] = (user("hello"),), **request: Any) -> list[Message]:
    async def given() -> AsyncIterator[Message]:
        for row in rows:
            yield row

    asked = ModelRequest(engine.default_model, **request)
    return [one async for one in engine.stream(given, asked)]


async def test_text_thoughts_and_calls_come_as_messages(registered: Make, opened: Make) -> None:
    metadata = {"anthropic": {"signature": "sig"}}
    told = Told(
        StreamEvent("reasoning", "hm", provider_metadata=metadata),
        StreamEvent("text", "Hel"),
        "lo",
        StreamEvent("tool_call_name", "add_two", tool_call_id="t1", provider_metadata={"thought": "x"}),
        llm.ToolCall("add_two", {"a": 1}, "t1"),
    )
    registered(told, told, aliases=("teller",))
    engine = await opened(MODEL="teller")
    assert engine.default_model == "told"
    assert "told" in await engine.models()
    found = await ask(engine, **TOOLS)
    done = [one for one in found if one.whole]
    assert [(one.type, one.content) for one in found] == [
        ("reasoning", "hm"),
        ("reasoning", ""),
        ("text", "Hel"),
        ("text", "lo"),
        ("text", ""),
        ("tool_call", ""),
    ]
    assert done[0].provider == {"llm": {"model": "told", "metadata": metadata}}
    query = done[2].query or {}
    assert (query["tool"], query["args"]) == ("add_two", {"a": 1})
    assert done[2].usage == Usage(5, 3, 2, reasoning=1, model="told")
    # and the next turn gives it back
    rows = [
        user("hello"),
        done[0],
        Message(
            Role.ASSISTANT, Type.TOOL_CALL, query={**query, "tool": "add.two"}, provider=done[2].provider
        ),
        Message(Role.TOOL, Type.TOOL_RESULT, "3", {"tool": "add.two", "id": query["id"], "error": True}),
    ]
    await ask(engine, rows, **TOOLS)
    shown = [message.to_dict() for message in told.seen.messages]
    assert [message["role"] for message in shown] == ["user", "assistant", "tool"]
    assert shown[1]["parts"][0]["provider_metadata"] == metadata
    assert shown[1]["parts"][1]["name"] == "add_two"
    assert shown[1]["parts"][1]["provider_metadata"] == {"thought": "x"}
    assert shown[2]["parts"][0]["exception"] == "the tool failed"
    assert [one.output for one in told.seen.tool_results] == ["3"]


async def test_an_old_synchronous_plugin_sees_the_whole_conversation(registered: Make, opened: Make) -> None:
    old = Old()
    old.go.set()
    registered(old)
    rows = [system("S"), user("one"), Message(Role.ASSISTANT, content="eins"), user("two")]
    found = await ask(await opened(MODEL="old"), rows)
    assert old.seen == ["S", "one", "eins", "S", "two"]
    assert [one.content for one in found] == ["Hel", "lo", ""]


async def test_leaving_closes_the_models_generator_also_on_a_thread(registered: Make, opened: Make) -> None:
    async def rows() -> AsyncIterator[Message]:
        yield user("x")

    told, old = Told("Hel", "hang"), Old()
    registered(told, told)
    registered(old)
    engine = await opened()
    async with aclosing(engine.stream(rows, ModelRequest("told"))) as answer:
        await anext(answer)
    with anyio.fail_after(5):
        await told.closed.wait()
    with anyio.CancelScope() as scope:
        async with aclosing(engine.stream(rows, ModelRequest("old"))) as answer:
            await anext(answer)
            scope.cancel()
            await anext(answer)
    assert scope.cancelled_caught
    old.go.set()
    assert await anyio.to_thread.run_sync(old.closed.wait, 5)


async def test_structured_output_and_images_where_a_model_has_them(registered: Make, opened: Make) -> None:
    told, plain = Told('{"n"', ":1}"), Old()
    registered(told, told)
    registered(plain)
    engine = await opened(MODEL="told")
    png = Message(Role.USER, Type.IMAGE, base64.b64encode(b"png").decode(), {"media_type": "image/png"})
    (only,) = await ask(engine, [png], schema={"type": "object"}, temperature=0.5, stop=["x"])
    assert (only.type, only.content) == (Type.DATA, '{"n":1}')
    assert told.seen.attachments[0].content == b"png"
    assert (told.seen.options.temperature, told.seen.options.stop) == (0.5, "x")
    without = await opened(MODEL="old")
    for request, reason in (
        ({"schema": {}}, "structured"),
        (TOOLS, "tools"),
        ({"temperature": 1.0}, "temperature"),
        ({"extra": {"odd": 1}}, "odd"),
    ):
        with pytest.raises(InvalidRequest, match=reason):
            await ask(without, **request)
    with pytest.raises(InvalidRequest, match="image/png"):
        await ask(without, [png])
    with pytest.raises(InvalidRequest, match="which tools"):
        await ask(engine, tool_choice=ToolChoice("required"), **TOOLS)


@pytest.mark.parametrize(
    ("error", "told_text", "retryable"),
    [
        (llm.ModelError("the model is gone"), "the model is gone", False),
        (llm.NeedsKeyException("/home/x/keys.json"), "no key", False),
        (KeyError("sk-secret"), "KeyError", False),
        (ConnectionResetError("10.0.0.1"), "no connection", True),
    ],
)
async def test_what_a_plugin_raises_is_told_without_its_secrets(
    registered: Make, opened: Make, error: Exception, told_text: str, retryable: bool
) -> None:
    told = Told("Hel", error)
    registered(told, told)
    with pytest.raises(Exception, match=told_text) as caught:
        await ask(await opened(MODEL="told"))
    assert caught.value.detail["retryable"] is retryable  # pyright: ignore
    assert not any(one in str(caught.value) for one in ("/home", "sk-secret", "10.0.0.1"))


async def test_a_model_that_hangs_is_left(registered: Make, opened: Make) -> None:
    told = Told("Hel", "hang")
    registered(told, told)
    with pytest.raises(CallTimeout):
        await ask(await opened(MODEL="told"), timeout=0.1)
    assert told.closed.is_set()


async def test_a_model_that_is_not_installed_is_told_when_the_engine_opens(opened: Make) -> None:
    with pytest.raises(ConfigError, match="no-such-model"):
        await opened(MODEL="no-such-model")


async def test_llms_own_openai_plugin_calls_tools_over_a_real_connection(
    folder: Path, server: Provider, opened: Make
) -> None:
    (folder / "extra-openai-models.yaml").write_text(
        f"- model_id: served\n  model_name: m\n  api_base: {server.url}/v1\n  supports_tools: true\n"
        "  api_key_name: served\n"
    )
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "add_two", "arguments": '{"a"'}}
    rest = {"index": 0, "function": {"arguments": ": 1}"}}

    def chunk(delta: Any, finish: Any = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}

    stream = [chunk({"content": "Let me "}), chunk({"tool_calls": [call]}), chunk({"tool_calls": [rest]})]
    said = sse(*stream, chunk({}, "tool_calls")) + b"data: [DONE]\n\n"
    server.says(Reply([said], headers={"content-type": "text/event-stream", **CLOSE}))
    engine = await opened(MODEL="served", API_KEY="sk-secret", RETRIES="0")
    found = await ask(engine, [system("S"), user("add")], **TOOLS)
    assert [one.type for one in found if one.whole] == ["text", "tool_call"]
    assert (found[-1].query or {})["args"] == {"a": 1}
    seen = server.seen[0]
    assert seen.headers["authorization"] == "Bearer sk-secret"
    assert [one["role"] for one in seen.json()["messages"]] == ["system", "user"]
    refused = Reply(
        [b'{"error":{"message":"slow down","type":"rate_limit"}}'], 429, {"retry-after": "0.01", **CLOSE}
    )
    server.says(*[refused] * 4)  # the plugin’s library tries again by itself
    with pytest.raises((Overloaded, ExecutionFailed)) as caught:
        with anyio.fail_after(30):
            await ask(engine)
    assert caught.value.detail["retry_after"] == 0.01
