"""The stages that come with the host, and how a file names them.

Each function here makes a stage (:data:`~enginehost.agents.contract.Stage`)::

    AgentSpec(…, stages=(hide_reasoning(), budget(tokens=50_000), approval(["delete_*"])))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from enginehost.agents.contract import Stage
from enginehost.agents.stages.bounds import budget, rate_limit
from enginehost.agents.stages.compacting import compaction
from enginehost.agents.stages.passing import approval, hide_reasoning
from enginehost.agents.stages.redacting import redact
from enginehost.errors import ConfigError
from enginehost.near_names import NearNames
from enginehost.value_faults import first_fault

SHIPPED: Mapping[str, Callable[..., Stage]] = {
    "approval": approval,
    "budget": budget,
    "compaction": compaction,
    "hide_reasoning": hide_reasoning,
    "rate_limit": rate_limit,
    "redact": redact,
}
"""What makes each of them, by its name in ``STAGES``."""


def make_stage(name: str, arguments: Mapping[str, Any]) -> Stage:
    """A shipped stage. Raises :class:`ConfigError` for another name or arguments that do not fit."""
    from pydantic import ValidationError, validate_call

    make = SHIPPED.get(name)
    if make is None:
        near = NearNames(SHIPPED).near(name, lambda _: True)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(SHIPPED)}"
        raise ConfigError(f"there is no stage named {name[:100]!r}", hint=hint, reason="unknown-stage")
    try:
        return validate_call(make)(**arguments)
    except ValidationError as error:
        raise ConfigError(f"the stage {name}: {first_fault(error)}", reason="bad-stage") from None
    except ValueError as error:
        raise ConfigError(f"the stage {name}: {error}", reason="bad-stage") from None


__all__ = [
    "SHIPPED",
    "approval",
    "budget",
    "compaction",
    "hide_reasoning",
    "make_stage",
    "rate_limit",
    "redact",
]
