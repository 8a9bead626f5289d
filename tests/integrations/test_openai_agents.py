"""The OpenAI Agents SDK runs a host's functions, with a model that is played."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from enginehost.integrations.openai_agents import atools, tools


class Played(Model):
    """Calls the tools that it is told to, one after the other, then says ``done``; keeps what it was sent."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self.calls = list(calls)
        self.seen: list[Any] = []
        self.offered: list[Any] = []

    async def get_response(
        self, system_instructions: Any, input: Any, *args: Any, **more: Any
    ) -> ModelResponse:
        self.seen, self.offered = list(input) if isinstance(input, list) else [], more.get("tools", args[1:2])
        output: Any
        if self.calls:
            name, given = self.calls.pop(0)
            call_id = f"c{len(self.calls)}"
            output = ResponseFunctionToolCall(
                type="function_call", call_id=call_id, name=name, arguments=json.dumps(given)
            )
        else:
            text = ResponseOutputText(type="output_text", text="done", annotations=[])
            output = ResponseOutputMessage(
                id="m", type="message", role="assistant", status="completed", content=[text]
            )
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **more: Any) -> AsyncIterator[Any]:
        raise NotImplementedError

    def outputs(self) -> list[Any]:
        return [item["output"] for item in self.seen if item.get("type") == "function_call_output"]


@pytest.fixture(autouse=True)
def no_traces() -> None:
    set_tracing_disabled(True)


async def test_a_run_calls_functions(awaited: Any) -> None:
    found = {tool.name: tool for tool in await atools(awaited.source)}
    (add,) = await atools(awaited.source, tags=["math"])
    assert add.params_json_schema["properties"]["a"]["minimum"] == -1000
    assert add.params_json_schema["additionalProperties"] is False
    model = Played(
        (add.name, {"a": 2}), ("story", {}), ("fail", {}), (add.name, {"a": "two"}), ("picture", {})
    )
    result = await Runner.run(Agent("a", model=model, tools=list(found.values())), "go")
    assert result.final_output == "done"
    number, story, failed, wrong, picture = model.outputs()
    assert (number, story) == ("42", "once upon")
    assert failed == "execution_failed: fail failed: LookupError: there is none"
    assert wrong.startswith("invalid_arguments: ")
    assert [part["type"] for part in picture] == ["input_text", "input_image"]
    assert picture[1]["image_url"].startswith("data:image/png;base64,")


@pytest.mark.parametrize("approve", [True, False])
async def test_a_run_waits_for_a_person(awaited: Any, approve: bool) -> None:
    model = Played(("wipe", {"what": "disk"}))
    agent = Agent("a", model=model, tools=[*await atools(awaited.source)])
    paused = await Runner.run(agent, "go")
    (item,) = paused.interruptions
    assert awaited.wiped == []
    state = paused.to_state()
    if approve:
        state.approve(item)
    else:
        state.reject(item)
    done = await Runner.run(agent, state)
    assert done.final_output == "done"
    assert awaited.wiped == (["disk"] if approve else [])


async def test_an_approved_run_goes_on_in_another_process(awaited: Any) -> None:
    from agents import RunState

    agent = Agent("a", model=Played(("destroy", {"what": "disk"})), tools=[*await atools(awaited.source)])
    text = (await Runner.run(agent, "go")).to_state().to_string()
    again = Agent("a", model=Played(), tools=[*await atools(awaited.source)])
    state = await RunState.from_string(again, text)
    state.approve(state.get_interruptions()[0])
    assert (await Runner.run(again, state)).final_output == "done"
    assert awaited.wiped == ["disk"]


@pytest.mark.usefixtures("own_loop")
def test_a_blocking_run_calls_functions(blocking: Any) -> None:
    (add,) = tools(blocking.source, tags=["math"])
    model = Played((add.name, {"a": 2}))
    assert Runner.run_sync(Agent("a", model=model, tools=[add]), "go").final_output == "done"
    assert model.outputs() == ["42"]
