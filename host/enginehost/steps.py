"""The steps of a chain that are no calls of functions: requests, turns, questions to models, tools, choices.

Where such a step begins and ends, :class:`Steps` tells those who watch. Calls tell of themselves (see
``tracing.py`` and ``record.py``); a step's ids are of the same kind, so that both make one tree.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from random import getrandbits
from typing import Any

from enginehost.call import CURRENT
from enginehost.errors import EngineHostError
from enginehost.trace_context import TRACE, TraceContext


class StepKind(StrEnum):
    """What a step is; each has its event types (``databus/chain_words.py``)."""

    REQUEST = "request"
    """An interface asks for somebody."""
    CALL = "call"
    """A function is called; never told here."""
    TURN = "turn"
    """An agent answers: from where this process begins to where the turn ends or waits."""
    MODEL = "model"
    """A model is asked."""
    CHOICE = "choice"
    """A classifier chooses: tools for a turn, an agent for a request. Or a person decides a question."""
    TOOL = "tool"
    """An agent uses a tool."""
    AGENT = "agent"
    """An agent asks another."""


@dataclass(slots=True, eq=False)
class Step:
    """A step. ``started`` and ``ended`` are seconds since 1970; ``outcome`` is ``ok`` or an error code.

    ``agent`` is the agent in whose turn it happens. ``about`` are facts and never content; ``given`` and
    ``gave`` are what went in and came out, where :attr:`Steps.values` asks for them.
    """

    kind: StepKind
    name: str
    trace: int
    span: int
    parent: int
    started: float
    agent: str = ""
    about: dict[str, Any] = field(default_factory=dict[str, Any])
    given: Any = None
    gave: Any = None
    ended: float = 0.0
    outcome: str = ""

    @property
    def seconds(self) -> float:
        """How long it took."""
        return max(0.0, self.ended - self.started)


DECIDES, DECIDED_BY = "decides", "decided_by"
"""``about["role"]`` of a person's decision: ``about["chain"]`` waited for it, or is where it was made."""

AGENT: ContextVar[str] = ContextVar("enginehost_agent", default="")
"""The agent in whose turn code runs here."""

Heard = Callable[[Step], None]
"""Takes a step at once, on whatever thread it happens, and does not raise."""


@dataclass(frozen=True, slots=True, eq=False)
class _Watcher:
    begun: Heard
    ended: Heard
    values: bool


class Steps:
    """Tells of steps. One per host."""

    def __init__(self) -> None:
        self._watchers: tuple[_Watcher, ...] = ()

    @property
    def values(self) -> bool:
        """Whether somebody wants to know what goes in and comes out."""
        return any(one.values for one in self._watchers)

    def watch(self, begun: Heard, ended: Heard, *, values: bool = False) -> Callable[[], None]:
        """Tell of each step that begins and ends, until the returned function is called."""
        watcher = _Watcher(begun, ended, values)
        self._watchers = (*self._watchers, watcher)

        def remove() -> None:
            self._watchers = tuple(one for one in self._watchers if one is not watcher)

        return remove

    def begin(
        self,
        kind: StepKind,
        name: str,
        above: TraceContext,
        *,
        ids: tuple[int, int] | None = None,
        agent: str = "",
        about: Mapping[str, Any] | None = None,
        given: Any = None,
    ) -> Step:
        """A step below ``above``; with the ``ids`` (trace, span) of its span, where it has one."""
        trace, span = ids or (above.trace or getrandbits(128) or 1, getrandbits(64) or 1)
        parent = above.parent if above.trace == trace else 0
        step = Step(
            kind, name, trace, span, parent, time.time(), agent or AGENT.get(), dict(about or {}), given
        )
        for watcher in self._watchers:
            watcher.begun(step)
        return step

    def end(self, step: Step, outcome: str, gave: Any = None) -> None:
        """It has ended, once."""
        step.ended, step.outcome, step.gave = time.time(), outcome, gave
        for watcher in self._watchers:
            watcher.ended(step)

    @contextmanager
    def step(self, kind: StepKind, name: str, **more: Any) -> Generator[Step]:
        """A step around the code of a ``with``; what happens in it belongs below it."""
        step = self.begin(kind, name, here(), **more)
        token = TRACE.set(below(step, here().sampled))
        with telling(lambda outcome: self.end(step, outcome)):
            try:
                yield step
            finally:
                TRACE.reset(token)


def here() -> TraceContext:
    """Where code runs now: below the call that runs, else below the step; nowhere, where there is neither."""
    call = CURRENT.get()
    return TRACE.get() if call is None else TraceContext(call.trace, call.span, call.arrived.sampled)


def below(step: Step, sampled: bool = True) -> TraceContext:
    """Where what happens within a step is."""
    return TraceContext(step.trace, step.span, sampled)


@contextmanager
def telling(tell: Callable[[str], None]) -> Generator[None]:
    """Tell how the code of a ``with`` ends: ``ok``, or as :func:`outcome_of` has it."""
    outcome = "ok"
    try:
        yield
    except BaseException as error:
        outcome = outcome_of(error)
        raise
    finally:
        tell(outcome)


def outcome_of(error: BaseException) -> str:
    """How a step ended that raised."""
    if isinstance(error, EngineHostError):
        return error.code
    return "execution_failed" if isinstance(error, Exception) else "cancelled"
