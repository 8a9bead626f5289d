"""What an agent's keys name that there is not, or is hidden: its turns would fail, or go without.

(A name in ``APPROVE`` that no function has is worse: the function that was meant runs without a person.)
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from enginehost.agents.contract import AgentSpec
from enginehost.agents.skills import SKILL_TOOL
from enginehost.agents.stages.naming import names_of
from enginehost.signature import FunctionSignature

NAMES_NOTHING = "names-nothing"
NAME_TAKEN = "name-taken"
NOT_READ_ONLY = "not-read-only"

_LONGEST_COMPARED = 100


class Missing(NamedTuple):
    """One name that does not mean what it should: the key that has it, a sentence, and how to mend it."""

    key: str
    message: str
    hint: str
    code: str = NAMES_NOTHING
    of_model: bool = False
    """Whether it is the name of a model."""


def _none(name: str) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What there is beside an agent.

    ``model_fault`` says why a name means no model; empty where it does. ``function`` gives the function of
    that name, ``has_tag`` says whether one has the tag, ``near`` the names of functions like one, for hints.
    """

    model_fault: Callable[[str], str]
    function: Callable[[str], FunctionSignature | None]
    has_tag: Callable[[str], bool]
    agents: Container[str]
    near: Callable[[str], Sequence[str]] = _none


def missing(spec: AgentSpec, around: Surroundings) -> Iterator[Missing]:
    """What ``spec`` names in vain."""
    yield from _models(spec, around)
    yield from _tools(spec, around)
    yield from _agents(spec, around)
    yield from _approvals(spec, around)
    yield from _hidden(spec, around)


def _models(spec: AgentSpec, around: Surroundings) -> Iterator[Missing]:
    if fault := around.model_fault(spec.model):
        hint = "write MODEL = the id, name or alias of a model file in the folder"
        yield Missing("MODEL", f"MODEL: {fault}", hint, of_model=True)
    others = [("FALLBACK_MODEL", spec.fallback_model)]
    others += [("STAGES", names_of(stage).model) for stage in spec.stages]
    others += [("CONTEXT_STAGES", names_of(stage).model) for stage in spec.context_stages]
    for key, name in others:
        if name and (fault := around.model_fault(name)):
            yield Missing(key, f"{key}: {fault}", "name a model file of the folder", of_model=True)


def _tools(spec: AgentSpec, around: Surroundings) -> Iterator[Missing]:
    for name in spec.tools.names:
        if name == spec.name:
            yield Missing("TOOLS", "TOOLS: an agent does not ask itself", "leave its own name out")
        elif _function(name, spec, around) is None:
            yield _no_function("TOOLS", name, spec, around)
    for tag in spec.tools.tags:
        if not around.has_tag(tag):
            hint = "FUNCTION_TAGS gives a function its tags"
            yield Missing("TOOL_TAGS", f"TOOL_TAGS: no function has the tag {tag[:100]}", hint)
    for name in spec.lazy_tools:
        found = _function(name, spec, around)
        if found is None:
            yield _no_function("LAZY_TOOLS", name, spec, around)
        elif found.annotations.read_only is not True:
            text = f"LAZY_TOOLS: {name[:100]} is not read-only, so that its calls fail"
            hint = 'write FUNCTION_ANNOTATIONS = {"readOnly": true} in its file, or leave it out here'
            yield Missing("LAZY_TOOLS", text, hint, NOT_READ_ONLY)


def _agents(spec: AgentSpec, around: Surroundings) -> Iterator[Missing]:
    for name in spec.agents:
        if name == spec.name:
            yield Missing("AGENTS", "AGENTS: an agent does not ask itself", "leave its own name out")
        elif name not in around.agents:
            hint = "it has to be the FUNCTION_NAME of another agent, or an agent of the databus that is there"
            yield Missing("AGENTS", f"AGENTS: there is no agent {name[:100]}", hint)


def _approvals(spec: AgentSpec, around: Surroundings) -> Iterator[Missing]:
    named = [("APPROVE", name) for name in spec.approval.tools]
    for stage in spec.stages:
        named += [("STAGES", name) for name in names_of(stage).tools]
    for key, name in named:
        if name == SKILL_TOOL or name in around.agents or _function(name, spec, around) is not None:
            continue
        words = ("destructive", "every", "none") if key == "APPROVE" else ()
        yield _no_function(key, name, spec, around, words)


def _hidden(spec: AgentSpec, around: Surroundings) -> Iterator[Missing]:
    """Functions that a turn does not offer, since something else has their name."""
    own = {one.signature.name for one in spec.functions}
    hint = "give one of the two another name"
    if spec.skills and SKILL_TOOL in own:
        text = f"the agent's own tool {SKILL_TOOL} is hidden by the one that reads its skills"
        yield Missing("SKILLS", f"SKILLS: {text}", hint, NAME_TAKEN)
    hiding = {**dict.fromkeys(own, "tool"), **({SKILL_TOOL: "tool that reads skills"} if spec.skills else {})}
    for name, what in hiding.items():
        found = around.function(name)
        if found is not None and _selects(spec, found):
            text = f"TOOLS: the function {name[:100]} is hidden by the agent's own {what}"
            yield Missing("TOOLS", text, hint, NAME_TAKEN)
    for name in spec.agents:
        if name in own:
            text = f"AGENTS: the agent {name[:100]} hides a tool of the same name"
            yield Missing("AGENTS", text, hint, NAME_TAKEN)


def _selects(spec: AgentSpec, found: FunctionSignature) -> bool:
    tools = spec.tools
    return tools.every or found.name in tools.names or not set(tools.tags).isdisjoint(found.tags)


def _function(name: str, spec: AgentSpec, around: Surroundings) -> FunctionSignature | None:
    own = (one.signature for one in spec.functions if one.signature.name == name)
    return next(own, None) or around.function(name)


def _no_function(
    key: str, name: str, spec: AgentSpec, around: Surroundings, words: tuple[str, ...] = ()
) -> Missing:
    own = (*words, *(one.signature.name for one in spec.functions))
    near = difflib.get_close_matches(name[:_LONGEST_COMPARED], own, n=1) or around.near(name)
    hint = f"did you mean {', '.join(near)}?" if near else "`enginehost list` shows the functions"
    return Missing(key, f"{key}: there is no function {name[:100]}", hint)
