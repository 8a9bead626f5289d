"""Start, pause, resume: a turn from a user's message to the answer."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from enginehost.agents.contract import AgentSpec, ToolSelection, TurnLimits
from enginehost.engine import Function, FunctionSignature
from enginehost.errors import ExecutionFailed, InvalidRequest, Overloaded
from enginehost.llm.message import Role, Status, Type, Usage, user
from enginehost.store.port import RunState

pytestmark = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)


async def test_a_user_message_is_answered_and_the_answer_is_in_the_store(world: Any, kit: Any) -> None:
    await world.start(instructions="Be kind.")
    world.model.answers = [kit.text("Hel", "lo", usage=Usage(3, 2, model="m"))]
    session, run = await world.said("hi")
    assert run.state is RunState.DONE
    assert run.usage is not None
    assert (run.usage.input, run.usage.output) == (3, 2)
    assert await session.reply(run) == "Hello"
    assert [(row.role, row.content) for row in world.model.asked[0]] == [
        (Role.SYSTEM, "Be kind."),
        (Role.USER, "hi"),
    ]
    assert await kit.terminal_events(session, run) == [RunState.DONE]


async def test_it_resumes_when_every_call_has_its_result_not_at_the_first(world: Any, kit: Any) -> None:
    gate = asyncio.Event()

    async def slow(parameters: dict[str, Any], call: Any) -> int:
        await gate.wait()
        return parameters["n"]

    async def fast(parameters: dict[str, Any], call: Any) -> int:
        asyncio.get_running_loop().call_later(0.05, gate.set)
        return parameters["n"]

    await world.start(kit.function(slow), kit.function(fast))
    world.model.answers = [
        [*kit.text("I look."), kit.call("slow", n=1), kit.call("fast", n=2)],
        kit.text("both"),
    ]
    session, run = await world.said()
    assert run.state is RunState.DONE
    assert len(world.model.asked) == 2
    results = [row for row in world.model.asked[1] if row.type is Type.TOOL_RESULT]
    assert sorted(row.content for row in results) == ["1", "2"]
    await kit.check_nothing_dangles(session)


async def test_a_provider_that_reuses_call_ids_gets_a_result_for_each(world: Any, kit: Any) -> None:
    async def add(parameters: dict[str, Any], call: Any) -> int:
        return parameters["n"] + 1

    await world.start(kit.function(add))
    world.model.answers = [
        [kit.call("add", id="call_0", n=1), kit.call("add", id="call_0", n=2)],
        [kit.call("add", id="call_0", n=3)],
        kit.text("done"),
    ]
    session, run = await world.said()
    assert run.state is RunState.DONE
    results = await kit.rows_of(session, Type.TOOL_RESULT)
    assert sorted(row.content for row in results) == ["2", "3", "4"]
    assert len({row.call_id for row in results}) == 3


async def test_a_tools_failure_is_its_result_and_no_others(world: Any, kit: Any) -> None:
    async def broken(parameters: dict[str, Any], call: Any) -> int:
        raise ValueError("no luck")

    async def fine(parameters: dict[str, Any], call: Any) -> int:
        return 7

    await world.start(kit.function(broken), kit.function(fine))
    world.model.answers = [
        [
            kit.call("broken", n=1),
            kit.call("fine", n=1),
            kit.call("fine", n="x"),
            kit.call("nowhere"),
            kit.call("fnie", n=1),
        ],
        kit.text("sorry"),
    ]
    session, run = await world.said()
    assert run.state is RunState.DONE
    by_call = {row.call_id: row for row in await kit.rows_of(session, Type.TOOL_RESULT)}
    found = [by_call[row.call_id] for row in await kit.rows_of(session, Type.TOOL_CALL)]
    codes = [
        orjson.loads(row.content)["error"]["code"] if (row.query or {}).get("error") else row.content
        for row in found
    ]
    assert codes == ["execution_failed", "7", "invalid_arguments", "unknown_function", "unknown_function"]
    assert "no luck" in found[0].content
    assert "did you mean fine" in found[4].content


async def test_an_agent_has_no_more_rights_than_its_caller(world: Any, kit: Any) -> None:
    ran: list[str] = []

    async def secret(parameters: dict[str, Any], call: Any) -> int:
        ran.append(call.caller.subject)
        return 1

    async def open_one(parameters: dict[str, Any], call: Any) -> str:
        return f"{call.caller.subject} {call.caller.tenant}"

    rules = {
        "default": "deny",
        "rules": [
            {"allow": "call", "callers": "anyone", "functions": ["open_one"]},
            {"allow": "view", "callers": "anyone"},
        ],
    }
    await world.start(kit.function(secret), kit.function(open_one), policy=rules)
    world.model.answers = [[kit.call("secret", n=1), kit.call("open_one", n=1)], kit.text("ok")]
    session, run = await world.said()
    assert run.state is RunState.DONE
    assert not ran
    assert [tool.name for tool in world.model.options[0]["tools"]] == ["open_one"]
    results = await kit.rows_of(session, Type.TOOL_RESULT)
    assert {orjson.loads(row.content) if row.content[0] == '"' else "error" for row in results} == {
        "ann acme",
        "error",
    }


async def test_a_call_that_was_not_offered_is_refused_though_the_catalog_has_it(world: Any, kit: Any) -> None:
    async def one(parameters: dict[str, Any], call: Any) -> int:
        return 1

    await world.start(kit.function(one), kit.function(one, name="two"), tools=ToolSelection(names=("one",)))
    world.model.answers = [[kit.call("two", n=1)], kit.text("ok")]
    session, _ = await world.said()
    (result,) = await kit.rows_of(session, Type.TOOL_RESULT)
    assert "no tool named 'two' is offered here" in result.content


async def test_a_whole_answer_may_be_empty_and_reasoning_keeps_its_signature(world: Any, kit: Any) -> None:
    async def one(parameters: dict[str, Any], call: Any) -> int:
        return 1

    await world.start(kit.function(one))
    world.model.answers = [
        [*kit.text("hm", type=Type.REASONING, provider={"signature": "s1"}), kit.call("one", n=1)],
        [*kit.text(usage=Usage(1, 1))],
    ]
    session, run = await world.said()
    assert run.state is RunState.DONE
    thought = [row for row in world.model.asked[1] if row.type is Type.REASONING]
    assert [(row.content, row.provider) for row in thought] == [("hm", {"signature": "s1"})]
    assert [row.type for row in world.model.asked[1]] == [
        Type.TEXT,
        Type.REASONING,
        Type.TOOL_CALL,
        Type.TOOL_RESULT,
    ]
    assert await session.reply(run) == ""


async def test_a_stream_that_breaks_off_fails_the_turn_and_calls_nothing(world: Any, kit: Any) -> None:
    ran: list[int] = []

    async def one(parameters: dict[str, Any], call: Any) -> int:
        ran.append(1)
        return 1

    await world.start(kit.function(one))
    pieces = kit.text("half an ans")
    world.model.answers = [
        [pieces[0], kit.call("one", n=1), ExecutionFailed("the stream broke off")],
        kit.text("whole"),
    ]
    session, run = await world.said()
    assert run.state is RunState.FAILED
    assert run.error == {"code": "execution_failed", "message": "the stream broke off"}
    assert not ran
    assert await kit.rows_of(session, Type.TOOL_CALL) == []
    texts = [row for row in await kit.rows_of(session, Type.TEXT) if row.role is Role.ASSISTANT]
    assert [(row.content, row.status) for row in texts] == [("half an ans", Status.FAILED)]
    assert await kit.terminal_events(session, run) == [RunState.FAILED]
    again = await session.write("again")
    assert (await session.wait(again)).state is RunState.DONE
    assert [row.content for row in world.model.asked[1]] == ["go", "again"]


async def test_the_fallback_model_answers_where_the_first_says_nothing(world: Any, kit: Any) -> None:
    await world.start(model="first", fallback_model="second")
    first, second = type(world.model)(), type(world.model)()
    world.host.models_by_name = {"first": first, "second": second}
    first.answers, second.answers = [[Overloaded("full")]], [kit.text("here")]
    session, run = await world.said()
    assert await session.reply(run) == "here"


async def test_a_long_streamed_result_is_an_array_and_the_model_gets_its_beginning(
    world: Any, kit: Any
) -> None:
    async def many(parameters: dict[str, Any], call: Any) -> Any:
        for number in range(parameters["n"]):
            yield "x" * 1000 + str(number)

    await world.start(kit.function(many), limits=TurnLimits(result_chars=5000))
    world.model.answers = [[kit.call("many", n=300)], kit.text("ok")]
    session, _ = await world.said()
    (result,) = await kit.rows_of(session, Type.TOOL_RESULT)
    items = orjson.loads(result.content)
    assert (len(items), items[299]) == (300, "x" * 1000 + "299")
    seen = "".join(row.content for row in world.model.asked[1] if row.type is Type.TOOL_RESULT)
    assert seen.startswith(result.content[:5000])
    assert seen.endswith("characters are left out)")
    assert len(seen) < 5100


async def test_a_stream_that_fails_late_keeps_what_came(world: Any, kit: Any) -> None:
    async def some(parameters: dict[str, Any], call: Any) -> Any:
        yield 1
        yield 2
        raise ValueError("that was all")

    await world.start(kit.function(some))
    world.model.answers = [[kit.call("some", n=1)], kit.text("ok")]
    session, _ = await world.said()
    (result,) = await kit.rows_of(session, Type.TOOL_RESULT)
    one, two, failed = orjson.loads(result.content)
    assert (one, two, failed["error"]["code"]) == (1, 2, "execution_failed")
    assert (result.query or {})["error"] is True


async def test_tools_of_the_agents_own_are_checked_and_offered_but_are_in_no_catalog(
    world: Any, kit: Any
) -> None:
    def twice(parameters: dict[str, Any], call: Any) -> int:
        return 2 * parameters["n"]

    await world.start(functions=(kit.function(twice),))
    world.model.answers = [[kit.call("twice", n=4), kit.call("twice", n="x")], kit.text("ok")]
    session, _ = await world.said()
    assert sorted(row.content for row in await kit.rows_of(session, Type.TOOL_RESULT))[0] == "8"
    assert "twice" not in [entry.name for entry in world.host.functions()]


async def test_what_a_user_says_meanwhile_comes_after_the_results_and_is_answered(
    world: Any, kit: Any
) -> None:
    session: Any = None

    async def talk(parameters: dict[str, Any], call: Any) -> int:
        await session.write("and be quick")
        return 1

    await world.start(kit.function(talk))

    async def late() -> Any:
        await session.write("one more thing")
        for piece in kit.text("answer"):
            yield piece

    world.model.answers = [[kit.call("talk", n=1)], late(), kit.text("last")]
    session = await world.session()
    run = await session.wait(await session.write("go"))
    assert run.state is RunState.DONE
    assert [row.content for row in world.model.asked[1]][-2:] == ["1", "and be quick"]
    assert [row.content for row in world.model.asked[2]][-2:] == ["one more thing", "answer"]
    assert await session.reply(run) == "last"


async def test_limits_stop_a_turn_at_exactly_n(world: Any, kit: Any) -> None:
    ran: list[int] = []

    async def one(parameters: dict[str, Any], call: Any) -> int:
        ran.append(parameters["n"])
        return 1

    await world.start(kit.function(one), limits=TurnLimits(tool_calls=3))
    world.model.answers = lambda rows: [kit.call("one", n=1), kit.call("one", n=2)]
    session, run = await world.said()
    assert run.state is RunState.DONE
    assert len(ran) == 3
    assert run.error is not None
    assert "3 tool calls" in run.error["message"]
    await kit.check_nothing_dangles(session)


async def test_an_answer_in_the_last_step_is_the_answer(world: Any, kit: Any) -> None:
    async def one(parameters: dict[str, Any], call: Any) -> int:
        return 1

    await world.start(kit.function(one), limits=TurnLimits(steps=2))
    world.model.answers = [[kit.call("one", n=1)], kit.text("It is 1.")]
    session, run = await world.said()
    assert run.state is RunState.DONE
    assert run.error is None
    assert await session.reply(run) == "It is 1."


async def test_a_turn_that_takes_too_long_ends_with_a_notice(world: Any, kit: Any) -> None:
    async def hang(parameters: dict[str, Any], call: Any) -> int:
        await asyncio.Event().wait()
        return 1

    await world.start(kit.function(hang), limits=TurnLimits(seconds=0.2))
    world.model.answers = [[kit.call("hang", n=1)]]
    session, run = await world.said()
    assert run.state is RunState.DONE
    assert "0.2 seconds" in (run.error or {})["message"]
    await kit.check_nothing_dangles(session)


async def test_a_session_keeps_what_it_was_started_with_in_the_database(world: Any, kit: Any) -> None:
    async def one(parameters: dict[str, Any], call: Any) -> int:
        return 1

    await world.start(kit.function(one), kit.function(one, name="two", tags=("x",)))
    world.model.answers = [kit.text("a"), kit.text("b")]
    session = await world.session(system="Speak Latin.", tools=ToolSelection(tags=("x",)))
    await session.wait(await session.write("hi"))
    other = await (await world.service()).start(session.id, owner=kit.ANN)
    await other.wait(await other.write("again"))
    assert [[tool.name for tool in options["tools"]] for options in world.model.options] == [["two"], ["two"]]
    assert [row.content for row in world.model.asked[1]] == ["Speak Latin.", "hi", "a", "again"]


async def test_a_fork_sees_its_parent_and_goes_its_own_way(world: Any, kit: Any) -> None:
    await world.start()
    world.model.answers = [kit.text("one"), kit.text("two"), kit.text("three")]
    session, _ = await world.said("first")
    rows = await kit.rows_of(session, Type.TEXT)
    await session.wait(await session.write("second"))
    fork = await session.fork(rows[-1].sequence)
    await fork.wait(await fork.write("other"))
    assert [row.content for row in world.model.asked[2]] == ["first", "one", "other"]


async def test_a_lazy_result_is_run_when_the_context_is_loaded(world: Any, kit: Any) -> None:
    ran: list[int] = []

    async def look(parameters: dict[str, Any], call: Any) -> int:
        ran.append(parameters["n"])
        return len(ran)

    async def change(parameters: dict[str, Any], call: Any) -> int:
        return 1

    await world.start(kit.function(look, read_only=True), kit.function(change), lazy_tools=("look", "change"))
    world.model.answers = [[kit.call("look", n=5), kit.call("change", n=5)], kit.text("ok"), kit.text("ok")]
    session, _ = await world.said()
    await session.wait(await session.write("more"))
    assert ran == [5, 5]
    seen = [
        next(row.content for row in rows if row.type is Type.TOOL_RESULT) for rows in world.model.asked[1:]
    ]
    assert seen == ["1", "2"]
    results = await kit.rows_of(session, Type.TOOL_RESULT)
    assert (results[0].content, (results[0].query or {})["lazy"]) == ("", {"tool": "look", "args": {"n": 5}})
    assert "not read-only" in results[1].content


async def test_stages_see_each_step_and_leave_out_or_end(world: Any, kit: Any) -> None:
    async def quiet(messages: Any, turn: Any) -> Any:
        async for message in messages:
            if message.type is not Type.REASONING:
                yield message

    async def one_call(messages: Any, turn: Any) -> Any:
        async for message in messages:
            yield message
            if message.type is Type.TOOL_CALL:
                turn.stop("one call is enough")
                return

    async def shout(rows: Any, turn: Any) -> Any:
        async for row in rows:
            yield user(row.content.upper()) if row.role is Role.USER else row

    ran: list[int] = []

    async def one(parameters: dict[str, Any], call: Any) -> int:
        ran.append(1)
        return 1

    await world.start(kit.function(one), stages=(quiet, one_call), context_stages=(shout,))
    world.model.answers = [
        [*kit.text("hm", type=Type.REASONING), *kit.text("I"), kit.call("one", n=1), kit.call("one", n=2)]
    ]
    session, run = await world.said()
    assert run.state is RunState.DONE
    assert world.model.asked[0][-1].content == "GO"
    assert not ran
    assert await kit.rows_of(session, Type.REASONING) == []
    assert len(await kit.rows_of(session, Type.TOOL_CALL)) == 1
    await kit.check_nothing_dangles(session)
    assert world.model.closed == 1


async def test_a_stage_that_cuts_an_answer_short_ends_the_turn(world: Any, kit: Any) -> None:
    async def short(messages: Any, turn: Any) -> Any:
        async for message in messages:
            yield message
            return

    await world.start(stages=(short,))
    world.model.answers = [kit.text("one", " two", " three")]
    session, run = await world.said()
    assert run.state is RunState.DONE
    assert await session.reply(run) == "one"
    assert world.model.closed == 1


async def test_an_agent_that_nobody_knows_is_named(world: Any) -> None:
    await world.start()
    try:
        await world.session(agent="nobody")
    except InvalidRequest as error:
        assert "helper" in error.message  # noqa: PT017
    else:
        raise AssertionError


async def test_a_result_from_outside_settles_its_call_once(world: Any, kit: Any) -> None:
    await world.start(kit.never("never", destructive=True))
    world.model.answers = [[kit.call("never", n=1)], kit.text("ok")]
    session, run = await world.said()
    assert run.state is RunState.PAUSED
    (asked,) = await session.questions()
    row = kit.call("never")
    from enginehost.llm.message import Message

    result = Message(Role.TOOL, Type.TOOL_RESULT, "41", query={"tool": "never", "id": asked.query["call"]})
    await session.write(result)
    assert (await session.wait(run)).state is RunState.DONE
    assert world.model.asked[1][-1].content == "41"
    try:
        await session.write(result)
    except InvalidRequest as error:
        assert error.detail == {"reason": "settled"}  # noqa: PT017
    assert row.call_id


async def test_own_functions_do_not_need_the_catalog_to_be_agents(world: Any, kit: Any) -> None:
    async def ask(parameters: dict[str, Any], call: Any) -> str:
        return "fine"

    own = Function(FunctionSignature("how"), ask)
    await world.start(specs=(AgentSpec("other", functions=(own,)),))
    world.model.answers = [[kit.call("how")], kit.text("ok")]
    session, run = await world.said(agent="other")
    assert run.state is RunState.DONE
    (result,) = await kit.rows_of(session, Type.TOOL_RESULT)
    assert result.content == '"fine"'
