"""The primary agent: answers people, and asks for whatever it does not know itself."""

from __future__ import annotations

import asyncio

from enginehost import Agent


class PrimaryAgent(Agent):
    """Answers questions of all kinds, with the help of all that there is on the bus."""

    model = "planner"
    instructions = (
        "You answer people. For what you do not know, ask the agents and functions that you have as tools, "
        "and answer from what they say, in one sentence."
    )
    service_name = "Primary"
    agent_type = "PRIMARY_AGENT"
    default_capable = True
    tools = "*"


if __name__ == "__main__":
    asyncio.run(PrimaryAgent().run())
