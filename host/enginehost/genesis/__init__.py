"""Services, agents and interfaces as Python classes, and the names that Genesis has for them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from enginehost.agents.authored import on_start
    from enginehost.genesis.agent import Agent
    from enginehost.genesis.decorators import genesis_function, genesis_tool
    from enginehost.genesis.genesis_agents import GenesisAgent, MonitoredAgent, OpenAIGenesisAgent
    from enginehost.genesis.genesis_interfaces import GenesisInterface, MonitoredInterface
    from enginehost.genesis.genesis_services import (
        EnhancedServiceBase,
        GenesisRPCService,
        GenesisService,
        MonitoredService,
    )
    from enginehost.genesis.interface import Interface
    from enginehost.genesis.service import Service

_HOMES = {
    "Agent": "genesis.agent",
    "EnhancedServiceBase": "genesis.genesis_services",
    "GenesisAgent": "genesis.genesis_agents",
    "GenesisInterface": "genesis.genesis_interfaces",
    "GenesisRPCService": "genesis.genesis_services",
    "GenesisService": "genesis.genesis_services",
    "Interface": "genesis.interface",
    "MonitoredAgent": "genesis.genesis_agents",
    "MonitoredInterface": "genesis.genesis_interfaces",
    "MonitoredService": "genesis.genesis_services",
    "OpenAIGenesisAgent": "genesis.genesis_agents",
    "Service": "genesis.service",
    "genesis_function": "genesis.decorators",
    "genesis_tool": "genesis.decorators",
    "on_start": "agents.authored",
}

__all__ = [
    "Agent",
    "EnhancedServiceBase",
    "GenesisAgent",
    "GenesisInterface",
    "GenesisRPCService",
    "GenesisService",
    "Interface",
    "MonitoredAgent",
    "MonitoredInterface",
    "MonitoredService",
    "OpenAIGenesisAgent",
    "Service",
    "genesis_function",
    "genesis_tool",
    "on_start",
]


def __getattr__(name: str) -> Any:
    """Load a name when it is first used: a service needs nothing of what an agent needs."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"enginehost.{home}"), name)
    globals()[name] = value
    return value
