"""The networks of these tests are what they say, and leave nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.netns.namespaces import NAMES, LossyNetwork, Network, remove_leftovers

pytestmark = pytest.mark.netns

SO_RCVBUFFORCE = 33
RECEIVED_BYTES = 8 << 20
"""Room for everything that arrives while the receiver does not get its turn."""
QUIET = 0.3
"""Seconds for which nothing has to arrive where nothing may."""


class Line:
    """Numbered datagrams from one host to another, each with the time when it was sent."""

    def __init__(self, sender: socket.socket, receiver: socket.socket) -> None:
        self._sender, self._receiver = sender, receiver
        self._loop = asyncio.get_running_loop()

    async def send(self, number: int, more_bytes: int = 0) -> None:
        text = json.dumps([number, self._loop.time(), "x" * more_bytes])
        await self._loop.sock_sendto(self._sender, text.encode(), self._receiver.getsockname())

    async def receive(self) -> tuple[int, float]:
        """The number of the next one, and the seconds for which it was under way."""
        async with asyncio.timeout(20):
            number, sent_at, _ = json.loads(await self._loop.sock_recv(self._receiver, 1 << 16))
        return number, self._loop.time() - sent_at

    async def next(self) -> int:
        return (await self.receive())[0]

    async def until(self, last: int) -> list[tuple[int, float]]:
        """All before the number ``last``."""
        got = [await self.receive()]
        while got[-1][0] != last:
            got.append(await self.receive())
        return got[:-1]


@asynccontextmanager
async def line(net: Network, sender: int = 0, receiver: int = 1) -> AsyncGenerator[Line]:
    with await net.socket(sender) as one, await net.socket(receiver) as other:
        other.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVED_BYTES)
        yield Line(one, other)


async def arrivals(net: LossyNetwork, count: int) -> list[tuple[int, float]]:
    """What becomes of so many datagrams: their numbers and times as they arrive.

    The one that is sent last, in fine weather but later than all others can be, ends it.
    """
    async with line(net) as sent:
        receiving = asyncio.create_task(sent.until(count))
        for number in range(count):
            await sent.send(number)
        await net.set(loss=0, duplication=0, delay_ms=300, jitter_ms=0)
        await sent.send(count)
        return await receiving


async def test_hosts_on_a_bridge_reach_each_other_and_nobody_else(network):
    async with (
        network(hosts=2) as net,
        network(hosts=2) as other,
        line(net) as here,
        line(other) as elsewhere,
    ):
        assert net.address(1) == other.address(1)
        await here.send(1)
        await elsewhere.send(2)
        assert await here.next() == 1
        assert await elsewhere.next() == 2


async def test_a_program_in_a_host_sees_loopback_and_the_hosts_own_interface_only(network):
    async with network(hosts=2) as net:
        said = await net.run(0, ["ip", "-o", "-4", "addr", "show", "up"])
        assert [words.split()[1] for words in said.splitlines()] == ["lo", net.interface(0)]
        assert f"{net.address(0)}/24" in said
        with pytest.raises(subprocess.CalledProcessError):
            await net.run(0, ["ip", "addr", "show", net.interface(1)], stderr=subprocess.DEVNULL)


async def test_a_relay_in_fine_weather_forwards_everything_in_order(lossy):
    async with lossy(hosts=2) as net:
        assert [number for number, _ in await arrivals(net, 300)] == list(range(300))


async def test_large_datagrams_pass_whole_through_the_relay(lossy):
    async with lossy(hosts=2) as net, line(net) as sent:
        await sent.send(7, 60_000)
        assert await sent.next() == 7


async def test_a_stream_passes_whole_through_a_relay_in_bad_weather(lossy):
    loop = asyncio.get_running_loop()
    data = os.urandom(300_000)
    async with lossy(hosts=2, loss=2, delay_ms=5, jitter_ms=5, duplication=5) as net, asyncio.timeout(20):
        with (
            await net.socket(1, socket.SOCK_STREAM) as server,
            await net.socket(0, socket.SOCK_STREAM) as client,
        ):
            server.listen()
            await loop.sock_connect(client, server.getsockname())
            taken, _ = await loop.sock_accept(server)
            sending = asyncio.create_task(loop.sock_sendall(client, data))
            with taken:
                got = b""
                while len(got) < len(data):
                    got += await loop.sock_recv(taken, 1 << 16)
            await sending
    assert got == data


async def test_loss_is_near_its_rate(lossy):
    async with lossy(hosts=2, loss=20) as net:
        assert 750 < len(await arrivals(net, 1_000)) < 850


async def test_nothing_arrives_before_its_delay_and_jitter_changes_the_order(lossy):
    async with lossy(hosts=2, delay_ms=50, jitter_ms=40) as net:
        got = await arrivals(net, 300)
    numbers = [number for number, _ in got]
    assert min(seconds for _, seconds in got) >= 0.05
    assert numbers != sorted(numbers)
    assert sorted(numbers) == list(range(300))


async def test_duplicates_arrive_twice(lossy):
    async with lossy(hosts=2, duplication=10) as net:
        numbers = [number for number, _ in await arrivals(net, 1_000)]
    assert set(numbers) == set(range(1_000))
    assert 1_060 < len(numbers) < 1_140
    assert all(numbers.count(number) <= 2 for number in numbers)


async def test_a_partition_stops_everything_also_what_is_under_way_until_it_heals(lossy):
    async with lossy(hosts=2) as net, line(net) as there, line(net, 1, 0) as back:
        await net.set(delay_ms=100)
        await there.send(1)
        await net.partition()
        await there.send(2)
        await back.send(3)
        await asyncio.sleep(QUIET)
        await net.heal()
        await there.send(4)
        await back.send(5)
        assert await there.next() == 4
        assert await back.next() == 5


async def test_a_partition_can_cut_off_one_host_of_three(lossy):
    async with lossy(hosts=3) as net, line(net, 0, 1) as well, line(net, 0, 2) as cut:
        await net.partition(2)
        await cut.send(1)
        await well.send(2)
        assert await well.next() == 2
        await net.heal()
        await cut.send(3)
        assert await cut.next() == 3


async def test_a_network_leaves_nothing_behind_where_its_test_fails(lossy):
    names, processes = [], []

    async def fail() -> None:
        async with lossy(hosts=2) as net:
            names.extend(net.namespaces)
            processes.append(await net.start(0, ["sleep", "600"]))
            assert all((NAMES / name).exists() for name in names)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert processes[0].returncode == -signal.SIGKILL
    assert not list(NAMES.glob(f"{names[0].removesuffix('host0')}*"))


KILLED = """
import asyncio, os, signal, subprocess
from tests.netns.namespaces import lossy

async def main():
    async with lossy(hosts=2) as net:
        sleep = await net.start(1, ["sleep", "600"], stdout=subprocess.DEVNULL)
        print(net.namespaces[0], sleep.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_what_a_killed_run_left_is_removed_at_the_next_start(network):
    async with network(hosts=1) as mine:
        root = Path(__file__).parents[2]
        killed = await asyncio.create_subprocess_exec(
            sys.executable, "-c", KILLED, stdout=asyncio.subprocess.PIPE, cwd=root
        )
        said, _ = await killed.communicate()
        name, pid = said.decode().split()
        remove_leftovers()
        assert not (NAMES / name).exists()
        async with asyncio.timeout(20):
            while _runs(int(pid)):
                await asyncio.sleep(0.01)
        assert (NAMES / mine.namespaces[0]).exists()


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
