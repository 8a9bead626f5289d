"""The stages that come with the host."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.agents.stages import (
    SHIPPED,
    approval,
    budget,
    compaction,
    hide_reasoning,
    make_stage,
    rate_limit,
    redact,
)
from enginehost.errors import ConfigError
from enginehost.llm.message import Message, Role, Status, Type, Usage
from enginehost.store.port import RunState


async def add(parameters: dict[str, Any], call: Any) -> int:
    return parameters["n"] + 1


async def through(stage: Any, messages: list[Message], turn: Any = None) -> list[Message]:
    async def source() -> AsyncIterator[Message]:
        for message in messages:
            yield message

    return [message async for message in stage(source(), turn)]


async def test_a_rate_limit_lets_exactly_so_many_questions_through(world: Any, kit: Any) -> None:
    await world.start(kit.function(add), stages=(rate_limit(3, 3600, wait=False),))
    world.model.answers = lambda context: [kit.call("add", n=1)]
    session, run = await world.said()
    assert run.state is RunState.DONE
    assert len(world.model.asked) == 3
    assert run.error is not None
    assert "3 times" in run.error["message"]
    await kit.check_nothing_dangles(session)
    assert all(
        row.role is not Role.ASSISTANT or row.type is Type.TOOL_CALL for row in await kit.rows_of(session)
    )


async def test_the_question_after_those_waits_for_its_time(world: Any, kit: Any) -> None:
    await world.start(kit.function(add), stages=(rate_limit(2, 0.4, each="owner"),))
    world.model.answers = [[kit.call("add", n=1)], [kit.call("add", n=2)], kit.text("done")]
    began = time.monotonic()
    _, run = await world.said()
    assert run.state is RunState.DONE
    assert len(world.model.asked) == 3
    assert time.monotonic() - began >= 0.35


async def test_of_many_turns_at_once_exactly_so_many_ask(world: Any, kit: Any) -> None:
    await world.start(stages=(rate_limit(5, 3600, wait=False),))
    world.model.answers = lambda context: kit.text("yes")
    await asyncio.gather(*(world.said() for _ in range(9)))
    assert len(world.model.asked) == 5


async def test_hidden_reasoning_leaves_only_what_its_provider_needs_back(world: Any, kit: Any) -> None:
    await world.start(kit.function(add), stages=(hide_reasoning(),))
    sealed = {"anthropic": {"signature": "sig"}}
    world.model.answers = [
        [*kit.text("secret ", "thought", type=Type.REASONING, provider=sealed), kit.call("add", n=1)],
        [*kit.text("more", type=Type.REASONING, usage=Usage(1, 2)), *kit.text("done")],
    ]
    session, run = await world.said()
    kept = await kit.rows_of(session, Type.REASONING)
    assert [(row.content, row.provider) for row in kept] == [("", sealed)]
    assert run.usage is not None
    assert run.usage.output == 2
    assert [row.provider for row in world.model.asked[1] if row.type is Type.REASONING] == [sealed]


async def test_a_turn_over_its_budget_makes_no_further_call_and_says_why(world: Any, kit: Any) -> None:
    ran: list[int] = []

    async def spend(parameters: dict[str, Any], call: Any) -> int:
        ran.append(parameters["n"])
        return 1

    await world.start(kit.function(spend), stages=(budget(tokens=100),))
    world.model.answers = [
        [*kit.text("one", usage=Usage(40, 20)), kit.call("spend", n=1)],
        [*kit.text("two", usage=Usage(40, 20)), kit.call("spend", n=2)],
    ]
    session, run = await world.said()
    assert (run.state, ran, len(world.model.asked)) == (RunState.DONE, [1], 2)
    assert run.error is not None
    assert "120 tokens of 100" in run.error["message"]
    await kit.check_nothing_dangles(session)


async def test_an_answer_that_uses_the_budget_up_is_given(world: Any, kit: Any) -> None:
    await world.start(stages=(budget(cost=0.5),))
    world.model.answers = [kit.text("dear", usage=Usage(1, 1, cost=0.7))]
    session, run = await world.said()
    assert (await session.reply(run), run.error) == ("dear", None)


async def test_calls_of_named_tools_wait_for_a_person(world: Any, kit: Any) -> None:
    await world.start(
        kit.function(add, name="delete_one"), kit.function(add), stages=(approval(["delete_*"]),)
    )
    world.model.answers = [[kit.call("delete_one", n=1), kit.call("add", n=1)], kit.text("done")]
    session, run = await world.said()
    assert run.state is RunState.PAUSED
    (asked,) = await session.questions()
    assert asked.query["tool"] == "delete_one"
    await session.approve(asked.query["id"])
    assert (await session.wait(run)).state is RunState.DONE


# redact


async def test_what_patterns_find_is_not_stored_though_it_came_in_pieces(world: Any, kit: Any) -> None:
    await world.start(stages=(redact([r"\d{4}-\d{4}", "(?i:password) \\w+"]),))
    world.model.answers = [kit.text("card 12", "34-56", "78, Pass", "word hun", "ter2.")]
    session, run = await world.said()
    assert await session.reply(run) == "card [redacted], [redacted]."


PATTERN = r"\b\d+-\d+\b|x+y"


@given(text=st.text("12-xyz ", max_size=60), cuts=st.lists(st.integers(0, 60), max_size=8))
@settings(max_examples=80, deadline=None)
def test_pieces_are_redacted_as_the_whole_is(text: str, cuts: list[int]) -> None:
    at = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[a:b] for a, b in pairwise(at)]
    one = Message(Role.ASSISTANT, id="m", status=Status.OPEN)
    messages = [*(replace(one, content=piece) for piece in pieces), replace(one, status=Status.DONE)]
    stage = redact([PATTERN], instead="#", longest=61)
    found = asyncio.run(through(stage, messages))
    whole = asyncio.run(through(stage, [Message(Role.ASSISTANT, content=text)]))
    assert "".join(message.content for message in found) == whole[0].content
    assert found[-1].whole


async def test_a_text_longer_than_any_match_is_passed_on_as_it_comes() -> None:
    one = Message(Role.ASSISTANT, id="m", status=Status.OPEN)
    messages = [replace(one, content="ab secret ") for _ in range(100)] + [replace(one, status=Status.DONE)]
    found = await through(redact(["secret"], longest=20), messages)
    assert len(found) > 50
    assert "".join(message.content for message in found) == "ab [redacted] " * 100


# compaction


def summing(kit: Any, asked: list[str]) -> Any:
    """A model that sums up what it is asked to, and answers everything else."""

    def answers(context: list[Message]) -> list[Message]:
        if context[0].content.startswith("You sum up"):
            asked.append(context[-1].content)
            return kit.text(f"summary {len(asked)}", usage=Usage(7, 3))
        return kit.text(f"answer to {context[-1].content}", usage=Usage(1, 1))

    return answers


class Summing:
    """The test's model, which also answers ``await send(rows)``."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def send(self, rows: Any, *, stream: bool = False, **options: Any) -> Any:
        if stream:
            return self.model.send(rows, stream=True, **options)
        return self._whole(rows)

    async def _whole(self, rows: list[Message]) -> Any:
        from enginehost.llm.answer import Answer

        return Answer(self.model.answers(rows))


