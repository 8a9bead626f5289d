"""An agent that thinks: its thoughts go back signed, also from a process that did not see them come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from enginehost_anthropic import AnthropicModel
from messages_wire import START, STOP, block, delta, text, tool

from enginehost import Caller
from enginehost.agents.contract import AgentSpec, ApprovalPolicy
from enginehost.engine import Function, FunctionSignature
from enginehost.testing import engine_registry, running_host
from enginehost.testing.wire import Provider, sse

THOUGHT = block(
    0,
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "thinking_delta", "thinking": "I have to "},
    {"type": "thinking_delta", "thinking": "add."},
    {"type": "signature_delta", "signature": "signed"},
)


async def test_tool_use_with_thinking_goes_on_after_a_restart(server: Provider, tmp_path: Path) -> None:
    smss = tmp_path / "smss"
    smss.mkdir()
    keys = f"ENGINE_CLASS = Anthropic\nMODEL = claude-x\nAPI_KEY = sk\nENDPOINT = {server.url}\n"
    (smss / "claude.smss").write_text(f"{keys}LIST_MODELS = false\n")

    async def add(arguments: dict[str, Any], call: Any) -> int:
        return int(arguments["n"]) + 1

    numbers = {"type": "object", "properties": {"n": {"type": "integer"}}}
    own = Function(FunctionSignature("add", "", numbers), add)
    spec = AgentSpec("helper", model="claude", functions=(own,), approval=ApprovalPolicy(tools=("add",)))
    registry, ann = engine_registry(AnthropicModel, keys), Caller("ann")
    server.says(sse(START, *THOUGHT, *tool(1, "toolu_1", '{"n":4}'), delta("tool_use"), STOP))
    server.says(sse(START, *text(0, "It is 5."), delta("end_turn"), STOP))
    async with running_host(smss, registry=registry) as host:
        agents = await host.agents()
        agents.register(spec)
        session = await agents.start("talk", agent="helper", owner=ann)
        begun = await session.write("4 and 1?")
        assert begun is not None
        run = await session.wait(begun)
        assert run.state == "paused"
    async with running_host(smss, registry=registry) as host:
        agents = await host.agents()
        agents.register(spec)
        session = await agents.start("talk", owner=ann)
        (asked,) = await session.questions()
        await session.approve(asked.call_id)
        run = await session.wait(run)
        assert (run.state, await session.reply(run)) == ("done", "It is 5.")
    _, said, result = server.seen[1].json()["messages"]
    assert said["content"][0] == {"type": "thinking", "thinking": "I have to add.", "signature": "signed"}
    assert (said["content"][1]["type"], said["content"][1]["input"]) == ("tool_use", {"n": 4})
    (given,) = [one for one in result["content"] if one["type"] == "tool_result"]
    assert given["tool_use_id"] == said["content"][1]["id"]
