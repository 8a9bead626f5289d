"""What is seen of the bus by somebody who joins it, as plain values and without judgement."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from enginehost.databus.matching import Endpoint
from enginehost.databus.port import Capability

CAPABILITIES = "FunctionCapability"
REQUESTS = "FunctionExecutionRequest"
REPLIES = "FunctionExecutionReply"

VENDORS = {
    "0101": "RTI Connext",
    "0102": "OpenSplice",
    "0103": "OpenDDS",
    "0106": "CoreDX",
    "010a": "RTI Connext Micro",
    "010f": "Fast DDS",
    "0110": "Cyclone DDS",
    "0112": "RustDDS",
    "0114": "Dust DDS",
}
"""By the first two bytes of a GUID (OMG's list of RTPS vendor ids)."""


@dataclass(frozen=True, slots=True)
class Program:
    """A participant. ``key`` is its GUID (32 hexadecimal digits); ``lease`` in seconds."""

    key: str
    host: str = ""
    pid: int = 0
    process: str = ""
    name: str = ""
    lease: float = math.inf
    addresses: tuple[str, ...] = ()

    @property
    def vendor(self) -> str:
        """Whose DDS it runs on."""
        return VENDORS.get(self.key[:4], f"vendor {self.key[:4]}")

    def __str__(self) -> str:
        who = f"process {self.pid}" if self.pid else f"a {self.vendor} program ({self.key[:24]})"
        named = f" ({self.process or self.name})" if self.process or self.name else ""
        return f"{who}{named}{f' on {self.host}' if self.host else ''}"


@dataclass(frozen=True, slots=True)
class Offer:
    """An instance of ``FunctionCapability``; times are seconds since 1970.

    ``written`` is by the clock of its provider, ``arrived`` by ours. ``lost``: its writer is not heard of.
    """

    capability: Capability
    program: str
    written: float
    arrived: float
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Clock:
    """By how many seconds a program's clock is ahead of ours (negative: behind).

    Where that is not ``exact``, the clock is at least so far ahead, and may be behind by any time.
    """

    program: str
    ahead: float
    exact: bool


@dataclass(frozen=True, slots=True)
class Sight:
    """What was seen, without judgement.

    ``undecodable`` counts samples of capabilities that could not be read, by program. ``own`` are the
    endpoints of whoever looks, which are those of a host; ``incompatible`` is what their statuses say: topic,
    policy id, endpoints. ``unmatched`` are the keys of endpoints that do not match ours although nothing that
    they announce forbids it. ``lost_peers`` are those of the config that have no address.
    """

    programs: tuple[Program, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()
    offers: tuple[Offer, ...] = ()
    clocks: tuple[Clock, ...] = ()
    undecodable: Mapping[str, int] = field(default_factory=dict[str, int])
    own: tuple[Endpoint, ...] = ()
    incompatible: tuple[tuple[str, int, int], ...] = ()
    unmatched: frozenset[str] = frozenset()
    library: str = ""
    lost_peers: tuple[str, ...] = ()
