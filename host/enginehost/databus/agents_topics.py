"""The topics on which agents are asked, in either era."""

from __future__ import annotations

from enginehost.databus.port import TopicPair
from enginehost.databus.struct import Struct
from enginehost.databus.types import (
    AGENT_AGENT_REPLY,
    AGENT_AGENT_REQUEST,
    GENESIS_RPC_REPLY,
    GENESIS_RPC_REQUEST,
    INTERFACE_AGENT_REPLY,
    INTERFACE_AGENT_REQUEST,
)

SECOND = "rti/connext/genesis/rpc/"
"""Before the names of the second era."""


def from_interfaces(service: str) -> TopicPair:
    """Where interfaces ask, in the first era."""
    return _pair(service, INTERFACE_AGENT_REQUEST, INTERFACE_AGENT_REPLY)


def from_agents(service: str, agent_id: str) -> TopicPair:
    """Where agents ask one agent, in the first era."""
    return _pair(f"{service}_{agent_id}", AGENT_AGENT_REQUEST, AGENT_AGENT_REPLY)


def from_interfaces_2(service: str) -> TopicPair:
    """Where interfaces ask, in the second era; functions of the service are called there too."""
    return _pair(f"{SECOND}{service}", GENESIS_RPC_REQUEST, GENESIS_RPC_REPLY)


def from_agents_2(service: str) -> TopicPair:
    """Where agents ask those of one service, in the second era."""
    return from_interfaces_2(f"{service}_AgentRPC")


def _pair(base: str, request: Struct, reply: Struct) -> TopicPair:
    return TopicPair(f"{base}Request", f"{base}Reply", request, reply)
