"""A call in a worker process, against ``multiprocessing.Pipe`` pings that asyncio's ``add_reader`` reads.

The peer sends what the call sends, to a process that sends the answer back, and awaits it. Host and workers
share one core, or have one each; the runs of a table take turns.

    python bench/worker_calls.py [RUNS=7] [CALLS=3000]
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import Any, TextIO

import numpy
import uvloop

from enginehost import Host, HostSettings
from measuring import LOAD_CORE, SERVER_CORE, Spread, finish, introduce, pin, table, verdict

Measured = Callable[[int], Awaitable[float]]
ARGUMENTS = {"a": 1.0, "b": 2.0}
MEGABYTE = 1_000_000
ITEMS = 1_000_000
SMALL = ("add", "add_async")
STREAMS = ("numbers", "numbers_async")
MOST_GROWTH_KB = 4096.0
MOST_OF_MEMCPY = {"numpy": 2.0, "bytes": 3.0}
SCRIPT = """
from time import perf_counter_ns

def add(a, b):
    return a + b

async def add_async(a, b):
    return a + b

def took(value):
    return None

def numbers(count):
    yield from range(count)

async def numbers_async(count):
    for number in range(count):
        yield number

def stamps(count, seconds):
    import time
    for _ in range(count):
        time.sleep(seconds)
        yield perf_counter_ns()

def array():
    return ARRAY

def text():
    return BYTES

