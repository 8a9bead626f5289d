"""The network of agents of ``tests/netns/world.py`` on loopback, against what Genesis claims of itself.

Five programs with 20 services (80 functions) and 10 agents on scripted models. Beside it, in the same run, a
bare round trip of Cyclone DDS that carries what a small call carries.

    python bench/network.py [RUNS=5] [QUERIES=30]
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import ExitStack, aclosing, contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

from cyclonedds.core import InstanceState, ReadCondition, SampleState, ViewState
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

from bus_bare import CALLS, Bare, ChainEvent, Provider, Requester
from bus_sides import Side, be_side, config, domains, host_on, obey, offer, offered, seen_by, until
from enginehost import Interface
from enginehost.agents.python_agent import Agent
from enginehost.catalog import EngineRecord
from enginehost.databus import AgentChange, Client
from enginehost.engine import Function
from enginehost.signature import FunctionSignature
from measuring import LOAD_CORE, RUNS, SERVER_CORE, Spread, finish, introduce, pin, table, verdict

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.netns import world

LOOPBACK = "127.0.0.1"
WARM = 3
QUESTIONS = {
    "interface → agent": ("hello {}", "hello {}"),
    "interface → agent → function": ("write_1 {}", "{} written"),
    "interface → agent → agent → function": ("ask 1: write_2 {}", "{} written"),
}
"""Each contains the one before it."""
BARE = {"add": {"parameters": 13, "asked": 300, "result": 1, "told": 120}}
EVENT_SECONDS = 3.0
TOGETHER = 64
LOADS = {"6,000 calls a second": 6_000, "as many calls as it can": 0}

MOST_KNOWN_SECONDS = 2.0
MOST_ARRIVAL_MS = 100.0
MOST_OVERHEAD_MS = 50.0
MOST_INTERFACE_MS = 1000.0
LEAST_EVENTS = 10_000

CLAIMS = {
    "80 functions known to a late joiner, s": "< 2 (target)",
    "a new agent known to an interface, ms": "< 100",
    "interface → agent, ms": "≥ 1,000 (its code)",
    "call of a function, ms over the bare round trip": "< 50",
}


# The sides


async def provide_bare(domain: str) -> None:
    bare = Bare(int(domain))
    Provider(bare, BARE)
    await obey({})
    bare.close()


class Newcomer(Agent):
    """An agent that comes and goes."""

    model = "script"


async def come_and_go(domain: str, state: str) -> None:
    """A host to which agents are added."""

    async def come(number: int) -> float:
        at = monotonic()
        agent = type(f"Newcomer{number}", (Newcomer,), {"__doc__": Newcomer.__doc__})()
        await host.add_engine(EngineRecord(f"newcomer{number}", "bench"), agent)
        return at

    async def ask(times: int) -> list[float]:
        await host.call("agent_0", {"message": "hello warm"})
        return list((await spent(times, lambda n: host.call("agent_0", {"message": f"hello x{n}"}))).values)

    folder = world.furnish(Path(state), [0])
    async with host_on(config(int(domain), state, service="newcomers"), state, str(folder)) as host:
        await offered(host, 1)
        await obey({"come": come, "ask": ask})


async def nothing(arguments: dict[str, Any], call: Any) -> None:
    return None


async def be_busy(domain: str, state: str) -> None:
    """A host that is called as often as it can be."""

    async def busy(seconds: float, rate: int) -> dict[str, Any]:
        before, calls, begin = told(host), 0, monotonic()
        while (now := monotonic() - begin) < seconds:
            due = int(rate * now) - calls if rate else TOGETHER
            await asyncio.gather(*(host.call("nothing") for _ in range(min(due, TOGETHER))))
            calls += min(due, TOGETHER)
            if rate:
                await asyncio.sleep(0.001)
        took = monotonic() - begin

        def all_told() -> bool:
            return sum(told(host).values()) - sum(before.values()) >= 2 * calls

        await until(all_told)
        after = told(host)
        return {"calls": calls, "took": took, **{name: after[name] - before[name] for name in after}}

    async with host_on(config(int(domain), state, service="busy"), state) as host:
        offer(host, [Function(FunctionSignature("nothing"), nothing)])
        await offered(host, 1)
        await obey({"busy": busy})


def told(host: Any) -> dict[str, int]:
    """How many events a host has sent and dropped."""
    events = host.bus.describe()["events"]
    return {"sent": events["sent"], "dropped": events["dropped"]}


ROLES: Mapping[str, Callable[..., Awaitable[None]]] = {
    "provide_bare": provide_bare,
    "come_and_go": come_and_go,
    "be_busy": be_busy,
}


# The network


@contextmanager
def network(domain: int, home: Path) -> Generator[None]:
    """The members of the network, each a process."""
    running: list[subprocess.Popen[bytes]] = []
    try:
        for member in world.members():
            at = home / member.name
            at.mkdir()
            words = world.command(replace(member, work=0.0), domain, LOOPBACK, at)
            process = subprocess.Popen(words, env=world.environment(at), stdout=subprocess.PIPE)
            running.append(process)
            assert process.stdout is not None
            assert process.stdout.readline() == b'"ready"\n', member.name
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


async def known(domain: int, state: str, run: int) -> float:
    """Seconds from joining the bus until all functions and agents can be called."""
    wanted = world.FUNCTIONS + world.AGENTS
    begin = monotonic()
    client = Client(config(domain, f"{state}/joiner{run}"))

    async def seen() -> float:
        while True:
            try:
                if seen_by(client) >= wanted and len(client.agents()) >= world.AGENTS:
                    return monotonic()
            except RuntimeError:
                pass  # it has not joined yet
            await asyncio.sleep(0.001)

    seeing = asyncio.create_task(seen())
    async with client:
        return await asyncio.wait_for(seeing, 60) - begin


async def spent(times: int, work: Callable[[int], Awaitable[Any]]) -> Spread:
    """Milliseconds of something, each time."""
    found: list[float] = []
    for number in range(times):
        begin = perf_counter()
        await work(number)
        found.append((perf_counter() - begin) * 1e3)
    return Spread(found)


async def hops(domain: int, state: str, times: int) -> dict[str, Spread]:
    """Milliseconds of calls and questions of one to three hops."""
    bare = Bare(bare_domain := domain + 1)
    rows: dict[str, Spread] = {}
    with Side(__file__, SERVER_CORE, "provide_bare", bare_domain):
        requester = Requester(bare, BARE)
        await requester.connected()
        rows["bare round trip of DDS"] = await spent(10 * times, lambda _: requester.call("add"))
    bare.close()
    async with Client(config(domain, f"{state}/client")) as client:
        await client.wait_for("Service1.add_1")
        arguments = {"a": 1, "b": 2}
        rows["function"] = await spent(10 * times, lambda _: client.call("Service1.add_1", arguments))
    async with Interface("desk", config(domain, f"{state}/desk")) as ui:
        away, near = "agent_1", "agent_0"  # on other members, as the functions are
        await ui.wait_for(away)

        async def ask(text: str, answer: str, id: str) -> None:
            assert await ui.ask(text.format(id), near) == answer.format(id)

        found: dict[str, list[float]] = {title: [] for title in QUESTIONS}
        for number in range(-WARM, times):  # by turns: what comes first would be measured cold
            for at, (title, (text, answer)) in enumerate(QUESTIONS.items()):
                begin = perf_counter()
                await ask(text, answer, f"q{at}x{number + WARM}")
                if number >= 0:
                    found[title].append((perf_counter() - begin) * 1e3)
    return rows | {title: Spread(values) for title, values in found.items()}


async def arrivals(domain: int, state: str, times: int) -> tuple[Spread, Spread]:
    """Milliseconds from the moment at which an agent is made until an interface has heard of it.

    And those of a question to an agent within its host, where no bus is.
    """
    found: list[float] = []
    with Side(__file__, SERVER_CORE, "come_and_go", domain, f"{state}/newcomers") as newcomers:
        async with (
            Interface("desk", config(domain, f"{state}/watch")) as ui,
            aclosing(ui.arrivals()) as events,
        ):
            for number in range(times):
                asking = asyncio.create_task(asyncio.to_thread(newcomers.ask, "come", number=number))
                async for event in events:
                    if event.kind is AgentChange.ARRIVED and event.agent.name == f"newcomer{number}":
                        break
                heard = monotonic()
                found.append((heard - await asking) * 1e3)
        alone = Spread(newcomers.ask("ask", times=times))
    return Spread(found), alone


# Events


def events(domain: int, state: str) -> dict[str, dict[str, float]]:
    """What a host tells of its calls under each load, and what of it is read by another process's thread."""
    bare = Bare(domain)
    topic = Topic(bare.participant, "ChainEvent", ChainEvent)
    reader = DataReader(bare.participant, topic, CALLS)
    some = ReadCondition(reader, SampleState.Any | ViewState.Any | InstanceState.Any)
    stop, heard = threading.Event(), [0]

    def read() -> None:
        while not stop.wait(0.001):
            heard[0] += sum(1 for one in reader.take(4096, condition=some) if isinstance(one, ChainEvent))

    reading = threading.Thread(target=read)
    reading.start()
    found: dict[str, dict[str, float]] = {}
    with Side(__file__, SERVER_CORE, "be_busy", domain, f"{state}/busy") as busy:
        while not reader.get_matched_publications():
            stop.wait(0.02)
        stop.wait(1.0)  # a host looks four times a second whether anybody listens
        for title, rate in LOADS.items():
            before = heard[0]
            said = busy.ask("busy", seconds=EVENT_SECONDS, rate=rate)
            stop.wait(1.0)
            found[title] = {
                "calls": said["calls"] / said["took"],
                "sent": said["sent"] / said["took"],
                "read": (heard[0] - before) / said["took"],
                "dropped": 100 * said["dropped"] / (said["sent"] + said["dropped"]),
            }
    stop.set()
    reading.join()
    bare.close()
    return found


