"""What this machine has to do with the bus: addresses, ports that are taken, containers."""

from __future__ import annotations

import socket
import struct
from contextlib import closing
from pathlib import Path

from enginehost.databus.config import LOOPBACK, DatabusConfig, is_address

_SIOCGIFADDR = 0x8915  # netdevice(7)

FIRST_PORT = 7400
PORTS_PER_DOMAIN = 250
"""UDP ports of domain 0 begin at the first, those of each further domain so much higher (RTPS 2.5, 9.6.1)."""

_FIRST_PARTICIPANT = 10
"""By how much the port of a domain's first participant is above the domain's first."""

MOST_PARTICIPANTS = 110
"""Participants per machine and domain that find each other: a domain has 120 pairs of ports."""


def address_of(config: DatabusConfig) -> str:
    """The IPv4 address of the bus's interface; empty where it has none, or cannot be asked."""
    if is_address(config.interface):
        return config.interface
    if config.loopback:
        return LOOPBACK
    try:
        import fcntl

        with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as asker:
            name = struct.pack("256s", config.interface.encode()[:15])
            return socket.inet_ntoa(fcntl.ioctl(asker.fileno(), _SIOCGIFADDR, name)[20:24])
    except (ImportError, OSError):
        return ""


def first_port(domain: int) -> int:
    """The first UDP port of a domain."""
    return FIRST_PORT + PORTS_PER_DOMAIN * domain


def is_full(domain: int, most: int) -> bool:
    """Whether each of ``most`` participants that a domain may have on this machine is there.

    Each has a port of its own, so this tries to have one.
    """
    first = first_port(domain) + _FIRST_PARTICIPANT
    for index in range(most):
        with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as tried:
            try:
                tried.bind(("0.0.0.0", first + 2 * index))  # noqa: S104 - as DDS does
            except OSError:
                continue
            return False
    return True


def in_container() -> bool:
    """Whether this is a container, whose network is usually not that of its machine."""
    return Path("/.dockerenv").exists() or Path("/run/.containerenv").exists()
