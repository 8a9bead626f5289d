"""What calls between two hosts on the databus cost the 48 others that are on it too.

Fifty participants in four processes: the provider, the requester, and two with 24 hosts each. All UDP on the
loopback interface is counted by the process whose port it goes to, in windows of equal length with calls and
without, so that what hosts send each other anyhow (twice in a window everybody says that he is there) is
taken off. This needs the right to look at packets; without it there is nothing to measure.

    python bench/bus_others.py [RUNS=3] [CALLS=1000]
"""

from __future__ import annotations

import select
import socket
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from bus_sides import Side, be_side, config, domains, host_on, obey, offer, until
from enginehost.engine import Function
from enginehost.signature import FunctionSignature
from measuring import LOAD_CORE, SERVER_CORE, Spread, finish, introduce, pin, table, verdict

OTHERS = 24
"""Hosts in each process of others."""
PARTICIPANTS = 2 + 2 * OTHERS
WINDOW = 16.0
"""Seconds: twice the time between two announcements of a participant."""
MOST_BYTES = 20.0

_ALL_PROTOCOLS = 0x0003
_OUTGOING = 4
_ETHERNET = 14
_IPV4 = 0x0800
_UDP = 17
_RECEIVE_BUFFER = 64 << 20
_SO_RCVBUFFORCE = 33
_SOL_PACKET = 263
_PACKET_STATISTICS = 6


# The sides


async def add(arguments: dict[str, Any], call: Any) -> int:
    return arguments["a"] + arguments["b"]


def function(name: str) -> Function:
    two = {"a": {"type": "integer"}, "b": {"type": "integer"}}
    schema = {"type": "object", "properties": two, "required": ["a", "b"]}
    return Function(FunctionSignature(name, parameters=schema), add)


async def take_part(domain: str, state: str, first: str, count: str) -> None:
    """So many hosts, each with a function of its own; the first one of them calls when it is told to."""
    async with AsyncExitStack() as stack:
        hosts = []
        for number in range(int(first), int(first) + int(count)):
            spot = f"{state}/{number}"
            bus = config(int(domain), spot, service=f"host{number}")
            hosts.append(await stack.enter_async_context(host_on(bus, spot)))
            offer(hosts[-1], [function("add")])

        async def all_there() -> None:
            for host in hosts:
                await until(lambda host=host: len(host.catalog) >= PARTICIPANTS, every=0.05)

        async def call(count: int) -> None:
            for number in range(count):
                await hosts[0].call("host0.add", {"a": number, "b": 1})

        await obey({"all_there": all_there, "call": call})


ROLES: Mapping[str, Callable[..., Awaitable[None]]] = {"take_part": take_part}


# Counting


def ports_of(pid: int) -> set[int]:
    """The UDP ports of a process."""
    inodes = set[str]()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except OSError:  # closed meanwhile
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    lines = [line.split() for line in Path("/proc/net/udp").read_text().splitlines()[1:]]
    return {int(line[1].rpartition(":")[2], 16) for line in lines if line[9] in inodes}


class Loopback:
    """Sees every packet on the loopback interface. Raises ``PermissionError`` where it may not."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)
        self._socket.bind(("lo", 0))
        self._socket.setblocking(False)

    def count(self, seconds: float) -> Counter[int]:
        """Bytes of UDP by the port that they go to. Raises ``RuntimeError`` where packets were missed."""
        found: Counter[int] = Counter()
        self._drain(Counter())
        self._missed()
        end = monotonic() + seconds
        while (left := end - monotonic()) > 0:
            if select.select([self._socket], [], [], left)[0]:
                self._drain(found)
        if missed := self._missed():
            raise RuntimeError(f"{missed} packets were not counted")
        return found

    def close(self) -> None:
        """Look no more."""
        self._socket.close()

    def _drain(self, found: Counter[int]) -> None:
        while True:
            try:
                packet, address = self._socket.recvfrom(128)
            except BlockingIOError:
                return
            if address[2] != _OUTGOING and address[1] == _IPV4 and packet[_ETHERNET + 9] == _UDP:
                udp = _ETHERNET + 4 * (packet[_ETHERNET] & 15)
                _, port, length, _ = struct.unpack_from("!HHHH", packet, udp)
                found[port] += length - 8

    def _missed(self) -> int:
        raw = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
        return struct.unpack("II", raw)[1]


def received(loopback: Loopback, ports: Mapping[str, set[int]]) -> dict[str, int]:
    """Bytes that each process gets in a window."""
    found = loopback.count(WINDOW)
    return {name: sum(found[port] for port in mine) for name, mine in ports.items()}


def measure(loopback: Loopback, place: Path, runs: int, count: int) -> None:
    """Measure and print what each process gets more for a call."""
    (domain,) = domains(1)
    names = ("provider", "requester", "others", "more others")
    sizes = (1, 1, OTHERS, OTHERS)
    with ExitStack() as stack:
        sides: dict[str, Side] = {}
        for place_of, (name, size) in enumerate(zip(names, sizes, strict=True)):
            core = LOAD_CORE if name == "requester" else SERVER_CORE
            given = (domain, place / name, sum(sizes[:place_of]), size)
            sides[name] = stack.enter_context(Side(__file__, core, "take_part", *given))
        for side in sides.values():
            side.ask("all_there")
        sides["requester"].ask("call", count=count)
        sleep(3.0)  # what came late has been told
        ports = {name: ports_of(side.pid) for name, side in sides.items()}
        more: dict[str, list[float]] = {name: [] for name in names}
        idle: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(runs):
            before = received(loopback, ports)
            sides["requester"].tell("call", count=count)
            during = received(loopback, ports)
            sides["requester"].hear()
            for name in names:
                more[name].append((during[name] - before[name]) / count)
                idle[name].append(before[name] / WINDOW)
    report(more, idle, dict(zip(names, sizes, strict=True)))


def report(more: dict[str, list[float]], idle: dict[str, list[float]], sizes: dict[str, int]) -> None:
    """Print the table, and whether the promise is kept."""
    rows = [
        [f"{name} ({sizes[name]})", *Spread(values).cells(1), f"{Spread(idle[name]).median:.0f}"]
        for name, values in more.items()
    ]
    head = ["process (participants)", "median", "lowest", "highest", "bytes/s without calls"]
    table("Bytes more that a process receives for a call", head, rows)
    for name in ("others", "more others"):
        verdict(f"bytes for a call that {name} receive", Spread(more[name]).median, most=MOST_BYTES)


def main(runs: int = 3, count: int = 1000) -> None:
    pin(LOAD_CORE)
    introduce(f"{PARTICIPANTS} participants on the databus in 4 processes, {count} calls from one to another")
    try:
        loopback = Loopback()
    except (AttributeError, PermissionError) as failure:
        print(f"left out: packets can only be seen on Linux and as root ({type(failure).__name__})")
        return
    with tempfile.TemporaryDirectory() as place:
        measure(loopback, Path(place), runs, count)
    loopback.close()


if __name__ == "__main__":
    if not be_side(ROLES):
        main(*(int(given) for given in sys.argv[1:]))
        finish()