async def test_a_long_conversation_is_summed_up_and_goes_on(world: Any, kit: Any) -> None:
    await world.start(instructions="Be kind.", stages=(compaction(1000, at=0.5, keep=4),))
    summed: list[str] = []
    world.model.answers = summing(kit, summed)
    world.host.llm = lambda name="": Summing(world.model)
    session = await world.session()
    for number in range(30):
        run = await session.write(f"{number} " + "word " * 30)
        assert (await session.wait(run)).state is RunState.DONE
    assert summed
    assert max(map(len, summed)) < 2500
    last = world.model.asked[-1]
    assert last[0].content == "Be kind."
    assert last[1].content.startswith("Summary of the conversation so far:\nsummary")
    assert sum(len(row.content) for row in last) < 4000
    assert [row.content.split()[0] for row in last[2:] if row.role is Role.USER][-1] == "29"
    usage = [run.usage for run in await session.runs() if run.usage is not None and run.usage.input >= 8]
    assert usage, "what the summary took is counted"
    assert len(await kit.rows_of(session, Type.TEXT)) == 60, "nothing is deleted"


async def test_calls_are_not_parted_from_their_results_and_skills_stay_word_by_word(
    world: Any, kit: Any
) -> None:
    block = '<skill name="cooking">\nStir ' + "x" * 500 + "\n</skill>"

    async def skill(parameters: dict[str, Any], call: Any) -> str:
        return block

    await world.start(
        kit.function(skill, schema={"type": "object"}), stages=(compaction(1000, at=0.4, keep=2),)
    )
    summed: list[str] = []
    sums = summing(kit, summed)

    def answers(context: list[Message]) -> list[Message]:
        if context[-1].content == "read":
            return [kit.call("skill")]
        return sums(context) if context[0].role is Role.SYSTEM else kit.text("fine")

    world.model.answers = answers
    world.host.llm = lambda name="": Summing(world.model)
    session = await world.session()
    for said in ("read", *("word " * 60 for _ in range(20))):
        run = await session.write(said)
        assert (await session.wait(run)).state is RunState.DONE
    assert len(await kit.rows_of(session, Type.COMPACTION)) > 1
    assert not any("xxxx" in one for one in summed)
    first = world.model.asked[-1][0].content
    assert first.count(block) == 1
    for context in world.model.asked:
        calls = [row.call_id for row in context if row.type is Type.TOOL_CALL]
        assert calls == [row.call_id for row in context if row.type is Type.TOOL_RESULT]


async def test_where_the_summary_fails_the_turn_goes_on(world: Any, kit: Any) -> None:
    from enginehost.errors import ExecutionFailed

    class Broken(Summing):
        async def _whole(self, rows: Any) -> Any:
            raise ExecutionFailed("no")

    await world.start(stages=(compaction(200, keep=1),))
    world.model.answers = lambda context: kit.text("fine")
    world.host.llm = lambda name="": Broken(world.model)
    session = await world.session()
    for _ in range(3):
        run = await session.write("word " * 200)
        assert (await session.wait(run)).state is RunState.DONE


# by name


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("budgte", {}, "no stage named 'budgte'"),
        ("budget", {"tokens": "many"}, "budget: tokens"),
        ("budget", {}, "give tokens, cost"),
        ("rate_limit", {"times": 0}, "more than 0"),
        ("redact", {"patterns": ["("]}, "a pattern is wrong"),
        ("compaction", {"wnidow": 5000}, "wnidow"),
        ("approval", {"tools": []}, "at least one"),
    ],
)
def test_what_is_wrong_with_a_stage_is_said(name: str, arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match="stage") as raised:
        make_stage(name, arguments)
    assert told in raised.value.message


def test_every_shipped_stage_can_be_named() -> None:
    given = {"rate_limit": {"times": 1}, "budget": {"tokens": 1}, "approval": {"tools": ["a"]}}
    given["redact"] = {"patterns": ["a"]}
    assert all(callable(make_stage(name, given.get(name, {}))) for name in SHIPPED)
