"""Approvals and questions: asked in either kind of revision, answered once, and only for what was asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.stdio import stdio_client
from tests.host.serve.mcp.test_clients import program

SCRIPT = '''
from pathlib import Path
from enginehost.engine import current_call, form

ASKED = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

def wipe(what: str) -> str:
    """Wipe something."""
    with Path("done.txt").open("a") as file:
        file.write(what)
    return f"{what} is gone"

def greet() -> str:
    """Greet somebody."""
    answer = current_call().ask(who=form("What is your name?", ASKED))["who"]
    return f"{answer['action']} {answer.get('content')}"

def both() -> str:
    """Ask twice."""
    call = current_call()
    first = call.ask(a=form("First?", ASKED))["a"]["content"]["name"]
    return first + call.ask(b=form("Second?", ASKED))["b"]["content"]["name"]
'''
MODES = ["auto", "legacy"]
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
}
AGREED = {"enginehost_approval": {"action": "accept", "content": {"approve": True}}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "smss"
    made.mkdir()
    (made / "f.py").write_text(SCRIPT)
    for name in ("wipe", "greet", "both"):
        more = "APPROVAL = always\n" if name == "wipe" else ""
        (made / f"{name}.smss").write_text(
            f"ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = f.py\nFUNCTION_NAME = {name}\n{more}"
        )
    (tmp_path / "enginehost.yaml").write_text(f"state_dir: {tmp_path / 'state'}\n")
    return made


def answering(*content: dict[str, Any] | None) -> Callable[..., Any]:
    """A client's user, who fills in these forms one after the other; ``None`` declines."""
    left = list(content)

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        filled = left.pop(0)
        if filled is None:
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content=filled)

    return answer


def text(result: Any) -> str:
    return result.content[0].text


async def asks(connect: Callable[..., Any], done: Path) -> None:
    yes, no = {"approve": True}, {"approve": False}
    async with connect(answering(yes, no, None)) as client:
        assert text(await client.call_tool("wipe", {"what": "disk"})) == "disk is gone"
        for _ in range(2):
            refused = await client.call_tool("wipe", {"what": "more"})
            assert (refused.is_error, text(refused)) == (
                True,
                "it did not run: a person was asked and did not agree",
            )
    assert done.read_text() == "disk"
    async with connect(answering({"name": "Ann"}, None, {"name": "x"}, {"name": "y"})) as client:
        assert text(await client.call_tool("greet", {})) == "accept {'name': 'Ann'}"
        assert text(await client.call_tool("greet", {})) == "decline None"
        assert text(await client.call_tool("both", {})) == "xy"


@pytest.mark.parametrize("mode", MODES)
async def test_people_are_asked_over_http(serve_folder: Any, folder: Path, mode: Any) -> None:
    async with serve_folder(folder) as served:

        def connect(callback: Any) -> Client:
            return Client(f"{served.server.url}/mcp", mode=mode, elicitation_callback=callback)

        await asks(connect, folder / "done.txt")


@pytest.mark.parametrize("mode", MODES)
async def test_people_are_asked_over_stdin_and_stdout(folder: Path, mode: Any) -> None:
    def connect(callback: Any) -> Client:
        return Client(stdio_client(program(folder)), mode=mode, elicitation_callback=callback)

    await asks(connect, folder / "done.txt")


async def test_who_cannot_be_asked_is_told_so_and_nothing_runs(serve_folder: Any, folder: Path) -> None:
    async with serve_folder(folder) as served, Client(f"{served.server.url}/mcp", mode="legacy") as client:
        refused = await client.call_tool("wipe", {"what": "disk"})
        assert refused.is_error
        assert "this client cannot be asked that" in text(refused)
        assert "cannot be asked" in text(await client.call_tool("greet", {}))
        invalid = await client.call_tool("wipe", {})
        assert "required" in text(invalid)
    async with serve_folder(folder) as served:
        said = await call(served, "greet", meta=META | {"io.modelcontextprotocol/clientCapabilities": {}})
    assert said.status_code == 400
    assert said.json()["error"]["code"] == -32021
    assert said.json()["error"]["data"] == {"requiredCapabilities": {"elicitation": {}}}
    assert not (folder / "done.txt").exists()


async def call(served: Any, name: str, arguments: Any = None, meta: Any = META, **params: Any) -> Any:
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": name, "arguments": arguments or {}, "_meta": meta, **params},
    }
    headers = {
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": name,
        "accept": "application/json, text/event-stream",
        "authorization": params.pop("proof", "") or "",
    }
    body["params"].pop("proof", None)
    headers = {key: value for key, value in headers.items() if value}
    async with httpx2.AsyncClient(timeout=30) as client:
        return await client.post(f"{served.server.url}/mcp", json=body, headers=headers)


