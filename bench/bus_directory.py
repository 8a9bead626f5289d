"""10,000 functions on the databus: a late joiner, what they weigh at their host, files that are dropped.

Provider and joiner are processes on cores of their own; each joiner is a new process that has imported what
it needs. Beside our joiners a reader as Cyclone's documentation has it, which only decodes.

    python bench/bus_directory.py [RUNS=5] [COUNT=10000]
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from bus_bare import Bare
from bus_sides import Side, be_side, config, domains, host_on, obey, offer, offered, seen_by, until
from enginehost.databus import Client, Sighting
from enginehost.databus.cyclone.transport import CycloneTransport
from enginehost.engine import Function
from enginehost.signature import FunctionSignature
from folders import declaration, write_script
from load_files import resident_kb
from measuring import LOAD_CORE, RUNS, SERVER_CORE, Spread, finish, in_turn, introduce, pin, table, verdict

KINDS = ("LocalPython", "REST")
SERVICE = "plant"

MOST_RECEIVED_SECONDS = 1.0
MOST_CALLABLE_SECONDS = 3.0
MOST_KB = 4.0
MOST_DROP_SECONDS = 6.0

BARE = "bare Cyclone reader, decoded by the library"
TRANSPORT = "our reader, decoded"
CLIENT = "Client: in its catalog"
HOST = "Host: in its catalog"
JOINERS = {BARE: "read_bare", TRANSPORT: "read", CLIENT: "join_as_client", HOST: "join_as_host"}


# The functions


async def run(arguments: dict[str, Any], call: Any) -> float:
    return arguments["setpoint"] * 2


def function(number: int) -> Function:
    """One of many that are alike and not the same: a capability of about 1.5 kB."""
    sensor = f"sensor_{number % 997}"
    properties: dict[str, Any] = {
        "setpoint": {
            "type": "number",
            "description": f"The value that controller {number} is to hold, in the unit of its sensor.",
            "minimum": 0,
            "maximum": 1000 + number,
        },
        sensor: {
            "type": "string",
            "enum": [f"{sensor}_inlet", f"{sensor}_outlet", "none"],
            "description": "Which of the two sensors of the line is the one that the controller follows; "
            "with none it goes by the position of its valve alone, and its alarms are off.",
        },
        f"ramp_{number}": {
            "type": "integer",
            "default": 60,
            "description": "Seconds that the change may take; a ramp protects the pumps of the line, and one "
            "that is shorter than the pumps allow is made as long as they need it to be.",
        },
    }
    schema = {"type": "object", "properties": properties, "required": ["setpoint"]}
    signature = FunctionSignature(
        f"line{number}_hold",
        f"Lets controller {number} of the plant hold a setpoint until it is given another one. "
        "The change is a ramp, so that neither pumps nor valves are damaged. Answers the value that the "
        "controller has taken, which is lower than the one that was asked for while maintenance goes on. "
        "Whoever calls it again before the ramp has ended starts a new ramp from where the line is then; the "
        "operator's panel shows who that was, and takes the setpoint back on the operator's word.",
        schema,
        {"type": "number", "description": "The value that is held from now on."},
        tags=("plant", f"line{number % 40}", "control"),
    )
    return Function(signature, run)


# The sides


async def provide(domain: str, state: str, count: str) -> None:
    """A host with all functions."""
    async with host_on(config(int(domain), state, service=SERVICE), state) as host:
        offer(host, map(function, range(int(count))))
        await offered(host, int(count))
        await obey({})


async def weigh(domain: str, state: str, count: str) -> None:
    """A host that gets all functions when it is told to; ``domain`` 0: without databus."""
    bus = config(int(domain), state, service=SERVICE) if int(domain) else None
    async with host_on(bus, state) as host:

        async def there(number: int) -> None:
            await (offered(host, number) if bus else until(lambda: len(host.catalog) >= number))

        offer(host, [function(int(count))])
        await there(1)
        before = trimmed_kb()

        async def fill() -> None:
            offer(host, map(function, range(int(count))))
            await there(int(count) + 1)

        async def grown() -> float:
            return trimmed_kb() - before

        await obey({"fill": fill, "grown": grown})


async def watch(domain: str, state: str, folder: str) -> None:
    """A host that watches a folder."""
    async with host_on(config(int(domain), state, service=SERVICE), state, folder) as host:

        async def loaded(count: int) -> float:
            return await until(lambda: len(host.catalog) >= count, every=0.01)

        await obey({"loaded": loaded})


async def read_bare(domain: str, state: str) -> None:
    async def join(count: int) -> list[float]:
        begin, seen = monotonic(), 0

        def take(capabilities: Sequence[Any]) -> None:
            nonlocal seen
            seen += len(capabilities)

        bare = Bare(int(domain))
        bare.capabilities(take)
        return [await until(lambda: seen >= count) - begin]

    await obey({"join": join})


class Counting:
    """Counts what a transport gives."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def seen(self, sightings: Sequence[Sighting]) -> None:
        """Take what came."""
        self.names.update(one.function_id for one in sightings if one.capability is not None)

    def anew(self) -> None:
        """Count on."""


