"""``AGENT.md`` (or ``AGENTS.md``): name, version, description in its front matter, instructions below."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from enginehost.agents.config import AgentConfig
from enginehost.agents.front_matter import Markdown, read_markdown
from enginehost.config_keys import spellings
from enginehost.errors import ConfigError

AGENT_FILES = ("AGENT.md", "AGENTS.md")
"""The first that is there counts."""

_READ = ("name", "version", "description")
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
    doubts: tuple[tuple[str, str], ...] = ()
    """What hinders nothing, each with its line and a hint."""


def read_agent_file(folder: Path) -> AgentFile | None:
    """The one in ``folder``; ``None`` where there is none. Raises :class:`ConfigError` with the line."""
    there = [folder / name for name in AGENT_FILES if (folder / name).exists()]
    if not there:
        return None
    file = read_markdown(there[0])
    try:
        name = file.text("name", longest=_LONGEST_NAME)
        if not all(char.isprintable() and char not in " /\\" for char in name):
            text = f"{name!r} is no name: blanks, slashes and control characters may not stand in it"
            raise file.fault(text, "name", "use letters, digits, _ and -")
        return AgentFile(
            file.path,
            file.body,
            name,
            file.text("version", longest=_LONGEST_NAME),
            " ".join(file.text("description", longest=_LONGEST_DESCRIPTION).split()),
            there[1].name if len(there) > 1 else "",
            tuple(_doubts(file)),
        )
    except ConfigError as error:
        error.path = str(file.path)
        raise


def _doubts(file: Markdown) -> Iterator[tuple[str, str]]:
    keys = spellings(AgentConfig)
    for name in file.head:
        if name in _READ:
            continue
        key = keys.get(name.upper())
        hint = f"write {key.name} in the smss file" if key is not None else f"read are {', '.join(_READ)}"
        yield f"{file.path.name}:{file.lines.get(name, 1)}: {name[:100]} has no effect", hint
