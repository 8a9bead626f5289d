"""The databus: the host's functions on DDS, discoverable and callable by any peer that knows the types.

The vendor's library is loaded when a :class:`Databus` starts, not before.
"""

from __future__ import annotations

from enginehost.databus.bus import BusHost, Databus
from enginehost.databus.config import DatabusConfig
from enginehost.databus.port import (
    Capability,
    ExecutionReply,
    ExecutionRequest,
    RequestHandler,
    Transport,
)

__all__ = [
    "BusHost",
    "Capability",
    "Databus",
    "DatabusConfig",
    "ExecutionReply",
    "ExecutionRequest",
    "RequestHandler",
    "Transport",
]
