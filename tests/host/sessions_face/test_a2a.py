"""Agents over A2A 1.0: the rules of its specification, on both HTTP bindings, over real hosts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx2
import pytest

PATH = "/a2a/helper"
HEADERS = {"A2A-Version": "1.0"}
NOT_FOUND, NOT_CANCELABLE, NO_PUSH, UNSUPPORTED, CONTENT_TYPE = -32001, -32002, -32003, -32004, -32005
PUSH = ("Create", "Get", "List", "Delete")


class Refused(Exception):
    def __init__(self, code: int, reason: str, status: int) -> None:
        super().__init__(code, reason, status)
        self.code, self.reason, self.status = code, reason, status


def said(text: str = "hello", **members: Any) -> dict[str, Any]:
    parts = members.pop("parts", [{"text": text}])
    message = {"messageId": uuid4().hex, "role": "ROLE_USER", "parts": parts, **members}
    return {"message": message}


def answer_of(task: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for one in task.get("artifacts", []) for part in one["parts"])


def state_of(task: dict[str, Any]) -> str:
    return task["status"]["state"].removeprefix("TASK_STATE_")


@dataclass
class JsonRpc:
    client: httpx2.AsyncClient

    async def ask(self, method: str, params: dict[str, Any]) -> Any:
        body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        response = await self.client.post(PATH, json=body, headers=HEADERS)
        assert response.status_code == 200, response.text
        answer = response.json()
        assert (answer["jsonrpc"], answer["id"]) == ("2.0", 7)
        if "error" in answer:
            info = answer["error"]["data"][0]
            assert info["domain"] == "a2a-protocol.org"
            raise Refused(answer["error"]["code"], info["reason"], 0)
        return answer["result"]

    async def updates(self, method: str, params: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        async with self.client.stream("POST", PATH, json=body, headers=HEADERS) as response:
            if not response.headers["content-type"].startswith("text/event-stream"):
                error = json.loads(await response.aread())["error"]
                raise Refused(error["code"], error["data"][0]["reason"], 0)
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    yield json.loads(line[6:])["result"]


REST = {
    "SendMessage": ("POST", "/message:send"),
    "SendStreamingMessage": ("POST", "/message:stream"),
    "GetTask": ("GET", "/tasks/{id}"),
    "ListTasks": ("GET", "/tasks"),
    "CancelTask": ("POST", "/tasks/{id}:cancel"),
    "SubscribeToTask": ("GET", "/tasks/{id}:subscribe"),
    "GetExtendedAgentCard": ("GET", "/extendedAgentCard"),
    "CreateTaskPushNotificationConfig": ("POST", "/tasks/{taskId}/pushNotificationConfigs"),
    "ListTaskPushNotificationConfigs": ("GET", "/tasks/{taskId}/pushNotificationConfigs"),
    "GetTaskPushNotificationConfig": ("GET", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
    "DeleteTaskPushNotificationConfig": ("DELETE", "/tasks/{taskId}/pushNotificationConfigs/{id}"),
}
CODES = {
    "TASK_NOT_FOUND": -32001,
    "TASK_NOT_CANCELABLE": -32002,
    "PUSH_NOTIFICATION_NOT_SUPPORTED": -32003,
    "UNSUPPORTED_OPERATION": -32004,
    "CONTENT_TYPE_NOT_SUPPORTED": -32005,
    "VERSION_NOT_SUPPORTED": -32009,
    "INVALID_PARAMS": -32602,
}


@dataclass
class Rest:
    client: httpx2.AsyncClient

    def request(self, method: str, params: dict[str, Any]) -> httpx2.Request:
        verb, path = REST[method]
        params = dict(params)
        filled = path.format_map(
            {name: params.pop(name) for name in ("id", "taskId") if f"{{{name}}}" in path}
        )
        options: dict[str, Any] = {"json": params} if verb == "POST" else {"params": params}
        return self.client.build_request(verb, PATH + filled, headers=HEADERS, **options)

    async def ask(self, method: str, params: dict[str, Any]) -> Any:
        response = await self.client.send(self.request(method, params))
        assert response.headers["content-type"] == "application/a2a+json"
        if response.status_code != 200:
            error = response.json()["error"]
            assert error["code"] == response.status_code
            reason = error["details"][0]["reason"]
            raise Refused(CODES[reason], reason, response.status_code)
        return response.json()

    async def updates(self, method: str, params: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        response = await self.client.send(self.request(method, params), stream=True)
        try:
            if response.status_code != 200:
                error = json.loads(await response.aread())["error"]
                reason = error["details"][0]["reason"]
                raise Refused(CODES[reason], reason, response.status_code)
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    yield json.loads(line[6:])
        finally:
            await response.aclose()


BINDINGS = pytest.mark.parametrize("binding", [JsonRpc, Rest], ids=["jsonrpc", "rest"])
pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


async def refused(asking: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        await asking
    return caught.value


async def all_of(updates: AsyncGenerator[dict[str, Any], None]) -> list[dict[str, Any]]:
    async with asyncio.timeout(30):
        return [update async for update in updates]


async def waiting(ask: Any) -> dict[str, Any]:
    """A task that waits for a person: may the disk be wiped?"""
    task = (await ask.ask("SendMessage", said("wipe it")))["task"]
    assert state_of(task) == "INPUT_REQUIRED"
    return task


async def running(ask: Any) -> dict[str, Any]:
    params = said("slowly") | {"configuration": {"returnImmediately": True}}
    task = (await ask.ask("SendMessage", params))["task"]
    assert state_of(task) in ("SUBMITTED", "WORKING")
    return task


@BINDINGS
async def test_a_message_is_answered_with_a_task_whose_artifact_is_the_answer(
    world: Any, binding: Any
) -> None:
    ask = binding((await world.side()).client)
    params = said("please add")
    task = (await ask.ask("SendMessage", params))["task"]
    assert (state_of(task), answer_of(task)) == ("COMPLETED", "The result is 3")
    assert task["history"][0]["messageId"] == params["message"]["messageId"]
    assert task["history"][0]["parts"] == [{"text": "please add"}]
    assert await ask.ask("GetTask", {"id": task["id"]}) == task
    assert "history" not in await ask.ask("GetTask", {"id": task["id"], "historyLength": 0})


@BINDINGS
async def test_a_context_goes_on_with_its_conversation(world: Any, binding: Any) -> None:
    ask = binding((await world.side()).client)
    first = (await ask.ask("SendMessage", said("one")))["task"]
    second = (await ask.ask("SendMessage", said("two", contextId=first["contextId"])))["task"]
    assert second["id"] != first["id"]
    assert second["contextId"] == first["contextId"]
    assert [one["parts"] for one in second["history"]] == [[{"text": "two"}]]
    assert answer_of(second) == "You said: two"
    own = (await ask.ask("SendMessage", said("mine", contextId="a-context-of-mine")))["task"]
    assert own["contextId"] == "a-context-of-mine"


@BINDINGS
async def test_a_message_is_said_once_however_often_it_is_sent(world: Any, binding: Any) -> None:
    ask = binding((await world.side()).client)
    params = said("once", contextId="ctx")
    tasks = [(await ask.ask("SendMessage", params))["task"] for _ in range(3)]
    assert {task["id"] for task in tasks} == {tasks[0]["id"]}
    params["message"]["parts"] = [{"text": "another"}]
    assert (await refused(ask.ask("SendMessage", params))).code == -32602
    assert (await ask.ask("ListTasks", {}))["totalSize"] == 1


@BINDINGS
async def test_a_stream_begins_with_the_task_and_ends_with_its_end(world: Any, binding: Any) -> None:
    ask = binding((await world.side()).client)
    updates = await all_of(ask.updates("SendStreamingMessage", said("long")))
    task = updates[0]["task"]
    artifacts = [one["artifactUpdate"] for one in updates if "artifactUpdate" in one]
    text = "".join(part["text"] for one in artifacts for part in one["artifact"]["parts"])
    assert text.split() == ["word"] * 300
    assert [bool(one.get("append")) for one in artifacts] == [False] + [True] * (len(artifacts) - 1)
    assert [bool(one.get("lastChunk")) for one in artifacts] == [False] * (len(artifacts) - 1) + [True]
    assert updates[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert all(next(iter(one.values()))["contextId"] == task["contextId"] for one in updates)
    stored = await ask.ask("GetTask", {"id": task["id"]})
    assert answer_of(stored) == text


@BINDINGS
async def test_every_follower_on_every_host_gets_the_same_and_leaving_cancels_nothing(
    world: Any, binding: Any
) -> None:
    here, there = binding((await world.side()).client), binding((await world.side()).client)
    first = here.updates("SendStreamingMessage", said("slowly"))
    async with aclosing(first):
        task = (await anext(first))["task"]
    followers = [ask.updates("SubscribeToTask", {"id": task["id"]}) for ask in (here, there, there)]
    seen = await asyncio.gather(*map(all_of, followers))
    assert all("task" in one[0] for one in seen)
    assert all(one[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED" for one in seen)
    texts = []
    for one in seen:
        start = answer_of(one[0]["task"])
        pieces = [u["artifactUpdate"]["artifact"]["parts"][0]["text"] for u in one if "artifactUpdate" in u]
        texts.append(start + "".join(pieces))
    assert texts == [answer_of(await there.ask("GetTask", {"id": task["id"]}))] * 3


@BINDINGS
async def test_any_host_gets_lists_and_cancels(world: Any, binding: Any) -> None:
    here, there = binding((await world.side()).client), binding((await world.side()).client)
    task = await running(here)
    assert (await there.ask("GetTask", {"id": task["id"]}))["id"] == task["id"]
    assert [one["id"] for one in (await there.ask("ListTasks", {}))["tasks"]] == [task["id"]]
    updates = here.updates("SubscribeToTask", {"id": task["id"]})
    assert "task" in await anext(updates)
    follower = asyncio.create_task(all_of(updates))
    cancelled = await there.ask("CancelTask", {"id": task["id"]})
    assert state_of(cancelled) == "CANCELED"
    assert (await refused(there.ask("CancelTask", {"id": task["id"]}))).code == NOT_CANCELABLE
    assert next(iter((await follower)[-1].values()))["status"]["state"] == "TASK_STATE_CANCELED"


@BINDINGS
async def test_a_task_that_has_ended_takes_no_message_and_no_follower(world: Any, binding: Any) -> None:
    ask = binding((await world.side()).client)
    task = (await ask.ask("SendMessage", said()))["task"]
    assert (await refused(ask.ask("SendMessage", said(taskId=task["id"])))).code == UNSUPPORTED
    assert (await refused(anext(ask.updates("SubscribeToTask", {"id": task["id"]})))).code == UNSUPPORTED
    assert (await refused(ask.ask("CancelTask", {"id": task["id"]}))).code == NOT_CANCELABLE


@BINDINGS
@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ({"text": "Yes."}, "disk is gone"),
        ({"parts": [{"data": {"decision": "approve"}}]}, "disk is gone"),
        ({"parts": [{"data": {"decision": "edit", "args": {"what": "tape"}}}]}, "tape is gone"),
        ({"text": "not on a Friday"}, "not on a Friday"),
    ],
    ids=["yes", "approve", "edit", "a reason"],
)
async def test_a_message_to_a_task_that_waits_decides(
    world: Any, binding: Any, message: dict[str, Any], answer: str
) -> None:
    here, there = binding((await world.side()).client), binding((await world.side()).client)
    task = await waiting(here)
    asked = task["status"]["message"]
    assert asked["role"] == "ROLE_AGENT"
    about = asked["parts"][1]["data"]
    assert (about["tool"], about["args"]) == ("wipe", {"what": "disk"})
    ended = (await there.ask("SendMessage", said(**message, taskId=task["id"])))["task"]
    assert (ended["id"], state_of(ended)) == (task["id"], "COMPLETED")
    assert answer in answer_of(ended)


@BINDINGS
async def test_a_stream_ends_where_a_person_has_to_decide(world: Any, binding: Any) -> None:
    ask = binding((await world.side()).client)
    updates = await all_of(ask.updates("SendStreamingMessage", said("wipe it")))
    status = updates[-1]["statusUpdate"]["status"]
    assert status["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert status["message"]["parts"][1]["data"]["tool"] == "wipe"
    params = said(contextId=updates[0]["task"]["contextId"])
    assert (await refused(ask.ask("SendMessage", params))).code == UNSUPPORTED


@BINDINGS
async def test_foreign_and_unknown_tasks_answer_alike(world: Any, binding: Any) -> None:
    ann, bob = (binding(side.client) for side in await world.of("ann", "bob"))
    task = (await ann.ask("SendMessage", said()))["task"]
    for method in ("GetTask", "CancelTask"):
        for name in (task["id"], "no-such-task"):
            assert (await refused(bob.ask(method, {"id": name}))).code == NOT_FOUND
    for name in (task["id"], "no-such-task"):
        assert (await refused(bob.ask("SendMessage", said(taskId=name)))).code == NOT_FOUND
        assert (await refused(anext(bob.updates("SubscribeToTask", {"id": name})))).code == NOT_FOUND
    assert (await refused(bob.ask("SendMessage", said(contextId=task["contextId"])))).code == -32602
    assert (await bob.ask("ListTasks", {}))["tasks"] == []
    assert (await refused(ann.ask("SendMessage", said(taskId=task["id"], contextId="x")))).code == -32602


async def test_who_shows_no_proof_or_has_no_right_is_told_by_http(world: Any) -> None:
    nobody, eve = await world.of("", "eve")
    for side, status in ((nobody, 401), (eve, 403)):
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": said()}
        assert (await side.client.post(PATH, json=body, headers=HEADERS)).status_code == status
        response = await side.client.post(f"{PATH}/message:send", json=said(), headers=HEADERS)
        assert response.status_code == status
    assert "www-authenticate" in (await nobody.client.get(f"{PATH}/tasks", headers=HEADERS)).headers
    card = (await eve.client.get(f"{PATH}/.well-known/agent-card.json")).json()
    assert card["securitySchemes"]["bearer"]["httpAuthSecurityScheme"]["scheme"] == "Bearer"


@BINDINGS
async def test_tasks_are_listed_in_pages_newest_status_first(world: Any, binding: Any) -> None:
    ask = binding((await world.side()).client)
    made = [(await ask.ask("SendMessage", said(f"number {number}")))["task"]["id"] for number in range(5)]
    found: list[str] = []
    token = ""
    while True:
        page = await ask.ask("ListTasks", {"pageSize": 2, **({"pageToken": token} if token else {})})
        assert (page["totalSize"], page["pageSize"]) == (5, 2)
        assert all("artifacts" not in task for task in page["tasks"])
        found += [task["id"] for task in page["tasks"]]
        token = page["nextPageToken"]
        if not token:
            break
    assert found == made[::-1]
    full = await ask.ask("ListTasks", {"includeArtifacts": True, "historyLength": 0})
    assert answer_of(full["tasks"][0]) == "You said: number 4"
    assert "history" not in full["tasks"][0]
    task = await waiting(ask)
    only = await ask.ask("ListTasks", {"status": "TASK_STATE_INPUT_REQUIRED"})
    assert [one["id"] for one in only["tasks"]] == [task["id"]]
    one_context = await ask.ask("ListTasks", {"contextId": task["contextId"]})
    assert one_context["totalSize"] == 1
    late = await ask.ask("ListTasks", {"statusTimestampAfter": task["status"]["timestamp"]})
    assert [one["id"] for one in late["tasks"]] == [task["id"]]
    wrong: list[dict[str, Any]] = [{"pageSize": 0}, {"pageSize": 101}, {"status": "DONE"}, {"pageToken": "?"}]
    for params in wrong:
        assert (await refused(ask.ask("ListTasks", params))).code == -32602


@BINDINGS
async def test_data_and_files_go_to_the_agent_and_stand_in_the_history(world: Any, binding: Any) -> None:
    ask = binding((await world.side()).client)
    parts = [
        {"text": "look"},
        {"data": {"a": [1, None, {"b": True}]}, "metadata": {"kind": "x"}},
        {"data": None},
        {"raw": "iVBORw0KGgo=", "mediaType": "image/png", "filename": "dot.png"},
        {"url": "https://files.example/report.pdf", "mediaType": "application/pdf"},
    ]
    params = said(parts=parts)
    params["configuration"] = {"returnImmediately": True}
    task = (await ask.ask("SendMessage", params))["task"]
    assert (await ask.ask("GetTask", {"id": task["id"]}))["history"][0]["parts"] == parts


@BINDINGS
@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({}, -32602),
        (said(parts=[]), -32602),
        (said(parts=[{}]), -32602),
        (said(parts=[{"text": "a", "url": "b"}]), -32602),
        (said(role="ROLE_AGENT"), -32602),
        (said(messageId=""), -32602),
        (said(messageId="x" * 300), -32602),
        (said(parts=[{"raw": "AAAA"}]), CONTENT_TYPE),
        (said(parts=[{"raw": "AAAA", "mediaType": "nonsense"}]), CONTENT_TYPE),
        (said(parts=[{"raw": "%%%", "mediaType": "image/png"}]), -32602),
        (said() | {"configuration": {"acceptedOutputModes": ["video/mp4"]}}, CONTENT_TYPE),
        (said() | {"configuration": {"historyLength": -1}}, -32602),
        (said() | {"configuration": {"taskPushNotificationConfig": {"url": "https://x.example"}}}, NO_PUSH),
    ],
)
async def test_what_is_no_message_is_refused_before_anything_begins(
    world: Any, binding: Any, params: dict[str, Any], code: int
) -> None:
    ask = binding((await world.side()).client)
    assert (await refused(ask.ask("SendMessage", params))).code == code
    assert (await ask.ask("ListTasks", {}))["tasks"] == []


@BINDINGS
async def test_what_the_card_does_not_offer_has_its_error(world: Any, binding: Any) -> None:
    ask = binding((await world.side()).client)
    for verb in PUSH:
        name = f"{verb}TaskPushNotificationConfig{'s' if verb == 'List' else ''}"
        assert (await refused(ask.ask(name, {"taskId": "x", "id": "y"}))).code == NO_PUSH
    assert (await refused(ask.ask("GetExtendedAgentCard", {}))).code == UNSUPPORTED


@pytest.mark.parametrize("version", ["", "0.3", "2.0", "1", "nonsense"])
async def test_another_version_is_refused_on_both_bindings(world: Any, version: str) -> None:
    client = (await world.side()).client
    headers = {"A2A-Version": version} if version else {}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": said()}
    answer = (await client.post(PATH, json=body, headers=headers)).json()
    assert answer["error"]["code"] == -32009
    response = await client.post(f"{PATH}/message:send", json=said(), headers=headers)
    assert response.status_code == 400
    assert response.json()["error"]["details"][0]["reason"] == "VERSION_NOT_SUPPORTED"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b'{"jsonrpc":"1.0","method":"GetTask","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"GetTask"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[]}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"Nothing","params":{}}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":7}}', -32602),
    ],
)
async def test_what_is_no_call_has_its_error(world: Any, body: bytes, code: int) -> None:
    client = (await world.side()).client
    headers = {**HEADERS, "content-type": "application/json"}
    response = await client.post(PATH, content=body, headers=headers)
    assert (response.status_code, response.json()["error"]["code"]) == (200, code)
    xml = await client.post(PATH, content=b"<a/>", headers={**HEADERS, "content-type": "text/xml"})
    assert (xml.status_code, xml.json()["error"]["code"]) == (415, CONTENT_TYPE)


async def test_the_card_says_where_the_agent_is_also_behind_a_proxy(world: Any) -> None:
    plain = (await world.side()).client
    response = await plain.get(f"{PATH}/.well-known/agent-card.json")
    card = response.json()
    assert (card["name"], card["description"]) == ("helper", "Helps.")
    base = f"{str(plain.base_url).rstrip('/')}{PATH}"
    assert [(one["url"], one["protocolBinding"]) for one in card["supportedInterfaces"]] == [
        (base, "JSONRPC"),
        (base, "HTTP+JSON"),
    ]
    assert card["capabilities"]["streaming"] is True
    assert "max-age" in response.headers["cache-control"]
    assert response.headers["last-modified"].endswith("GMT")
    again = await plain.get(
        f"{PATH}/.well-known/agent-card.json", headers={"if-none-match": response.headers["etag"]}
    )
    assert (again.status_code, again.content) == (304, b"")
    assert (await plain.get("/.well-known/agent-card.json")).json() == card
    proxied = (await world.side(http={"public_url": "https://agents.example/team"})).client
    card = (await proxied.get(f"{PATH}/.well-known/agent-card.json")).json()
    assert card["supportedInterfaces"][0]["url"] == "https://agents.example/team/a2a/helper"
    assert (await plain.get("/a2a/add/.well-known/agent-card.json")).status_code == 404


async def test_paths_and_methods_that_are_none_are_told(world: Any) -> None:
    client = (await world.side()).client
    assert (await client.get(f"{PATH}/nothing", headers=HEADERS)).status_code == 404
    assert (await client.get(f"{PATH}/message:send", headers=HEADERS)).status_code == 405
    assert (await client.get(PATH, headers=HEADERS)).status_code == 405
    assert (await client.post("/a2a/nobody", json={}, headers=HEADERS)).status_code in (200, 404)


async def test_a_turn_that_another_face_began_is_a_task_too(world: Any) -> None:
    side = await world.side()
    session = await side.start()
    run = await side.say(session, "please add")
    await side.until(session, "done")
    task = await JsonRpc(side.client).ask("GetTask", {"id": run["id"]})
    assert (task["contextId"], answer_of(task)) == (session, "The result is 3")
    assert task["history"][0]["parts"] == [{"text": "please add"}]
