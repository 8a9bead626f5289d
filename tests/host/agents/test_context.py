"""The rows that a model sees, in the order and completeness that providers insist on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from enginehost.agents.context import for_model
from enginehost.agents.rows import Question, failure_text, notice, question, result
from enginehost.llm.message import Message, Role, Status, Type, system, user


async def lazily(row: Message) -> str:
    return '"lazy"'


async def seen(*rows: Message, **more: Any) -> list[Message]:
    async def source() -> Any:
        for row in rows:
            yield row

    return [row async for row in for_model(source(), lazily, **more)]


def said(content: str, step: int = 1) -> Message:
    return Message(Role.ASSISTANT, content=content, query={"step": step})


def thought(content: str, step: int = 1) -> Message:
    return Message(Role.ASSISTANT, Type.REASONING, content, query={"step": step})


def call(id: str, step: int = 1) -> Message:
    query = {"tool": "t", "id": id, "args": {}, "step": step}
    return Message(Role.ASSISTANT, Type.TOOL_CALL, query=query)


def answer(id: str, content: str = "1", **more: Any) -> Message:
    return replace(result(call(id), content), query={"tool": "t", "id": id, **more})


async def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    rows = await seen(user("a"), call("1"), call("2"), answer("2"), said("b", 2), user("c"))
    assert [(row.type, row.call_id) for row in rows] == [
        (Type.TEXT, ""),
        (Type.TOOL_CALL, "1"),
        (Type.TOOL_CALL, "2"),
        (Type.TOOL_RESULT, "2"),
        (Type.TOOL_RESULT, "1"),
        (Type.TEXT, ""),
        (Type.TEXT, ""),
    ]
    assert (rows[4].query or {})["error"] is True


async def test_what_was_said_meanwhile_comes_after_the_results() -> None:
    rows = await seen(call("1"), user("hurry"), question(Question.APPROVAL, "1", "May it?"), answer("1"))
    assert [row.content for row in rows] == ["", "1", "hurry"]


async def test_a_result_without_a_call_and_what_is_for_people_is_left_out() -> None:
    summary = Message(Role.SYSTEM, Type.COMPACTION, "they met", query={"upto": 9})
    rows = await seen(
        system("be kind"), summary, answer("gone"), notice("stopped"), user("go"), system("late")
    )
    assert [(row.role, row.type, row.content) for row in rows] == [
        (Role.SYSTEM, Type.TEXT, "be kind"),
        (Role.USER, Type.TEXT, "they met"),
        (Role.USER, Type.TEXT, "go"),
        (Role.USER, Type.TEXT, "late"),
    ]


async def test_reasoning_goes_with_what_it_led_to_or_not_at_all() -> None:
    rows = await seen(
        user("a"), thought("lost", 1), thought("kept", 2), call("1", 2), answer("1"), thought("end", 3)
    )
    assert [row.content for row in rows] == ["a", "kept", "", "1"]


async def test_a_lazy_result_is_run_and_an_edited_call_says_so() -> None:
    rows = await seen(
        call("1"), call("2"), answer("1", "", lazy={"tool": "t", "args": {}}), answer("2", "5", edited={})
    )
    assert rows[2].content == '"lazy"'
    assert rows[3].content.endswith(',"result":5}')


async def test_a_long_result_is_cut_across_its_pieces() -> None:
    pieces = [replace(answer("1", "x" * 10), status=Status.OPEN)] * 3 + [answer("1", "x" * 10)]
    rows = await seen(call("1"), *pieces, user("go"), result_chars=25)
    assert "".join(row.content for row in rows[1:-1]) == "x" * 25 + "… (15 characters are left out)"
    assert [row.whole for row in rows[1:-1]] == [False, False, False, True]


_ROWS = st.lists(
    st.one_of(
        st.builds(call, st.sampled_from("abc"), st.integers(1, 3)),
        st.builds(answer, st.sampled_from("abc")),
        st.builds(user, st.just("u")),
        st.builds(said, st.just("s"), st.integers(1, 3)),
        st.builds(thought, st.just("r"), st.integers(1, 3)),
        st.just(notice("n")),
    ),
    max_size=25,
)


@given(rows=_ROWS)
async def test_whatever_the_rows_calls_and_results_stand_together(rows: list[Message]) -> None:
    """Of ids that come once, as the store sees to."""
    once: set[tuple[str, str]] = set()
    kept: list[Message] = []
    for row in rows:
        key = (str(row.type), row.call_id)
        if row.call_id and key in once:
            continue
        once.add(key)
        kept.append(row)
    open_calls: set[str] = set()
    for row in await seen(*kept):
        if row.type is Type.TOOL_CALL:
            open_calls.add(row.call_id)
        elif row.type is Type.TOOL_RESULT:
            open_calls.remove(row.call_id)
        else:
            assert not open_calls
    assert not open_calls
    assert failure_text("x", "y") == '{"error":{"code":"y","message":"x"}}'
