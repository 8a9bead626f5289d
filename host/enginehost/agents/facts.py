"""What an agent says of itself to those who choose among agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

AGENT_TYPE = "AGENT"
"""The type of an agent that says none."""

AGENT_PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "minLength": 1, "description": "What the agent is asked or told."},
        "conversation_id": {
            "type": "string",
            "description": "The conversation to go on with, or an id of your own to begin one. "
            "Absent: a new one.",
        },
    },
    "required": ["message"],
}
"""The parameters of every agent as a function."""


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """``specializations`` are its subjects, the first of which gives its name as a tool on the databus.

    ``capabilities`` are what it can do; ``default_capable``: whether it answers where nobody chose an agent.
    ``model`` is the model engine that it names, empty where it names none.
    """

    type: str = AGENT_TYPE
    capabilities: tuple[str, ...] = ()
    specializations: tuple[str, ...] = ()
    default_capable: bool = False
    model: str = ""


def facts_of(engine: object) -> AgentFacts | None:
    """What the agent says that an engine is, or stands for; ``None`` where it is no agent.

    It knows agents by what they say, so that who asks needs nothing of what agents are made of.
    """
    for one in (engine, getattr(engine, "agent", None)):
        found = getattr(one, "facts", None)
        if isinstance(found, AgentFacts):
            return found
    return None
