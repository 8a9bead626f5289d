"""``llm`` runs a host's functions, with a model that is played, and has them as a plugin."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

import llm
import pytest

from enginehost.client import Client
from enginehost.integrations.llm import EngineHost, atools, tools


class Played(llm.Model):
    """Calls the tools that it is told to, one after the other, then says ``done``."""

    model_id = "played"
    supports_tools = True

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self.calls = list(calls)
        self.results: list[Any] = []
        self.offered: dict[str, Any] = {}

    def execute(self, prompt: Any, stream: bool, response: Any, conversation: Any = None) -> Iterator[str]:
        self.results += prompt.tool_results
        self.offered = {tool.name: tool for tool in prompt.tools}
        if self.calls:
            name, given = self.calls.pop(0)
            response.add_tool_call(
                llm.ToolCall(name=name, arguments=given, tool_call_id=f"c{len(self.calls)}")
            )
        else:
            yield "done"


def test_a_chain_calls_functions(blocking: Any) -> None:
    found = tools(blocking.source)
    (add,) = tools(blocking.source, tags=["math"])
    assert add.input_schema["properties"]["a"]["minimum"] == -1000
    model = Played(
        (add.name, {"a": 2}), ("story", {}), ("fail", {}), ("wipe", {"what": "disk"}), ("picture", {})
    )
    assert model.chain("go", tools=found).text() == "done"
    number, story, failed, wiped, picture = model.results
    assert (number.output, story.output) == ("42", "once upon")
    assert failed.output == "Error: fail failed: LookupError: there is none"
    assert "a person has to approve" in wiped.output
    assert [one.type for one in picture.attachments] == ["image/png"]
    assert blocking.wiped == []


@pytest.mark.parametrize("approve", [True, False])
def test_a_person_decides(blocking: Any, approve: bool) -> None:
    asked: list[Any] = []
    found = tools(blocking.source, approve=lambda *call: asked.append(call) or approve)
    model = Played(("wipe", {"what": "disk"}))
    assert model.chain("go", tools=found).text() == "done"
    assert asked == [("wipe", {"what": "disk"})]
    assert blocking.wiped == (["disk"] if approve else [])


async def test_tools_of_awaited_models(awaited: Any) -> None:
    (add,) = await atools(awaited.source, tags=["math"])
    assert (await add.implementation(a=2)).output == "42"


def test_the_plugin_asks_the_host_of_the_environment(blocking: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (entry,) = entry_points(group="llm", name="enginehost")
    assert entry.load().EngineHost is EngineHost
    assert "EngineHost" in llm.get_tools()
    if not isinstance(blocking.source, Client):
        return
    monkeypatch.setenv("ENGINEHOST_URL", blocking.source.url)
    model = Played()
    box = EngineHost(tags="math")
    (add,) = tools(blocking.source, tags=["math"])
    model.calls = [(add.name, {"a": 2})]
    assert model.chain("go", tools=[box]).text() == "done"
    assert [one.output for one in model.results] == ["42"]
    box._client.close()
