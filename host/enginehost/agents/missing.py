"""What an agent's keys name that there is not: its turns would fail, or go without."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import NamedTuple

from enginehost.agents.contract import AgentSpec


class Missing(NamedTuple):
    """One name that means nothing here: the key that has it, a sentence, and how to mend it."""

    key: str
    message: str
    hint: str


def missing(
    spec: AgentSpec,
    model_fault: Callable[[str], str],
    functions: Container[str],
    agents: Container[str],
) -> Iterator[Missing]:
    """What ``spec`` names in vain. ``model_fault`` says why a name means no model; empty where it does."""
    if fault := model_fault(spec.model):
        hint = "write MODEL = the id, name or alias of a model file in the folder"
        yield Missing("MODEL", f"MODEL: {fault}", hint)
    if spec.fallback_model and (fault := model_fault(spec.fallback_model)):
        yield Missing("FALLBACK_MODEL", f"FALLBACK_MODEL: {fault}", "name a model file of the folder")
    own = {one.signature.name for one in spec.functions}
    for name in spec.tools.names:
        if name not in own and name not in functions:
            hint = "`enginehost list` shows the functions"
            yield Missing("TOOLS", f"TOOLS: there is no function {name[:100]}", hint)
    for name in spec.agents:
        if name == spec.name:
            yield Missing("AGENTS", "AGENTS: an agent does not ask itself", "leave its own name out")
        elif name not in agents:
            hint = "it has to be the FUNCTION_NAME of another agent"
            yield Missing("AGENTS", f"AGENTS: there is no agent {name[:100]}", hint)
