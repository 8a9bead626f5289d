"""The agents of others as programs see them, and what happens to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class BusAgent:
    """An agent of another program that can be asked now.

    ``function`` is its name in the catalog, ``tool`` the name by which models are shown it. ``host`` is the
    id of its host, empty for what is no host like this one. ``age``: so many seconds ago it was seen first.
    ``holds`` are the short names that are its own: it had them before others that are called the same.
    """

    id: str
    name: str
    service: str
    description: str
    type: str
    specializations: tuple[str, ...]
    capabilities: tuple[str, ...]
    tags: tuple[str, ...]
    model: str
    default_capable: bool
    host: str
    function: str
    tool: str
    age: float = field(compare=False)
    holds: tuple[str, ...] = field(default=(), compare=False)


class AgentChange(StrEnum):
    """What happened to an agent."""

    ARRIVED = "arrived"
    CHANGED = "changed"
    DEPARTED = "departed"


class AgentEvent(NamedTuple):
    """An agent arrived, changed what it says of itself, or departed."""

    kind: AgentChange
    agent: BusAgent
