"""Prompts and resources: functions, agents with their skills, conversations, files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from tests.host.serve.mcp.test_asking import MODES
from tests.host.serve.mcp.test_messages import post, request

from enginehost.call_rules import read_mcp
from enginehost.interpret import declare

FILES = {
    "f.py": """
def ask(topic: str, style: str = "short") -> str:
    return f"Tell me of {topic}, {style}."


def order(id: str) -> dict:
    return {"id": id}


def logo(api_key: str) -> bytes:
    return b"GIF89a"
""",
    "ask.smss": """
FUNCTION_NAME = ask
FUNCTION_DESCRIPTION = Asks.
FUNCTION_MCP = prompt
FUNCTION_PARAMETERS = [ \\
  {"name": "topic", "type": "string", "required": true, "description": "What of."}, \\
  {"name": "style", "type": "string", "enum": ["short", "sharp", "long"]}]
""",
    "order.smss": """
FUNCTION_NAME = order
FUNCTION_DESCRIPTION = An order.
FUNCTION_MCP = shop://orders/{id}
""",
    "logo.smss": """
FUNCTION_NAME = logo
FUNCTION_DESCRIPTION = The logo.
FUNCTION_MCP = shop://logo image/gif
FUNCTION_BIND = {"api_key": "open sesame"}
API_KEY = open sesame
PASSWORD=hunter22
""",
    "actor.yaml": "answers:\n  - say: 'You said: $text'\n",
    "actor.smss": "ENGINE_CLASS = Scripted\nENGINE_ALIAS = actor\nSCRIPT = actor.yaml\n",
    "helper.smss": """
ENGINE_CLASS = Agent
FUNCTION_NAME = helper
FUNCTION_DESCRIPTION = Helps.
MODEL = actor
INSTRUCTIONS = Be kind.
SKILLS = *
""",
    "skills/refunds/SKILL.md": """---
