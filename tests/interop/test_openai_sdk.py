"""A person with the OpenAI SDK gives the host's functions to a model and runs what the model calls.

The model is a stand-in that speaks the Chat Completions wire format on loopback: it asks for the tool it
was offered (with ``null`` for each parameter that it has no value for, where the tool is strict), then
repeats what the tool answered. The SDK and the host are real.
"""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from anyio.from_thread import start_blocking_portal

from enginehost import Host, HostSettings
from enginehost.serve.server import HttpServer

pytestmark = pytest.mark.interop

SMSS = Path(__file__).parents[2] / "smss"


KNOWN = {"a": 2, "b": 40, "prices": [2, 40]}


def arguments_for(function: dict[str, Any]) -> dict[str, Any]:
    """The arguments that a model gives: a strict tool has it name every parameter."""
    names = function["parameters"]["properties"]
    if function.get("strict"):
        assert set(function["parameters"]["required"]) == set(names)
        return {name: KNOWN.get(name) for name in names}
    return {name: KNOWN[name] for name in names if name in KNOWN}


class StandIn(BaseHTTPRequestHandler):
    """One turn that calls the first tool with what it knows, one that gives its result."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        last = body["messages"][-1]
        if last["role"] == "tool":
            message: dict[str, Any] = {"role": "assistant", "content": f"It is {last['content']}."}
        else:
            function = body["tools"][0]["function"]
            arguments = json.dumps(arguments_for(function))
            call = {
                "id": "call_1",
                "type": "function",
                "function": {"name": function["name"], "arguments": arguments},
            }
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        reason = "tool_calls" if "tool_calls" in message else "stop"
        choice = {"index": 0, "finish_reason": reason, "message": message}
        answer = {
            "id": "x",
            "object": "chat.completion",
            "created": 1,
            "model": "stand-in",
            "choices": [choice],
        }
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Be quiet."""


@pytest.fixture
def model() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def host_url() -> Iterator[str]:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(_served()) as url:
        yield url


@asynccontextmanager
async def _served() -> AsyncGenerator[str]:
    async with Host(SMSS, None, settings=HostSettings()) as host:
        server = HttpServer(host, "127.0.0.1:0")
        await server.start()
        yield server.url
        await server.stop()


@pytest.mark.parametrize("kind", ["openai", "openai-strict"])
@pytest.mark.parametrize(
    ("tag", "result"), [("math", "42"), ("shop", '{"items": 2, "total": 42}')], ids=["add", "order_total"]
)
def test_a_model_calls_a_dropped_function_through_the_sdk(
    model: str, host_url: str, kind: str, tag: str, result: str
) -> None:
    tools = httpx2.get(f"{host_url}/v1/tools", params={"format": kind, "tags": tag}).json()
    with openai.OpenAI(base_url=model, api_key="unused") as client:
        messages: list[Any] = [{"role": "user", "content": "2 + 40?"}]
        first = client.chat.completions.create(model="stand-in", messages=messages, tools=tools)
        message = first.choices[0].message
        (call,) = message.tool_calls or []
        answer = httpx2.post(
            f"{host_url}/v1/functions/{call.function.name}",
            params={"format": kind},
            content=call.function.arguments,
            headers={"Content-Type": "application/json"},
        )
        messages += [
            message.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": call.id, "content": json.dumps(answer.json()["result"])},
        ]
        last = client.chat.completions.create(model="stand-in", messages=messages, tools=tools)
    assert last.choices[0].message.content == f"It is {result}."