async def read(domain: str, state: str) -> None:
    """What the transport decodes, before anybody looks at it."""

    async def join(count: int) -> list[float]:
        begin, counting = monotonic(), Counting()
        transport = await asyncio.to_thread(CycloneTransport, config(int(domain), state))
        await transport.watch(counting)
        seconds = await until(lambda: len(counting.names) >= count) - begin
        await transport.close()
        return [seconds]

    await obey({"join": join})


async def join_as_client(domain: str, state: str) -> None:
    """A client: until it has them, and until it is answered by one of them."""
    staying: list[Client] = []

    async def join(count: int, stay: bool = False) -> list[float]:
        begin, bus = monotonic(), Client(config(int(domain), state))
        await bus.__aenter__()
        try:
            seconds = await until(lambda: seen_by(bus) >= count, every=0.01) - begin
            await bus.call(f"{SERVICE}.line{count - 1}_hold", {"setpoint": 1.0})
            answered = monotonic() - begin
        finally:
            if stay:
                staying.append(bus)
            else:
                await bus.__aexit__()
        return [seconds, answered]

    await obey({"join": join})


async def join_as_host(domain: str, state: str) -> None:
    """A host, likewise."""

    async def join(count: int) -> list[float]:
        begin = monotonic()
        async with host_on(config(int(domain), state, service="joiner"), state) as host:
            seconds = await until(lambda: len(host.catalog) >= count) - begin
            await host.call(f"{SERVICE}.line{count - 1}_hold", {"setpoint": 1.0})
            return [seconds, monotonic() - begin]

    await obey({"join": join})


async def follow(domain: str, state: str) -> None:
    """A client that is there already when files are dropped."""
    async with Client(config(int(domain), state)) as bus:

        async def has(count: int) -> float:
            return await until(lambda: seen_by(bus) >= count, every=0.01)

        await obey({"has": has})


ROLES: Mapping[str, Callable[..., Awaitable[None]]] = {
    one.__name__: one
    for one in (provide, weigh, watch, read_bare, read, join_as_client, join_as_host, follow)
}


def trimmed_kb() -> float:
    """The memory of this process that it cannot give back."""
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    return resident_kb()


# A late joiner


def joined(domain: int, place: Path, role: str, count: int) -> list[float]:
    """Seconds from the start of joining until all functions are there, and until one has answered."""
    state = tempfile.mkdtemp(dir=place)
    with Side(__file__, LOAD_CORE, role, domain, state) as side:
        return side.ask("join", count=count)


def late_joiners(place: Path, runs: int, count: int) -> None:
    """Measure and print how soon a late joiner has everything."""
    (domain,) = domains(1)
    answered: dict[str, list[float]] = {name: [] for name in JOINERS}

    def case(name: str) -> Callable[[], float]:
        def measure() -> float:
            there, *later = joined(domain, place, JOINERS[name], count)
            answered[name] += later
            return there

        return measure

    with Side(__file__, SERVER_CORE, "provide", domain, place / "provider", count):
        found = in_turn({name: case(name) for name in JOINERS}, runs)
    rows = [
        [name, *spread.cells(2), f"{Spread(answered[name]).median:.2f}" if answered[name] else ""]
        for name, spread in found.items()
    ]
    head = ["seconds until all are there", "median", "lowest", "highest", "and one answered"]
    table(f"A late joiner, {count} functions", head, rows)
    verdict("seconds until all are received", found[TRANSPORT].median, most=MOST_RECEIVED_SECONDS)
    for name in (CLIENT, HOST):
        last = Spread(answered[name]).median
        verdict(
            f"seconds until all can be called, {name.partition(':')[0]}", last, most=MOST_CALLABLE_SECONDS
        )


