"""Pydantic AI runs a host's functions, with a model that is played."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai import Agent, BinaryContent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from enginehost.integrations.pydantic_ai import atools, tools

Calls = list[tuple[str, dict[str, Any]]]


class Played:
    """Calls the tools that it is told to, one after the other, then says ``done``."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self.calls: Calls = list(calls)
        self.tools: dict[str, Any] = {}
        self.returns: list[ToolReturnPart] = []

    async def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.tools = {tool.name: tool for tool in info.function_tools}
        self.returns = [
            part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)
        ]
        if self.calls:
            name, given = self.calls.pop(0)
            return ModelResponse([ToolCallPart(name, given)])
        return ModelResponse([TextPart("done")])

    def agent(self, found: Any, **more: Any) -> Agent[None, Any]:
        return Agent(FunctionModel(self.answer), tools=found, **more)


async def test_a_run_calls_functions(awaited: Any) -> None:
    found = await atools(awaited.source)
    (add,) = await atools(awaited.source, tags=["math"])
    played = Played(
        (add.name, {"a": 2}), ("story", {}), ("fail", {}), (add.name, {"a": "two"}), ("picture", {})
    )
    assert (await played.agent(found).run("go")).output == "done"
    schema = played.tools[add.name].parameters_json_schema
    assert schema["properties"]["a"]["minimum"] == -1000
    number, story, failed, wrong, picture = [part.content for part in played.returns]
    assert (number, story) == (42, "once upon")
    assert failed == "execution_failed: fail failed: LookupError: there is none"
    assert str(wrong).startswith("invalid_arguments: ")
    assert [type(part) for part in picture] == [str, BinaryContent]


@pytest.mark.parametrize("approve", [True, False])
async def test_a_run_waits_for_a_person(awaited: Any, approve: bool) -> None:
    played = Played(("wipe", {"what": "disk"}))
    agent = played.agent(await atools(awaited.source), output_type=[str, DeferredToolRequests])
    paused = await agent.run("go")
    assert isinstance(paused.output, DeferredToolRequests)
    (call,) = paused.output.approvals
    assert awaited.wiped == []
    decided = DeferredToolResults(approvals={call.tool_call_id: approve})
    done = await agent.run(message_history=paused.all_messages(), deferred_tool_results=decided)
    assert done.output == "done"
    assert awaited.wiped == (["disk"] if approve else [])


@pytest.mark.usefixtures("own_loop")
def test_a_blocking_run_calls_functions(blocking: Any) -> None:
    found = tools(blocking.source, tags=["math"])
    played = Played((found[0].name, {"a": 2}))
    assert played.agent(found).run_sync("go").output == "done"
    assert [part.content for part in played.returns] == [42]
