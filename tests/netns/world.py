"""A network of services, agents and interfaces: who is where, and the programs of which it is made.

::

    python world.py member '{"name": "host0", "domain": 7, "interface": "lo", "home": "…",
                             "services": [0, 3], "agents": [0]}'
    python world.py interface '{"name": "desk", "domain": 7, "interface": "lo", "home": "…"}'

A member says ``ready``, then serves until it is killed. An interface takes queries as JSON lines, and says of
each how it ended. Both keep what they write in their ``home``.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from enginehost import Host, Interface, Service, tool
from enginehost.catalog import EngineRecord
from enginehost.databus import DatabusConfig
from enginehost.errors import EngineHostError
from enginehost.settings import load_settings

HOSTS, SERVICES, AGENTS = 3, 20, 10
FUNCTIONS = 4 * SERVICES
HOPS = 3
"""A query has one to three: to an agent, to another agent, to a function."""

WORK = 0.7
"""Seconds between what a function does and its answer: time enough to be killed in."""

POLICY = """
policy:
  rules:
    - allow: call
      callers: anyone
"""
AGENT = """
ENGINE_CLASS = Agent
FUNCTION_NAME = agent_{number}
FUNCTION_DESCRIPTION = Knows what belongs to topic {number}.
SPECIALIZATIONS = topic{number}
MODEL = script
TOOLS = *
ON_UNKNOWN_OUTCOME = fail
"""
MODEL = "ENGINE_CLASS = Scripted\nENGINE_ALIAS = script\nSCRIPT = script.yaml\n"
EFFECTS = "effects.txt"


@dataclass(frozen=True)
class Member:
    """A program with services and agents, on the machine ``host``."""

    name: str
    host: int
    services: Sequence[int] = ()
    agents: Sequence[int] = ()
    work: float = WORK

    @property
    def offers(self) -> int:
        """The functions of it, agents among them."""
        return 4 * len(self.services) + len(self.agents)


def members(hosts: int = HOSTS, services: int = SERVICES, agents: int = AGENTS) -> list[Member]:
    """One for each machine; the last service and the last agent have programs of their own."""

    def share(count: int, host: int) -> list[int]:
        return [number for number in range(count - 1) if number % hosts == host]

    return [
        *(Member(f"host{host}", host, share(services, host), share(agents, host)) for host in range(hosts)),
        Member("provider", hosts - 1, services=[services - 1]),
        Member("specialist", hosts - 2, agents=[agents - 1]),
    ]


@dataclass(frozen=True)
class Query:
    """What an interface asks; ``writes``: whether it should leave one line behind."""

    id: str
    agent: str
    text: str
    hops: int

    @property
    def writes(self) -> bool:
        return self.hops > 1


def queries(
    count: int, name: str = "q", services: int = SERVICES, agents: int = AGENTS, seed: int = 1
) -> list[Query]:
    """Queries of one, two and three hops by turns; ``name`` begins their ids."""
    chance = random.Random(seed)
    found: list[Query] = []
    for place in range(count):
        id, hops = f"{name}{place}", place % HOPS + 1
        first, second = chance.sample(range(agents), 2)
        number = chance.choice((services - 1, chance.randrange(services)))  # half of them to the provider
        write = f"write_{number} {id}"
        text = (f"hello {id}", write, f"ask {second}: {write}")[hops - 1]
        found.append(Query(id, f"agent_{first}", text, hops))
    return found


# A member


class Numbered(Service):
    """Reads and writes."""

    def __init__(self, number: int, effects: Path) -> None:
        self.effects = effects
        super().__init__(f"Service{number}")


def service(number: int, effects: Path, work: float = WORK) -> Service:
    """A service with four functions, of which ``write_…`` leaves a line behind at each execution."""

    class Some(Numbered):
        """Reads and writes."""

        @tool(name=f"write_{number}", description=f"Write down a request in the book of number {number}.")
        async def write(self, request: str) -> str:
            with self.effects.open("a") as book:
                book.write(f"{request}\n")
            await asyncio.sleep(work)
            return f"{request} written"

        @tool(name=f"read_{number}", read_only=True)
        async def read(self, line: int) -> str:
            """Read a line of the book."""
            return self.effects.read_text().splitlines()[line]

        @tool(name=f"add_{number}", read_only=True)
        async def add(self, a: int, b: int) -> int:
            """Add two numbers."""
            return a + b

        @tool(name=f"count_{number}", read_only=True)
        async def count(self, up_to: int) -> AsyncIterator[int]:
            """Count up."""
            for one in range(up_to):
                yield one

    return Some(number, effects)


def script(own: Iterable[int], services: int = SERVICES, agents: int = AGENTS) -> str:
    """What agents say beside the agents ``own``, whom they call by name; others they call by topic."""
    there = frozenset(own)
    answers: list[dict[str, Any]] = [
        {"when": {"result_matches": r"(?P<request>\w+) written"}, "say": "$request written"},
        {"when": {"result": "*"}, "say": "failed: $result"},
        {"when": {"matches": r"^hello (?P<request>\w+)$"}, "say": "hello $request"},
    ]
    for number in range(services):
        call = {"tool": f"write_{number}", "args": {"request": "$request"}}
        when = {"matches": rf"^write_{number} (?P<request>\w+)$"}
        answers.append({"when": when, "reply": [{"call": call}]})
    for number in range(agents):
        name = f"agent_{number}" if number in there else f"get_topic{number}_info"
        call = {"tool": name, "args": {"message": "$rest"}}
        answers.append({"when": {"matches": rf"^ask {number}: (?P<rest>.+)$"}, "reply": [{"call": call}]})
    return yaml.safe_dump({"answers": answers}, sort_keys=False)


def furnish(home: Path, agents: Sequence[int]) -> Path:
    """The folder of a member; what it has there already stays as it is."""
    folder = home / "smss"
    folder.mkdir(parents=True, exist_ok=True)
    files = {f"agent_{number}.smss": AGENT.format(number=number) for number in agents}
    if agents:
        files |= {"script.smss": MODEL, "script.yaml": script(agents)}
    for name, text in files.items():
        (folder / name).write_text(text)
    (home / "enginehost.yaml").write_text(POLICY)
    return folder


async def be_member(
    name: str,
    domain: int,
    interface: str,
    home: str,
    services: Sequence[int],
    agents: Sequence[int],
    work: float = WORK,
) -> None:
    """Serve until this is killed."""
    at = Path(home)
    folder = furnish(at, agents)
    bus = DatabusConfig(
        domain=domain, interface=interface, service=name, state_dir=at / "state", accept="any"
    )
    async with Host(folder, bus, settings=load_settings(folder)) as host:
        for number in services:
            record = EngineRecord(f"service{number}", "program")
            await host.add_engine(record, service(number, at / EFFECTS, work))
        assert host.bus is not None
        while host.bus.describe()["capabilities"] < 4 * len(services) + len(agents):
            await asyncio.sleep(0.02)
        say("ready")
        await asyncio.Event().wait()


# An interface


async def be_interface(name: str, domain: int, interface: str, home: str) -> None:
    """Ask what the lines say, at most 8 at a time, and tell how it ended."""
    bus = DatabusConfig(domain=domain, interface=interface, state_dir=Path(home) / "state", accept="any")
    places, asking = asyncio.Semaphore(8), set[asyncio.Task[None]]()
    async with Interface(name, bus) as ui:
        say("ready")
        while line := await asyncio.to_thread(sys.stdin.readline):
            await places.acquire()
            task = asyncio.create_task(answered(ui, **json.loads(line)))
            asking.add(task)
            task.add_done_callback(asking.discard)
            task.add_done_callback(lambda _: places.release())
        await asyncio.gather(*asking)


async def answered(ui: Interface, id: str, agent: str, text: str, timeout: float) -> None:
    """Ask one query."""
    begin = time.monotonic()
    try:
        told: dict[str, Any] = {"answer": await ui.ask(text, agent, timeout=timeout)}
    except EngineHostError as error:
        told = {"code": error.code, "message": str(error)}
    say({"id": id, "seconds": time.monotonic() - begin, **told})


def say(value: Any) -> None:
    """A line to whoever started this."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


# Who starts them


def command(member: Member | str, domain: int, interface: str, home: Path) -> list[str]:
    """The command line of a member, or of an interface of this name."""
    where = {"domain": domain, "interface": interface, "home": str(home)}
    if isinstance(member, str):
        role, given = "interface", {"name": member, **where}
    else:
        role, given = "member", asdict(member) | where
        del given["host"]
    return [sys.executable, __file__, role, json.dumps(given)]


def environment(home: Path) -> dict[str, str]:
    """Without settings of whoever starts it."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("ENGINEHOST_")}
    return kept | {"XDG_STATE_HOME": str(home)}


def effects(homes: Iterable[Path]) -> Iterator[str]:
    """The requests that were executed, each as often as it was."""
    for home in homes:
        if (book := home / EFFECTS).exists():
            yield from book.read_text().splitlines()


if __name__ == "__main__":
    be = {"member": be_member, "interface": be_interface}[sys.argv[1]]
    asyncio.run(be(**json.loads(sys.argv[2])))
