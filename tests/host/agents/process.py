"""A process that carries turns on until it kills itself at a given point: see ``test_kill.py``.

It stays as it was after its imports, and forks for each line of its input, ``URL MARKS POINT``: a child
opens the database, writes a user's message (or takes a turn over) and is gone, by SIGKILL, at the point with
that number, counted over everything that it does to the database, its tools and its model. The fate of each
child is one line of output.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from enginehost.agents.contract import ALL_TOOLS, AgentSpec
from enginehost.agents.service import AgentService
from enginehost.caller import Caller
from enginehost.catalog import EngineRecord
from enginehost.engine import (
    AbstractFunctionEngine,
    Annotations,
    EngineContext,
    Function,
    FunctionSignature,
    RunMode,
)
from enginehost.host import Host
from enginehost.llm.message import Message, Role, Status, Type, Usage
from enginehost.settings import HostSettings
from enginehost.store.port import RunState
from enginehost.store.sql import SqlStore

OWNER = Caller("ann", tenant="acme")
SESSION = "the-session"
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
STEPS = 3
PATIENCE = 30.0
"""Seconds after which a child that hangs says where, and ends."""


class Points:
    """Counts what the process does; at ``last`` it is gone."""

    def __init__(self, last: int) -> None:
        self.count = 0
        self._last = last

    def pass_by(self) -> None:
        self.count += 1
        if self.count == self._last:
            os.kill(os.getpid(), signal.SIGKILL)


class Tools(AbstractFunctionEngine):
    """``mark`` leaves a line in a file, which must never be there twice; ``look`` changes nothing."""

    def __init__(self, marks: Path, points: Points) -> None:
        super().__init__(EngineContext("tools"))
        self._marks, self._points = marks, points

    async def mark(self, parameters: dict[str, Any], call: Any) -> str:
        self._points.pass_by()
        with self._marks.open("a") as file:
            file.write(f"{parameters['n']}\n")
        self._points.pass_by()
        await asyncio.sleep(0)
        self._points.pass_by()
        return "x" * 10

    async def look(self, parameters: dict[str, Any], call: Any) -> Any:
        for number in range(4):
            self._points.pass_by()
            yield "y" * 30_000 + str(number)

    def functions(self) -> tuple[Function, ...]:
        looking = Annotations(read_only=True)
        return (
            Function(FunctionSignature("mark", "", NUMBER), self.mark),
            Function(
                FunctionSignature("look", "", NUMBER, annotations=looking, streaming=True),
                self.look,
                RunMode.ASYNC_STREAM,
            ),
        )


class Model:
    """Asks for two tools in each of three steps, then answers; what it says depends on the context alone."""

    def __init__(self, points: Points) -> None:
        self._points = points

    def send(self, rows: Any, *, stream: bool, **options: Any) -> AsyncGenerator[Message, None]:
        return self._stream(rows)

    async def _stream(self, rows: Any) -> AsyncGenerator[Message, None]:
        results: dict[str, str] = {}
        calls: dict[str, Any] = {}
        async for row in rows():
            if row.type is Type.TOOL_CALL:
                calls[row.call_id] = row.query
            elif row.type is Type.TOOL_RESULT:
                assert row.call_id in calls
                results[row.call_id] = results.get(row.call_id, "") + row.content
        assert results.keys() == calls.keys()
        step = len({query["args"]["n"] for query in calls.values()})
        words = "Let me see." if step < STEPS else "That is all."
        for number, word in enumerate(words.split()):
            self._points.pass_by()
            yield Message(Role.ASSISTANT, content=f"{word} ", id=f"t{step}{number * 0}", status=Status.OPEN)
        yield Message(Role.ASSISTANT, id=f"t{step}0", usage=Usage(1, 1))
        for tool in ("mark", "look") if step < STEPS else ():
            yield Message(
                Role.ASSISTANT, Type.TOOL_CALL, query={"tool": tool, "id": "call_0", "args": {"n": step}}
            )


class Watched(SqlStore):
    """A database of which each change is a point before and one after it."""

    points: Points

    async def _at(self, work: Any) -> Any:
        self.points.pass_by()
        done = await work
        self.points.pass_by()
        return done

    async def append(self, *given: Any, **more: Any) -> Any:
        return await self._at(super().append(*given, **more))

    async def begin(self, *given: Any, **more: Any) -> Any:
        writing = await self._at(super().begin(*given, **more))
        finish = writing.finish

        async def finished(*given: Any, **more: Any) -> Any:
            return await self._at(finish(*given, **more))

        writing.finish = finished
        return writing

    async def start_run(self, *given: Any, **more: Any) -> Any:
        return await self._at(super().start_run(*given, **more))

    async def claim(self, *given: Any, **more: Any) -> Any:
        taken = await super().claim(*given, **more)
        if taken is not None:
            self.points.pass_by()
        return taken

    async def change_run(self, *given: Any, **more: Any) -> Any:
        return await self._at(super().change_run(*given, **more))

    async def close_open(self, *given: Any, **more: Any) -> Any:
        return await self._at(super().close_open(*given, **more))


class TestHost(Host):
    """A host with the model above."""

    __test__ = False
    model: Model

    def llm(self, name: str = "") -> Any:
        return self.model


class Process:
    """One process on the database: a host, its tools, its model, and the service."""

    def __init__(self, url: str, marks: Path, last_point: int = 0) -> None:
        self.points = Points(last_point)
        self.store = Watched(url, synchronous="normal")
        self.store.points = self.points
        self.host = TestHost(None, None, settings=HostSettings(state_dir=marks.parent))
        self.host.model = Model(self.points)
        self._marks = marks

    async def __aenter__(self) -> AgentService:
        await self.host.start()
        await self.host.add_engine(EngineRecord("tools", "Test"), Tools(self._marks, self.points))
        await self.store.open()
        spec = AgentSpec("helper", tools=ALL_TOOLS)
        self.agents = AgentService(self.host, self.store, (spec,), poll=0.02)
        await self.agents.open()
        return self.agents

    async def __aexit__(self, *_: object) -> None:
        await self.agents.close(0.0)
        await self.store.close()
        await self.host.stop(0.0)


async def carry_on(url: str, marks: Path, last_point: int) -> int:
    """Write, or go on with, the session's one turn until it ends or waits; how many points there were."""
    process = Process(url, marks, last_point)
    async with process as agents:
        session = await agents.start(SESSION, agent="helper", owner=OWNER)
        run = await session.run() or await session.write("go")
        assert run is not None
        while not ((now := await session.wait(run)).state.ended or await session.questions()):
            await asyncio.sleep(0.01)
        assert now.state in (RunState.DONE, RunState.PAUSED)
    return process.points.count


def main() -> None:
    for line in sys.stdin:
        url, marks, last_point = line.split("\t")
        child = os.fork()
        if child == 0:
            status = 1
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
            try:
                status = 100 + asyncio.run(carry_on(url, Path(marks), int(last_point)))
            finally:
                os._exit(min(status, 255))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
