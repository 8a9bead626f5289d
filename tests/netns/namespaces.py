"""Hosts in network namespaces of this machine, joined by a bridge or by a bad network (``relay.py``).

Needs root. Each network has namespaces of its own, also for what joins the hosts, so that addresses and
names of interfaces need not differ between networks, and nothing is to be seen outside.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import gettempdir
from typing import Any, TypeVar

Value = TypeVar("Value")

PREFIX = "enginehost-test"
NAMES = Path("/run/netns")
PATIENCE = 20.0

_numbers = count()


@dataclass
class Network:
    """Hosts by number; in each, ``interface(host)`` is up and has ``address(host)``, and so is ``lo``."""

    namespaces: list[str]
    processes: list[asyncio.subprocess.Process] = field(default_factory=list)

    def interface(self, host: int) -> str:
        """The name of the host's interface, in its namespace."""
        return f"veth{host}"

    def address(self, host: int) -> str:
        """The IPv4 address of the host's interface."""
        return _address(host)

    async def start(self, host: int, command: Sequence[str], **options: Any) -> asyncio.subprocess.Process:
        """Start a program in a host; it is killed with the network. ``options`` are asyncio's."""
        process = await asyncio.create_subprocess_exec(*_inside(self.namespaces[host], command), **options)
        self.processes.append(process)
        return process

    async def run(self, host: int, command: Sequence[str], **options: Any) -> str:
        """What a program that runs in a host prints until it ends. Fails where it ends with an error."""
        process = await self.start(host, command, stdout=asyncio.subprocess.PIPE, **options)
        said, _ = await process.communicate()
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, list(command), said)
        return said.decode()

    async def within(self, host: int, function: Callable[[], Value]) -> Value:
        """What ``function`` gives on a thread that is in the host's network.

        Sockets that it makes stay there, whoever uses them later.
        """
        return await asyncio.to_thread(within, self.namespaces[host], function)

    async def socket(
        self, host: int, kind: socket.SocketKind = socket.SOCK_DGRAM, port: int = 0
    ) -> socket.socket:
        """A socket in the host, bound to its address; does not block."""

        def make() -> socket.socket:
            made = socket.socket(socket.AF_INET, kind)
            made.bind((self.address(host), port))
            made.setblocking(False)
            return made

        return await self.within(host, make)

    async def close(self) -> None:
        """Kill the programs."""
        for process in self.processes:
            if process.returncode is None:
                process.kill()
        await asyncio.gather(*(process.wait() for process in self.processes))


