"""What may go wrong around a turn: tools, the disk, the database, clocks, and whoever else works on it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from enginehost.agents.contract import ALL_TOOLS, NO_TOOLS, AgentSpec
from enginehost.agents.service import AgentService
from enginehost.engine import Limits
from enginehost.llm.message import Message, Role, Status, Type
from enginehost.store.port import RunState
from enginehost.store.sql import SqlStore


async def until(condition: Any) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


def dies(world: Any) -> None:
    """The process of the first service is gone without a word, and its lease is over."""
    for task in (*world.agents._own, *world.agents._tasks.values()):
        task.cancel()
    world.agents._taking = False
    world.changed("UPDATE processes SET until = 0 WHERE holder = %s", world.agents.holder)


def once_hanging(kit: Any, started: list[int], **hints: bool) -> Any:
    async def hang(parameters: dict[str, Any], call: Any) -> int:
        started.append(parameters["n"])
        if len(started) == 1:
            await asyncio.Event().wait()
        return 1

    return kit.function(hang, **hints)


# Tools


async def test_a_tool_that_hangs_ends_at_its_deadline_and_holds_up_no_other(world: Any, kit: Any) -> None:
    async def hang(parameters: dict[str, Any], call: Any) -> int:
        await asyncio.Event().wait()
        return 1

    async def fine(parameters: dict[str, Any], call: Any) -> int:
        return 7

    bounded = Limits(timeout=0.2)
    own = replace(kit.function(hang, name="own_hang"), limits=bounded)
    await world.start(replace(kit.function(hang), limits=bounded), kit.function(fine), functions=(own,))
    calls = [kit.call("hang", n=1), kit.call("own_hang", n=1), kit.call("fine", n=1)]
    world.model.answers = [calls, kit.text("ok")]
    session, run = await world.said()
    assert run.state is RunState.DONE
    results = [row.content for row in world.model.asked[1] if row.type is Type.TOOL_RESULT]
    codes = [
        found["error"]["code"] if isinstance(found := orjson.loads(one), dict) else found for one in results
    ]
    assert sorted(map(str, codes)) == ["7", "timeout", "timeout"]
    await kit.check_nothing_dangles(session)


async def test_a_tool_that_returns_100_megabytes_at_once_stops_no_turn(world: Any, kit: Any) -> None:
    async def much(parameters: dict[str, Any], call: Any) -> str:
        return "x" * 100_000_000

    own = kit.function(much, name="own_much")
    await world.start(kit.function(much), functions=(own,))
    world.model.answers = [[kit.call("much", n=1)], [kit.call("own_much", n=1)], kit.text("ok")]
    session, run = await world.said()
    assert run.state is RunState.DONE
    seen: dict[str, str] = {}
    for row in world.model.asked[2]:
        if row.type is Type.TOOL_RESULT:
            seen[row.query["tool"]] = seen.get(row.query["tool"], "") + row.content
    of_catalog, cut = seen["much"], seen["own_much"]
    assert orjson.loads(of_catalog)["error"]["code"] == "too_large"  # no caller gets more than a limit
    assert len(cut) < 200_100  # the agent's own is stored whole, and shown by its beginning
    assert cut.endswith("characters are left out)")
    await kit.check_nothing_dangles(session)


# Agents that others ask


async def start_with_cleaner(world: Any, tool: Any) -> None:
    """A helper without tools of its own, and a cleaner that it may ask."""
    cleaner = AgentSpec("cleaner", "cleans", instructions="cleaner", tools=ALL_TOOLS)
    await world.start(tool, specs=(cleaner,), agents=("cleaner",), instructions="helper", tools=NO_TOOLS)


@pytest.mark.parametrize(
    "hints", [{"idempotent": True}, {"destructive": False}], ids=["safe", "with effects"]
)
async def test_after_a_death_the_other_agents_turn_goes_on_and_is_not_asked_twice(
    world: Any, kit: Any, hints: dict[str, bool]
) -> None:
    started: list[int] = []
    await start_with_cleaner(world, once_hanging(kit, started, **hints))

    def answers(rows: Any) -> Any:
        if rows[-1].type is Type.TOOL_RESULT:
            return kit.text("done" if rows[0].content == "helper" else "clean")
        helper = rows[0].content == "helper"
        return [kit.call("cleaner", message="clean") if helper else kit.call("hang", n=1)]

    world.model.answers = answers
    session = await world.session()
    run = await session.write("go")
    await until(lambda: started)
    dies(world)
    later = await world.service()
    session = await later.start(session.id, owner=kit.ANN)
    async with asyncio.timeout(30):
        while not (now := await session.run()).data.get("children"):
            await asyncio.sleep(0.02)
        (child_id,) = now.data["children"].values()
        child = await later.start(child_id, owner=kit.ANN)
        while not (now := await session.wait(run)).state.ended:
            for asked in await child.questions():
                assert asked.query["kind"] == "outcome"
                await child.answer(asked.call_id, "it was done")
            await asyncio.sleep(0.02)
    assert now.state is RunState.DONE
    assert started == ([1, 1] if "idempotent" in hints else [1])
    assert [row.content for row in await kit.rows_of(child, Type.TEXT)] == ["clean", "clean"]
    await kit.check_nothing_dangles(session)
    await kit.check_nothing_dangles(child)


async def test_cancelling_ends_another_agents_model_that_answers_now(world: Any, kit: Any) -> None:
    await start_with_cleaner(world, kit.never("wipe"))

    async def endless() -> Any:
        yield Message(Role.ASSISTANT, content="some", id="a", status=Status.OPEN)
        await asyncio.Event().wait()

    world.model.answers = lambda rows: (
        [kit.call("cleaner", message="clean")] if rows[0].content == "helper" else endless()
    )
    session = await world.session()
    run = await session.write("go")
    await until(lambda: len(world.model.asked) == 2)
    other = await (await world.service(opened=False)).start(session.id, owner=kit.ANN)
    await other.cancel()
    assert (await session.wait(run)).state is RunState.CANCELLED
    (child_id,) = (await session.run()).data["children"].values()
    child = await world.agents.start(child_id, owner=kit.ANN)
    assert (await child.wait(await child.run())).state is RunState.CANCELLED
    assert world.model.closed == 2
    for one in (session, child):
        await kit.check_nothing_dangles(one)


# Clocks


async def test_a_clock_that_jumps_ends_no_turn_and_gives_it_to_nobody(
    world: Any, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, ran = asyncio.Event(), list[int]()

    async def slow(parameters: dict[str, Any], call: Any) -> int:
        ran.append(parameters["n"])
        await go_on.wait()
        return 1

    await world.start(kit.function(slow))
    await world.service()  # it would take the turn over, if it could
    world.model.answers = [[kit.call("slow", n=1)], kit.text("one"), kit.text("two")]
    session = await world.session()
    run = await session.write("go")
    await until(lambda: ran)
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 86_400)
    await asyncio.sleep(0.2)  # the other one looks for turns some times
    monkeypatch.setattr(time, "time", lambda: now() - 86_400)
    await asyncio.sleep(0.1)
    go_on.set()
    done = await session.wait(run)
    assert (done.state, done.epoch, ran) == (RunState.DONE, 1, [1])
    assert (await session.wait(await session.write("again"))).state is RunState.DONE
    assert [row.content for row in world.model.asked[2] if row.type is Type.TEXT] == ["go", "one", "again"]
    await kit.check_nothing_dangles(session)


# The disk, and the database

FULL = """
import asyncio, importlib.util, json, resource, sys
from pathlib import Path

