"""Agents on a provider that misbehaves: what stands in the session, and whether it goes on afterwards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from openai_wire import Exchange, Provider, call, chat, delta, says

from enginehost.agents.contract import AgentSpec
from enginehost.engine import Function, FunctionSignature
from enginehost.llm.message import Status, Type

ADD = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
Answer = Callable[[Exchange], Awaitable[bool | None]]


def of(*chunks: Any, cut: bool = False, done: bool = True) -> Answer:
    """A stream of these chunks. ``cut``: the connection breaks off; not ``done``: it has no last event."""

    async def answer(exchange: Exchange) -> bool | None:
        if not cut and done:
            await chat(exchange, *chunks)
            return None
        await exchange.begin()
        for chunk in chunks:
            await exchange.event(chunk)
        if cut:
            return False
        await exchange.end()
        return None

    return answer


def refused(code: int, **headers: str) -> Answer:
    async def answer(exchange: Exchange) -> None:
        await exchange.status(code, {"error": {"message": "not now"}}, **headers)

    return answer


async def silent(exchange: Exchange) -> bool:
    await exchange.left()
    return False


def called(*numbers: int, id_: str = "call_0") -> list[Any]:
    """Calls that all have the same id, as some servers number them."""
    calls = [call(at, id_, "add", f'{{"n": {number}}}') for at, number in enumerate(numbers)]
    return [delta(tool_calls=[one]) for one in calls]


STRANGE = [{"object": "news"}, {"choices": [{"delta": {"mood": "fine"}, "index": 0}]}, {"x": [1]}]
FINE = of(*says("fine"))
HALF = delta(tool_calls=[call(0, "x", "add", '{"n": ')])

CASES: dict[str, tuple[list[Answer], str, list[int]]] = {
    "cuts a text": ([of(delta(content="It"), cut=True)], "execution_failed", []),
    "cuts after a whole call": ([of(*called(1), cut=True)] * 2, "execution_failed", []),
    "ends without its last event": ([of(delta(content="It"), done=False)], "execution_failed", []),
    "half a tool call": ([of(HALF, delta("tool_calls"))] * 2, "execution_failed", []),
    "half a tool call, then a limit": ([of(HALF, delta("length"))] * 2, "execution_failed", []),
    "reuses an id": (
        [of(*called(1, 2), delta("tool_calls")), of(*called(3), delta("tool_calls")), FINE],
        "",
        [1, 2, 3],
    ),
    "says stop for a call": ([of(*called(1), delta("stop")), FINE], "", [1]),
    "unknown events": ([of(*STRANGE, *called(1), *STRANGE, delta("tool_calls")), FINE], "", [1]),
    "429 once": ([refused(429, retry_after="0"), FINE], "", []),
    "429 again and again": ([refused(429, retry_after="0")] * 2, "overloaded", []),
    "500 between two steps": ([of(*called(1), delta("tool_calls")), refused(500), FINE], "", [1]),
    "500 again and again": ([refused(500)] * 2, "execution_failed", []),
    "hangs": ([silent] * 2, "timeout", []),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
async def test_a_turn_ends_as_it_should_and_the_session_goes_on(
    name: str, provider: Provider, hosting: Any
) -> None:
    answers, code, expected = CASES[name]
    ran: list[int] = []

    async def add(parameters: dict[str, Any], call: Any) -> int:
        ran.append(parameters["n"])
        return parameters["n"] + 1

    left = list(answers)

    async def answer(exchange: Exchange) -> bool | None:
        return await (left.pop(0) if left else FINE)(exchange)

    provider.answer = answer
    tool = Function(FunctionSignature("add", "adds one", ADD), add)
    async with hosting(RETRIES=1, READ_TIMEOUT=0.3, LIST_MODELS="false") as host:
        agents = await host.agents()
        agents.register(AgentSpec("helper", model="gpt", functions=(tool,)))
        session = await agents.start(agent="helper")
        run = await session.wait(await session.write("go"))
        assert run.state == ("failed" if code else "done"), run.error
        assert (run.error or {}).get("code", "") == code
        assert ran == expected
        assert not left
        again = await session.wait(await session.write("and now?"))
        assert (again.state, await session.reply(again)) == ("done", "fine")
        rows = await session.history()
    calls = [row.call_id for row in rows if row.type is Type.TOOL_CALL]
    results = [row.call_id for row in rows if row.type is Type.TOOL_RESULT]
    assert sorted(calls) == sorted(results)
    assert len(set(calls)) == len(expected)
    assert all(row.status is not Status.OPEN for row in rows)
    for body in provider.bodies:
        check_calls(body["messages"])
    said = str([one["content"] for one in provider.bodies[-1]["messages"] if one["role"] == "user"])
    assert (said.count("go"), said.count("and now?")) == (1, 1)


def check_calls(messages: list[Any]) -> None:
    """Each call has its result right after it, by an id that no other call of the same answer has."""
    calls = 0
    for at, message in enumerate(messages):
        ids = [one["id"] for one in message.get("tool_calls") or ()]
        calls += len(ids)
        after = [one.get("tool_call_id") for one in messages[at + 1 : at + 1 + len(ids)]]
        assert sorted(after, key=str) == sorted(set(ids))
    assert sum(one["role"] == "tool" for one in messages) == calls