@dataclass
class LossyNetwork(Network):
    """A network whose weather can be told at any time; see ``relay.py`` for its words."""

    relay: asyncio.subprocess.Process | None = None
    _telling: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One order at a time, so that each gets its own answer."""

    async def set(self, **weather: Any) -> dict[str, int]:
        """Change what happens to frames that are sent from now on; the counts of frames up to now."""
        assert self.relay is not None
        assert self.relay.stdin is not None
        assert self.relay.stdout is not None
        async with self._telling, asyncio.timeout(PATIENCE):
            self.relay.stdin.write(json.dumps(weather).encode() + b"\n")
            line = await self.relay.stdout.readline()
        assert line, "the relay has ended"
        return json.loads(line)["counts"]

    async def partition(self, *hosts: int) -> None:
        """Cut these hosts off from all others; without any, each from each."""
        await self.set(cut=hosts or tuple(range(len(self.namespaces))))

    async def heal(self) -> None:
        """End the partition."""
        await self.set(cut=())


@asynccontextmanager
async def bridged(hosts: int = 2) -> AsyncGenerator[Network]:
    """Hosts on one bridge: a good network."""
    with _namespaces(hosts) as (middle, names):
        _ip(middle, "link add bridge0 type bridge", "link set bridge0 up")
        _ip(middle, *(f"link set port{host} master bridge0" for host in range(hosts)))
        network = Network(names)
        try:
            yield network
        finally:
            await network.close()


@asynccontextmanager
async def lossy(hosts: int = 2, *, seed: int = 1, **weather: Any) -> AsyncGenerator[LossyNetwork]:
    """Hosts joined by a relay: ``lossy(3, loss=10, delay_ms=50, jitter_ms=20, duplication=5)``.

    ``seed`` is that of all chances.
    """
    with _namespaces(hosts) as (middle, names):
        for host, name in enumerate(names):
            within(name, partial(_whole_frames, f"veth{host}"))
        network = LossyNetwork(names)
        try:
            network.relay = await _relay(middle, hosts, seed)
            network.processes.append(network.relay)
            await network.set(**weather)
            yield network
        finally:
            await network.close()


async def _relay(namespace: str, hosts: int, seed: int) -> asyncio.subprocess.Process:
    program = str(Path(__file__).with_name("relay.py"))
    ports = [f"port{host}" for host in range(hosts)]
    return await asyncio.create_subprocess_exec(
        *_inside(namespace, [sys.executable, "-S", program, str(seed), *ports]),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )


def within(namespace: str, function: Callable[[], Value]) -> Value:
    """What ``function`` gives on a thread of its own, which alone is in the network namespace."""
    result: list[Value] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            _enter(namespace)
            result.append(function())
        except BaseException as caught:  # noqa: BLE001 - raised again on the thread that asked
            failure.append(caught)

    thread = threading.Thread(target=run, name=f"in {namespace}")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return result[0]


def remove_leftovers() -> None:
    """Remove namespaces, and the programs in them, whose test process was killed."""
    for path in NAMES.glob(f"{PREFIX}-*"):
        owner, _, born = path.name.removeprefix(f"{PREFIX}-").partition("-")
        if _born(int(owner)) != born.partition("-")[0]:
            _remove(path.name)


@contextmanager
def _namespaces(hosts: int) -> Iterator[tuple[str, list[str]]]:
    """Namespaces for so many hosts, and one in their middle with the interfaces ``port0``, …."""
    pid = os.getpid()
    own = f"{PREFIX}-{pid}-{_born(pid)}-{next(_numbers)}"
    middle, names = f"{own}-middle", [f"{own}-host{host}" for host in range(hosts)]
    try:
        with _alone():
            for name in (middle, *names):
                subprocess.run(["ip", "netns", "add", name], check=True)
        for name in (middle, *names):
            within(name, _without_ipv6)
        for host, name in enumerate(names):
            _wire(host, name, middle, hosts)
        yield middle, names
    finally:
        for name in (middle, *names):
            _remove(name)


def _wire(host: int, name: str, middle: str, hosts: int) -> None:
    """All hardware addresses are known from the start: no datagram waits for one, or overtakes another."""
    end = f"veth{host}"
    _ip(
        middle,
        f"link add port{host} type veth peer name {end} address {_hardware(host)} netns {name}",
        f"link set port{host} up",
    )
    others = (other for other in range(hosts) if other != host)
    _ip(
        name,
        "link set lo up",
        f"addr add {_address(host)}/24 dev {end}",
        f"link set {end} up",
        *(f"neigh add {_address(one)} lladdr {_hardware(one)} dev {end} nud permanent" for one in others),
    )


def _remove(name: str) -> None:
    inside = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False)
    for pid in inside.stdout.split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


@contextmanager
def _alone() -> Iterator[None]:
    """The first namespace of a machine changes its mounts, for which ``ip`` has no lock."""
    with (Path(gettempdir()) / f"{PREFIX}-netns.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _ip(namespace: str, *commands: str) -> None:
    words = ["ip", "-n", namespace, "-batch", "-"]
    subprocess.run(words, input="\n".join(commands) + "\n", text=True, check=True)


def _inside(namespace: str, command: Sequence[str]) -> list[str]:
    return ["ip", "netns", "exec", namespace, *command]


def _address(host: int) -> str:
    return f"10.77.0.{host + 1}"


def _hardware(host: int) -> str:
    return f"02:00:00:00:00:{host + 1:02x}"


def _born(pid: int) -> str:
    """When a process began, in ticks since the boot: with its id, no other's. Empty where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except FileNotFoundError:
        return ""


_CLONE_NEWNET = 0x4000_0000


def _enter(namespace: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with (NAMES / namespace).open("rb") as file:
        if libc.setns(file.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter the namespace {namespace}")


def _without_ipv6() -> None:
    """No router solicitations and the like among the counted frames."""
    for which in ("all", "default"):
        with suppress(FileNotFoundError):
            Path(f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6").write_text("1")


_SIOCETHTOOL = 0x8946
_TX_CHECKSUMS, _SEGMENTATION = 0x17, (0x1F, 0x24, 0x2C)
"""ethtool's commands to set checksums at sending; TSO, GSO, GRO."""


def _whole_frames(interface: str) -> None:
    """Have an interface send frames as they would be on a cable: with checksums, none larger than the MTU."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for command in (*_SEGMENTATION, _TX_CHECKSUMS):
            value = ctypes.create_string_buffer(struct.pack("II", command, 0))
            request = struct.pack("16sP8x", interface.encode(), ctypes.addressof(value))
            fcntl.ioctl(any_socket, _SIOCETHTOOL, request)
