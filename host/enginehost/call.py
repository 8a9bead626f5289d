"""One execution of a function: who calls, until when, and where it stands in its chain."""

from __future__ import annotations

import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from enginehost.caller import LOCAL, Caller
from enginehost.trace_context import NO_TRACE, TraceContext


class Waited(str):
    """For what a call waited that had not begun: the argument of the ``CancelledError`` that ends its wait.

    Callers read it. A library's own words in that place are told to nobody.
    """

    __slots__ = ()


@dataclass(slots=True)
class Call:
    """One execution, as the function sees it.

    ``call_id`` is a W3C span id (16 hex digits), ``chain_id`` a W3C trace id (32 hex digits) that
    all calls of one chain share; ``deadline`` is :func:`time.monotonic` seconds; ``arrived`` the trace that
    came with its request; ``traced`` the OpenTelemetry ``SpanContext`` of its span, where calls are traced.
    ``large``: its arguments, or what it has answered, are of such a size that work on them is done aside
    (:func:`enginehost.values.aside`). ``max_result_bytes``: how long its result, or an item of it, may be as
    JSON; the host refuses what is longer, but a result is better not brought to it. ``authorization``: the
    header of that name with which it came over HTTP; an engine passes it on only where its file asks for it.
    """

    function: str
    caller: Caller = LOCAL
    deadline: float | None = None
    span: int = 0
    trace: int = 0
    parent: int = 0
    arrived: TraceContext = field(default=NO_TRACE, repr=False, compare=False)
    traced: Any = field(default=None, repr=False, compare=False)
    large: bool = field(default=False, repr=False, compare=False)
    max_result_bytes: int | None = field(default=None, repr=False, compare=False)
    authorization: str = field(default="", repr=False, compare=False)

    @property
    def call_id(self) -> str:
        """The W3C span id of this call."""
        return f"{self.span:016x}"

    @property
    def chain_id(self) -> str:
        """The W3C trace id of the chain this call belongs to."""
        return f"{self.trace:032x}"

    @property
    def remaining(self) -> float | None:
        """Seconds until the deadline (never below 0); ``None`` without one."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())


CURRENT: ContextVar[Call | None] = ContextVar("enginehost_call", default=None)
"""The call that runs here now; set by the host around every function."""


def current_call() -> Call | None:
    """The call that this code serves, ``None`` outside one."""
    return CURRENT.get()
