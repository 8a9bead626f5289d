"""What ``send`` takes is looked at before anything is sent, and an error says what to do."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from enginehost.errors import InvalidRequest, ResultInvalid
from enginehost.llm.message import Message, Role, Type, Usage, new_id
from enginehost.llm.model import ModelRequest, Rows, ToolChoice
from enginehost.signature import FunctionSignature

ADD = FunctionSignature("add", "Adds")


def kept(stage: Any, *said: Message) -> list[ModelRequest]:
    """The requests that the puppet gets; it answers with ``said``."""
    asked: list[ModelRequest] = []

    async def play(rows: Rows, request: ModelRequest, engine: Any) -> AsyncGenerator[Message, None]:
        asked.append(request)
        for message in said or (Message(Role.ASSISTANT, content="fine", id=new_id()),):
            yield message

    stage.play(play)
    return asked


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"temprature": 3}, "did you mean temperature"),
        ({"maxtokens": 5}, "did you mean max_tokens"),
        ({"xyzzy": 5}, "it has model, tools"),
        *[
            ({"temperature": one}, "temperature is a number from 0")
            for one in (float("nan"), "hot", -1, True)
        ],
        *[({"max_tokens": one}, "max_tokens is a whole number from 1") for one in (-1, 0, 1.5, "5", True)],
        *[({"stop": one}, "stop is a") for one in (5, [5], [""], b"x", "")],
        *[
            ({name: one}, f"{name} is a number of seconds above 0")
            for name in ("timeout", "total_timeout")
            for one in (-1, 0, "1", float("inf"), float("nan"))
        ],
        ({"reasoning": "much"}, "reasoning is one of none, minimal, low"),
        ({"reasoning": ["low"]}, "reasoning is one of"),
        ({"model": 5}, "model is a text"),
        ({"cache": "no"}, "cache is True or False"),
        ({"parallel_tools": 0}, "parallel_tools is True or False"),
        ({"tools": 5}, "tools is names of functions"),
        ({"tools": [5]}, "a tool is the name of a function"),
        ({"tool_choice": 5}, "tool_choice is auto"),
        ({"tool_choice": ToolChoice("odd")}, "the kind of tool_choice is auto"),
        ({"extra": [1]}, "extra is a mapping"),
        ({"extra": {"a": {"b": float("nan")}}}, "extra is no JSON at /a/b"),
        ({"extra": {"a": object()}}, "extra is no JSON at /a"),
        ({"schema": {"type": "nonsense"}}, "schema is no JSON Schema"),
        ({"schema": 5}, "a schema is a JSON Schema"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_an_option_that_is_none_or_wrong_is_refused_before_anything_is_sent(
    options: dict[str, Any], said: str, stream: bool, stage: Any
) -> None:
    asked = kept(stage)
    async with stage.host() as host:
        with pytest.raises(InvalidRequest) as raised:
            host.llm().send("a", stream=stream, **options)
    assert said in raised.value.message
    assert not asked


async def test_options_that_fit_arrive_and_none_is_left_out(stage: Any) -> None:
    asked = kept(stage)
    given: Any = {"max_tokens": 1, "temperature": 0, "timeout": 2.5, "extra": {"seed": 7}, "cache": False}
    nothing: Any = dict.fromkeys(("tools", "stop", "model", "max_tokens", "schema", "extra", "reasoning"))
    async with stage.host() as host:
        await host.llm().send("a", stop="x", tools=ADD, tool_choice="add", **given)
        await host.llm().send("a", stop=["x", "y"], tools=[ADD])
        await host.llm().send("a", **nothing)
    first, second, third = asked
    assert {name: getattr(first, name) for name in given} == given
    assert (first.stop, first.tools, first.tool_choice) == (("x",), (ADD,), ToolChoice("tool", "add"))
    assert (second.stop, second.tools) == (("x", "y"), (ADD,))
    assert third == ModelRequest("puppet-1")


async def test_one_text_is_one_tool(stage: Any) -> None:
    from enginehost.errors import UnknownFunction

    async with stage.host() as host:
        with pytest.raises(UnknownFunction, match="'addition'"):
            await host.llm().send("a", tools="addition")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (1, "a message is a text, a Message or a mapping with role and content, not int"),
        ({"role": "user", "contents": "a"}, "no member 'contents'; did you mean content"),
        ({"role": "nobody"}, "role of a message is one of system, user, assistant, tool, not 'nobody'"),
        ({"type": "song"}, "type of a message is one of text"),
        ({"status": ["done"]}, "status of a message is one of open"),
        ({"content": 5}, "content of a message is a text, not int"),
        ({"content": [{"type": "text", "text": "a"}]}, "content of a message is a text, not list"),
        ({"content": "a", "query": "q"}, "query of a message is an object, not str"),
    ],
)
async def test_a_row_that_is_no_message_is_told_apart(row: Any, said: str, stage: Any) -> None:
    asked = kept(stage)
    async with stage.host() as host:
        with pytest.raises(InvalidRequest) as raised:
            await host.llm().send([row, "b"])
    assert said in raised.value.message
    assert not asked


async def test_a_structured_answer_that_does_not_fit_is_called_so(stage: Any) -> None:
    kept(stage, Message(Role.ASSISTANT, Type.DATA, '"x"', id=new_id()))
    async with stage.host() as host:
        with pytest.raises(ResultInvalid) as raised:
            await host.llm().send("a", schema={"type": "integer"})
    assert raised.value.message.startswith("the model's answer does not fit the schema: ")


@pytest.mark.parametrize(("usage", "cost"), [(Usage(), None), (Usage(10), 0.001), (Usage(cached=10), 0.001)])
async def test_the_cost_is_unknown_where_no_usage_came(usage: Usage, cost: Any, stage: Any) -> None:
    kept(stage, Message(Role.ASSISTANT, content="fine", id=new_id(), usage=usage))
    async with stage.host(PRICE_INPUT=100, PRICE_OUTPUT=200) as host:
        assert (await host.llm().send("a")).usage.cost == cost


@pytest.mark.parametrize("show", ["Plain", "Pretty"])
def test_an_answer_that_was_cut_is_marked_where_people_read_it(
    show: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from enginehost.cli.chat import show as shows
    from enginehost.serve.sessions.shapes import message_json

    shown: Any = getattr(shows, show)()
    for provider in (None, {"api": "x"}, {"api": "x", "finish": "length"}):
        row = Message(Role.ASSISTANT, content="half", id="1", provider=provider)
        shown.event("", "message", message_json(row))
    shown.close()
    out = capsys.readouterr()
    assert (out.out + out.err).count(shows.CUT) == 1
    assert (shows.CUT in out.out) is (show == "Pretty")
