"""What models of different makers take in Converse."""

from __future__ import annotations

import re
from typing import Any

from enginehost.errors import InvalidRequest
from enginehost.llm.claude import reasoning_level, thinking_budget

_FAMILY = re.compile(r"(?:^|[./])(anthropic|amazon|openai)\.")


def family_of(model: str, given: str | None) -> str:
    """Whose model it is: as the file says, else as its id has it (``eu.anthropic.claude-…``)."""
    if given:
        return given
    found = _FAMILY.search(model)
    return found.group(1) if found else "other"


def caches(family: str, model: str) -> bool:
    """Whether a model takes cache points; others refuse the request for one."""
    return family == "anthropic" or (family == "amazon" and "nova" in model)


def reasoning_fields(
    family: str, model: str, level: str, max_tokens: int | None
) -> tuple[dict[str, Any], int]:
    """``additionalModelRequestFields`` for a level of reasoning, and the tokens that it takes of the most.

    Raises :class:`InvalidRequest` where the model is not known to take any.
    """
    reasoning_level(level)
    if family == "anthropic":
        budget = thinking_budget(level, max_tokens)
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}, budget
    if family == "amazon":
        return {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": level}}, 0
    if family == "openai":
        return {"reasoning_effort": level}, 0
    raise InvalidRequest(
        f"how {model} is asked to reason is not known",
        detail={"hint": "give additionalModelRequestFields as an extra, or name its MODEL_FAMILY"},
    )