@pytest.fixture
async def two_hosts(serve_folder: Any, folder: Path) -> AsyncIterator[Any]:
    """Two hosts on one database."""
    store = {"store": {"url": f"sqlite:///{folder.parent / 'shared.db'}"}}
    async with serve_folder(folder, **store) as one, serve_folder(folder, **store) as other:
        yield one, other


async def test_an_approved_call_runs_once_on_whichever_host_and_no_other_call_does(
    two_hosts: Any, folder: Path
) -> None:
    one, other = two_hosts
    asked = (await call(one, "wipe", {"what": "a"})).json()["result"]
    assert asked["resultType"] == "input_required"
    state = asked["requestState"]
    assert "disk" not in state
    forged = await call(one, "wipe", {"what": "a"}, inputResponses=AGREED)
    assert forged.json()["result"]["resultType"] == "input_required"
    for changed in (state[:-2] + ("AA" if state[-2:] != "AA" else "BB"), state + "A", "", "nothing"):
        said = await call(other, "wipe", {"what": "a"}, inputResponses=AGREED, requestState=changed)
        assert said.json()["error"]["code"] == -32602
    for name, arguments in (("wipe", {"what": "b"}), ("greet", {})):
        said = await call(other, name, arguments, inputResponses=AGREED, requestState=state)
        assert said.json()["error"]["code"] == -32602
    at_once = [
        call(host, "wipe", {"what": "a"}, inputResponses=AGREED, requestState=state)
        for host in (one, other, one, other)
    ]
    answers = [said.json()["result"] for said in await asyncio.gather(*at_once)]
    assert sorted(said.get("isError", False) for said in answers) == [False, True, True, True]
    assert (folder / "done.txt").read_text() == "a"


async def test_an_answer_that_does_not_fit_is_asked_for_again(serve_folder: Any, folder: Path) -> None:
    async with serve_folder(folder) as served:
        for wrong in ({"action": "accept", "content": {"name": 5}}, {"action": "accept"}, {"x": 1}):
            said = (await call(served, "greet", inputResponses={"who": wrong})).json()["result"]
            assert said["resultType"] == "input_required"
        for wrong in (None, [], {"who": 5}, "x"):
            said = await call(served, "greet", inputResponses=wrong)
            assert said.json()["error"]["code"] == -32602


async def test_a_state_is_nobody_elses(serve_folder: Any, folder: Path) -> None:
    tokens = [{"name": name, "token": name * 40} for name in "ab"]
    async with serve_folder(folder, tokens=tokens) as served:
        asked = (await call(served, "wipe", {"what": "a"}, proof=f"Bearer {'a' * 40}")).json()["result"]
        known = {"inputResponses": AGREED, "requestState": asked["requestState"]}
        said = await call(served, "wipe", {"what": "a"}, proof=f"Bearer {'b' * 40}", **known)
        assert said.json()["error"]["code"] == -32602
        said = await call(served, "wipe", {"what": "a"}, proof=f"Bearer {'a' * 40}", **known)
        assert json.loads(said.text)["result"]["structuredContent"] == {"result": "a is gone"}


ACTOR = """
answers:
  - when: {text: wipe}
    reply:
      - call: {tool: wipe, args: {what: disk}}
  - when: {result: '*'}
    say: "The result is $result"
"""


@pytest.mark.parametrize("mode", MODES)
async def test_an_agent_that_waits_for_a_person_goes_on_with_what_they_say(
    serve_folder: Any, folder: Path, mode: Any
) -> None:
    (folder / "actor.yaml").write_text(ACTOR)
    (folder / "actor.smss").write_text("ENGINE_CLASS = Scripted\nENGINE_ALIAS = actor\nSCRIPT = actor.yaml\n")
    (folder / "helper.smss").write_text(
        "ENGINE_CLASS = Agent\nFUNCTION_NAME = helper\nMODEL = actor\nTOOLS = wipe\nINSTRUCTIONS = Help.\n"
    )
    async with serve_folder(folder) as served:
        user = answering({"approve": True}, {"approve": False, "text": "not today"})
        async with Client(f"{served.server.url}/mcp", mode=mode, elicitation_callback=user) as client:
            said = await client.call_tool("helper", {"message": "wipe it"})
            assert "disk is gone" in text(said)
            said = await client.call_tool("helper", {"message": "wipe it"})
            assert "not today" in text(said)
    assert (folder / "done.txt").read_text() == "disk"
