"""A network of three machines on which programs are killed while people ask: nothing is lost in silence."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.netns import world
from tests.netns.namespaces import Network, bridged
from tests.netns.world import Member, Query

pytestmark = [pytest.mark.netns, pytest.mark.timeout(240)]

QUERIES = int(os.environ.get("ENGINEHOST_NETWORK_QUERIES", "200"))
DEADLINE = 15.0
"""Seconds that a query may take."""
SLACK = 3.0
"""Seconds by which a busy machine may be late with telling so."""
STORM = 20.0
"""Seconds over which the queries come meanwhile."""
LEASE = 16.0
"""Seconds after which what another process held of a turn is free."""
PATIENCE = 60.0
CLEAR = {
    "outcome_unknown",
    "engine_unavailable",
    "unknown_function",
    "timeout",
    "overloaded",
    "execution_failed",
}
"""With what a query may end while programs are killed."""


@dataclass
class Face:
    """An interface that runs; ``told`` has how queries ended, by id."""

    process: Process
    told: dict[str, dict[str, Any]] = field(default_factory=dict)
    arrived: asyncio.Condition = field(default_factory=asyncio.Condition)

    def ask(self, query: Query) -> None:
        line = {"id": query.id, "agent": query.agent, "text": query.text, "timeout": DEADLINE}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(line).encode() + b"\n")

    async def listen(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            said = json.loads(line)
            async with self.arrived:
                self.told[said["id"]] = said
                self.arrived.notify_all()

    async def until(self, count: int) -> None:
        """Wait until so many queries have ended."""
        async with self.arrived, asyncio.timeout(count * DEADLINE):
            await self.arrived.wait_for(lambda: len(self.told) >= count)


@dataclass
class World:
    """The network, with what runs in it."""

    net: Network
    domain: int
    home: Path
    members: dict[str, Member]
    running: dict[str, Process] = field(default_factory=dict)
    faces: list[Face] = field(default_factory=list)

    async def start(self, name: str) -> None:
        member = self.members[name]
        self.running[name] = await self._started(member, member.host, name)

    async def kill(self, name: str) -> None:
        """End a program as a power cut does."""
        self.running[name].kill()
        await self.running[name].wait()

    async def busy(self, name: str) -> None:
        """Wait until a program has done something for which it has not answered yet."""
        books = [self.home / one / world.EFFECTS for one in self.members]
        watched = [self.home / name / world.EFFECTS] if self.members[name].services else books
        before = sum(map(_size, watched))
        async with asyncio.timeout(PATIENCE):
            while sum(map(_size, watched)) == before:
                await asyncio.sleep(0.01)

    async def open(self, name: str, host: int) -> asyncio.Task[None]:
        face = Face(await self._started(name, host, name))
        self.faces.append(face)
        return asyncio.create_task(face.listen())

    async def _started(self, what: Member | str, host: int, name: str) -> Process:
        home = self.home / name
        home.mkdir(exist_ok=True)
        words = world.command(what, self.domain, self.net.interface(host), home)
        with (home / "log.txt").open("ab") as log:
            process = await self.net.start(
                host, words, env=world.environment(home), stdin=PIPE, stdout=PIPE, stderr=log
            )
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = await process.stdout.readline()
        assert line == b'"ready"\n', (home / "log.txt").read_text()[-3000:]
        return process

    async def put(self, queries: Sequence[Query], over: float = 0.0) -> dict[str, dict[str, Any]]:
        """Ask the interfaces by turns, all within ``over`` seconds; how each query ended."""
        for face in self.faces:
            face.told.clear()
        shares = [queries[number :: len(self.faces)] for number in range(len(self.faces))]
        for number, query in enumerate(queries):
            self.faces[number % len(self.faces)].ask(query)
            await asyncio.sleep(over / len(queries))
        await asyncio.gather(
            *(face.until(len(share)) for face, share in zip(self.faces, shares, strict=True))
        )
        return {id: told for face in self.faces for id, told in face.told.items()}

    def effects(self) -> Counter[str]:
        """How often each request was executed."""
        return Counter(world.effects(self.home / name for name in self.members))

    async def well(self, name: str) -> None:
        """Wait until each agent answers, and each service through some agent."""
        agents = [
            Query(f"{name}a{number}", f"agent_{number}", f"hello {name}a{number}", 1)
            for number in range(world.AGENTS)
        ]
        services = [
            Query(f"{name}s{number}", f"agent_{agent}", f"write_{number} {name}s{number}x{agent}", 2)
            for number in range(world.SERVICES)
            for agent in (number % world.AGENTS, (number + 1) % world.AGENTS)
        ]
        async with asyncio.timeout(PATIENCE):
            while True:
                ended = await self.put([*agents, *services])
                bad = {id: told for id, told in ended.items() if not good(told)}
                if not bad:
                    return
                await asyncio.sleep(0.5)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def good(told: dict[str, Any]) -> bool:
    return not str(told.get("answer", "failed")).startswith("failed")


@pytest.fixture
async def alive(dds_domain: int, tmp_path: Path) -> AsyncGenerator[World]:
    pytest.importorskip("cyclonedds")
    async with bridged(hosts=world.HOSTS) as net, _world(net, dds_domain, tmp_path) as made:
        yield made


@asynccontextmanager
async def _world(net: Network, domain: int, home: Path) -> AsyncGenerator[World]:
    made = World(net, domain, home, {one.name: one for one in world.members()})
    for name in made.members:  # one at a time: each start is a second of a whole core
        await made.start(name)
    listening = [await made.open(f"desk{number}", number) for number in range(2)]
    try:
        yield made
    finally:
        for task in listening:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def test_every_query_is_answered_or_ends_in_time_with_a_clear_error_and_none_runs_twice(alive: World):
    await alive.well("first")
    calm = world.queries(QUERIES, "calm")
    ended = await alive.put(calm)
    for query in calm:
        said = ended[query.id].get("answer")
        assert said == (f"{query.id} written" if query.writes else f"hello {query.id}"), ended[query.id]
    assert _of(alive.effects(), calm) == Counter(query.id for query in calm if query.writes)

    storm = world.queries(QUERIES, "storm", seed=2)
    asking = asyncio.create_task(alive.put(storm, over=STORM))
    for name in ("provider", "specialist", "host1"):
        await alive.busy(name)
        await alive.kill(name)
        await asyncio.sleep(1.0)
        await alive.start(name)
    assert not asking.done(), "the storm was over before its last lightning"
    ended = await asking
    for query in storm:
        told = ended[query.id]
        assert told["seconds"] < DEADLINE + SLACK, told
        assert told.get("code", "execution_failed") in CLEAR, told
    await alive.well("again")
    await asyncio.sleep(LEASE)  # who starts again takes over what was left of turns: not what was done
    executed = _of(alive.effects(), storm)
    assert set(executed.values()) <= {1}, [id for id, count in executed.items() if count > 1]
    for query in storm:
        if good(ended[query.id]):
            assert executed[query.id] == (1 if query.writes else 0), ended[query.id]
    in_the_middle = [query.id for query in storm if executed[query.id] and not good(ended[query.id])]
    assert in_the_middle, "nothing was killed between its effect and its answer"
    found = Counter(map(verdict, ended.values()))
    slowest = max(told["seconds"] for told in ended.values())
    sys.stdout.write(f"{dict(found)}, the longest {slowest:.1f} s\n")
    assert found["answered"] >= QUERIES / 2, found


def verdict(told: dict[str, Any]) -> str:
    """``answered``, or the code of the error that the interface or an agent told."""
    if good(told):
        return "answered"
    code = re.search(r'"code\W+(\w+)', str(told.get("answer", "")))
    return told.get("code") or (f"agent told {code[1]}" if code else told["answer"])


def _of(executed: Counter[str], queries: Sequence[Query]) -> Counter[str]:
    ids = {query.id for query in queries}
    return Counter({id: count for id, count in executed.items() if id in ids})
