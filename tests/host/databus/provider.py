"""A host in a process of its own: ``provider.py DOMAIN [--service S] [--state DIR] [--marks FILE] …``.

It prints ``ready``, and one JSON line for what it is asked on standard input (``{"put": name}``,
``{"drop": name}``, ``{"describe": true}``); it stops in an orderly way when that closes. ``marks`` gets a
line for each run of ``once``, and of ``nap`` and ``numbers`` when they begin and end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from enginehost import Host, HostSettings
from enginehost.catalog import EngineRecord
from enginehost.databus import DatabusConfig
from enginehost.engine import Call, EngineState, Function, Limits, run_mode
from enginehost.signature import Annotations, FunctionSignature

OPEN = {"type": "object", "additionalProperties": True}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("domain", type=int)
    parser.add_argument("--service", default="calc")
    parser.add_argument("--state", type=Path)
    parser.add_argument("--marks", type=Path)
    parser.add_argument("--interface", default="127.0.0.1")
    parser.add_argument("--sign", action="store_true")
    parser.add_argument("--functions", type=int, default=0, help="further functions f0, f1, …")
    return parser.parse_args()


def functions(options: argparse.Namespace) -> dict[str, Function]:
    def mark(text: str) -> None:
        if options.marks is not None:
            with options.marks.open("a") as file:
                file.write(f"{text}\n")

    async def add(given: dict[str, Any], call: Call) -> Any:
        return given["a"] + given["b"]

    async def echo(given: dict[str, Any], call: Call) -> Any:
        return given["value"]

    async def pid(given: dict[str, Any], call: Call) -> int:
        await asyncio.sleep(given.get("seconds", 0))
        return os.getpid()

    async def once(given: dict[str, Any], call: Call) -> str:
        mark(given["id"])
        await asyncio.sleep(given.get("seconds", 0))
        return given["id"]

    async def nap(given: dict[str, Any], call: Call) -> str:
        mark("began")
        try:
            await asyncio.sleep(given["seconds"])
        except asyncio.CancelledError:
            mark("cancelled")
            raise
        return "rested"

    async def numbers(given: dict[str, Any], call: Call) -> AsyncIterator[int]:
        mark("stream began")
        try:
            for number in range(given["count"]):
                yield number
                if delay := given.get("delay", 0):
                    await asyncio.sleep(delay)
        finally:
            mark("stream ended")

    async def who(given: dict[str, Any], call: Call) -> dict[str, Any]:
        caller = call.caller
        return {
            "subject": caller.subject,
            "face": caller.face,
            "authenticated": caller.authenticated,
            "on_behalf_of": caller.claims.get("on_behalf_of", ""),
            "chain_id": call.chain_id,
            "remaining": call.remaining,
        }

    async def fail(given: dict[str, Any], call: Call) -> None:
        raise ValueError("no luck")

    again = Annotations(idempotent=True)
    numbers_wanted = {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    }
    adding = FunctionSignature("add", "Adds.", numbers_wanted, annotations=again, tags=("math",))
    turns = FunctionSignature("turn", parameters=OPEN, annotations=again)
    made = {
        "add": Function(adding, add),
        "echo": Function(FunctionSignature("echo", parameters=OPEN, annotations=again), echo),
        "pid": Function(FunctionSignature("pid", parameters=OPEN, annotations=again), pid),
        "turn": Function(turns, pid, limits=Limits(max_concurrency=1)),
        "once": Function(FunctionSignature("once", parameters=OPEN), once),
        "nap": Function(FunctionSignature("nap", parameters=OPEN), nap),
        "numbers": Function(
            FunctionSignature("numbers", parameters=OPEN, streaming=True), numbers, run_mode(numbers)
        ),
        "who": Function(FunctionSignature("who", parameters=OPEN), who),
        "fail": Function(FunctionSignature("fail", parameters=OPEN), fail),
    }
    for number in range(options.functions):
        further = FunctionSignature(f"f{number}", f"Function {number}.", numbers_wanted)
        made[further.name] = Function(further, add)
    return made


async def main() -> None:
    options = arguments()
    config = DatabusConfig(
        domain=options.domain,
        service=options.service,
        state_dir=options.state,
        interface=options.interface,
        sign=options.sign,
    )
    # what it knows of others plays no part here
    settings = HostSettings() if options.state is None else HostSettings(state_dir=options.state)
    async with Host(None, config, settings=settings) as host:
        offered = functions(options)

        def put(name: str) -> None:
            host.catalog.put(EngineRecord(name, "test", state=EngineState.READY), [offered[name]])

        host.catalog.update(
            (EngineRecord(name, "test", state=EngineState.READY), [one]) for name, one in offered.items()
        )
        say({"event": "ready", "pid": os.getpid()})
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        async for line in reader:
            order = json.loads(line)
            if "put" in order:
                put(order["put"])
            elif "drop" in order:
                host.catalog.remove(order["drop"])
            assert host.bus is not None
            say(
                {"event": "done", "bus": host.bus.describe(), "names": [entry.name for entry in host.catalog]}
            )


def say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
