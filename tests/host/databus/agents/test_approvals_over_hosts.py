"""An agent of another host waits for a person: the person who watches the session that asked decides."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from enginehost import Caller
from enginehost.errors import EngineUnavailable, InvalidArguments, InvalidRequest
from enginehost.host import Host
from enginehost.llm.message import Type
from enginehost.serve.network import picture
from enginehost.steps import Step, StepKind
from enginehost.store.port import RunState
from enginehost.trace_context import TRACE, TraceContext

from .conftest import PRIMARY, StartHost, agent, sees, until

pytest.importorskip("cyclonedds")

ANN = Caller("ann", face="http")
ANYBODY = Caller("anonymous", authenticated=False, face="databus")
GARDENER = """
answers:
  - when: {result: '*'}
    say: "Came out as $result"
  - reply: [{call: {tool: mow, args: {what: lawn}}}, {call: {tool: mow, args: {what: moss}}}]
"""
ONE = GARDENER.replace(", {call: {tool: mow, args: {what: moss}}}", "")
MOW = """
ENGINE_CLASS = LocalPython
PYTHON_SCRIPT_PATH = mow.py
FUNCTION_NAME = mow
FUNCTION_DESCRIPTION = Mows.
FUNCTION_ANNOTATIONS = {"destructive": true}
"""


async def hosts(start: StartHost, tmp_path: Path, script: str = ONE, *more: str) -> tuple[Host, Host]:
    """The one whose agent has to ask before it mows, and the one whose agent asks it."""
    folder = tmp_path / "far" / "smss"
    folder.mkdir(parents=True)
    marks = tmp_path / "mown"
    (folder / "mow.py").write_text(
        f"def mow(what: str) -> str:\n    with open({str(marks)!r}, 'a') as f:\n"
        "        f.write(what + '\\n')\n    return what\n"
    )
    gardener = agent("gardener", "SPECIALIZATIONS = weather", "TOOLS = mow", *more)
    there = await start("far", script, gardener=gardener, mow=MOW)
    here = await start("near", PRIMARY, primary=agent("primary", "TOOLS = *"))
    await sees(here, "gardener")
    return there, here


async def asked(here: Host) -> tuple[Any, Any]:
    session = await (await here.agents()).start(agent="primary", owner=ANN)
    run = await session.write("how is the weather")
    assert run is not None
    async with asyncio.timeout(30):
        assert (await session.wait(run)).state is RunState.PAUSED
    return session, run


async def answer(session: Any, run: Any) -> str:
    async with asyncio.timeout(30):
        assert (await session.wait(run)).state is RunState.DONE
    return await session.reply(run)


def mown(tmp_path: Path) -> list[str]:
    file = tmp_path / "mown"
    return file.read_text().split() if file.exists() else []


@pytest.mark.parametrize("streams", ["", "STREAM = true"])
async def test_the_call_runs_once_when_the_person_says_so(
    start: StartHost, tmp_path: Path, streams: str
) -> None:
    _, here = await hosts(start, tmp_path, ONE, streams)
    session, run = await asked(here)
    [question] = await session.questions()
    assert question.content.startswith("get_weather_info asks: ")
    assert (question.query["tool"], question.query["args"]) == ("mow", {"what": "lawn"})
    assert mown(tmp_path) == []
    await session.approve(question.query["id"])
    assert "Came out as" in await answer(session, run)
    assert mown(tmp_path) == ["lawn"]
    results = [row for row in await session.history() if row.type is Type.TOOL_RESULT]
    assert len(results) == 1


async def test_a_decision_is_a_step_of_both_chains_which_name_each_other(
    start: StartHost, tmp_path: Path
) -> None:
    _, here = await hosts(start, tmp_path)
    session, run = await asked(here)
    steps: list[Step] = []
    here.steps.watch(lambda _: None, steps.append)
    [question] = await session.questions()
    token = TRACE.set(TraceContext(7, 8))
    try:
        await session.approve(question.query["id"])
    finally:
        TRACE.reset(token)
    await answer(session, run)
    one, other = [step for step in steps if step.kind is StepKind.CHOICE and step.name == "approve"]
    assert (one.trace, other.about["chain"]) == (7, f"{7:032x}")
    assert one.about["chain"] == f"{other.trace:032x}" == str(run.data["trace"]["id"])
    here.write_down()
    network = picture(here, ANN)
    [decision] = network["decisions"]
    assert (decision["chain"], decision["of"]) == (f"{7:032x}", f"{other.trace:032x}")
    edges = {(one["from"], one["to"]): (one["errors"], one["waits"]) for one in network["edges"]}
    assert edges["agent:primary", "agent:far.gardener"] == (0, 1), "by whatever name it was asked"


@pytest.mark.parametrize(
    ("decide", "then", "said"),
    [
        (lambda s, q: s.reject(q, "not now"), [], "not now"),
        (lambda s, q: s.edit(q, {"what": "path"}), ["path"], "path"),
        (lambda s, q: s.answer(q, "it is short"), [], "it is short"),
    ],
    ids=["reject", "edit", "answer"],
)
async def test_other_decisions_are_carried_over_too(
    start: StartHost, tmp_path: Path, decide: Any, then: list[str], said: str
) -> None:
    _, here = await hosts(start, tmp_path)
    session, run = await asked(here)
    [question] = await session.questions()
    await decide(session, question.query["id"])
    assert said in await answer(session, run)
    assert mown(tmp_path) == then


async def test_each_of_several_questions_is_decided(start: StartHost, tmp_path: Path) -> None:
    _, here = await hosts(start, tmp_path, GARDENER)
    session, run = await asked(here)
    for _ in range(2):
        await until_asked(session)
        question = (await session.questions())[0]
        await session.approve(question.query["id"])
        async with asyncio.timeout(30):
            await session.wait(run)
    assert "Came out as" in await answer(session, run)
    assert sorted(mown(tmp_path)) == ["lawn", "moss"]


async def until_asked(session: Any) -> None:
    async with asyncio.timeout(30):
        while not await session.questions():
            await asyncio.sleep(0.02)


async def test_what_was_decided_at_the_other_host_counts(start: StartHost, tmp_path: Path) -> None:
    there, here = await hosts(start, tmp_path)
    session, run = await asked(here)
    agents = await there.agents()
    [info] = await agents.sessions(ANYBODY)
    remote = await agents.start(info.id, owner=ANYBODY)
    [question] = await remote.questions()
    assert question.query is not None
    await remote.reject(question.query["id"], "never")
    await until_asked(session)
    with pytest.raises(InvalidRequest) as refused:
        await session.approve((await session.questions())[0].query["id"])
    assert refused.value.detail["reason"] == "settled"
    assert "never" in await answer(session, run)
    assert mown(tmp_path) == []


async def test_an_edit_that_does_not_fit_leaves_the_question(start: StartHost, tmp_path: Path) -> None:
    _, here = await hosts(start, tmp_path)
    session, run = await asked(here)
    [question] = await session.questions()
    with pytest.raises(InvalidArguments):
        await session.edit(question.query["id"], {"what": 7})
    assert [row.sequence for row in await session.questions()] == [question.sequence]
    await session.edit(question.query["id"], {"what": "path"})
    assert "path" in await answer(session, run)
    assert mown(tmp_path) == ["path"]


async def test_a_decision_that_cannot_be_told_leaves_the_question(start: StartHost, tmp_path: Path) -> None:
    there, here = await hosts(start, tmp_path)
    session, run = await asked(here)
    [question] = await session.questions()
    await there.stop()
    assert here.bus is not None
    bus = here.bus
    await until(lambda: not any("gardener" in str(one) for one in bus.agents()))
    with pytest.raises(EngineUnavailable):
        await session.approve(question.query["id"])
    assert [row.sequence for row in await session.questions()] == [question.sequence]
    await start("far", ONE, gardener=agent("gardener", "SPECIALIZATIONS = weather", "TOOLS = mow"), mow=MOW)
    await sees(here, "gardener")
    await session.approve(question.query["id"])
    assert "Came out as" in await answer(session, run)
    assert mown(tmp_path) == ["lawn"]


async def test_of_two_decisions_at_once_one_is_refused(start: StartHost, tmp_path: Path) -> None:
    _, here = await hosts(start, tmp_path)
    session, run = await asked(here)
    [question] = await session.questions()
    one = question.query["id"]
    told = await asyncio.gather(
        session.approve(one), session.edit(one, {"what": "path"}), return_exceptions=True
    )
    [refused] = [error for error in told if error is not None]
    assert isinstance(refused, InvalidRequest)
    assert refused.detail["reason"] == "settled"
    await answer(session, run)
    assert mown(tmp_path) == (["lawn"] if told[0] is None else ["path"])


async def test_a_turn_that_is_cancelled_leaves_nothing_waiting(start: StartHost, tmp_path: Path) -> None:
    there, here = await hosts(start, tmp_path)
    session, _ = await asked(here)
    await session.cancel()
    agents = await there.agents()
    [info] = await agents.sessions(ANYBODY)
    remote = await agents.start(info.id, owner=ANYBODY)
    assert not await remote.busy()
    assert (await session.run()).state is RunState.CANCELLED
    assert mown(tmp_path) == []
