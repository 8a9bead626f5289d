"""Sessions: long ones, many at once, and a turn beside LangGraph's and the OpenAI Agents SDK's.

Usage::

    python bench/sessions.py [long | large | many | rate | first | turns] …

A scripted provider (Chat Completions) runs on one core, what is measured on the other, each part in a
process of its own. All of it is durable: SQLite with ``synchronous`` full.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

from enginehost.caller import LOCAL
from enginehost.llm.message import Message, Role
from measuring import LOAD_CORE, Spread, finish, introduce, pin, table, verdict
from peers import interpreter
from session_server import FLOOD, PACED, RATE, running

ROWS = 1_000_000
SESSIONS = 2_000
RAMP = 10.0
"""Seconds over which they begin."""
HISTORIES = (10, 100, 1_000)
TURNS = 20
ROUNDS = 3
BOUND = 170
"""Seconds that a part may take."""
PEERS = {"langgraph": "LangGraph, SqliteSaver", "openai-agents": "OpenAI Agents SDK, SQLiteSession"}


# What runs in processes of its own: each gives its figures as JSON


async def fill_long(url: str, folder: Path) -> Any:
    """A long session, and the JSON of its messages as the provider gets it in a table of its own."""
    from session_world import fill, world

    async with world(folder, [f"{url}/short"]) as agents:
        await fill(agents, "long", ROWS)
    with sqlite3.connect(folder / "bare.db") as connection:
        connection.execute("CREATE TABLE bare (sequence INTEGER PRIMARY KEY, body BLOB)")
        roles = [f'{{"role":"{role}","content":"{"x" * 200}"}}'.encode() for role in ("user", "assistant")]
        rows = ((number, roles[number % 2]) for number in range(ROWS))
        connection.executemany("INSERT INTO bare VALUES (?, ?)", rows)


def bare_rate(file: Path) -> float:
    """Rows a second of sqlite3's cursor."""
    connection, size = sqlite3.connect(file), 0
    begin = perf_counter()
    for (body,) in connection.execute("SELECT body FROM bare ORDER BY sequence"):
        size += len(body)
    seconds = perf_counter() - begin
    connection.close()
    return ROWS / seconds


async def long(url: str, folder: Path) -> Any:
    """A turn in it: rows a second until the provider has all of them, beside the bare cursor."""
    from session_world import most_memory, said, world

    asked: list[float] = []

    async def watch(messages: AsyncIterator[Message], turn: Any) -> AsyncIterator[Message]:
        begin = perf_counter()
        async for message in messages:
            if len(asked) < turn.state.setdefault("begun", len(asked) + 1):
                asked.append(perf_counter() - begin)
            yield message

    async with world(folder, [f"{url}/short"], stages=(watch,)) as agents:
        await said(await agents.start(agent="short", owner=LOCAL))
        bare, ours = [], []
        session = await agents.start("long", agent="short", owner=LOCAL)
        with most_memory() as most:
            before = most()
            for _ in range(ROUNDS):
                bare.append(bare_rate(folder / "bare.db"))
                await said(session)
                ours.append(ROWS / asked[-1])
            return {"bare": bare, "ours": ours, "grown": most() - before}


