"""A bad network in user space: frames between interfaces are forwarded, lost, delayed and doubled.

``relay.py SEED INTERFACE...`` runs in a namespace of its own with one end of a veth pair for each host, and
is a bridge between them that hosts cannot tell from a cable. It takes orders as JSON lines on its input,
which hold for all frames that are sent later, and answers each with a line: the order, and ``counts`` of
frames so far. Keys of an order, each as it stands until it is given again: ``loss`` and ``duplication``
(percent of frames), ``delay_ms`` and ``jitter_ms`` (each frame waits for the delay and a random part of the
jitter, and so overtakes others), ``cut`` (numbers of the hosts that are cut off from all; what waits is
stopped too). It ends when its input closes.
"""

from __future__ import annotations

import heapq
import json
import select
import socket
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from itertools import count
from random import Random

ALL_PROTOCOLS = 0x0003
SOL_PACKET = 263
PACKET_IGNORE_OUTGOING = 23
SO_RCVBUFFORCE = 33
SO_SNDBUFFORCE = 32
LARGEST_FRAME = 1 << 16
BUFFER_BYTES = 32 << 20
FRAMES_IN_A_ROW = 64
"""Taken from one interface before the others, and what is due, have their turn."""
FRAMES_BEFORE_AN_ORDER = 10_000
"""Taken from each interface before an order holds, so that it does not reach into the past."""
FIRST_GROUP_BIT = 0x01
"""Of the first byte of an address: the frame is for several hosts."""


@dataclass(frozen=True)
class Weather:
    """What happens to frames."""

    loss: float = 0.0
    duplication: float = 0.0
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    cut: tuple[int, ...] = ()


class Relay:
    """The ports, the frames that wait, and where each address was last seen."""

    def __init__(self, seed: int, interfaces: list[str]) -> None:
        self.weather = Weather()
        self.counts: Counter[str] = Counter()
        self._random = Random(seed)
        self._ports = [_port(name) for name in interfaces]
        self._waiting: list[tuple[float, int, int, int, bytes]] = []
        self._order = count()
        self._port_of: dict[bytes, int] = {}
        self._epoll = select.epoll()
        for port in (*self._ports, sys.stdin):
            self._epoll.register(port.fileno(), select.EPOLLIN)

    def run(self) -> None:
        """Forward until the orders end."""
        number_of = {port.fileno(): number for number, port in enumerate(self._ports)}
        while True:
            for file, _ in self._epoll.poll(self._patience()):
                if file in number_of:
                    self._take(number_of[file], FRAMES_IN_A_ROW)
                elif not self._obey(sys.stdin.readline()):
                    return
            self._send_due()

    def _patience(self) -> float:
        if not self._waiting:
            return -1
        return max(0.0, self._waiting[0][0] - time.monotonic())

    def _obey(self, order: str) -> bool:
        if not order:
            return False
        for source in range(len(self._ports)):
            self._take(source, FRAMES_BEFORE_AN_ORDER)
        given = json.loads(order)
        self.weather = replace(self.weather, **given)
        sys.stdout.write(json.dumps(given | {"counts": self.counts}) + "\n")
        sys.stdout.flush()
        return True

    def _take(self, source: int, most: int) -> None:
        for _ in range(most):
            try:
                frame = self._ports[source].recv(LARGEST_FRAME)
            except OSError:  # there is nothing more, or the other end went down
                return
            self.counts["taken"] += 1
            self._port_of[frame[6:12]] = source
            for target in self._targets(source, frame):
                self._forward(source, target, frame)

    def _targets(self, source: int, frame: bytes) -> list[int]:
        known = None if frame[0] & FIRST_GROUP_BIT else self._port_of.get(frame[:6])
        others = range(len(self._ports)) if known is None else (known,)
        return [port for port in others if port != source]

    def _forward(self, source: int, target: int, frame: bytes) -> None:
        weather, chance = self.weather, self._random.random
        if chance() * 100 < weather.loss:
            self.counts["lost"] += 1
            return
        copies = 1
        if chance() * 100 < weather.duplication:
            self.counts["doubled"] += 1
            copies = 2
        for _ in range(copies):
            wait = weather.delay_ms + chance() * weather.jitter_ms
            if wait:
                due = time.monotonic() + wait / 1000
                heapq.heappush(self._waiting, (due, next(self._order), source, target, frame))
            else:
                self._send(source, target, frame)

    def _send_due(self) -> None:
        now = time.monotonic()
        while self._waiting and self._waiting[0][0] <= now:
            _, _, source, target, frame = heapq.heappop(self._waiting)
            self._send(source, target, frame)

    def _send(self, source: int, target: int, frame: bytes) -> None:
        if source in self.weather.cut or target in self.weather.cut:
            self.counts["cut"] += 1
            return
        try:
            self._ports[target].send(frame)
        except OSError:  # the host's end is down, or its queue is full
            self.counts["failed"] += 1
        else:
            self.counts["sent"] += 1


def _port(interface: str) -> socket.socket:
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    port.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    port.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, BUFFER_BYTES)
    port.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    port.setblocking(False)
    port.bind((interface, ALL_PROTOCOLS))
    return port


if __name__ == "__main__":
    Relay(int(sys.argv[1]), sys.argv[2:]).run()
