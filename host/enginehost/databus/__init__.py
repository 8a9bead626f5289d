"""The databus: the host's functions on DDS, discoverable and callable by any peer that knows the types.

The vendor's library is loaded when a :class:`Databus` starts, not before.
"""

from __future__ import annotations

from enginehost.databus.agents_list import AgentChange, AgentEvent, BusAgent
from enginehost.databus.bus import BusHost, Databus
from enginehost.databus.client import BusChange, BusEvent, Client, SyncClient
from enginehost.databus.config import DatabusConfig
from enginehost.databus.port import (
    DEFAULT_PARTITION,
    Capability,
    ExecutionReply,
    ExecutionRequest,
    Gone,
    Instance,
    InstanceWatcher,
    PairEnd,
    ReplyHandler,
    RequestHandler,
    Sample,
    SampleHandler,
    Sighting,
    TopicPair,
    Transport,
    Watcher,
)
from enginehost.databus.struct import (
    Enumeration,
    Kind,
    Member,
    Profile,
    Struct,
    Topic,
)
from enginehost.databus.types import (
    FUNCTION_CAPABILITY,
    FUNCTION_EXECUTION_REPLY,
    FUNCTION_EXECUTION_REQUEST,
    FUNCTION_REPLY,
    FUNCTION_REQUEST,
    GENESIS_RPC_REPLY,
    GENESIS_RPC_REQUEST,
    TOPICS,
    types_of,
)

__all__ = [
    "DEFAULT_PARTITION",
    "FUNCTION_CAPABILITY",
    "FUNCTION_EXECUTION_REPLY",
    "FUNCTION_EXECUTION_REQUEST",
    "FUNCTION_REPLY",
    "FUNCTION_REQUEST",
    "GENESIS_RPC_REPLY",
    "GENESIS_RPC_REQUEST",
    "TOPICS",
    "AgentChange",
    "AgentEvent",
    "BusAgent",
    "BusChange",
    "BusEvent",
    "BusHost",
    "Capability",
    "Client",
    "Databus",
    "DatabusConfig",
    "Enumeration",
    "ExecutionReply",
    "ExecutionRequest",
    "Gone",
    "Instance",
    "InstanceWatcher",
    "Kind",
    "Member",
    "PairEnd",
    "Profile",
    "ReplyHandler",
    "RequestHandler",
    "Sample",
    "SampleHandler",
    "Sighting",
    "Struct",
    "SyncClient",
    "Topic",
    "TopicPair",
    "Transport",
    "Watcher",
    "types_of",
]
