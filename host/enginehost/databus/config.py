"""Where the databus runs: domain, network interface, sizes."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from enginehost.errors import ConfigError

if TYPE_CHECKING:
    from enginehost.settings import HostSettings

LOOPBACK = "127.0.0.1"
LAST_DOMAIN = 232
"""The highest domain id whose ports (7400 + 250 × id + …) exist."""

_LOOPBACK_NAMES = frozenset({"lo", "lo0", "localhost"})
"""Loopback's names on various systems: settings move between machines."""


@dataclass(frozen=True, slots=True)
class DatabusConfig:
    """How a host takes part in the databus.

    ``interface`` is an address or the name of a network interface; the bus leaves loopback only when
    another one is named. ``peers`` are addresses to look for participants at, where multicast does not
    reach them. ``service`` is the name under which all functions of this host are offered. ``transport`` is
    ``cyclone``, or one that a plugin adds (hook ``register_transports``). With ``tags``, only functions that
    have one of them are offered.
    ``fragment_bytes`` is the largest piece that one datagram carries: 60,000 is fastest on loopback,
    about 1,300 avoids IP fragmentation on Ethernet. More than ``max_in_flight`` calls at once are
    refused as ``overloaded`` (three quarters of that from one participant; a host's own
    ``max_in_flight`` holds too, and is the default where a host joins by its settings), parameters
    over ``max_request_bytes`` as ``too_large``. ``state_dir`` keeps the host's id; without it the id is new
    at each start.
    """

    domain: int = 0
    interface: str = LOOPBACK
    service: str = "enginehost"
    peers: tuple[str, ...] = ()
    fragment_bytes: int = 60_000
    max_in_flight: int = 10_000
    max_request_bytes: int = 10 * 1024 * 1024
    state_dir: Path | None = None
    transport: str = "cyclone"
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.domain <= LAST_DOMAIN:
            raise ConfigError(f"databus domain {self.domain} is not between 0 and {LAST_DOMAIN}")
        if not 1 <= len(self.service.encode(errors="replace")) <= 256 or not self.service.isprintable():
            raise ConfigError("the databus service name must be printable text of 1 to 256 bytes")
        if not 1_000 <= self.fragment_bytes <= 60_000:
            raise ConfigError("databus fragments have 1,000 to 60,000 bytes")
        if self.max_in_flight < 1 or self.max_request_bytes < 1:
            raise ConfigError("databus limits are at least 1")
        for text in (self.interface, *self.peers):
            if not (text and text.isascii() and text.isprintable()):
                raise ConfigError(f"{text!r} is neither a network address nor the name of an interface")

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the bus."""
        if self.interface in _LOOPBACK_NAMES:
            return True
        return is_address(self.interface) and ipaddress.ip_address(self.interface).is_loopback


def config_of(settings: HostSettings) -> DatabusConfig:
    """The databus as the settings of a host have it."""
    bus = settings.databus
    return DatabusConfig(
        domain=bus.domain,
        interface=bus.interface,
        service=bus.service,
        transport=bus.transport,
        tags=bus.tags,
        max_in_flight=settings.max_in_flight,
        state_dir=settings.state_dir,
    )


def config_for(wanted: DatabusConfig | str | None, settings: HostSettings) -> DatabusConfig | None:
    """What a host with these ``settings`` joins that was told ``wanted``; ``None`` where it joins no bus."""
    if wanted is None or settings.databus.enabled is False:
        return None
    if not isinstance(wanted, DatabusConfig):
        return config_of(settings)
    return replace(
        wanted,
        max_in_flight=min(wanted.max_in_flight, settings.max_in_flight),
        state_dir=wanted.state_dir or settings.state_dir,
    )


def is_address(text: str) -> bool:
    """Whether ``text`` is an IP address rather than an interface's name."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
