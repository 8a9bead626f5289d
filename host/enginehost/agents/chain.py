"""Where code runs that an agent asked for: which agents asked each other, and in which conversation."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from random import getrandbits
from typing import Any

from enginehost.steps import here
from enginehost.trace_context import NO_TRACE, TRACE, TraceContext

__all__ = [
    "CHAIN",
    "CONVERSATION",
    "DECISION",
    "QUESTION",
    "TRACE",
    "trace_for_calls",
    "trace_from_json",
    "trace_here",
    "trace_to_json",
]

CHAIN: ContextVar[tuple[str, ...]] = ContextVar("enginehost_agents", default=())
"""The agents whose tools run here now, from the first that was asked to the one that asks: one that is called
as a function of the catalog comes after them."""

CONVERSATION: ContextVar[str] = ContextVar("enginehost_conversation", default="")
"""The session in which the last of them asks; empty where it runs in another program."""

DECISION: ContextVar[Mapping[str, Any] | None] = ContextVar("enginehost_decision", default=None)
"""What a person decided about a question of the agent that is called here: ``question``, ``decision``
(``approve``, ``reject``, ``edit``, ``answer``, or ``cancel`` for the whole turn), ``text``, ``args``.

With ``only`` the call ends when the decision stands; with ``again`` it stands already, and what comes of it
is the answer."""


QUESTION: ContextVar[str] = ContextVar("enginehost_question", default="")
"""What tells the question to the agent that is called here from all others: the same where it is asked again
because its host vanished before it answered. Empty where nobody would ask it again."""


def trace_here() -> TraceContext:
    """The trace for what begins here: that of the call that runs, else of the turn; else a new one."""
    found = here()
    return found if found.trace else TraceContext(getrandbits(128) or 1)


def trace_for_calls() -> TraceContext:
    """The trace with which the calls of a turn arrive: they are steps of the tool that makes them."""
    return TRACE.get()


def trace_to_json(trace: TraceContext) -> dict[str, Any]:
    """As a run keeps it, so that whoever takes the turn over goes on in the same trace."""
    return {"id": f"{trace.trace:032x}", "span": f"{trace.parent:016x}", "sampled": trace.sampled}


def trace_from_json(kept: object) -> TraceContext:
    """The inverse of :func:`trace_to_json`; what it cannot read is no trace."""
    if not isinstance(kept, Mapping):
        return NO_TRACE
    said: Mapping[str, Any] = kept
    try:
        trace, span = int(str(said["id"]), 16), int(str(said["span"]), 16)
    except (KeyError, ValueError):
        return NO_TRACE
    return TraceContext(trace, span, said.get("sampled") is not False)
