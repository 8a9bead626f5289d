"""What a stage names (functions, a model), for whoever looks whether it is there."""

from __future__ import annotations

from dataclasses import dataclass

from enginehost.agents.contract import Stage

_NAMES = "__enginehost_names__"


@dataclass(frozen=True, slots=True)
class Names:
    """Names of functions, and of a model."""

    tools: tuple[str, ...] = ()
    model: str = ""


NO_NAMES = Names()


def naming(stage: Stage, *, tools: tuple[str, ...] = (), model: str = "") -> Stage:
    """The stage, with what it names."""
    setattr(stage, _NAMES, Names(tools, model))
    return stage


def names_of(stage: object) -> Names:
    """What a stage names; of a stranger's, nothing is known."""
    found = getattr(stage, _NAMES, NO_NAMES)
    return found if isinstance(found, Names) else NO_NAMES
