"""What a program gives to sessions: taken in every form that is written down, and else refused in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from enginehost.agents.contract import ToolSelection
from enginehost.errors import InvalidRequest, TooLarge
from enginehost.store.port import RunState


async def test_what_no_session_takes_is_refused_with_what_is_taken(world: Any, kit: Any) -> None:
    await world.start()
    session = await world.session()
    agents = world.agents
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: session.write(5), "write takes a text"),
        (lambda: session.write([5]), "a mapping with role and content"),
        (lambda: session.write({"rule": "user"}), "no member 'rule'"),
        (lambda: session.write(" "), "must not be empty or blank"),
        (lambda: session.fork(None), "whole number"),
        (lambda: session.fork("2"), "whole number"),
        (lambda: session.fork(True), "whole number"),
        (lambda: anext(session.events("x")), "no position"),
        (lambda: anext(session.events(5)), "must be a text"),
        (lambda: anext(session.events("99.0")), "behind the end"),
        (lambda: session.history(after="1"), "whole number"),
        (lambda: session.answer("x", 5), "text must be a text"),
        (lambda: session.edit("x", [1]), "must be a mapping"),
        (lambda: agents.start(tools=5), "tools must be"),
        (lambda: agents.start(tools="add"), "tools must be"),
        (lambda: agents.start(skills="x"), "list of names"),
        (lambda: agents.start(owner="ada"), "must be a Caller"),
        (lambda: agents.start(system=5), "system must be a text"),
        (lambda: agents.start(""), "1 to 200"),
    ]
    for call, said in calls:
        with pytest.raises(InvalidRequest, match=said):
            await call()


async def test_mappings_and_lists_are_written_as_models_are_sent_them(world: Any, kit: Any) -> None:
    await world.start()
    world.model.answers = lambda rows: kit.text("ok")
    session = await world.session(tools=["add"])
    assert session.spec.tools == ToolSelection(names=("add",))
    run = await session.write([{"role": "user", "content": "a"}, "b"])
    assert (await session.wait(run)).state is RunState.DONE
    assert [row.content for row in world.model.asked[0]][-2:] == ["a", "b"]


async def test_an_unknown_model_or_skill_is_told_at_the_start(world: Any, kit: Any) -> None:
    def llm(name: str) -> Any:
        raise InvalidRequest(f"no model engine is called {name!r}")

    await world.start()
    agents = await world.service(skills=lambda spec: {"cooking"})
    with pytest.raises(InvalidRequest, match="no skill named 'x'"):
        await agents.start(agent="helper", skills=["cooking", "x"], owner=kit.ANN)
    world.host.llm = llm
    with pytest.raises(InvalidRequest, match="no model engine"):
        await agents.start(agent="helper", llm="nope", owner=kit.ANN)


async def test_a_long_answer_is_whole_or_too_large_and_cut_in_a_page_with_a_mark(
    world: Any, kit: Any
) -> None:
    await world.start()
    part = "0123456789" * 12_000
    world.model.answers = lambda rows: kit.text(*[part] * 20)
    session, run = await world.said()
    assert await session.reply(run) == part * 20
    row = (await session.history(after=run.started_by))[-1]
    assert (len(row.content), (row.query or {})["cut"]) == (1_000_000, True)
    small = await world.service(most_reply=2_399_999)
    again = await small.start(session.id, owner=kit.ANN)
    with pytest.raises(TooLarge):
        await again.reply(run)