name: refunds
description: How to refund.
---
Send the money back.
""",
}
SCRIPTS = ("ask", "order", "logo")


@pytest.fixture
async def running(serve_folder: Any, tmp_path: Path) -> AsyncIterator[Any]:
    folder = tmp_path / "smss"
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        head = "ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = f.py\n" if path.stem in SCRIPTS else ""
        path.write_text((head if path.suffix == ".smss" else "") + text)
    async with serve_folder(folder, mcp={"smss_files": True}) as served:
        yield served


def at(served: Any, **options: Any) -> Client:
    return Client(f"{served.server.url}/mcp", **options)


@pytest.mark.parametrize("mode", MODES)
async def test_functions_agents_and_skills_are_prompts(running: Any, mode: Any) -> None:
    async with at(running, mode=mode) as client:
        listed = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
        assert list(listed) == ["ask", "helper", "helper.refunds"]
        assert [(one.name, one.required) for one in listed["ask"].arguments] == [
            ("topic", True),
            ("style", False),
        ]
        got = await client.get_prompt("ask", {"topic": "tea", "style": "sharp"})
        assert [(m.role, m.content.text) for m in got.messages] == [("user", "Tell me of tea, sharp.")]
        assert (await client.get_prompt("helper")).messages[0].content.text == "Be kind."
        assert "Send the money back." in (await client.get_prompt("helper.refunds")).messages[0].content.text
        for name, arguments in (("ask", {}), ("nope", {}), ("order", {})):
            with pytest.raises(MCPError) as refused:
                await client.get_prompt(name, arguments)
            assert refused.value.error.code == -32602
        assert [tool.name for tool in (await client.list_tools()).tools] == ["helper"]
        with pytest.raises(MCPError, match="no function named 'ask'"):
            await client.call_tool("ask", {"topic": "x"})


@pytest.mark.parametrize("mode", MODES)
async def test_functions_conversations_and_files_are_resources(running: Any, mode: Any) -> None:
    async with at(running, mode=mode) as client:
        assert "You said: hello" in (await client.call_tool("helper", {"message": "hello"})).content[0].text
        uris = [str(one.uri) for one in (await client.list_resources()).resources]
        session = next(uri for uri in uris if uri.startswith("session://"))
        assert {"shop://logo", "smss://helper", "smss://logo", "smss://order"} <= set(uris)
        templates = [one.uri_template for one in (await client.list_resource_templates()).resource_templates]
        assert templates == ["session://{id}", "shop://orders/{id}"]
        order = (await client.read_resource("shop://orders/a%20b")).contents[0]
        assert (order.mime_type, order.text) == ("application/json", '{"id":"a b"}')
        logo = (await client.read_resource("shop://logo")).contents[0]
        assert (logo.mime_type, logo.blob) == ("image/gif", "R0lGODlh")
        assert "You said: hello" in (await client.read_resource(session)).contents[0].text
        text = (await client.read_resource("smss://logo")).contents[0].text
        assert "FUNCTION_NAME = logo" in text
        assert "sesame" not in text
        assert "hunter22" not in text
        code = -32602 if mode == "auto" else -32002
        for uri in ("shop://nothing", "session://nothing", "smss://nothing", "shop://orders/a/b"):
            with pytest.raises(MCPError) as refused:
                await client.read_resource(uri)
            assert refused.value.error.code == code


async def test_a_conversation_is_its_owners_alone_and_files_stay_hidden(
    serve_folder: Any, running: Any, tmp_path: Path
) -> None:
    tokens = [{"name": name, "token": name * 40} for name in "ab"]
    async with serve_folder(running.folder, tokens=tokens) as served:
        found: dict[str, list[str]] = {}
        for name in "ab":
            headers, body = request("tools/call", name="helper", arguments={"message": f"I am {name}"})
            proof = {"authorization": f"Bearer {name * 40}"}
            if name == "a":
                assert (await post(served, headers | proof, body)).status_code == 200
            headers, body = request("resources/list")
            listed = (await post(served, headers | proof, body)).json()["result"]["resources"]
            found[name] = [one["uri"] for one in listed]
        assert found["b"] == ["shop://logo"]
        [session] = [uri for uri in found["a"] if uri.startswith("session://")]
        headers, body = request("resources/read", uri=session)
        headers["mcp-name"] = session
        said = (await post(served, headers | {"authorization": f"Bearer {'b' * 40}"}, body)).json()
        assert said["error"] == {
            "code": -32602,
            "message": "there is no such resource",
            "data": {"uri": session},
        }


async def test_arguments_are_completed_from_what_their_schema_lists(running: Any) -> None:
    headers, body = request(
        "completion/complete",
        ref={"type": "ref/prompt", "name": "ask"},
        argument={"name": "style", "value": "SH"},
    )
    said = (await post(running, headers, body)).json()["result"]["completion"]
    assert said == {"values": ["short", "sharp"], "total": 2, "hasMore": False}
    body["params"]["ref"] = {"type": "ref/prompt", "name": "nope"}
    assert (await post(running, headers, body)).json()["error"]["code"] == -32602


async def test_who_follows_a_resource_or_the_prompts_hears_of_changes(running: Any) -> None:
    changed: asyncio.Queue[Any] = asyncio.Queue()

    async def heard(message: Any) -> None:
        changed.put_nowait(message)

    async with asyncio.timeout(30), at(running, mode="legacy", message_handler=heard) as client:
        with pytest.warns(MCPDeprecationWarning):
            await client.session.subscribe_resource("shop://orders/1")
        text = (running.folder / "order.smss").read_text()
        (running.folder / "order.smss").write_text(text + "TIMEOUT_SECONDS = 9\n")
        (running.folder / "ask.smss").write_text(
            (running.folder / "ask.smss").read_text().replace("Asks", "Begs")
        )
        seen: set[str] = set()
        while not {"notifications/resources/updated", "notifications/prompts/list_changed"} <= seen:
            seen.add((await changed.get()).method)
        assert "notifications/tools/list_changed" not in seen


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("tool", ""),
        ("Prompt", "prompt"),
        ("shop://a/{id} text/html", "shop://a/{id} text/html"),
        ("no uri", None),
        ("shop://a/{1x}", None),
        ("a:\x00", None),
    ],
)
def test_what_a_function_is_for_mcp_is_said_in_one_key(text: str, meant: str | None) -> None:
    declaration = declare({"FUNCTION_MCP": text}, Path("engine.smss"))
    assert read_mcp(declaration) == (meant or "")
    assert [found.code for found in declaration.diagnostics] == ([] if meant is not None else ["bad-mcp"])
