"""A harness that shows an agent no other agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from enginehost.agents.contract import Harness, Session, Tool

_AN_AGENTS = ({"message"}, {"message", "conversation_id"})
"""The parameters of an agent as a function."""


class NoAgents(Harness):
    """Leaves out of the tools what is an agent."""

    async def tools(self, session: Session) -> Sequence[Tool]:
        """The functions alone, also of those that a list or a tag selects."""
        return [one for one in await super().tools(session) if not _is_agent(one)]


def _is_agent(tool: Tool) -> bool:
    signature = tool.function.signature
    properties = signature.properties
    message = properties.get("message")
    is_text = isinstance(message, Mapping) and message.get("type") == "string"
    return is_text and set(properties) in _AN_AGENTS and "message" in signature.required
