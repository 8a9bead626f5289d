"""W3C Trace Context: what a request says of the trace that its call belongs to.

Faces read it (``traceparent``, ``tracestate``) and make the call with it.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import NamedTuple

_TRACEPARENT = re.compile(
    "(?!ff|00.{54})[0-9a-f]{2}"  # version 00 ends with the flags; a later one may go on after a dash
    "-(?!0{32})(?P<trace>[0-9a-f]{32})-(?!0{16})(?P<parent>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?:-.*)?"
)
_SAMPLED = 1
_KEY = r"[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13}"
_MEMBER = re.compile(rf"({_KEY})=([ -+\--<>-~]{{0,255}}[!-+\--<>-~])")
"""A key and its value, by the first edition of W3C's Trace Context (3.3.1.3), which the SDK holds to."""
_MOST_MEMBERS = 32


class TraceContext(NamedTuple):
    """The trace a request belongs to. ``trace`` and ``parent`` are 0 where it belongs to none.

    ``sampled``: whether the caller records its own span; ``state`` is ``tracestate`` as it came.
    """

    trace: int = 0
    parent: int = 0
    sampled: bool = True
    state: str = ""


NO_TRACE = TraceContext()

TRACE: ContextVar[TraceContext] = ContextVar("enginehost_trace", default=NO_TRACE)
"""The step (a turn, a tool) in which code runs here, where it runs in no call: what begins is below it."""


def read_trace(traceparent: str, tracestate: str = "") -> TraceContext:
    """The context in the two texts; :data:`NO_TRACE` where ``traceparent`` is one that W3C has us ignore."""
    match = _TRACEPARENT.fullmatch(traceparent)
    if match is None:
        return NO_TRACE
    trace, parent, flags = (int(digits, 16) for digits in match.groups())
    return TraceContext(trace, parent, bool(flags & _SAMPLED), tracestate)


def state_members(state: str) -> list[tuple[str, str]]:
    """The members of a ``tracestate``; none where it breaks the rules, as W3C has it."""
    members = [member for part in state.split(",") if (member := part.strip(" \t"))]
    found = [(match[1], match[2]) for match in map(_MEMBER.fullmatch, members) if match is not None]
    keys = {key for key, _ in found}
    return found if len(keys) == len(members) <= _MOST_MEMBERS else []
