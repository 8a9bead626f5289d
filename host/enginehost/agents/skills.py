"""Agent Skills (agentskills.io): folders with a ``SKILL.md`` that an agent reads when it needs them.

The model sees a line for each (its name and description) and a tool ``skill`` that gives the text of one.
Reading a skill offers no tool and permits none: it is text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from enginehost.agents.contract import AgentSpec
from enginehost.agents.front_matter import read_markdown
from enginehost.call import Call
from enginehost.engine import Annotations, Function, RunMode
from enginehost.errors import ConfigError, ExecutionFailed
from enginehost.signature import FunctionSignature

SKILL_TOOL = "skill"
"""The name of the tool."""
SKILL_FILE = "SKILL.md"
ALL_SKILLS = "*"
"""In the place of names: every skill that there is."""

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LONGEST_NAME = 64
_LONGEST_DESCRIPTION = 1024
_MOST_FILES = 100
_BLOCK = re.compile(r'<skill name="([a-z0-9-]+)">\n.*?\n</skill>', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill. Its text is read when it is asked for."""

    name: str
    description: str
    folder: Path

    @property
    def file(self) -> Path:
        """Its ``SKILL.md``."""
        return self.folder / SKILL_FILE


@dataclass(frozen=True, slots=True)
class SkillFolder:
    """The skills of a folder by name, and what is wrong with others in it."""

    skills: dict[str, Skill] = field(default_factory=dict[str, Skill])
    faults: list[ConfigError] = field(default_factory=list[ConfigError])


def read_skills(folder: Path) -> SkillFolder:
    """The skills in the folders of ``folder``. One that is wrong hinders no other."""
    found = SkillFolder()
    try:
        inner = sorted(path for path in folder.iterdir() if (path / SKILL_FILE).exists())
    except OSError:
        return found
    for path in inner:
        try:
            skill = read_skill(path)
        except ConfigError as error:
            found.faults.append(error)
        else:
            found.skills[skill.name] = skill
    return found


def read_skill(folder: Path) -> Skill:
    """The skill in ``folder``. Raises :class:`ConfigError` with the line of what is wrong."""
    file = read_markdown(folder / SKILL_FILE)
    name = file.text("name", longest=_LONGEST_NAME) or folder.name
    if _NAME.fullmatch(name) is None or len(name) > _LONGEST_NAME:
        hint = f"at most {_LONGEST_NAME} of a-z, 0-9 and single hyphens, such as {_proposed(name)}"
        raise file.fault(f"{name[:100]!r} is no name of a skill", "name", hint)
    if name != folder.name:
        raise file.fault(f"the skill {name} lies in a folder named {folder.name}", "name", "name both alike")
    description = " ".join(file.text("description", longest=_LONGEST_DESCRIPTION).split())
    if not description:
        hint = "say what it is for and when to use it: a model chooses by that"
        raise file.fault("the description is missing", "description", hint)
    if not file.body:
        raise file.fault("the skill has no text", hint="write it below the front matter")
    return Skill(name, description, folder)


def _proposed(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_LONGEST_NAME] or "my-skill"


def chosen(names: Iterable[str], known: Mapping[str, Skill]) -> list[Skill]:
    """The skills that ``names`` means (``*``: all), by name; unknown ones are left out."""
    wanted = set(names)
    return [known[name] for name in sorted(known) if ALL_SKILLS in wanted or name in wanted]


def with_skills(spec: AgentSpec, known: Mapping[str, Skill]) -> AgentSpec:
    """The spec with the list of its skills in its instructions and the tool that reads them."""
    skills = chosen(spec.skills, known)
    if not skills:
        return spec
    instructions = f"{spec.instructions}\n\n{catalogue(skills)}".strip()
    functions = [one for one in spec.functions if one.signature.name != SKILL_TOOL]
    return replace(spec, instructions=instructions, functions=(*functions, skill_function(skills)))


def catalogue(skills: Iterable[Skill]) -> str:
    """What the model reads of skills before it needs one: a line for each."""
    lines = "\n".join(f"- {skill.name}: {skill.description}" for skill in skills)
    return (
        f"Skills: call the tool `{SKILL_TOOL}` with a name to read one before you do what it is for.\n{lines}"
    )


def skill_function(skills: Iterable[Skill]) -> Function:
    """The tool: its argument is one of the names."""
    by_name = {skill.name: skill for skill in skills}
    parameters = {
        "type": "object",
        "properties": {"name": {"type": "string", "enum": list(by_name), "description": "Which skill."}},
        "required": ["name"],
    }

    def read(arguments: dict[str, Any], call: Call) -> str:
        return skill_text(by_name[arguments["name"]])

    signature = FunctionSignature(
        SKILL_TOOL,
        "Read the instructions of a skill.",
        parameters,
        annotations=Annotations(read_only=True, idempotent=True),
    )
    return Function(signature, read, RunMode.SYNC)


def skill_text(skill: Skill) -> str:
    """The text of a skill, in tags by which it is known again, with a list of its files."""
    try:
        body = read_markdown(skill.file).body
    except ConfigError:
        raise ExecutionFailed(f"the skill {skill.name} cannot be read any more") from None
    listed = "".join(f"\n- {name}" for name in skill_files(skill.folder))
    files = f"\n\nFiles of this skill:{listed}" if listed else ""
    return f'<skill name="{skill.name}">\n{body}{files}\n</skill>'


def skill_files(folder: Path) -> list[str]:
    """The names of the other files of a skill; they are not read. At most 100."""
    names = (path.relative_to(folder).as_posix() for path in _files(folder) if path.name != SKILL_FILE)
    return sorted(name for name, _ in zip(names, range(_MOST_FILES), strict=False))


def _files(folder: Path) -> Iterator[Path]:
    """Files of a folder and of those in it, but for links that lead out of it and hidden ones."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.is_symlink():
            continue
        if path.is_dir():
            yield from _files(path)
        elif path.is_file():
            yield path


def skill_blocks(text: str) -> dict[str, str]:
    """The texts of skills that stand in ``text``, by name."""
    return {match[1]: match[0] for match in _BLOCK.finditer(text)}


def without_skill_blocks(text: str) -> str:
    """``text`` with the names of skills in place of their texts."""
    return _BLOCK.sub(r"(skill \1)", text)
