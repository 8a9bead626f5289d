"""One execution of a function: who calls, until when, and where it stands in its chain."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from enginehost.caller import LOCAL, Caller
from enginehost.errors import WaitsForPerson
from enginehost.questions import Question
from enginehost.trace_context import NO_TRACE, TraceContext


class Waited(str):
    """For what a call waited that had not begun: the argument of the ``CancelledError`` that ends its wait.

    Callers read it. A library's own words in that place are told to nobody.
    """

    __slots__ = ()


LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Of :meth:`Call.log`, the least severe first (RFC 5424)."""


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
    ``asks``: which kinds of question its caller can answer (``elicitation``, ``sampling``, ``roots``);
    ``answers``: what they have answered, by the names of the questions. ``tell`` brings them what is told
    while it runs, where they listen.
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
    asks: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    answers: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)
    tell: Callable[[dict[str, Any]], None] | None = field(default=None, repr=False, compare=False)

    def progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        """Tell the caller how far it is. What is no more than before is not told."""
        if self.tell is not None:
            told: dict[str, Any] = {"progress": progress}
            if total is not None:
                told["total"] = total
            self.tell(told | {"message": message} if message else told)

    def log(self, level: str, data: Any, logger: str = "") -> None:
        """Tell the caller something, ``data`` being a text or any JSON. ``level`` is of :data:`LOG_LEVELS`.

        Raises ``ValueError`` for another.
        """
        if level not in LOG_LEVELS:
            raise ValueError(f"{level!r} is no level; there are {', '.join(LOG_LEVELS)}")
        if self.tell is not None:
            self.tell({"level": level, "data": data} | ({"logger": logger} if logger else {}))

    def ask(self, **questions: Question) -> dict[str, Any]:
        """The caller's answers to ``questions``, by their names.

        Where one is missing (or does not fit its question), raises
        :class:`~enginehost.errors.WaitsForPerson`, which ends this run of the function: the questions go to
        the caller, and the function runs again from its beginning once they are answered. So what must
        happen once comes after the last ``ask``, and what comes before asks the same again.
        """
        answers = self.answers or {}
        missing = {
            name: question
            for name, question in questions.items()
            if name not in answers or not question.fits(answers[name])
        }
        if not missing:
            return {name: answers[name] for name in questions}
        asked = {name: question.to_json() for name, question in missing.items()}
        first = next(iter(missing.values())).text
        raise WaitsForPerson(f"{self.function or 'the function'} asks: {first}", detail={"ask": asked})

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
