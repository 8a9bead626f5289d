"""``AGENT.md`` (or ``AGENTS.md``): name, version, description in its front matter, instructions below."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from enginehost.agents.front_matter import read_markdown
from enginehost.errors import ConfigError

AGENT_FILES = ("AGENT.md", "AGENTS.md")
"""The first that is there counts."""

_LONGEST_NAME = 64
_LONGEST_DESCRIPTION = 4096


@dataclass(frozen=True, slots=True)
class AgentFile:
    """What such a file says. ``shadowed`` is the name of a second one, which nobody reads."""

    path: Path
    instructions: str
    name: str = ""
    version: str = ""
    description: str = ""
    shadowed: str = ""


def read_agent_file(folder: Path) -> AgentFile | None:
    """The one in ``folder``; ``None`` where there is none. Raises :class:`ConfigError` with the line."""
    there = [folder / name for name in AGENT_FILES if (folder / name).exists()]
    if not there:
        return None
    file = read_markdown(there[0])
    try:
        name = file.text("name", longest=_LONGEST_NAME)
        if any(not char.isprintable() for char in name):
            raise file.fault("name holds control characters", "name", "use letters, digits, _ and -")
        return AgentFile(
            file.path,
            file.body,
            name,
            file.text("version", longest=_LONGEST_NAME),
            " ".join(file.text("description", longest=_LONGEST_DESCRIPTION).split()),
            there[1].name if len(there) > 1 else "",
        )
    except ConfigError as error:
        error.path = str(file.path)
        raise
