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
from urllib.request import urlopen

from enginehost.caller import LOCAL
from enginehost.llm.message import Message, Role
from measuring import LOAD_CORE, Spread, finish, introduce, pin, table, verdict
from peers import interpreter
from session_server import FLOOD, PACED, RATE, SINGLE, running

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


BARE = "SELECT body FROM bare ORDER BY sequence"
OWN = "SELECT CAST(body AS BLOB) FROM messages WHERE session = 'long' ORDER BY sequence"


def cursor_rate(file: Path, sql: str) -> float:
    """Rows a second of sqlite3's cursor."""
    connection, size = sqlite3.connect(file), 0
    begin = perf_counter()
    for (body,) in connection.execute(sql):
        size += len(body)
    seconds = perf_counter() - begin
    connection.close()
    return ROWS / seconds


def took(url: str) -> dict[str, float]:
    """Bytes and seconds of the last body that the provider has read."""
    with urlopen(f"{url}/took/") as answer:
        return json.load(answer)


async def as_they_are(messages: AsyncIterator[Message], turn: Any) -> AsyncIterator[Message]:
    """A stage of a user's own, which sees each message."""
    async for message in messages:
        yield message


async def long(url: str, folder: Path) -> Any:
    """Turns in it: rows a second from the first byte to the last at the provider, beside bare cursors."""
    from session_world import most_memory, said, world

    found: dict[str, list[float]] = {"bare": [], "own": [], "ours": [], "staged": []}
    grown = {}
    for name, stages, rounds in (("ours", (), ROUNDS), ("staged", (as_they_are,), 1)):
        async with world(folder, [f"{url}/short"], context_stages=stages) as agents:
            await said(await agents.start(agent="short", owner=LOCAL))
            session = await agents.start("long", agent="short", owner=LOCAL)
            with most_memory() as most:
                before = most()
                for _ in range(rounds):
                    found["bare"].append(cursor_rate(folder / "bare.db", BARE))
                    found["own"].append(cursor_rate(folder / "sessions.db", OWN))
                    await said(session)
                    found[name].append(ROWS / took(url)["seconds"])
                grown[name] = most() - before
    return found | {"grown": grown}


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
    """Tokens a second from the provider's socket to the database, of 20 sessions at once, and µs of each.

    ``flood`` comes with 20 tokens in a write, at full speed; ``single`` at a pace, one in each.
    """
    from session_world import said, world

    found: dict[str, list[tuple[float, float]]] = {}
    async with world(folder, [f"{url}/short", f"{url}/flood", f"{url}/single"]) as agents:
        await said(await agents.start(agent="short", owner=LOCAL))
        for _ in range(ROUNDS):
            for agent, tokens in (("flood", FLOOD), ("single", SINGLE)):
                sessions = [await agents.start(agent=agent, owner=LOCAL) for _ in range(20)]
                begin, used = perf_counter(), process_time()
                await asyncio.gather(*(said(session) for session in sessions))
                count = len(sessions) * tokens
                cost = (process_time() - used) / count * 1e6
                found.setdefault(agent, []).append((count / (perf_counter() - begin), cost))
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

LONG = {
    "bare": "sqlite3's cursor, a table of the same JSON alone",
    "own": "sqlite3's cursor, the session's own rows",
    "ours": "a turn, at the provider",
    "staged": "a turn with a stage of one's own",
}


def show_long(url: str, folder: str) -> None:
    measured("fill_long", url, folder)
    found = measured("long", url, folder)
    spreads = {name: Spread(found[name]) for name in LONG}
    table(
        f"A session of {ROWS} rows of 200 bytes, rows a second",
        HEAD,
        [[text, *spreads[name].cells(0)] for name, text in LONG.items()],
    )
    for name in ("bare", "own"):
        share = spreads["ours"].median / spreads[name].median
        verdict(f"rows sent, of the rate of {LONG[name]}", share, least=0.7)
    for name, grown in found["grown"].items():
        verdict(f"megabytes that they add, {LONG[name]}", grown, most=20)


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
    found = measured("rate", url, folder)
    names = {"flood": "20 sessions, 20 tokens in a write", "single": "20 sessions, one, at a pace"}
    rates = {name: Spread([rate for rate, _ in found[kind]]) for kind, name in names.items()}
    costs = {name: Spread([cost for _, cost in found[kind]]) for kind, name in names.items()}
    for title, spreads in (("Tokens a second through the whole pipeline", rates), ("µs a token", costs)):
        table(title, HEAD, [[name, *spread.cells(0)] for name, spread in spreads.items()])
    verdict("tokens a second of a process", rates[names["flood"]].median, least=10_000)
    allowed = 1e6 / costs[names["single"]].median
    verdict("tokens a second that a core has time for, each in a read of its own", allowed, least=10_000)


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