spec = importlib.util.spec_from_file_location("process", sys.argv[1])
process = importlib.util.module_from_spec(spec)
spec.loader.exec_module(process)
database, marks = Path(sys.argv[2], "sessions.db"), Path(sys.argv[2], "marks")
marks.touch()


def room(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


async def main():
    async with process.Process(f"sqlite:///{database}", marks) as agents:
        session = await agents.start("s", agent="helper", owner=process.OWNER)
        await session.append([process.Message(process.Role.USER, content="x" * 200_000)])
        troubles = []
        begin_again = agents._give_back

        async def told(runner):
            troubles.append(runner.run.id)
            await begin_again(runner)

        agents._give_back = told
        run = await session.write("go")
        while not marks.read_text():
            await asyncio.sleep(0.001)
        room(100_000)  # no page beyond what is there, in the log or the database
        for _ in range(300):
            if troubles:
                break
            await asyncio.sleep(0.01)
        room(resource.RLIM_INFINITY)
        while not (run := await session.wait(run)).state.ended:
            for asked in await session.questions():
                if str(asked.query["args"]["n"]) in marks.read_text().split():
                    await session.answer(asked.call_id, "it is there")
                else:
                    await session.approve(asked.call_id)
            await asyncio.sleep(0.01)
        rows = await session.history(limit=1000)
        calls = [row.call_id for row in rows if row.type == "tool_call"]
        results = [row.call_id for row in rows if row.type == "tool_result" and row.status != "failed"]
        print(json.dumps({
            "troubles": len(troubles),
            "state": run.state,
            "marks": sorted(marks.read_text().split()),
            "settled": sorted(calls) == sorted(results),
            "open": [row.id for row in rows if row.status == "open"],
        }))


asyncio.run(main())
"""


def test_a_full_disk_in_the_middle_of_a_turn_delays_it_until_there_is_room(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL, str(Path(__file__).with_name("process.py")), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told.pop("troubles") > 0
    assert told == {"state": "done", "marks": ["0", "1", "2"], "settled": True, "open": []}


async def test_a_database_that_restarts_in_the_middle_of_a_turn_delays_it(
    world: Any, kit: Any, start_postgres: Callable[[Path], Any]
) -> None:
    with tempfile.TemporaryDirectory(prefix="pg") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = start_postgres(Path(folder) / "data")
        try:
            await _through_a_restart(world, kit, server)
        finally:
            await world.stack.aclose()
            server.cleanup()


async def _through_a_restart(world: Any, kit: Any, server: Any) -> None:
    ran: list[int] = []

    async def mark(parameters: dict[str, Any], call: Any) -> int:
        ran.append(parameters["n"])
        await asyncio.sleep(0.01)
        return parameters["n"]

    async def durable() -> AgentService:
        store = SqlStore(server.get_uri(), synchronous="full")
        await store.open()
        world.stack.push_async_callback(store.close)
        agents = AgentService(world.host, store, world.specs, poll=0.05)
        await agents.open()
        world.stack.push_async_callback(agents.close, 0.0)
        return agents

    world.service = durable
    await world.start(kit.function(mark))
    steps = 40

    def answers(rows: Any) -> Any:
        done = sum(row.type is Type.TOOL_RESULT for row in rows)
        return [kit.call("mark", n=done)] if done < steps else kit.text("that is all")

    world.model.answers = answers
    session = await world.session()
    run = await session.write("go")
    await until(lambda: len(ran) > 3)
    command = [server.bin_path / "pg_ctl", "-w", "-m", "immediate", "-D", server.pgdata, "restart"]
    await asyncio.to_thread(_as_owner, command, server.system_user)
    assert len(ran) < steps
    async with asyncio.timeout(60):
        while True:
            try:
                if (now := await session.wait(run)).state.ended:
                    break
                for asked in await session.questions():  # a result that could not be stored
                    await session.answer(asked.call_id, "it is there")
            except Exception as error:  # noqa: BLE001 - a reader may meet the restart
                assert getattr(error, "code", "") == "engine_unavailable", error  # noqa: PT017
            await asyncio.sleep(0.02)
    assert (now.state, await session.reply(now)) == (RunState.DONE, "that is all")
    assert ran == list(range(steps))
    await kit.check_nothing_dangles(session)
    assert await kit.terminal_events(session, run) == [RunState.DONE]


def _as_owner(command: list[Any], name: str | None) -> None:
    subprocess.run(
        command,
        user=name,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        timeout=60,
    )


async def test_turns_that_fail_leave_nothing_behind(world: Any, kit: Any) -> None:
    async def bad(messages: Any, turn: Any) -> Any:
        async for message in messages:
            yield message
            raise RuntimeError("a stage of somebody's")

    await world.start(stages=(bad,))
    world.model.answers = lambda rows: kit.text("one", " two")
    _, run = await world.said()
    assert run.state is RunState.FAILED
    before = len(asyncio.all_tasks())
    runs = await asyncio.gather(*(world.said() for _ in range(40)))
    assert {run.state for _, run in runs} == {RunState.FAILED}
    assert world.model.closed == 41
    await until(lambda: len(asyncio.all_tasks()) <= before)
    assert (world.agents._runners, world.agents._tasks) == ({}, {})
