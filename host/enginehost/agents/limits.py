"""The limits of a turn, and what is said when one is reached."""

from __future__ import annotations

from enginehost.agents.contract import Turn, TurnLimits


def reached(turn: Turn, allowance: int, seconds: float) -> str:
    """Which limit forbids another step, in words; empty where none does.

    ``allowance``: how many times each limit may be used up.
    """
    most = turn.spec.limits
    for used, limit, unit in (
        (turn.steps, most.steps, "steps"),
        (turn.tool_calls, most.tool_calls, "tool calls"),
        (turn.tokens, most.tokens, "tokens"),
        (seconds, most.seconds, "seconds"),
    ):
        if limit is not None and used >= limit * allowance:
            return _text(limit * allowance, unit)
    return ""


def calls_left_out(limits: TurnLimits, number: int, allowance: int) -> str:
    """Whether the call with this number (from 1) is one too many, in words."""
    most = limits.tool_calls
    return _text(most * allowance, "tool calls") if most is not None and number > most * allowance else ""


def seconds_text(limits: TurnLimits) -> str:
    """What is said when a turn has run too long."""
    return _text(limits.seconds or 0, "seconds")


def _text(limit: float, unit: str) -> str:
    if unit == "seconds":
        return f"the turn has run for the {limit:g} seconds that its agent may take"
    return f"the turn has used up the {limit:g} {unit} that its agent may take"
