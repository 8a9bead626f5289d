"""LangChain's own tool runner and LangGraph's graphs with a host's functions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from enginehost.integrations.langchain import atools, tools

ADD = {
    "type": "object",
    "properties": {
        "a": {"type": "number", "description": "The first.", "minimum": -1000},
        "b": {"type": "number", "default": 40},
        "config": {"type": "string", "title": "Not LangChain's"},
    },
    "required": ["a"],
    "additionalProperties": False,
}


def call(name: str, **args: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": "c1", "name": name, "args": args}


def by_name(found: list[Any]) -> dict[str, Any]:
    return {tool.name: tool for tool in found}


def test_a_tool_is_the_function_as_it_is(blocking: Any) -> None:
    found = by_name(tools(blocking.source))
    assert len(found) == 6
    (add,) = tools(blocking.source, tags=["math"])
    assert add.name.startswith("math_add_")
    assert add.name in found
    assert (add.description, add.args_schema) == ("Does math.add.", ADD)
    sent = convert_to_openai_tool(add)["function"]["parameters"]  # LangChain itself leaves titles out
    assert sent["properties"]["a"] == ADD["properties"]["a"]
    message = add.invoke(call(add.name, a=2, config="mine"))
    assert (message.content, message.artifact, message.status) == ("42", 42, "success")
    assert [tool.name for tool in tools(blocking.source, query="math add", most=1)] == [add.name]


def test_results_and_errors_are_read_by_the_model(blocking: Any) -> None:
    found = by_name(tools(blocking.source))
    assert found["story"].invoke(call("story")).content == "once upon"
    failed = found["fail"].invoke(call("fail"))
    assert (failed.status, failed.content) == (
        "error",
        "execution_failed: fail failed: LookupError: there is none",
    )
    picture = found["picture"].invoke(call("picture"))
    text, image = picture.content
    assert json.loads(text["text"])["data"] == "[file 1: image/png, 16 bytes]"
    assert (image["type"], image["mime_type"]) == ("image", "image/png")
    assert picture.artifact["data"].startswith(b"\x89PNG")
    (add,) = tools(blocking.source, tags=["math"])
    wrong = add.invoke(call(add.name, a="two"))
    assert wrong.status == "error"
    assert "/a" in wrong.content
    outside = found["wipe"].invoke(call("wipe", what="disk"))
    assert outside.status == "error"
    assert "a person has to approve" in outside.content
    assert blocking.wiped == []


async def test_tools_are_awaited(awaited: Any) -> None:
    (add,) = await atools(awaited.source, tags=["math"])
    assert (await add.ainvoke(call(add.name, a=2))).content == "42"
    assert len(await atools(awaited.source, query="destroy the disk", most=2)) == 2


@pytest.mark.parametrize(
    ("decision", "content", "wiped"),
    [
        ({"type": "approve"}, "disk is gone", ["disk"]),
        (
            {"type": "edit", "edited_action": {"name": "wipe", "args": {"what": "tape"}}},
            "tape is gone",
            ["tape"],
        ),
        ({"type": "reject", "message": "not today"}, "refused it: not today", []),
        ({"type": "shrug"}, "holds no decision", []),
    ],
    ids=["approve", "edit", "reject", "nonsense"],
)
async def test_a_graph_waits_for_a_person(
    awaited: Any, decision: dict[str, Any], content: str, wiped: list[str]
) -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode(await atools(awaited.source)))
    graph.add_edge(START, "tools")
    app = graph.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "one"}}
    asks = AIMessage("", tool_calls=[call("wipe", what="disk")])
    paused = await app.ainvoke({"messages": [asks]}, config)
    (interrupt,) = paused["__interrupt__"]
    assert interrupt.value["action_requests"][0]["args"] == {"what": "disk"}
    assert awaited.wiped == []
    done = await app.ainvoke(Command(resume={"decisions": [decision]}), config)
    answer = done["messages"][-1]
    assert isinstance(answer, ToolMessage)
    assert content in answer.content
    assert awaited.wiped == wiped
