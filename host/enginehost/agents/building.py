"""An agent's spec from its keys and the folder that they name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from enginehost.agents.agent_file import AGENT_FILES, AgentFile, read_agent_file
from enginehost.agents.config import EVERYTHING, AgentConfig, words
from enginehost.agents.contract import AgentSpec
from enginehost.agents.facts import AgentFacts
from enginehost.agents.own_parts import harness, stages
from enginehost.agents.skills import ALL_SKILLS, SKILL_FILE, Skill, SkillFolder, read_skills
from enginehost.agents.stages import approval
from enginehost.agents.without_effect import keys_without_effect
from enginehost.engine import EngineContext, Function
from enginehost.errors import ConfigError
from enginehost.near_names import NearNames
from enginehost.substitute import read_text_file

_LONGEST_PATH = 200


@dataclass(slots=True)
class Built:
    """A spec, the skills that its agent brings, the files that it was made of, and what it says of itself."""

    spec: AgentSpec
    skills: Mapping[str, Skill] = field(default_factory=dict[str, Skill])
    files: list[Path] = field(default_factory=list[Path])
    version: str = ""
    facts: AgentFacts = field(default_factory=AgentFacts)


def build(
    config: AgentConfig,
    context: EngineContext,
    *,
    name: str = "",
    description: str = "",
    functions: Sequence[Function] = (),
) -> Built:
    """The agent of a file. ``name`` and ``description`` are for one that says neither.

    Raises :class:`ConfigError` at the key that is wrong; what hinders nothing is a warning of the context.
    """
    files: list[Path] = []
    folder = _folder(config, context)
    told = _agent_file(folder, context, files) if folder is not None else None
    skills = _skills(folder, config, context, files)
    signature = context.signature
    name = (signature.name if signature is not None else "") or (told.name if told else "") or name
    if not name:
        hint = "write FUNCTION_NAME, or name: in the front matter of AGENT.md"
        raise ConfigError("the agent has no name", key="FUNCTION_NAME", hint=hint, reason="missing-key")
    said = (signature.description if signature is not None else "") or (told.description if told else "")
    if not (said or description):
        hint = "say in one sentence what the agent does: models and people choose by it"
        context.warn("FUNCTION_DESCRIPTION", "no-description", "FUNCTION_DESCRIPTION is missing", hint)
    for key, text in keys_without_effect(context.properties):
        context.warn(key, "no-effect", text, "delete it")
    own_stages = stages(config.stages, context, "STAGES", files)
    if config.approval_patterns:
        own_stages.append(approval(config.approval_patterns))
    spec = AgentSpec(
        name=name,
        description=said or description,
        model=config.model,
        fallback_model=config.fallback_model,
        instructions=_joined(told.instructions if told else "", _instructions(config, context, files)),
        tools=config.selection,
        functions=tuple(functions),
        agents=tuple(words(config.agents)),
        skills=_skill_names(config, skills),
        lazy_tools=tuple(words(config.lazy_tools)),
        group_tools_above=config.group_tools_above,
        stages=tuple(own_stages),
        context_stages=tuple(stages(config.context_stages, context, "CONTEXT_STAGES", files)),
        limits=config.limits,
        on_unknown_outcome=config.on_unknown_outcome,
        approval=config.approval,
        harness=harness(config, context, files),
        tools_most=config.tools_most,
        tools_classifier=config.tools_classifier,
    )
    return Built(spec, skills.skills, files, told.version if told else "", config.facts)


def _joined(*texts: str) -> str:
    return "\n\n".join(filter(None, texts))


def _folder(config: AgentConfig, context: EngineContext) -> Path | None:
    if not config.agent_dir:
        return None
    folder = context.folder / config.agent_dir
    if not folder.is_dir():
        text = f"AGENT_DIR: there is no folder {config.agent_dir}"
        raise ConfigError(text, key="AGENT_DIR", hint="the path is relative to the smss file")
    return folder


def _agent_file(folder: Path, context: EngineContext, files: list[Path]) -> AgentFile | None:
    files += [folder / name for name in AGENT_FILES]
    try:
        told = read_agent_file(folder)
    except ConfigError as error:
        raise _at(error, folder) from error
    if told is None:
        hint = f"write {folder.name}/AGENT.md, or INSTRUCTIONS in the smss file"
        context.warn("AGENT_DIR", "no-agent-file", f"{folder.name} has no AGENT.md", hint)
    elif told.shadowed:
        text = f"{folder.name} has {told.path.name} and {told.shadowed}; {told.shadowed} has no effect"
        context.warn("AGENT_DIR", "shadowed-file", text, "delete one of the two")
    for text, hint in told.doubts if told is not None else ():
        context.warn("AGENT_DIR", "no-effect", f"{folder.name}/{text}", hint)
    return told


def _at(error: ConfigError, folder: Path) -> ConfigError:
    """The error of a Markdown file, told at the key that names its folder."""
    return ConfigError(_placed(error, folder), key="AGENT_DIR", hint=error.hint, reason="bad-front-matter")


def _placed(error: ConfigError, folder: Path) -> str:
    path = os.path.relpath(error.path, folder.parent) if error.path else folder.name
    return f"{path}:{error.line}: {error.message}" if error.line else f"{path}: {error.message}"


def _skills(
    folder: Path | None, config: AgentConfig, context: EngineContext, files: list[Path]
) -> SkillFolder:
    found = SkillFolder()
    if folder is not None:
        found = read_skills(folder / "skills")
        files += [skill.file for skill in found.skills.values()]
        for error in found.faults:
            files.append(Path(error.path))
            context.warn(
                "AGENT_DIR", "bad-skill", f"{_placed(error, folder)} (the skill is left out)", error.hint
            )
    shared = read_skills(context.folder / "skills").skills
    known = {**shared, **found.skills}
    named = words(config.skills or "")
    if EVERYTHING in named:
        files += [skill.file for name, skill in shared.items() if name not in found.skills]
    for name in named:
        if name != EVERYTHING and name not in known:
            near = NearNames(known).near(name, lambda _: True)
            hint = f"did you mean {near[0]}?" if near else f"it is a folder skills/{name} with a {SKILL_FILE}"
            context.warn("SKILLS", "unknown-skill", f"SKILLS: there is no skill {name[:100]}", hint)
        elif name in shared and name not in found.skills:
            files.append(shared[name].file)
    return found


def _skill_names(config: AgentConfig, found: SkillFolder) -> tuple[str, ...]:
    if config.skills is None:  # of its own: the folder's are for whoever names them
        return tuple(found.skills)
    named = words(config.skills)
    return (ALL_SKILLS,) if EVERYTHING in named else tuple(named)


def _instructions(config: AgentConfig, context: EngineContext, files: list[Path]) -> str:
    text = config.instructions
    if "\n" in text or len(text) > _LONGEST_PATH or not text.endswith((".md", ".txt")) or " " in text:
        return text
    path = context.folder / text
    files.append(path)
    try:
        return read_text_file(path).strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        hint = "the path is relative to the smss file; a text of its own has a blank in it"
        text = f"INSTRUCTIONS: {text} cannot be read: {why}"
        raise ConfigError(text, key="INSTRUCTIONS", hint=hint) from error
