"""The Python SDK of A2A as a client of a host, over both HTTP bindings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError
from a2a.types import a2a_pb2 as types
from a2a.utils.errors import A2AError

from enginehost.host import Host
from enginehost.serve import HttpServer
from enginehost.settings import HostSettings

pytestmark = pytest.mark.interop
FILES = {
    "actor.smss": "ENGINE_CLASS = Scripted\nENGINE_ALIAS = actor\nSCRIPT = actor.yaml\n",
    "actor.yaml": "answers:\n"
    "  - when: {text: wipe}\n    reply:\n      - call: {tool: wipe, args: {what: disk}}\n"
    "  - when: {result: '*'}\n    say: 'The result is $result'\n"
    "  - when: {text: slowly}\n    tokens_per_second: 5\n    say: 'one two three four five six seven eight'\n"
    "  - say: 'You said: $text'\n",
    "helper.smss": "ENGINE_CLASS = Agent\nFUNCTION_NAME = helper\nFUNCTION_DESCRIPTION = Helps.\n"
    "MODEL = actor\nTOOLS = *\n",
    "tools.py": "def wipe(what: str) -> str:\n    return f'{what} is gone'\n",
    "wipe.smss": "ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = tools.py\nFUNCTION_NAME = wipe\n"
    "FUNCTION_DESCRIPTION = Wipes.\nAPPROVAL = always\n",
}


@pytest.fixture(params=["JSONRPC", "HTTP+JSON"])
async def client(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    (tmp_path / "smss").mkdir()
    for name, text in FILES.items():
        (tmp_path / "smss" / name).write_text(text)
    settings = HostSettings(state_dir=tmp_path / "state", store={"url": f"sqlite:///{tmp_path}/db"})  # type: ignore[arg-type]
    async with AsyncExitStack() as stack:
        host = await stack.enter_async_context(Host(tmp_path / "smss", None, settings=settings, watch=False))
        server = HttpServer(host, "127.0.0.1:0")
        await server.start()
        stack.push_async_callback(server.stop, 0.0)
        http = await stack.enter_async_context(httpx.AsyncClient(timeout=30))
        card = await A2ACardResolver(http, f"{server.url}/a2a/helper").get_agent_card()
        config = ClientConfig(
            httpx_client=http,
            streaming=True,
            supported_protocol_bindings=[request.param],
        )
        yield ClientFactory(config).create(card)


def said(text: str, **members: Any) -> types.SendMessageRequest:
    message = types.Message(
        message_id=uuid4().hex, role=types.ROLE_USER, parts=[types.Part(text=text)], **members
    )
    return types.SendMessageRequest(message=message)


async def sent(client: Any, request: types.SendMessageRequest) -> list[Any]:
    return [response async for response in client.send_message(request)]


def task_of(responses: list[Any]) -> Any:
    return next(one.task for one in responses if one.HasField("task"))


async def test_the_sdk_sends_streams_gets_lists_and_cancels(client: Any) -> None:
    responses = await sent(client, said("hello there"))
    task = task_of(responses)
    updates = [one.artifact_update for one in responses if one.HasField("artifact_update")]
    assert "".join(part.text for one in updates for part in one.artifact.parts) == "You said: hello there"
    assert responses[-1].status_update.status.state == types.TASK_STATE_COMPLETED
    stored = await client.get_task(types.GetTaskRequest(id=task.id))
    assert stored.artifacts[0].parts[0].text == "You said: hello there"
    listed = await client.list_tasks(types.ListTasksRequest())
    assert [one.id for one in listed.tasks] == [task.id]

    slow = said("slowly")
    async for response in client.send_message(slow):
        if response.HasField("task"):
            running = response.task
        if response.HasField("artifact_update"):
            break
    followed = client.subscribe(types.SubscribeToTaskRequest(id=running.id))
    assert (await anext(followed)).task.id == running.id
    cancelled = await client.cancel_task(types.CancelTaskRequest(id=running.id))
    assert cancelled.status.state == types.TASK_STATE_CANCELED
    rest = [one async for one in followed]
    assert rest[-1].status_update.status.state == types.TASK_STATE_CANCELED


async def test_the_sdk_answers_a_question_and_meets_errors(client: Any) -> None:
    responses = await sent(client, said("wipe it"))
    task = task_of(responses)
    assert responses[-1].status_update.status.state == types.TASK_STATE_INPUT_REQUIRED
    answered = await sent(client, said("yes", task_id=task.id, context_id=task.context_id))
    assert answered[-1].status_update.status.state == types.TASK_STATE_COMPLETED
    with pytest.raises((A2AError, A2AClientError)):
        await client.get_task(types.GetTaskRequest(id="no-such-task"))
    with pytest.raises((A2AError, A2AClientError)):
        await client.cancel_task(types.CancelTaskRequest(id=task.id))