# What a function weighs


def weighed(place: Path, count: int, domain: int) -> list[float]:
    """What a host grew by, in kB for each function: alone on the bus, and with a peer that has read them."""
    state = tempfile.mkdtemp(dir=place)
    with Side(__file__, SERVER_CORE, "weigh", domain, state, count) as host:
        host.ask("fill")
        found = [host.ask("grown") / count]
        if domain:
            with Side(__file__, LOAD_CORE, "join_as_client", domain, f"{state}-reader") as reader:
                reader.ask("join", count=count, stay=True)
                found.append(host.ask("grown") / count)
    return found


def weights(place: Path, runs: int, count: int) -> None:
    """Measure and print what the bus adds to a function at its host."""
    (domain,) = domains(1)
    off, on = [], []
    for _ in range(runs):
        off.append(weighed(place, count, 0))
        on.append(weighed(place, count, domain))
    without = Spread([run[0] for run in off])
    alone, read = (Spread([run[number] for run in on]) for number in (0, 1))
    rows = [
        [name, *spread.cells(2), f"{spread.median - without.median:.2f}"]
        for name, spread in {
            "no databus": without,
            "on the databus, nobody reads": alone,
            "on the databus, one host has read": read,
        }.items()
    ]
    head = ["kB for a function", "median", "lowest", "highest", "the bus adds"]
    table(f"Memory of a host with {count} functions", head, rows)
    verdict("kB that the bus adds to a function", alone.median - without.median, most=MOST_KB)
    verdict("kB that it adds where one has read", read.median - without.median, most=MOST_KB)


# Files that are dropped


def dropped(place: Path, kind: str, count: int, domain: int) -> dict[str, float]:
    """Seconds from the first file's rename until the host has them, and until another process has them."""
    spot = Path(tempfile.mkdtemp(dir=place))
    for name in ("aside", "folder"):
        (spot / name).mkdir()
    write_script(spot / "folder")
    for number in range(count):
        (spot / "aside" / f"f{number}.smss").write_text(declaration(kind, f"f{number}"))
    files = sorted((spot / "aside").iterdir())
    with (
        Side(__file__, SERVER_CORE, "watch", domain, spot / "host", spot / "folder") as host,
        Side(__file__, LOAD_CORE, "follow", domain, spot / "client") as client,
    ):
        sleep(1.0)  # the watcher is set up
        host.tell("loaded", count=count)
        client.tell("has", count=count)
        begin = time.monotonic()
        for file in files:
            file.rename(spot / "folder" / file.name)
        moved = time.monotonic()
        return {"moved": moved - begin, "ready": host.hear() - begin, "on the bus": client.hear() - begin}


def drops(place: Path, runs: int, count: int) -> None:
    """Measure and print how soon dropped files are on the bus."""
    (domain,) = domains(1)
    rows: list[list[str]] = []
    last: dict[str, float] = {}
    for kind in KINDS:
        found = [dropped(place, kind, count, domain) for _ in range(runs)]
        for what in found[0]:
            spread = Spread([one[what] for one in found])
            rows.append([f"{kind}: {what}", *spread.cells(2)])
            last[kind] = spread.median
    head = ["seconds from the first rename", "median", "lowest", "highest"]
    table(f"{count} files dropped at once", head, rows)
    for kind, seconds in last.items():
        verdict(f"seconds until another process has them, {kind}", seconds, most=MOST_DROP_SECONDS)


def main(runs: int = RUNS, count: int = 10_000) -> None:
    pin(LOAD_CORE)
    introduce(f"{count} functions on the databus, their host on one core, who looks on the other")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        late_joiners(place, runs, count)
        weights(place, min(runs, 3), count)
        drops(place, min(runs, 3), count)


if __name__ == "__main__":
    if not be_side(ROLES):
        main(*(int(given) for given in sys.argv[1:]))
        finish()
