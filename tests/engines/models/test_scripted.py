"""``Scripted``: the first rule that fits answers, at its pace, and every mistake in a script has a line."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from enginehost.errors import (
    CallTimeout,
    ConfigError,
    EngineHostError,
    EngineUnavailable,
    ExecutionFailed,
    InvalidRequest,
    Overloaded,
)
from enginehost.llm.message import Message, Role, Status, Type, Usage, system, user
from enginehost.llm.model import ModelRequest
from enginehost.signature import FunctionSignature
from enginehost.testing import load_engine, make_engine
from enginehost_engines.models import ScriptedModel
from enginehost_engines.models.script import read_script

SMSS = "ENGINE_CLASS = Scripted\nENGINE_ALIAS = actor\nSCRIPT = script.yaml\n"
Actor = Callable[[str], ScriptedModel]


@pytest.fixture
def actor(tmp_path: Path) -> Actor:
    """A model with this script."""

    def make(script: str) -> ScriptedModel:
        (tmp_path / "script.yaml").write_text(dedent(script))
        engine: Any = make_engine(ScriptedModel, SMSS, tmp_path)
        return engine

    return make


async def ask(model: ScriptedModel, /, *rows: Message, **request: Any) -> list[Message]:
    async def given_rows() -> AsyncIterator[Message]:
        for row in rows:
            yield row

    asked = ModelRequest(request.pop("model", model.default_model), **request)
    return [one async for one in model.stream(given_rows, asked)]


async def says(model: ScriptedModel, /, *rows: Message, **request: Any) -> str:
    return "".join(one.content for one in await ask(model, *rows, **request))


def result(tool: str, content: str) -> Message:
    return Message(Role.TOOL, Type.TOOL_RESULT, content, {"tool": tool, "id": "1"})


STORY = """
    models: [small, large]
    answers:
      - when: {system: pirate}
        say: Arr.
      - when: {text: weather, offers: get_weather}
        reply:
          - reasoning: I should look.
          - text: Let me see.
          - call: {tool: get_weather, args: {city: Bonn, days: [1, "$turn"]}}
          - call: {tool: get_news}
        usage: {input: 5, output: 6, cached: 7}
      - when: {result: get_weather, result_matches: '"(?P<sky>\\w+)"'}
        say: It is $sky, and $$5 to you.
      - when: {result: "*"}
        say: "I got $result"
      - when: {matches: 'my name is (?P<name>\\w+)'}
        say: Hello $name on $model
      - when: {turn: 2}
        say: Again?
      - when: {schema: true}
        reply: [{data: {said: "$text", n: 1}}]
      - when: {model: large}
        say: Large.
      - say: "You said: $text"
