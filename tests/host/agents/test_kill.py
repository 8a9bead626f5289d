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
from contextlib import closing
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
Killed = Callable[[str, Path, int], int]


@pytest.fixture(scope="module")
def killed() -> Generator[Callable[[str, Path, int], int]]:
    """Runs the turn in a process that is gone at a point; its exit code (-9: killed)."""
    child = subprocess.Popen(
        [sys.executable, str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None
    assert child.stdout is not None

    def run(url: str, marks: Path, point: int) -> int:
        child.stdin.write(f"{url}\t{marks}\t{point}\n")  # pyright: ignore[reportOptionalMemberAccess]
        child.stdin.flush()  # pyright: ignore[reportOptionalMemberAccess]
        return int(child.stdout.readline())  # pyright: ignore[reportOptionalMemberAccess]

    yield run
    child.stdin.close()
    child.wait()
    child.stdout.close()


POINTS = st.lists(st.integers(1, MOST_POINTS), min_size=1, max_size=3)


class Place:
    """A database, and the file in which tools leave their marks."""

    def __init__(self, url: str, folder: str, changed: Callable[..., Any]) -> None:
        self.url, self.marks = url, Path(folder, "marks")
        self.marks.touch()
        self._changed = changed

    def lease_is_over(self) -> None:
        """As if the time of its lease had passed since the process died."""
        if self._has("processes"):
            self._changed("UPDATE processes SET until = 0", url=self.url)

    def rows(self) -> set[str]:
        """The ids of all rows."""
        return {one for (one,) in self._said("SELECT id FROM messages")} if self._has("messages") else set()

    def _has(self, table: str) -> bool:
        if self.url.startswith("sqlite"):
            return bool(self._said(f"SELECT 1 FROM sqlite_master WHERE name = '{table}'"))
        return bool(self._said(f"SELECT 1 FROM pg_tables WHERE tablename = '{table}'"))

    def _said(self, query: str) -> list[Any]:
        if self.url.startswith("sqlite"):
            with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=5)) as link:
                return link.execute(query).fetchall()
        import psycopg

        with psycopg.connect(self.url) as link:
            return link.execute(query).fetchall()  # type: ignore[arg-type]


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(points=POINTS)
def test_kill_at_any_point(killed: Killed, changed: Callable[..., None], points: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check(killed, Place(f"sqlite:///{folder}/sessions.db", folder, changed), points)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(points=POINTS)
def test_kill_at_any_point_on_postgres(
    killed: Killed,
    changed: Callable[..., None],
    postgres: str,
    emptied: Callable[[str], None],
    points: list[int],
) -> None:
    emptied(postgres)
    with tempfile.TemporaryDirectory() as folder:
        check(killed, Place(postgres, folder, changed), points)


def check(killed: Killed, place: Place, points: list[int]) -> None:
    before: set[str] = set()
    for point in points:
        status = killed(place.url, place.marks, point)
        assert status == -9 or status >= 100
        before = kept(place, before)
        place.lease_is_over()
    asyncio.run(bring_to_its_end(place))
    kept(place, before)


def kept(place: Place, before: set[str]) -> set[str]:
    """The ids of all rows; those that were there before are there still."""
    now = place.rows()
    assert before <= now
    return now


async def bring_to_its_end(place: Place) -> None:
    marks = place.marks
    async with process.Process(place.url, marks) as agents:
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
