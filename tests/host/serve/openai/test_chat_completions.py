"""Agents and model engines as models of Chat Completions: the openai SDK, and requests by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from enginehost.host import Host
from enginehost.llm.message import Message, Role, Type
from enginehost.serve import HttpServer
from enginehost.serve.openai.answers import call_json
from enginehost.serve.openai.asked import rows_in
from enginehost.settings import HostSettings

SCRIPT = """
answers:
  - when: {text: add}
    reply:
      - call: {tool: add, args: {a: 1, b: 2}}
  - when: {text: wipe}
    reply:
      - call: {tool: wipe, args: {what: disk}}
  - when: {result: '*'}
    say: "The result is $result"
  - when: {text: both}
    reply:
      - text: "Two calls: "
      - call: {tool: add, args: {a: 1, b: 2}}
      - call: {tool: add, args: {a: 3, b: 4}}
  - when: {text: person}
    reply:
      - data: {name: Ada, age: 36}
  - when: {text: think}
    reply:
      - reasoning: "hm hm"
      - text: "so"
  - when: {text: endless}
    tokens_per_second: 50
    say: "WORDS"
  - when: {text: busy}
    reply:
      - error: {kind: overloaded, message: "too much", retry_after: 7}
  - when: {text: breaks}
    reply:
      - text: "half an "
      - error: {kind: failed, message: "it broke", retryable: false}
  - when: {system: pirates}
    say: "Arr"
  - say: "You said: $text"