"""
WEATHER = FunctionSignature("get_weather")


async def test_the_first_rule_that_fits_answers(actor: Actor) -> None:
    model = actor(STORY)
    assert model.default_model == "small"
    assert await model.models() == ["small", "large"]
    assert await says(model, user("hi")) == "You said: hi"
    assert await says(model, system("You are a Pirate."), user("hi")) == "Arr."
    assert await says(model, user("the Weather?")) == "You said: the Weather?"
    assert await says(model, user("My name is Ada.")) == "Hello Ada on small"
    assert await says(model, user("hi"), model="large") == "Large."
    one_answer = Message(Role.ASSISTANT, content="a")
    assert await says(model, user("a"), one_answer, user("b")) == "Again?"
    assert await says(model, user("x"), result("get_weather", '"sunny"')) == "It is sunny, and $5 to you."
    assert await says(model, user("x"), result("get_news", "[]")) == "I got []"


async def test_an_answer_has_thoughts_pieces_calls_and_usage(actor: Actor) -> None:
    names = {"get_weather": "get_weather_x"}
    found = await ask(actor(STORY), user("weather?"), tools=[WEATHER], names=names)
    assert [one.content for one in found if one.type is Type.TEXT] == ["Let ", "me ", "see.", ""]
    whole = [one for one in found if one.whole]
    assert [one.type for one in whole] == ["reasoning", "text", "tool_call", "tool_call"]
    assert all(one.status is Status.OPEN for one in found if one not in whole)
    first, second = (one.query or {} for one in whole[2:])
    assert (first["tool"], first["args"]) == ("get_weather_x", {"city": "Bonn", "days": [1, "1"]})
    assert (second["tool"], second["args"]) == ("get_news", {})
    assert first["id"] != second["id"]
    assert [one.usage for one in whole] == [None] * 3 + [Usage(5, 6, 7, model="small")]


async def test_structured_answers_are_data(actor: Actor) -> None:
    (only,) = await ask(actor(STORY), user("hi"), schema={"type": "object"})
    assert (only.type, only.content) == (Type.DATA, '{"said":"hi","n":1}')
    (only,) = await ask(actor("answers: [{say: '[1]'}]"), user("hi"), schema={})
    assert (only.type, only.content) == (Type.DATA, "[1]")
    with pytest.raises(InvalidRequest, match="JSON"):
        await ask(actor("answers: [{say: hello}]"), user("x"), schema={})


async def test_rows_in_pieces_are_read_as_whole_ones(actor: Actor) -> None:
    pieces = [
        Message(Role.USER, content="my name ", status=Status.OPEN, id="a"),
        Message(Role.USER, content="is Ada", status=Status.OPEN, id="a"),
        Message(Role.USER, id="a"),
    ]
    assert await says(actor(STORY), *pieces) == "Hello Ada on small"


async def test_a_rule_counts_how_often_it_answered(actor: Actor) -> None:
    model = actor("answers: [{times: 2, reply: [error: {kind: overloaded, retry_after: 3}]}, {say: ok}]")
    for _ in range(2):
        with pytest.raises(Overloaded) as caught:
            await ask(model, user("x"))
        assert caught.value.retry_after == 3.0
    assert await says(model, user("x")) == "ok"


@pytest.mark.parametrize(
    ("item", "kind", "detail"),
    [
        ("{error: {kind: unavailable}}", EngineUnavailable, {}),
        ("{error: {kind: failed, status: 400}}", ExecutionFailed, {"status": 400, "retryable": False}),
        ("{error: {kind: failed, status: 503, retry_after: 1}}", ExecutionFailed, {"retryable": True}),
        ("cut: true", ExecutionFailed, {"retryable": True}),
        ("hang: true", CallTimeout, {"timeout": 0.05}),
        ("wait: 9", CallTimeout, {"timeout": 0.05}),
    ],
)
async def test_an_answer_fails_as_providers_do(
    actor: Actor, item: str, kind: type[EngineHostError], detail: dict[str, Any]
) -> None:
    model = actor(f"answers: [{{reply: [text: Hel, {item if item[0] == '{' else '{' + item + '}'}]}}]")
    with pytest.raises(kind) as caught:
        await ask(model, user("x"), timeout=0.05)
    assert caught.value.detail.items() >= detail.items()


async def test_tokens_come_at_their_pace_also_after_a_slow_reader(actor: Actor) -> None:
    model = actor("{tokens_per_second: 100, answers: [{reply: [{text: 'a ', repeat: 20}]}]}")

    async def rows() -> AsyncIterator[Message]:
        yield user("x")

    begun, seen = time.monotonic(), 0
    async with aclosing(model.stream(rows, ModelRequest("scripted"))) as answer:
        async for _ in answer:
            seen += 1
            if seen == 1:
                await asyncio.sleep(0.1)
    taken = time.monotonic() - begun
    assert seen == 21
    assert taken >= 0.19, "and not faster"
    assert taken < 5


async def test_many_sessions_at_a_pace_do_not_wait_for_each_other(actor: Actor) -> None:
    model = actor("{tokens_per_second: 50, answers: [{reply: [{text: 'a ', repeat: 10}]}]}")
    begun = time.monotonic()
    await asyncio.gather(*(ask(model, user("x")) for _ in range(500)))
    assert time.monotonic() - begun < 10, "one after the other would take 100 s"


async def test_it_says_everywhere_that_it_is_no_model(actor: Actor, caplog: pytest.LogCaptureFixture) -> None:
    model = actor("answers: [{say: hi}]")
    with caplog.at_level(logging.WARNING):
        await ask(model, user("x"))
        await ask(model, user("x"))
    assert caplog.text.count("actor is no model") == 1
    assert "no model" in model.trouble
    assert "script.yaml" in model.trouble


async def test_without_a_rule_that_fits_the_request_is_refused(actor: Actor) -> None:
    model = actor("answers: [{when: {text: a}, say: b}]")
    with pytest.raises(InvalidRequest, match="turn 1"):
        await ask(model, user("x"))
    with pytest.raises(InvalidRequest, match="result of add"):
        await ask(model, user("a"), result("add", "1"))


@pytest.mark.parametrize(
    ("script", "line", "told"),
    [
        ("", 0, "mapping"),
        ("answers: []", 0, "no answers"),
        ("answers:\n  - {say: a, reply: []}", 2, "either say or reply"),
        ("answers:\n  - say: a\n    whne: {}", 3, "whne"),
        ("answers:\n  - say: a\n    when:\n      turn: one", 4, "whole number"),
        ("answers:\n  - say: a\n    when: {matches: '('}", 3, "regular expression"),
        ("answers:\n  - say: costs $5", 2, "\\$"),
        ("answers:\n  - say:\n      $nmae", 2, "nmae"),
        ("answers:\n  - reply:\n    - text: a\n      call: {tool: b}", 3, "exactly one"),
        ("answers:\n  - reply:\n    - call: {args: {}}", 3, "tool"),
        ("answers:\n  - reply:\n    - error: {kind: odd}", 3, "overloaded"),
        ("answers:\n  - reply:\n    - data: {}\n      repeat: 2", 4, "repeated"),
        ("tokens_per_second: 0\nanswers: [{say: a}]", 1, "above 0"),
        ("answers:\n  - say: a\n    times: 0", 3, "from 1"),
        ("answers:\n  - say: a\n    usage: {outptu: 1}", 3, "outptu"),
        ("answers: [{say: a}]\nanswers: [{say: b}]", 2, "twice"),
        ("answers: [{say: 5}]", 1, "text"),
        ("answers: [", 1, "YAML"),
    ],
)
def test_a_mistake_in_a_script_has_its_line(tmp_path: Path, script: str, line: int, told: str) -> None:
    path = tmp_path / "script.yaml"
    path.write_text(script)
    with pytest.raises(ConfigError, match=told) as caught:
        read_script(path)
    assert caught.value.line == line


def test_the_host_tells_a_mistake_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text("answers:\n  - sya: a\n")
    loaded = load_engine(ScriptedModel, SMSS, tmp_path)
    assert loaded.engine is None
    (found,) = loaded.record.diagnostics
    assert "script.yaml, line 2" in found.message
    assert found.line == 3, "the key SCRIPT"
    missing = load_engine(ScriptedModel, SMSS.replace("script", "none"), tmp_path)
    assert "cannot be read" in "".join(map(str, missing.record.diagnostics))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["answers", "say", "reply", "when", "text", "call", "error", "times", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(VALUES)
def test_whatever_a_script_holds_it_is_read_or_told(tmp_path: Path, value: Any) -> None:
    import json

    path = tmp_path / "any.yaml"
    path.write_text(json.dumps({"answers": [value]}))
    with suppress(ConfigError):
        assert isinstance(read_script(path).answers, Sequence)