async def large(url: str, folder: Path) -> Any:
    """Megabytes that a 200 MB answer, and a 200 MB result of a tool, add."""
    from enginehost.engine import Function, run_mode
    from enginehost.signature import FunctionSignature
    from session_server import LARGE
    from session_world import most_memory, resident, said, world

    piece = "0123456789abcdef" * 4096

    async def much(parameters: dict[str, Any], call: Any) -> AsyncIterator[str]:
        for _ in range(LARGE // len(piece)):
            yield piece

    mode = run_mode(much)
    signature = FunctionSignature("much", "Gives much.", {"type": "object"}, streaming=mode.streams)
    grown = {}
    names = ["short", "large", "tool"]
    functions = (Function(signature, much, mode),)
    async with world(folder, [f"{url}/{name}" for name in names], functions=functions) as agents:
        await said(await agents.start(agent="short", owner=LOCAL))
        for name in names[1:]:
            with most_memory() as most:
                before, session = resident(), await agents.start(agent=name, owner=LOCAL)
                await said(session)
                grown[name] = most() - before
            size = 0
            async for row in session.rows():
                size = max(size, len(row.content)) if row.whole else size + len(row.content)
    return grown


async def many(url: str, folder: Path) -> Any:
    """Sessions that get a few tokens a second each from the provider, each token in a write of its own."""
    from session_world import said, world

    async with world(folder, [f"{url}/short", f"{url}/paced"]) as agents:
        await said(await agents.start(agent="short", owner=LOCAL))
        return await _together(agents, "paced")


async def many_scripted(url: str, folder: Path) -> Any:
    """The same with a scripted model in this process: what sessions cost without a network."""
    from session_world import scripted

    async with scripted(folder, PACED, RATE) as agents:
        return await _together(agents, "scripted")


class _Readers:
    """What the readers of all sessions see."""

    def __init__(self) -> None:
        self.tokens = self.done = self.open = self.most = 0
        self.ramp = self.worst = self.since = self.memory = 0.0

    async def follow(self, session: Any) -> None:
        """Read one session to the end of its turn."""
        last = 0.0
        self.open += 1
        self.most = max(self.most, self.open)
        async for event in session.events():
            if event.run is not None and event.run.state.ended:
                self.done += event.run.state == "done"
                self.open -= 1
                return
            message = event.message
            if message is None or message.role is not Role.ASSISTANT or not message.content:
                continue
            now = perf_counter()
            if last and self.since and last > self.since:
                self.worst = max(self.worst, now - last)
            elif last:
                self.ramp = max(self.ramp, now - last)
            last = now
            self.tokens += message.content.count("token")

    async def watch(self) -> None:
        """Look at the memory, again and again."""
        from session_world import resident

        while True:
            self.memory = max(self.memory, resident())
            await asyncio.sleep(0.25)


async def _together(agents: Any, agent: str) -> Any:
    seen, begin, tasks = _Readers(), perf_counter(), list[asyncio.Task[None]]()
    watching = asyncio.create_task(seen.watch())
    for number in range(SESSIONS):
        session = await agents.start(agent=agent, owner=LOCAL)
        tasks.append(asyncio.create_task(seen.follow(session)))
        await session.write("go")
        await asyncio.sleep(max(0.0, begin + RAMP * number / SESSIONS - perf_counter()))
    ramp = perf_counter() - begin
    await asyncio.sleep(0.5)
    seen.since, used, before = perf_counter(), process_time(), seen.tokens
    await asyncio.wait(tasks, timeout=90)
    watching.cancel()
    cost = (process_time() - used) / max(1, seen.tokens - before) * 1e6
    return {"begun": ramp, "cost": cost} | vars(seen)


async def rate(url: str, folder: Path) -> Any:
    """Tokens a second from the provider's socket to the database, of 20 sessions at once."""
    from session_world import said, world

    async with world(folder, [f"{url}/short", f"{url}/flood"]) as agents:
        await said(await agents.start(agent="short", owner=LOCAL))
        found = []
        for _ in range(ROUNDS):
            sessions = [await agents.start(agent="flood", owner=LOCAL) for _ in range(20)]
            begin = perf_counter()
            await asyncio.gather(*(said(session) for session in sessions))
            found.append(len(sessions) * FLOOD / (perf_counter() - begin))
        return found


async def first(url: str, folder: Path) -> Any:
    """Milliseconds from a user's message to the first token at a reader: sessions of 0 and 1,000 rows."""
    from session_world import fill, world

    async with world(folder, [f"{url}/short"]) as agents:
        await fill(agents, "stored", 1_000)
        times: dict[str, list[float]] = {"empty": [], "stored": []}
        for _ in range(60):
            for name, found in times.items():
                session = await agents.start(agent="short", owner=LOCAL)
                if name == "stored":
                    session = await (await agents.start("stored", agent="short", owner=LOCAL)).fork(1_001)
                found.append(await _first_token(session))
        return {name: [one * 1e3 for one in found[10:]] for name, found in times.items()}


async def _first_token(session: Any) -> float:
    last = (await session.history(limit=1_000_000))[-1].sequence
    events = session.events(f"{last}.0")
    waiting = asyncio.ensure_future(_said(events))
    await asyncio.sleep(0.005)  # it tails
    begin = perf_counter()
    run = await session.write("go")
    found: float = await waiting - begin
    await events.aclose()
    await session.wait(run)
    return found


async def _said(events: Any) -> float:
    async for event in events:
        message = event.message
        if message is not None and message.role is Role.ASSISTANT and message.content:
            return perf_counter()
    raise AssertionError("no answer")


async def turns(url: str, folder: Path, history: str) -> Any:
    """Milliseconds a turn, and megabytes at the end."""
    from session_world import fill, resident, said, world

    seconds: list[float] = []
    async with world(folder, [f"{url}/short"]) as agents:
        session = await fill(agents, "one", int(history))
        for _ in range(3 + TURNS):
            begin = perf_counter()
            await said(session, "x" * 200)
            seconds.append(perf_counter() - begin)
        return [median(seconds[3:]) * 1e3, resident()]


WORK: dict[str, Callable[..., Awaitable[Any]]] = {
    one.__name__: one for one in (fill_long, long, large, many, many_scripted, rate, first, turns)
}


def measured(what: str, url: str, folder: str, *more: str) -> Any:
    """The figures of one part."""
    command = [sys.executable, __file__, "--", what, url, folder, *more]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=BOUND).stdout
    return json.loads(output.splitlines()[-1])


# Tables and verdicts


