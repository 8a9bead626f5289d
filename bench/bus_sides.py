"""The processes of the databus's benchmarks: each has a core and does what it is told, line by line.

A benchmark is both: run without arguments it starts its sides, which are itself with the arguments
``side CORE ROLE …``.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import uvloop

from enginehost import Host, HostSettings
from enginehost.catalog import EngineRecord
from enginehost.databus import Client, DatabusConfig
from enginehost.engine import EngineState, Function
from measuring import pin

PATIENCE = 60.0
"""Seconds after which something that does not happen on the bus has failed."""

Orders = Mapping[str, Callable[..., Awaitable[Any]]]


def domains(count: int) -> list[int]:
    """DDS domains that probably nobody uses now."""
    return random.sample(range(60, 96), count)


class Side:
    """A process that waits for orders. It is ready when this is made."""

    def __init__(self, script: str, core: int, role: str, *given: object) -> None:
        command = [sys.executable, script, "side", str(core), role, *map(str, given)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self.about: Any = self.hear()

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def tell(self, order: str, **given: Any) -> None:
        """Give an order."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([order, given]) + "\n")
        self._process.stdin.flush()

    def hear(self) -> Any:
        """What the oldest order brought that was not heard yet."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(map(str, self._process.args))} ended")  # pyright: ignore
        return json.loads(line)

    def ask(self, order: str, **given: Any) -> Any:
        """Give an order and wait for what it brings."""
        self.tell(order, **given)
        return self.hear()

    def kill(self) -> None:
        """End it at once."""
        os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Let it leave."""
        if self._process.poll() is not None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failure: object, *_: object) -> None:
        if failure is not None and self._process.poll() is None:
            self.kill()
        self.close()


def be_side(roles: Mapping[str, Callable[..., Awaitable[None]]]) -> bool:
    """Run a role where the command line names one; whether it did."""
    if sys.argv[1:2] != ["side"]:
        return False
    pin(int(sys.argv[2]))

    async def run() -> None:
        await roles[sys.argv[3]](*sys.argv[4:])

    uvloop.run(run())
    return True


async def obey(orders: Orders, about: Any = None) -> None:
    """Say ``about``, and that this side is ready; then do what is ordered until nobody is there any more."""
    _say(about)
    while line := await asyncio.to_thread(sys.stdin.readline):
        order, given = json.loads(line)
        _say(await orders[order](**given))


def _say(value: Any) -> None:
    print(json.dumps(value), flush=True)


async def until(holds: Callable[[], bool], every: float = 0.005) -> float:
    """Look whether something holds, again and again; when it did (on the clock of all processes)."""
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError("it did not happen")
        await asyncio.sleep(every)
    return time.monotonic()


def config(domain: int, state: str, **more: Any) -> DatabusConfig:
    """A place on the bus that keeps its state where nobody else does."""
    return DatabusConfig(domain=domain, state_dir=Path(state), **more)


@asynccontextmanager
async def host_on(bus: DatabusConfig | None, state: str, folder: str | None = None) -> AsyncGenerator[Host]:
    """A host whose log lines go to the null device."""
    with Path(os.devnull).open("w") as log:  # noqa: ASYNC230 - nothing runs yet
        async with Host(folder, bus, settings=HostSettings(state_dir=Path(state)), log=log) as host:
            yield host


def offer(host: Host, functions: Iterable[Function]) -> None:
    """Put functions that this program has into the host's catalog, each as an engine."""
    host.catalog.update(
        (EngineRecord(one.signature.name, "bench", state=EngineState.READY), [one]) for one in functions
    )


async def offered(host: Host, count: int) -> None:
    """Wait until so many functions of the host are on the bus."""

    def all_there() -> bool:
        assert host.bus is not None
        about = host.bus.describe()
        return about["capabilities"] >= count and not about["pending"]

    await until(all_there, every=0.02)


def seen_by(bus: Client) -> int:
    """How many functions of others a client has."""
    return bus.describe()["remote_functions"]
