"""What a session was started with, as its first row keeps it, so that any process goes on with the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from enginehost.agents.contract import AgentSpec, ToolSelection
from enginehost.agents.skills import ALL_SKILLS
from enginehost.llm.message import Message, Role, Type

OPTIONS = "options"
"""``query["kind"]`` of the row."""

IMPORTED = "imported"
"""A member of ``query`` that says that the row came with a session that somebody brought in."""

_BOUNDED = frozenset({"skills", "llm"})
"""What somebody who brings a session in may choose within the agent's own only; tools are bounded by what the
caller may call."""


@dataclass(frozen=True, slots=True)
class Options:
    """What :meth:`Agents.start` was given; ``None`` and empty leave it to the agent.

    ``imported`` are those of them that were brought in with the session: they choose among what the agent
    has.
    """

    agent: str = ""
    tools: ToolSelection | None = None
    skills: tuple[str, ...] | None = None
    llm: str = ""
    imported: frozenset[str] = frozenset()

    def over(self, older: Options) -> Options:
        """These, and where they say nothing the older ones."""
        said = {"skills"} if self.skills is not None else set[str]()
        said |= {"llm"} if self.llm else set[str]()
        return Options(
            self.agent or older.agent,
            older.tools if self.tools is None else self.tools,
            older.skills if self.skills is None else self.skills,
            self.llm or older.llm,
            self.imported | (older.imported - said),
        )

    def applied(self, spec: AgentSpec) -> AgentSpec:
        """The agent with these in place of its own."""
        skills, model = self.skills, self.llm or spec.model
        if skills is not None and "skills" in self.imported:
            skills = tuple(one for one in skills if one in spec.skills or ALL_SKILLS in spec.skills)
        if "llm" in self.imported and model != spec.fallback_model:
            model = spec.model
        return replace(
            spec,
            tools=spec.tools if self.tools is None else self.tools,
            skills=spec.skills if skills is None else skills,
            model=model,
        )

    def to_json(self) -> dict[str, Any]:
        """As the row and the run keep it."""
        tools = self.tools
        kept: dict[str, Any] = {"agent": self.agent, "llm": self.llm}
        if tools is not None:
            kept["tools"] = {"every": tools.every, "names": list(tools.names), "tags": list(tools.tags)}
        if self.skills is not None:
            kept["skills"] = list(self.skills)
        if self.imported:
            kept["imported"] = sorted(self.imported)
        return kept

    def row(self) -> Message:
        """The row of a session that keeps it."""
        return Message(Role.SYSTEM, Type.DATA, orjson.dumps(self.to_json()).decode(), query={"kind": OPTIONS})


def options_from_json(kept: Mapping[str, Any]) -> Options:
    """The inverse of :meth:`Options.to_json`; what it does not know it leaves out."""
    tools, skills, imported = kept.get("tools"), kept.get("skills"), kept.get("imported")
    return Options(
        str(kept.get("agent", "")),
        _selection(tools) if isinstance(tools, Mapping) else None,
        tuple(map(str, skills)) if isinstance(skills, list) else None,
        str(kept.get("llm", "")),
        frozenset(map(str, imported)) & _BOUNDED if isinstance(imported, list) else frozenset(),
    )


def _selection(kept: Mapping[str, Any]) -> ToolSelection:
    return ToolSelection(
        kept.get("every") is True,
        tuple(map(str, kept.get("names", ()))),
        tuple(map(str, kept.get("tags", ()))),
    )


def options_of(row: Message | None) -> Options:
    """The options that a session's first row keeps."""
    query = row.query or {} if row is not None else {}
    if row is None or not (
        row.role is Role.SYSTEM and row.type is Type.DATA and query.get("kind") == OPTIONS
    ):
        return Options()
    try:
        kept = orjson.loads(row.content)
    except orjson.JSONDecodeError:
        return Options()
    found = options_from_json(kept) if isinstance(kept, dict) else Options()
    return replace(found, imported=_BOUNDED) if query.get(IMPORTED) else found


def as_imported(row: Message) -> Message:
    """A row of a session that somebody brings in: what the host would act upon says whence it came."""
    query = row.query or {}
    if query.get("kind") != OPTIONS and "lazy" not in query:
        return row
    return replace(row, query={**query, IMPORTED: True})