def show_long(url: str, folder: str) -> None:
    measured("fill_long", url, folder)
    found = measured("long", url, folder)
    bare, ours = Spread(found["bare"]), Spread(found["ours"])
    rows = [["sqlite3's cursor, the same JSON", *bare.cells(0)], ["a turn: rows sent", *ours.cells(0)]]
    table(f"A session of {ROWS} rows of 200 bytes, rows a second", HEAD, rows)
    verdict("rows sent, of the bare cursor's rate", ours.median / bare.median, least=0.7)
    verdict(f"megabytes that {ROWS} rows of context add", found["grown"], most=20)


def show_large(url: str, folder: str) -> None:
    grown = measured("large", url, folder)
    verdict("megabytes that an answer of 200 MB adds", grown["large"], most=30)
    verdict("megabytes that a tool's streamed result of 200 MB adds", grown["tool"], most=30)


def show_many(url: str, folder: str) -> None:
    for what, where in (
        ("many_scripted", "a scripted model in the process"),
        ("many", "a provider's socket"),
    ):
        with tempfile.TemporaryDirectory(dir=folder) as made:
            found = measured(what, url, made)
        print(f"\n{SESSIONS} sessions at {RATE:g} tokens a second from {where}, a reader each")
        print(f"begun in {found['begun']:.1f} s, at most {found['most']} at once")
        print(f"worst gap while they begin {found['ramp']:.2f} s, then {found['worst']:.2f} s")
        print(f"{found['cost']:.0f} µs of processor time a token")
        verdict(f"turns done of {SESSIONS}", found["done"], least=SESSIONS)
        verdict("sessions at once", found["most"], least=SESSIONS)
        verdict("tokens that came", found["tokens"], least=SESSIONS * PACED)
        verdict("worst gap between two tokens at a reader, s", found["worst"], most=0.5)
        verdict("megabytes in all", found["memory"], most=300)


def show_rate(url: str, folder: str) -> None:
    found = Spread(measured("rate", url, folder))
    table("Tokens a second through the whole pipeline", HEAD, [["20 sessions", *found.cells(0)]])
    verdict("tokens a second of a process", found.median, least=10_000)


def show_first(url: str, folder: str) -> None:
    found = {name: Spread(values) for name, values in measured("first", url, folder).items()}
    rows = [[name, *spread.cells(1)] for name, spread in found.items()]
    table(
        "From a user's message to the first token, ms (a session with 1,000 messages, an empty one)",
        HEAD,
        rows,
    )
    late = found["stored"].median - found["empty"].median
    verdict("ms by which 1,000 messages delay the first token", late, most=15)


def show_turns(url: str, folder: str) -> None:
    there = {peer: python for peer in PEERS if (python := interpreter(peer))}
    figures: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for _ in range(ROUNDS):
        for history in HISTORIES:
            for peer in ("", *there):
                with tempfile.TemporaryDirectory(dir=folder) as made:
                    if peer:
                        found = _peer(peer, there[peer], url, history, made)
                    else:
                        found = measured("turns", url, made, str(history))
                figures.setdefault((peer, history), []).append((found[0], found[1]))
    milliseconds = {key: Spread([one for one, _ in values]) for key, values in figures.items()}
    megabytes = {key: Spread([two for _, two in values]) for key, values in figures.items()}
    names = {"": "enginehost"} | {peer: PEERS[peer] for peer in there}
    for title, spreads in (("A turn, ms", milliseconds), ("Memory of the process, MB", megabytes)):
        rows = [
            [f"{name}, {history} messages", *spreads[peer, history].cells(1)]
            for history in HISTORIES
            for peer, name in names.items()
        ]
        table(title, HEAD, rows)
    for peer in there:
        for history in HISTORIES[1:]:
            for what, spreads in (("ms", milliseconds), ("MB", megabytes)):
                share = spreads["", history].median / spreads[peer, history].median
                verdict(f"a turn after {history} messages, {what} of {peer}'s", share, most=1.0)


def _peer(peer: str, python: str, url: str, history: int, folder: str) -> list[float]:
    program = Path(__file__).with_name(f"{peer.replace('-', '_')}_turns.py")
    command = [python, str(program), url, str(history), str(TURNS), folder]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=BOUND).stdout
    return [float(one) for one in output.split()[-2:]]


HEAD = ["", "median", "lowest", "highest"]
SHOWN = {
    "long": show_long,
    "large": show_large,
    "many": show_many,
    "rate": show_rate,
    "first": show_first,
    "turns": show_turns,
}


def main(*parts: str) -> None:
    """Measure and judge."""
    introduce("Sessions on a scripted provider; SQLite, synchronous full.")
    with running() as url:
        pin(LOAD_CORE)
        for part in parts or SHOWN:
            with tempfile.TemporaryDirectory() as folder:
                SHOWN[part](url, folder)
    finish()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--"]:
        from session_world import run

        what, url, folder, *more = sys.argv[2:]
        print(json.dumps(run(WORK[what](url, Path(folder), *more))))
    else:
        main(*sys.argv[1:])