""".replace("WORDS", "word " * 3000)
FILES = {
    "actor.smss": "ENGINE_CLASS = Scripted\nENGINE_ALIAS = actor\nSCRIPT = actor.yaml\n",
    "actor.yaml": SCRIPT,
    "helper.smss": "ENGINE_CLASS = Agent\nFUNCTION_NAME = helper\nFUNCTION_DESCRIPTION = Helps.\n"
    "MODEL = actor\nTOOLS = *\n",
    "tools.py": "def add(a: int, b: int) -> int:\n    return a + b\n\n\ndef wipe(what: str) -> str:\n"
    "    return f'{what} is gone'\n",
    "add.smss": "ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = tools.py\nFUNCTION_NAME = add\n"
    'FUNCTION_DESCRIPTION = Adds.\nFUNCTION_ANNOTATIONS = {"readOnly": true}\n',
    "wipe.smss": "ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = tools.py\nFUNCTION_NAME = wipe\n"
    "FUNCTION_DESCRIPTION = Wipes.\nAPPROVAL = always\n",
}
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
}
TOKEN = "t" * 40


class Served:
    def __init__(self, host: Host, url: str, token: str = "none") -> None:
        self.host, self.url = host, url
        self.sdk = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=token, max_retries=0)

    async def says(self, model: str, *texts: str, **options: Any) -> Any:
        roles = ("user", "assistant")
        messages: Any = [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)]
        return await self.sdk.chat.completions.create(model=model, messages=messages, **options)


async def serve(stack: AsyncExitStack, folder: Path, token: str = "none", **settings: Any) -> Served:
    (folder / "smss").mkdir()
    for name, text in FILES.items():
        (folder / "smss" / name).write_text(text)
    store = {"url": f"sqlite:///{folder}/db"}
    made = HostSettings(state_dir=folder / "state", store=store, **settings)  # type: ignore[arg-type]
    host = await stack.enter_async_context(Host(folder / "smss", None, settings=made, watch=False))
    server = HttpServer(host, "127.0.0.1:0")
    await server.start()
    stack.push_async_callback(server.stop, 0.0)
    served = Served(host, server.url, token)
    stack.push_async_callback(served.sdk.close)
    return served


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with AsyncExitStack() as stack:
        yield await serve(stack, tmp_path)


async def test_models_are_the_agents_and_the_model_engines(served: Served) -> None:
    found = [model async for model in served.sdk.models.list()]
    assert [(model.id, model.owned_by) for model in found] == [
        ("actor", "enginehost-model"),
        ("helper", "enginehost-agent"),
    ]
    assert (await served.sdk.models.retrieve("helper")).id == "helper"
    with pytest.raises(openai.NotFoundError):
        await served.sdk.models.retrieve("nobody")


@pytest.mark.parametrize("model", ["actor", "helper"])
async def test_a_question_is_answered_whole_and_as_it_comes(served: Served, model: str) -> None:
    answer = await served.says(model, "hello")
    assert answer.choices[0].message.content == "You said: hello"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0
    stream = await served.says(model, "hello", stream=True, stream_options={"include_usage": True})
    chunks = [chunk async for chunk in stream]
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == "You said: hello"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert (chunks[-1].choices, chunks[-1].usage) == ([], answer.usage)
    assert len({chunk.id for chunk in chunks}) == 1


async def test_a_models_calls_go_to_the_client_and_their_results_come_back(served: Served) -> None:
    tools: Any = [ADD]
    answer = await served.says("actor", "both", tools=tools)
    choice = answer.choices[0]
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", "Two calls: ")
    calls = choice.message.tool_calls
    assert [json.loads(call.function.arguments) for call in calls] == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    stream = await served.says("actor", "both", tools=tools, stream=True)
    pieces = [one for chunk in [c async for c in stream] for one in chunk.choices[0].delta.tool_calls or ()]
    assert [(one.index, one.function.name) for one in pieces] == [(0, "add"), (1, "add")]
    messages: Any = [
        {"role": "user", "content": "both"},
        choice.message.model_dump(exclude_none=True),
        *({"role": "tool", "tool_call_id": call.id, "content": "7"} for call in calls),
    ]
    again = await served.sdk.chat.completions.create(model="actor", messages=messages, tools=tools)
    assert again.choices[0].message.content == "The result is 77"


async def test_an_agent_calls_its_own_tools_and_keeps_nothing(served: Served) -> None:
    answer = await served.says("helper", "my name is Ada", "hello Ada", "please add")
    assert answer.choices[0].message.content == "The result is 3"
    agents = await served.host.agents()
    from enginehost.caller import anonymous

    assert await agents.sessions(anonymous("http")) == []
    with pytest.raises(openai.BadRequestError) as caught:
        await served.says("helper", "hello", tools=[ADD])
    assert caught.value.param == "tools"


async def test_a_person_decides_and_the_client_is_told_how(served: Served) -> None:
    with pytest.raises(openai.ConflictError) as caught:
        await served.says("helper", "wipe it")
    assert caught.value.code == "waits-for-a-person"
    assert "/v1/sessions/" in caught.value.message


async def test_structured_answers_have_the_form_that_was_asked_for(served: Served) -> None:
    class Person(BaseModel):
        name: str
        age: int

    asked: Any = [{"role": "user", "content": "person"}]
    answer = await served.sdk.chat.completions.parse(model="actor", messages=asked, response_format=Person)
    assert answer.choices[0].message.parsed == Person(name="Ada", age=36)


async def test_thoughts_and_instructions_are_told_apart(served: Served) -> None:
    answer = await served.says("actor", "think")
    message = answer.choices[0].message
    assert (message.content, message.reasoning_content) == ("so", "hm hm")
    asked: Any = [{"role": "system", "content": "talk like pirates"}, {"role": "user", "content": "hi"}]
    for model in ("actor", "helper"):
        said = await served.sdk.chat.completions.create(model=model, messages=asked)
        assert said.choices[0].message.content == "Arr"


async def test_failures_have_their_class_in_the_sdk(served: Served) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        await served.says("nobody", "hello")
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.RateLimitError) as busy:
        await served.says("actor", "busy")
    assert busy.value.response.headers["retry-after"] == "7"
    with pytest.raises(openai.APIError) as broken:
        async for _ in await served.says("actor", "breaks", stream=True):
            pass
    assert "it broke" in str(broken.value)


async def test_a_client_that_leaves_ends_the_answer(served: Served) -> None:
    for model in ("actor", "helper"):
        stream = await served.says(model, "endless", stream=True)
        async for chunk in stream:
            if chunk.choices[0].delta.content:
                break
        await stream.close()
    agents = await served.host.agents()
    async with asyncio.timeout(20):
        while agents.counts.of("helper").running:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("member", "value", "param"),
    [
        ("model", None, "model"),
        ("messages", [], "messages"),
        ("messages", "hello", "messages"),
        ("messages", [{"role": "king", "content": "x"}], "messages[0].role"),
        ("messages", [{"role": "user"}], "messages[0].content"),
        ("messages", [{"role": "user", "content": [{"type": "input_audio"}]}], "messages[0].content[0]"),
        ("messages", [{"role": "tool", "tool_call_id": "x", "content": "1"}], "messages[0].tool_call_id"),
        ("n", 2, "n"),
        ("logprobs", True, "logprobs"),
        ("stream", "yes", "stream"),
        ("tools", [{"type": "web_search"}], "tools[0]"),
        ("response_format", {"type": "yaml"}, "response_format"),
        ("modalities", ["audio"], "modalities"),
    ],
)
async def test_what_is_wrong_is_named(served: Served, member: str, value: Any, param: str) -> None:
    body: dict[str, Any] = {
        "model": "actor",
        "messages": [{"role": "user", "content": "hello"}],
        member: value,
    }
    async with httpx2.AsyncClient() as client:
        response = await client.post(f"{served.url}/v1/chat/completions", json=body)
    error = response.json()["error"]
    assert (response.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param)


async def test_bombs_and_other_types_are_refused(served: Served) -> None:
    path = f"{served.url}/v1/chat/completions"
    async with httpx2.AsyncClient() as client:
        kind = {"content-type": "application/json"}
        for body in (b"{", b"[]", b'{"a":' * 50_000):
            response = await client.post(path, content=body, headers=kind)
            assert (response.status_code, response.json()["error"]["type"]) == (400, "invalid_request_error")
        response = await client.post(path, content=b"<a/>", headers={"content-type": "text/xml"})
        assert response.status_code == 415


async def test_models_need_a_proof_and_a_right_where_there_are_tokens(tmp_path: Path) -> None:
    rules = {"default": "deny", "rules": [{"subjects": ["ann"], "functions": ["actor"], "allow": "call"}]}
    async with AsyncExitStack() as stack:
        tokens = [{"name": "ann", "token": TOKEN}]
        served = await serve(stack, tmp_path, TOKEN, tokens=tokens, policy=rules)
        assert [model.id async for model in served.sdk.models.list()] == ["actor"]
        assert (await served.says("actor", "hello")).choices[0].message.content == "You said: hello"
        with pytest.raises(openai.NotFoundError):
            await served.says("helper", "hello")
        async with httpx2.AsyncClient() as client:
            body = {"model": "actor", "messages": [{"role": "user", "content": "hello"}]}
            response = await client.post(f"{served.url}/v1/chat/completions", json=body)
            assert (response.status_code, response.json()["error"]["type"]) == (401, "authentication_error")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    args=st.dictionaries(st.text(max_size=8), JSON, max_size=4),
    texts=st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=4),
)
def test_rows_are_what_was_said(args: dict[str, Any], texts: list[str]) -> None:
    call = Message(Role.ASSISTANT, Type.TOOL_CALL, query={"tool": "add", "id": "c1", "args": args})
    messages = [
        {"role": "developer", "content": texts[0]},
        {"role": "user", "content": [{"type": "text", "text": text} for text in texts]},
        {"role": "assistant", "content": None, "tool_calls": [call_json(call)]},
        {"role": "tool", "tool_call_id": "c1", "content": texts[-1]},
    ]
    system, *said, called, result = rows_in(messages)
    assert (system.role, system.content) == (Role.SYSTEM, texts[0])
    assert [row.content for row in said] == texts
    assert called == call
    assert (result.type, result.call_id) == (Type.TOOL_RESULT, "c1")
