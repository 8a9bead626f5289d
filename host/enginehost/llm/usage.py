"""What providers say of tokens and costs, as far as it makes sense: a wrong count costs no good answer."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from enginehost.llm.message import Usage

_MOST = 10**15
_COUNTS = ("input", "output", "cached", "cache_written", "reasoning")


def tokens(value: Any) -> int:
    """A count of tokens; 0 for what is none (a text, a negative number, more than there can be)."""
    return value if type(value) is int and 0 <= value <= _MOST else 0


def dollars(value: Any) -> float | None:
    """A cost in US dollars; ``None`` for what is none."""
    right = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if right and 0 <= value < math.inf else None


def sensible(usage: Usage) -> Usage:
    """A usage whose members all make sense."""
    counts = {name: tokens(getattr(usage, name)) for name in _COUNTS}
    return replace(usage, **counts, cost=dollars(usage.cost), model=str(usage.model))
