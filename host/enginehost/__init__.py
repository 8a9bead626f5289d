"""enginehost: drop a ``.smss`` file into a folder, call its functions everywhere."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from enginehost.agents.typed_tools import tool
    from enginehost.caller import Caller
    from enginehost.engine import (
        AbstractFunctionEngine,
        Call,
        EngineContext,
        Function,
        FunctionParameter,
        IFunctionEngine,
        Limits,
    )
    from enginehost.errors import EngineHostError
    from enginehost.genesis.agent import Agent
    from enginehost.genesis.interface import Interface
    from enginehost.genesis.service import Service
    from enginehost.host import Host
    from enginehost.record import CallRecord
    from enginehost.settings import HostSettings
    from enginehost.signature import FunctionSignature
    from enginehost.sync import HostSync

__version__ = "0.1.0"

_HOMES = {
    "Agent": "genesis.agent",
    "AbstractFunctionEngine": "engine",
    "Call": "engine",
    "CallRecord": "record",
    "Caller": "caller",
    "EngineContext": "engine",
    "EngineHostError": "errors",
    "Function": "engine",
    "FunctionParameter": "engine",
    "FunctionSignature": "signature",
    "Host": "host",
    "HostSettings": "settings",
    "HostSync": "sync",
    "IFunctionEngine": "engine",
    "Interface": "genesis.interface",
    "Limits": "engine",
    "Service": "genesis.service",
    "tool": "agents.typed_tools",
}

__all__ = [
    "AbstractFunctionEngine",
    "Agent",
    "Call",
    "CallRecord",
    "Caller",
    "EngineContext",
    "EngineHostError",
    "Function",
    "FunctionParameter",
    "FunctionSignature",
    "Host",
    "HostSettings",
    "HostSync",
    "IFunctionEngine",
    "Interface",
    "Limits",
    "Service",
    "__version__",
    "tool",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that ``import enginehost`` stays light."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
