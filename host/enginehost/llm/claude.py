"""What Claude models take, whether Anthropic or Bedrock serves them."""

from __future__ import annotations

from enginehost.errors import InvalidRequest

BUDGETS = {"low": 2048, "medium": 8192, "high": 24576}
"""Tokens of thinking for each level of reasoning, where they are counted."""

_LEAST_BUDGET = 1024
"""What the APIs ask for."""


def reasoning_level(level: str) -> str:
    """A level of reasoning. Raises :class:`InvalidRequest` for any other word."""
    if level not in BUDGETS:
        raise InvalidRequest(f"reasoning is low, medium or high, not {level!r}")
    return level


def thinking_budget(level: str, max_tokens: int | None) -> int:
    """Tokens of thinking for a level: all of them, or half of what the whole answer may have.

    Raises :class:`InvalidRequest` for another level, and where ``max_tokens`` leaves no room for an answer.
    """
    budget = BUDGETS[reasoning_level(level)]
    if max_tokens is None:
        return budget
    if max_tokens <= _LEAST_BUDGET:
        raise InvalidRequest(f"with reasoning max_tokens has to be above {_LEAST_BUDGET}")
    return max(_LEAST_BUDGET, min(budget, max_tokens // 2))


def cannot_be_made_to_call() -> InvalidRequest:
    """The error for structured output by a tool of a model that is to think."""
    return InvalidRequest(
        "a model that thinks cannot be made to call a tool, which STRUCTURED_OUTPUT = tool does",
        detail={"hint": "leave reasoning out, or write STRUCTURED_OUTPUT = format"},
    )
