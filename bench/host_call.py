"""A call inside the host over the bare function: validation, limits, deadline, log record and metrics on.

One core; the log lines go to the null device, and the thread that writes them is in the figures. The limits
of the rows that have some are so high that no call waits for them.

    python bench/host_call.py [RUNS=7] [CALLS=20000]
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, TextIO

import uvloop

from enginehost import Host, HostSettings
from folders import write, write_script
from measuring import RUNS, SERVER_CORE, Spread, finish, introduce, pin, table, verdict
from peers import figure, interpreter

Measured = Callable[[], Awaitable[Any]]
KIND = "LocalPython in the host"
FUNCTIONS = {
    "add": (KIND, "add_async"),
    "add_waiting": (KIND, "add_waiting"),
    "add_limited": (f"{KIND}, limited", "add_async"),
    "add_waiting_limited": (f"{KIND}, limited", "add_waiting"),
    "add_on_thread": (KIND, "add"),
}
"""Kind of engine and function of the script, by name."""
ARGUMENTS = {"a": 1, "b": 2}
LIMITED = "async def, MAX_CONCURRENCY and RATE_LIMIT set"
LIMITED_WAITING = "async def that suspends, both set"
SDK = "async def, recording OpenTelemetry SDK"
MOST_MICROSECONDS = {
    "async def": 8.0,
    LIMITED: 8.0,
    "async def that suspends": 12.0,
    LIMITED_WAITING: 12.0,
    SDK: 35.0,
}


async def microseconds(call: Measured, count: int) -> tuple[float, float]:
    """Of one call: on the clock, and of the processor (all threads)."""
    begin, begun = perf_counter(), process_time()
    for _ in range(count):
        await call()
    return (perf_counter() - begin) / count * 1e6, (process_time() - begun) / count * 1e6


async def in_turn(cases: dict[str, tuple[Measured, int]], runs: int) -> dict[str, tuple[Spread, Spread]]:
    """Clock and processor of each case."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
    for _ in range(runs + 1):
        for name, (call, count) in cases.items():
            found[name].append(await microseconds(call, count))
            await asyncio.sleep(0.05)  # the log's thread catches up
    # the first round compiles validators and fills caches
    return {
        name: (Spread([clock for clock, _ in values[1:]]), Spread([spent for _, spent in values[1:]]))
        for name, values in found.items()
    }


def bare_functions(folder: Path) -> dict[str, Callable[..., Any]]:
    """The functions of the script, as Python has them."""
    space: dict[str, Any] = {}
    exec((folder / "add.py").read_text(), space)
    return {name: space[function] for name, (_, function) in FUNCTIONS.items()}


async def without_sdk(host: Host, folder: Path, runs: int, calls: int) -> dict[str, tuple[Spread, Spread]]:
    """The rows where nobody set up OpenTelemetry, and what other libraries need for less."""
    from pydantic import validate_call

    bare = bare_functions(folder)
    checked = validate_call(bare["add"])

    async def on_thread() -> Any:
        return await asyncio.to_thread(bare["add_on_thread"], **ARGUMENTS)

    return await in_turn(
        {
            "bare async def": (lambda: bare["add"](**ARGUMENTS), calls),
            "async def": (lambda: host.call("add", ARGUMENTS), calls),
            LIMITED: (lambda: host.call("add_limited", ARGUMENTS), calls),
            "bare async def that suspends": (lambda: bare["add_waiting"](**ARGUMENTS), calls),
            "async def that suspends": (lambda: host.call("add_waiting", ARGUMENTS), calls),
            LIMITED_WAITING: (lambda: host.call("add_waiting_limited", ARGUMENTS), calls),
            "bare asyncio.to_thread": (on_thread, calls // 10),
            "def on a thread": (lambda: host.call("add_on_thread", ARGUMENTS), calls // 10),
            "pydantic validate_call": (lambda: checked(**ARGUMENTS), calls),
        },
        runs,
    )


async def with_sdk(host: Host, folder: Path, runs: int, calls: int) -> dict[str, tuple[Spread, Spread]]:
    """The rows with a tracer that records and exports to nowhere, in batches."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Nowhere(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(Nowhere(), max_queue_size=100_000))
    trace.set_tracer_provider(provider)
    tracer = provider.get_tracer("bench")
    bare = bare_functions(folder)["add"]

    async def in_span() -> Any:
        with tracer.start_as_current_span("add"):
            return await bare(**ARGUMENTS)

    await asyncio.sleep(1.2)  # the host looks for a tracer once a second
    found = await in_turn(
        {
            "bare async def in a span": (in_span, calls),
            SDK: (lambda: host.call("add", ARGUMENTS), calls),
        },
        runs,
    )
    provider.shutdown()
    return found


async def measure(folder: Path, log: TextIO, runs: int, calls: int) -> dict[str, tuple[Spread, Spread]]:
    """All rows."""
    async with Host(folder, None, settings=HostSettings(in_process_python=True), log=log) as host:
        found = await without_sdk(host, folder, runs, calls)
        return found | await with_sdk(host, folder, runs, calls)


def report(found: dict[str, tuple[Spread, Spread]]) -> None:
    """Print the table and whether the promises are kept."""
    waiting = found["bare async def that suspends"][0].median
    base = found["bare async def"][0].median
    over: dict[str, float] = {}
    rows: list[list[str]] = []
    for name, (clock, spent) in found.items():
        over[name] = clock.median - (waiting if "suspends" in name else base)
        shown = "" if name.startswith("bare async def") else f"{over[name]:.2f}"
        rows.append([name, *clock.cells(2), f"{spent.median:.2f}", shown])
    table("Host.call, µs", ["call", "median", "lowest", "highest", "cpu", "over bare"], rows)
    for name, most in MOST_MICROSECONDS.items():
        verdict(f"µs over the bare call, {name}", over[name], most=most)


def main(runs: int = 7, calls: int = 20_000) -> None:
    pin(SERVER_CORE)
    introduce("Host.call: what the host adds to a call, on uvloop")
    with tempfile.TemporaryDirectory() as place, Path(os.devnull).open("w") as log:
        folder = Path(place)
        write_script(folder)
        for name, (kind, function) in FUNCTIONS.items():
            write(folder, kind, name, function)
        found = uvloop.run(measure(folder, log, runs, calls))
    if peer := interpreter("fastmcp"):
        alone = Spread([figure(peer, "call") for _ in range(RUNS)])
        found["FastMCP call_tool, no transport"] = (alone, alone)
    report(found)


if __name__ == "__main__":
    main(*(int(given) for given in sys.argv[1:]))
    finish()
