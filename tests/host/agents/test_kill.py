"""``kill -9`` at any point of a turn: another process on the same database brings it to its end.

No row is lost, no tool with side effects runs twice, no call dangles, every subscriber sees one end.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from enginehost.llm.message import Role, Status, Type
from enginehost.store.port import RunState

PROGRAM = Path(__file__).with_name("process.py")

MOST_POINTS = 120
"""More than a turn has: beyond its end nobody is killed."""


def _load() -> Any:
    spec = importlib.util.spec_from_file_location("agents_process", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


process = _load()


@pytest.fixture(scope="module")
def killed() -> Generator[Callable[[Path, Path, int], int]]:
    """Runs the turn in a process that is gone at a point; its exit code (-9: killed)."""
    child = subprocess.Popen(
        [sys.executable, str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None
    assert child.stdout is not None

    def run(database: Path, marks: Path, point: int) -> int:
        child.stdin.write(f"{database}\t{marks}\t{point}\n")  # pyright: ignore[reportOptionalMemberAccess]
        child.stdin.flush()  # pyright: ignore[reportOptionalMemberAccess]
        return int(child.stdout.readline())  # pyright: ignore[reportOptionalMemberAccess]

    yield run
    child.stdin.close()
    child.wait()
    child.stdout.close()


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(points=st.lists(st.integers(1, MOST_POINTS), min_size=1, max_size=3))
def test_kill_at_any_point(killed: Callable[[Path, Path, int], int], points: list[int]) -> None:
    check(killed, points)


def check(killed: Callable[[Path, Path, int], int], points: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        database, marks = Path(folder, "sessions.db"), Path(folder, "marks")
        marks.touch()
        before: set[str] = set()
        for point in points:
            status = killed(database, marks, point)
            assert status == -9 or status >= 100
            before = kept(database, before)
            lease_is_over(database)
        asyncio.run(bring_to_its_end(database, marks))
        kept(database, before)


def kept(database: Path, before: set[str]) -> set[str]:
    """The ids of all rows; those that were there before are there still."""
    if not database.exists():
        return set()
    with sqlite3.connect(database, timeout=5) as link:
        tables = {row[0] for row in link.execute("SELECT name FROM sqlite_master")}
        now = {row[0] for row in link.execute("SELECT id FROM messages")} if "messages" in tables else set()
    assert before <= now
    return now


def lease_is_over(database: Path) -> None:
    """As if the time of its lease had passed since the process died."""
    if database.exists():
        with sqlite3.connect(database, timeout=5) as link:
            tables = {row[0] for row in link.execute("SELECT name FROM sqlite_master")}
            if "processes" in tables:
                link.execute("UPDATE processes SET until = 0")


async def bring_to_its_end(database: Path, marks: Path) -> None:
    async with process.Process(database, marks) as agents:
        session = await agents.start(process.SESSION, agent="helper", owner=process.OWNER)
        run = await session.run() or await session.write("go")
        ends: list[list[RunState]] = [[], []]
        followers = [asyncio.create_task(follow(session, run.id, seen)) for seen in ends]
        while not (run := await session.wait(run)).state.ended:
            for asked in await session.questions():
                query = asked.query
                if (
                    str(query["args"]["n"]) in marks.read_text().split()
                ):  # a person looks whether it took effect
                    await session.answer(asked.call_id, "it is there")
                else:
                    await session.approve(asked.call_id)
            await asyncio.sleep(0.005)
        await asyncio.wait_for(asyncio.gather(*followers), 10)
        rows = await session.history(limit=1000)
    assert run.state is RunState.DONE, run.error
    assert sorted(marks.read_text().split()) == ["0", "1", "2"]
    calls = [row.call_id for row in rows if row.type is Type.TOOL_CALL]
    results = [row for row in rows if row.type is Type.TOOL_RESULT and row.status is not Status.FAILED]
    assert len(calls) == 6
    assert sorted(calls) == sorted(row.call_id for row in results)
    assert all(row.status is not Status.OPEN for row in rows)
    assert all(not (row.query or {}).get("error") for row in results)
    whole = [row for row in rows if row.role is Role.ASSISTANT and row.type is Type.TEXT]
    assert [row.content for row in whole if row.status is Status.DONE][-1] == "That is all. "
    assert ends == [[RunState.DONE]] * 2


async def follow(session: Any, run_id: str, seen: list[RunState]) -> None:
    """Two subscribers, each from the beginning."""
    numbers: list[Any] = []
    async for event in session.events():
        numbers.append((event.at.sequence, event.at.offset))
        if event.run is not None and event.run.id == run_id and event.run.state.ended:
            seen.append(event.run.state)
            break
    assert numbers == sorted(numbers)
