"""Calls from host to host on the databus, against bare Cyclone DDS that carries the same bytes.

Each side is a process: providers share one core, requesters the other; the runs of a table take turns. How
many bytes a call of ours has is read off the wire first.

    python bench/bus_calls.py [RUNS=5] [CALLS=1500]
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter, perf_counter_ns, sleep
from typing import Any

from bus_bare import Bare, Provider, Requester, Sizes
from bus_sides import Side, be_side, config, domains, host_on, obey, offer, offered
from enginehost.databus import Client
from enginehost.databus.keys import new_key, write_key, written
from enginehost.databus.trust import KeyEntry, trust_key
from enginehost.engine import Function, run_mode
from enginehost.signature import FunctionSignature
from measuring import LOAD_CORE, RUNS, SERVER_CORE, Spread, finish, in_turn, introduce, table, verdict

TEXT = "x" * 1_000_000
ARGUMENTS: dict[str, dict[str, Any]] = {"add": {"a": 1, "b": 2}, "text": {}, "took": {"value": TEXT}}
PARAMETERS = {
    "add": {"a": "integer", "b": "integer"},
    "text": {},
    "took": {"value": "string"},
    "numbers": {"count": "integer"},
}
ITEMS = 100_000
BARE_ITEMS = 10_000
IN_FLIGHT = 64

MOST_OF_BARE = 1.6
LEAST_RATE = 4_000
MOST_OF_BARE_LARGE = 1.3
LEAST_ITEMS = 50_000

BARE = "bare Cyclone"
HOST = "Host.call"
CLIENT = "Client.call"
SIGNED_HOST = "Host.call, signed both ways"
SIGNED_CLIENT = "Client.call, signed both ways"

Call = Callable[[str], Awaitable[Any]]
Stream = Callable[[int], AsyncGenerator[Any, None]]


# The functions


async def add(arguments: dict[str, Any], call: Any) -> int:
    return arguments["a"] + arguments["b"]


async def text(arguments: dict[str, Any], call: Any) -> str:
    return TEXT


async def took(arguments: dict[str, Any], call: Any) -> int:
    return len(arguments["value"])


async def numbers(arguments: dict[str, Any], call: Any) -> AsyncGenerator[int, None]:
    for number in range(arguments["count"]):
        yield number


def function(run: Callable[..., Any]) -> Function:
    name = run.__name__
    given = {one: {"type": kind} for one, kind in PARAMETERS[name].items()}
    schema = {"type": "object", "properties": given, "required": list(given)}
    signature = FunctionSignature(name, parameters=schema, streaming=run is numbers)
    return Function(signature, run, run_mode(run))


# The sides


async def provide(domain: str, state: str, sign: str) -> None:
    """A host that has the functions."""
    bus = config(int(domain), state, service="calc", sign=bool(sign))
    async with host_on(bus, state) as host:
        offer(host, map(function, (add, text, took, numbers)))
        await offered(host, 4)
        await obey({})


async def call_by_host(domain: str, state: str, sign: str) -> None:
    """A host that has none."""
    bus = config(int(domain), state, service="caller", sign=bool(sign))
    async with host_on(bus, state) as host:
        assert host.bus is not None
        for name in PARAMETERS:
            await host.bus.arrival(f"calc.{name}")
        await measured(
            lambda name: host.call(f"calc.{name}", ARGUMENTS[name]),
            lambda count: host.stream("calc.numbers", {"count": count}),
        )


async def call_by_client(domain: str, state: str, sign: str) -> None:
    """A program without a host."""
    async with Client(config(int(domain), state, sign=bool(sign))) as bus:
        for name in PARAMETERS:
            await bus.wait_for(f"calc.{name}")
        await measured(
            lambda name: bus.call(f"calc.{name}", ARGUMENTS[name]),
            lambda count: bus.stream("calc.numbers", {"count": count}),
        )


async def provide_bare(domain: str, sizes: str) -> None:
    bare = Bare(int(domain))
    Provider(bare, json.loads(sizes))
    await obey({})
    bare.close()


async def call_bare(domain: str, sizes: str) -> None:
    bare = Bare(int(domain))
    requester = Requester(bare, json.loads(sizes))
    await requester.connected()
    await measured(requester.call, requester.stream)
    bare.close()


async def read_wire(domain: str) -> None:
    """How many bytes each call has that it sees, by what its parameters or its result look like."""
    bare = Bare(int(domain))
    asked: dict[str, Any] = {}
    found: Sizes = {}

    def take_requests(requests: list[Any]) -> None:
        asked.update((request.request_id, request) for request in requests)

    def take_replies(replies: list[Any]) -> None:
        for reply in replies:
            if (request := asked.get(reply.request_id)) is not None:
                found.setdefault(_kind(request.parameters, reply.result), _sizes(request, reply))

    bare.reader(bare.requests, take_requests, "eh.*")
    bare.reader(bare.replies, take_replies, "eh.*")

    async def sizes() -> Sizes:
        return found

    await obey({"sizes": sizes})
    bare.close()


def _kind(parameters: str, result: str) -> str:
    if '"a"' in parameters:
        return "add"
    return "took" if len(parameters) > len(TEXT) else "text"


def _sizes(request: Any, reply: Any) -> dict[str, int]:
    return {
        "parameters": len(request.parameters),
        "asked": len(request.metadata),
        "result": len(reply.result),
        "told": len(reply.metadata),
    }


async def measured(call: Call, stream: Stream) -> None:
    """Do what the benchmark orders with these ways to call."""

    async def once(name: str) -> None:
        await call(name)

    async def latency(name: str, count: int) -> float:
        """Microseconds of one call, the median."""
        found: list[int] = []
        for _ in range(count):
            begin = perf_counter_ns()
            await call(name)
            found.append(perf_counter_ns() - begin)
        return sorted(found)[count // 2] / 1e3

    async def rate(total: int) -> float:
        """Calls a second, many in flight."""

        async def caller() -> None:
            for _ in range(total // IN_FLIGHT):
                await call("add")

        begin = perf_counter()
        await asyncio.gather(*(caller() for _ in range(IN_FLIGHT)))
        return total // IN_FLIGHT * IN_FLIGHT / (perf_counter() - begin)

    async def items(count: int) -> float:
        """Items of a stream a second."""
        begin, seen = perf_counter(), 0
        async for number in stream(count):
            assert number == seen
            seen += 1
        assert seen == count
        return count / (perf_counter() - begin)

    await obey({"once": once, "latency": latency, "rate": rate, "items": items})


ROLES: Mapping[str, Callable[..., Awaitable[None]]] = {
    "provide": provide,
    "call_by_host": call_by_host,
    "call_by_client": call_by_client,
    "provide_bare": provide_bare,
    "call_bare": call_bare,
    "read_wire": read_wire,
}


# The benchmark


def make_keys(*states: Path) -> None:
    """A key for each place, which all of them trust."""
    keys = {state: new_key() for state in states}
    for state, key in keys.items():
        write_key(state / "databus" / "key.pem", key)
        for owner, other in keys.items():
            trust_key(
                state / "databus" / "trusted.yaml", KeyEntry(name=owner.name, key=written(other.public))
            )


def sizes_on_wire(domain: int, requester: Side) -> Sizes:
    """How many bytes a call of each function has."""
    found: Sizes = {}
    with Side(__file__, LOAD_CORE, "read_wire", domain) as wire:
        for _ in range(20):
            for name in ARGUMENTS:
                requester.ask("once", name=name)
            found = wire.ask("sizes")
            if len(found) == len(ARGUMENTS):
                return found | {"numbers": found["add"]}
            sleep(0.2)
    raise RuntimeError(f"of the calls on the wire only {list(found)} were seen")


def start(stack: ExitStack, place: Path) -> dict[str, Side]:
    """All sides; the requesters by name."""

    def side(core: int, *given: object) -> Side:
        return stack.enter_context(Side(__file__, core, *map(str, given)))

    def pair(domain: int, sign: str) -> list[Side]:
        states = [place / f"{one}{sign}" for one in ("provider", "host", "client")]
        if sign:
            make_keys(*states)
        side(SERVER_CORE, "provide", domain, states[0], sign)
        return [
            side(LOAD_CORE, f"call_by_{one}", domain, state, sign)
            for one, state in zip(("host", "client"), states[1:], strict=True)
        ]

    plain, signed, alone = domains(3)
    host, client = pair(plain, "")
    signed_host, signed_client = pair(signed, "signed")
    sizes = sizes_on_wire(plain, host)
    print("bytes of a call:", json.dumps(sizes["add"]))
    side(SERVER_CORE, "provide_bare", alone, json.dumps(sizes))
    bare = side(LOAD_CORE, "call_bare", alone, json.dumps(sizes))
    return {BARE: bare, HOST: host, CLIENT: client, SIGNED_HOST: signed_host, SIGNED_CLIENT: signed_client}


def each(sides: dict[str, Side], order: str, runs: int, **given: Any) -> dict[str, Spread]:
    """Order the same of all, in turn; what the first of ``runs`` + 1 gave warms up."""
    for side in sides.values():
        side.ask(order, **given)

    def case(side: Side) -> Callable[[], float]:
        return lambda: side.ask(order, **given)

    return in_turn({name: case(side) for name, side in sides.items()}, runs)


def report(title: str, found: dict[str, Spread], digits: int = 0) -> None:
    """Print a table, with what each row is of the bare one."""
    base = found[BARE].median
    rows = [[name, *spread.cells(digits), f"{spread.median / base:.2f}"] for name, spread in found.items()]
    table(title, ["", "median", "lowest", "highest", "of bare"], rows)


def main(runs: int = RUNS, count: int = 1500) -> None:
    introduce("Calls on the databus, providers on one core, requesters on the other, uvloop")
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        sides = start(stack, Path(place))
        small = each(sides, "latency", runs, name="add", count=count)
        report("add, one call at a time, µs", small)
        verdict("of bare, Host.call of add", small[HOST].median / small[BARE].median, most=MOST_OF_BARE)
        rates = each(sides, "rate", runs, total=2 * count)
        report(f"add, {IN_FLIGHT} in flight, calls a second", rates)
        verdict("calls a second, Host.call", rates[HOST].median, least=LEAST_RATE)
        large = {
            name: each(sides, "latency", runs, name=name, count=max(5, count // 50))
            for name in ("text", "took")
        }
        report("a result of a megabyte, µs", large["text"])
        of_bare = large["text"][HOST].median / large["text"][BARE].median
        verdict("of bare, Host.call with a result of a megabyte", of_bare, most=MOST_OF_BARE_LARGE)
        report("an argument of a megabyte, µs", large["took"])
        report_streams(sides, runs)


def report_streams(sides: dict[str, Side], runs: int) -> None:
    """Measure and print the streams: the bare one sends a sample for each item."""
    bare = {BARE: sides.pop(BARE)}
    found = each(bare, "items", min(runs, 3), count=BARE_ITEMS)
    found |= each(sides, "items", min(runs, 3), count=ITEMS)
    report("a stream of small integers, items a second", found)
    verdict("items a second, Host.stream", found[HOST].median, least=LEAST_ITEMS)


if __name__ == "__main__":
    if not be_side(ROLES):
        main(*(int(given) for given in sys.argv[1:]))
        finish()