import numpy
ARRAY = numpy.arange(125_000, dtype=float)
BYTES = bytes(1_000_000)
"""
FUNCTIONS = {
    "add": ("a", "b"),
    "add_async": ("a", "b"),
    "took": ("value",),
    "numbers": ("count",),
    "numbers_async": ("count",),
    "stamps": ("count", "seconds"),
    "array": (),
    "text": (),
}
"""The parameters of each."""


def write(folder: Path) -> None:
    """The script and a file for each of its functions."""
    (folder / "functions.py").write_text(SCRIPT)
    for name, parameters in FUNCTIONS.items():
        (folder / f"{name}.smss").write_text(
            "ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = functions.py\nFUNCTION_DESCRIPTION = d\n"
            f"FUNCTION_NAME = {name}\n"
            f"FUNCTION_PARAMETERS = {json.dumps([{'name': one} for one in parameters])}\n"
            f"FUNCTION_REQUIRED_PARAMETERS = {json.dumps(parameters)}\n"
        )


class Ping:
    """A process that sends back what it gets."""

    def __init__(self) -> None:
        self._ours, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("fork").Process(target=echo, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Any] | None = None
        self._loop.add_reader(self._ours.fileno(), self._read)

    def _read(self) -> None:
        answer = self._ours.recv()
        if self._answer is not None:
            self._answer.set_result(answer)

    async def send(self, payload: Any) -> Any:
        """One trip."""
        self._answer = self._loop.create_future()
        self._ours.send(payload)
        return await self._answer

    def close(self) -> None:
        """End the process."""
        self._loop.remove_reader(self._ours.fileno())
        self._ours.close()
        self.process.kill()  # it holds a copy of our end
        self.process.join()


def echo(pipe: Connection) -> None:
    try:
        while True:
            pipe.send(pipe.recv())
    except (EOFError, OSError):
        pass


@asynccontextmanager
async def pinging() -> AsyncGenerator[Ping]:
    ping = Ping()
    try:
        yield ping
    finally:
        ping.close()


async def microseconds(call: Callable[[], Awaitable[Any]], count: int) -> float:
    """Of one call, the median."""
    found: list[float] = []
    for _ in range(count):
        begin = perf_counter_ns()
        await call()
        found.append((perf_counter_ns() - begin) / 1e3)
    found.sort()
    return found[count // 2]


async def in_turn(cases: dict[str, tuple[Callable[[], Awaitable[Any]], int]], runs: int) -> dict[str, Spread]:
    found: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(runs + 1):
        for name, (call, count) in cases.items():
            found[name].append(await microseconds(call, count))
    return {name: Spread(values[1:]) for name, values in found.items()}


async def calls(host: Host, ping: Ping, runs: int, count: int) -> dict[str, Spread]:
    """Small calls, one at a time."""
    payload = ["add", ARGUMENTS, None]
    return await in_turn(
        {
            PING: (lambda: ping.send(payload), count),
            "def": (lambda: host.call("add", ARGUMENTS), count),
            "async def": (lambda: host.call("add_async", ARGUMENTS), count),
        },
        runs,
    )


PING = "ping, Pipe and add_reader"


async def large(host: Host, ping: Ping, runs: int, count: int) -> dict[str, Spread]:
    """A megabyte one way."""
    array, text = numpy.arange(125_000, dtype=float), bytes(MEGABYTE)
    target = bytearray(MEGABYTE)
    memoryview(target)[:] = text

    async def copy() -> None:
        memoryview(target)[:] = text

    return await in_turn(
        {
            "memcpy": (copy, count),
            PING: (lambda: ping.send(["add", ARGUMENTS, None]), count),
            "numpy to the worker": (lambda: host.call("took", {"value": array}), count),
            "numpy from the worker": (lambda: host.call("array"), count),
            "bytes to the worker": (lambda: host.call("took", {"value": text}), count),
            "bytes from the worker": (lambda: host.call("text"), count),
        },
        runs,
    )


def resident_kb() -> float:
    """The memory of this process and of those that it started, in kB."""
    me, pages = str(os.getpid()), 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                if me in (entry.name, parent):
                    pages += int((entry / "statm").read_text().split()[1])
            except OSError:
                continue
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


async def growth(host: Host, name: str) -> float:
    """What host and workers hold more at most while a million items go through, in kB."""
    await rate(host, name, 10_000)
    before, most, seen = resident_kb(), 0.0, 0
    async for _ in host.stream(name, {"count": ITEMS}):
        seen += 1
        if seen % 50_000 == 0:
            most = max(most, resident_kb())
    return most - before


async def rate(host: Host, name: str, count: int) -> float:
    """Items of a stream a second."""
    begin, seen = perf_counter(), 0
    async for _ in host.stream(name, {"count": count}):
        seen += 1
    assert seen == count
    return count / (perf_counter() - begin)


async def first(host: Host, count: int = 50) -> float:
    """Milliseconds from a yield to its item, the median."""
    stream = host.stream("stamps", {"count": count, "seconds": 0.005})
    late = [(perf_counter_ns() - stamp) / 1e6 async for stamp in stream]
    return sorted(late)[count // 2]


async def flight(host: Host, name: str, total: int, at_once: int = 32) -> float:
    """Calls a second, many in flight."""

    async def caller() -> None:
        for _ in range(total // at_once):
            await host.call(name, ARGUMENTS)

    begin = perf_counter()
    await asyncio.gather(*(caller() for _ in range(at_once)))
    return total / (perf_counter() - begin)


async def measure(folder: Path, log: TextIO, core: int, runs: int, count: int) -> None:
    """All tables, with the workers on one core."""
    pin(SERVER_CORE)
    async with pinging() as ping, Host(folder, None, settings=HostSettings(), log=log) as host:
        for name in ("add", "add_async"):
            await host.call(name, ARGUMENTS)
        await host.call("took", {"value": 1})
        others(core)
        report_calls(await calls(host, ping, runs, count))
        report_large(await large(host, ping, runs, max(20, count // 30)))
        await report_rates(host, runs)


def report_calls(found: dict[str, Spread]) -> None:
    """Print the small calls, and whether the promise is kept."""
    base = found[PING].median
    rows = [[name, *spread.cells(1), f"{spread.median / base:.2f}"] for name, spread in found.items()]
    table("Small calls, µs", ["call", "median", "lowest", "highest", "of ping"], rows)
    for name in ("def", "async def"):
        verdict(f"of the ping, {name}", found[name].median / base, most=1.0)


def report_large(found: dict[str, Spread]) -> None:
    """Print the large values, and whether the promises are kept."""
    base = found["memcpy"].median + found[PING].median
    rows = [[name, *spread.cells(1), f"{spread.median / base:.2f}"] for name, spread in found.items()]
    table("A megabyte one way, µs", ["call", "median", "lowest", "highest", "of memcpy + ping"], rows)
    for name, spread in found.items():
        kind = name.partition(" ")[0]
        if kind in MOST_OF_MEMCPY:
            verdict(f"of memcpy + ping, {name}", spread.median / base, most=MOST_OF_MEMCPY[kind])


async def report_rates(host: Host, runs: int) -> None:
    """Measure and print what goes through in a second, and how soon the first item is there."""
    rates = {
        **{f"{name}, 32 in flight": [await flight(host, name, 3200) for _ in range(runs)] for name in SMALL},
        **{f"items of {name}": [await rate(host, name, ITEMS) for _ in range(3)] for name in STREAMS},
    }
    spreads = {name: Spread(values) for name, values in rates.items()}
    rows = [[name, *spread.cells(0)] for name, spread in spreads.items()]
    table("A second", ["what", "median", "lowest", "highest"], rows)
    for name, spread in spreads.items():
        if name.startswith("items"):
            verdict(f"{name} a second", spread.median, least=100_000)
    verdict("ms from a yield to its item", await first(host), most=1.0)
    for name in STREAMS:
        verdict(f"kB more while a stream of {name} runs", await growth(host, name), most=MOST_GROWTH_KB)


def others(core: int) -> None:
    """Give the processes that this one started a core."""
    me = os.getpid()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == me:
                os.sched_setaffinity(int(entry.name), {core})


def main(runs: int = 7, count: int = 3000) -> None:
    introduce("Calls in worker processes")
    for core, title in ((SERVER_CORE, "one core"), (LOAD_CORE, "two cores")):
        print(f"\n== {title}")
        with tempfile.TemporaryDirectory() as place, Path(os.devnull).open("w") as log:
            write(Path(place))
            uvloop.run(measure(Path(place), log, core, runs, count))


if __name__ == "__main__":
    main(*(int(given) for given in sys.argv[1:]))
    finish()
