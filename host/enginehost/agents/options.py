"""What a session was started with, as its first row keeps it, so that any process goes on with the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from enginehost.agents.contract import AgentSpec, ToolSelection
from enginehost.llm.message import Message, Role, Type

OPTIONS = "options"
"""``query["kind"]`` of the row."""


@dataclass(frozen=True, slots=True)
class Options:
    """What :meth:`Agents.start` was given; ``None`` and empty leave it to the agent."""

    agent: str = ""
    tools: ToolSelection | None = None
    skills: tuple[str, ...] | None = None
    llm: str = ""

    def over(self, older: Options) -> Options:
        """These, and where they say nothing the older ones."""
        return Options(
            self.agent or older.agent,
            older.tools if self.tools is None else self.tools,
            older.skills if self.skills is None else self.skills,
            self.llm or older.llm,
        )

    def applied(self, spec: AgentSpec) -> AgentSpec:
        """The agent with these in place of its own."""
        return replace(
            spec,
            tools=spec.tools if self.tools is None else self.tools,
            skills=spec.skills if self.skills is None else self.skills,
            model=self.llm or spec.model,
        )

    def to_json(self) -> dict[str, Any]:
        """As the row and the run keep it."""
        tools = self.tools
        kept: dict[str, Any] = {"agent": self.agent, "llm": self.llm}
        if tools is not None:
            kept["tools"] = {"every": tools.every, "names": list(tools.names), "tags": list(tools.tags)}
        if self.skills is not None:
            kept["skills"] = list(self.skills)
        return kept

    def row(self) -> Message:
        """The row of a session that keeps it."""
        return Message(Role.SYSTEM, Type.DATA, orjson.dumps(self.to_json()).decode(), query={"kind": OPTIONS})


def options_from_json(kept: Mapping[str, Any]) -> Options:
    """The inverse of :meth:`Options.to_json`; what it does not know it leaves out."""
    tools, skills = kept.get("tools"), kept.get("skills")
    return Options(
        str(kept.get("agent", "")),
        _selection(tools) if isinstance(tools, Mapping) else None,
        tuple(map(str, skills)) if isinstance(skills, list) else None,
        str(kept.get("llm", "")),
    )


def _selection(kept: Mapping[str, Any]) -> ToolSelection:
    return ToolSelection(
        kept.get("every") is True,
        tuple(map(str, kept.get("names", ()))),
        tuple(map(str, kept.get("tags", ()))),
    )


def options_of(row: Message | None) -> Options:
    """The options that a session's first row keeps."""
    if row is None or row.type is not Type.DATA or (row.query or {}).get("kind") != OPTIONS:
        return Options()
    try:
        kept = orjson.loads(row.content)
    except orjson.JSONDecodeError:
        return Options()
    return options_from_json(kept) if isinstance(kept, dict) else Options()