def main(runs: int = RUNS, times: int = 30) -> None:
    introduce("A network of 20 services with 80 functions, 10 agents on scripted models, on loopback.")
    first, other, third = domains(3)
    with tempfile.TemporaryDirectory() as state, ExitStack() as stack:
        stack.enter_context(network(first, Path(state)))
        pin(LOAD_CORE)
        joining = Spread([asyncio.run(known(first, state, run)) for run in range(runs)])
        asked = asyncio.run(hops(first, state, times))
        arrived, alone = asyncio.run(arrivals(other, state, times))
        asked["agent, asked within its host: no bus"] = alone
        stack.close()
        loads = events(third, state)
    report(joining, asked, arrived, loads)


def report(
    joining: Spread, asked: dict[str, Spread], arrived: Spread, loads: dict[str, dict[str, float]]
) -> None:
    """Print it all, and what was promised."""
    bare = asked["bare round trip of DDS"].median
    table(
        "Milliseconds of a question or call (an agent's turn is kept in its database)",
        ("", "median", "lowest", "highest", "times the bare round trip"),
        ((name, *one.cells(2), f"{one.median / bare:.1f}") for name, one in asked.items()),
    )
    one, two, three = (asked[title].median for title in QUESTIONS)
    print(f"a hop more: to a function {two - one:.1f} ms, to an agent {three - two:.1f} ms")
    over = asked["function"].median - bare
    rows = [(one.median, one.lowest, one.highest) for one in (joining, arrived, asked["interface → agent"])]
    cells = zip(CLAIMS.items(), [*rows, (over,)], strict=True)
    table(
        "Beside Genesis's own claims",
        ("", "ours", "lowest", "highest", "Genesis"),
        ((n, *([f"{v:.3g}" for v in values] + ["", ""])[:3], claim) for (n, claim), values in cells),
    )
    table(
        "Events of calls, a second (Genesis claims over 10,000)",
        ("", "calls", "events sent", "events read", "dropped, %"),
        ((title, *(f"{value:,.0f}" for value in row.values())) for title, row in loads.items()),
    )
    paced = loads["6,000 calls a second"]
    verdict("80 functions and 10 agents known to a late joiner, s", joining.median, most=MOST_KNOWN_SECONDS)
    verdict("a new agent known to an interface, ms", arrived.median, most=MOST_ARRIVAL_MS)
    verdict("a call, ms over the bare round trip", over, most=MOST_OVERHEAD_MS)
    verdict("a question to an agent, ms", one, most=MOST_INTERFACE_MS)
    verdict("events a second read, at 6,000 calls a second", paced["read"], least=LEAST_EVENTS)
    verdict("events dropped at 6,000 calls a second, %", paced["dropped"], most=0.0)
    finish()


if __name__ == "__main__" and not be_side(ROLES):
    main(*map(int, sys.argv[1:]))
