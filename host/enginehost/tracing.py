"""Beginnings of calls, for those who watch them: OpenTelemetry spans, made only where somebody set up an SDK.

Without one the API's no-op span would still cost 4 µs a call, so the host looks once a second
whether a provider has appeared and otherwise makes none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from enginehost.engine import CURRENT, Call
from enginehost.errors import EngineHostError
from enginehost.record import error_line
from enginehost.steps import Steps
from enginehost.trace_context import TraceContext, state_members


class Tracing:
    """Starts and ends the span of a call, and tells of its start. ``on``: somebody watches at all.

    ``steps`` tells of what else a chain is made of.
    """

    def __init__(self) -> None:
        self.on = False
        self.steps = Steps()
        self._tracer: Any = None
        self._heard: tuple[Callable[[Call], None], ...] = ()

    def watch(self, heard: Callable[[Call], None]) -> Callable[[], None]:
        """Tell ``heard`` of each call that starts, with its final ids, until the returned function is called.

        It runs on the call path, and must neither wait nor raise.
        """
        self._heard = (*self._heard, heard)
        self.on = True

        def remove() -> None:
            self._heard = tuple(one for one in self._heard if one is not heard)
            self.on = bool(self._heard) or self._tracer is not None

        return remove

    @property
    def tracer(self) -> Any:
        """What makes spans while :attr:`on`."""
        return self._tracer

    def refresh(self) -> None:
        """Look whether a tracer provider that records is set."""
        from opentelemetry import trace

        provider = trace.get_tracer_provider()
        no_op = isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider)
        self._tracer = None if no_op else provider.get_tracer("enginehost")
        self.on = bool(self._heard) or self._tracer is not None

    def start(self, call: Call, *, current: bool = True) -> Any:
        """A span for ``call``, if calls are traced; give what is not ``None`` to :meth:`end`.

        The call takes over its ids. Whether it is recorded is the sampler's word, which knows whether the
        caller records its own.
        ``current`` makes it the parent of what the function traces. A stream's span is not: its
        consumer may close it from another context.
        """
        started = None if self._tracer is None else self._span(call, current=current)
        for heard in self._heard:
            heard(call)
        return started

    def _span(self, call: Call, *, current: bool) -> Any:
        from opentelemetry import context, trace

        span = self._tracer.start_span(
            f"call {call.function[:200]}",
            context=_above(call) if call.parent else None,
            kind=trace.SpanKind.SERVER,
            attributes={
                "enginehost.function": call.function[:200],
                "enginehost.face": call.caller.face,
                "enduser.id": call.caller.subject,
            },
        )
        ids = span.get_span_context()
        if ids.is_valid:
            call.span, call.trace, call.traced = ids.span_id, ids.trace_id, ids
        return span, context.attach(trace.set_span_in_context(span)) if current else None

    def end(self, started: Any, outcome: str, failure: BaseException | None) -> None:
        """End what :meth:`start` gave."""
        from opentelemetry import context
        from opentelemetry.trace import StatusCode

        span, token = started
        if failure is not None:
            span.set_attribute("error.type", outcome)
            text = error_line(failure, str, said=True) if isinstance(failure, EngineHostError) else outcome
            span.set_status(StatusCode.ERROR, text)
        span.end()
        if token is not None:
            context.detach(token)


def _above(call: Call) -> Any:
    """The context of the span that ``call`` is a child of: that of another call here, or a caller's own."""
    from opentelemetry import trace

    calling = CURRENT.get()
    if calling is not None and calling.traced is not None and calling.span == call.parent:
        span = calling.traced
    else:
        span = _remote(call)
    return trace.set_span_in_context(trace.NonRecordingSpan(span))


def _remote(call: Call) -> Any:
    arrived = call.arrived
    return _span_context(TraceContext(call.trace, call.parent, arrived.sampled, arrived.state))


def context_below(above: TraceContext) -> Any:
    """The context of a span below the step ``above``; ``None`` (what runs now) where there is none."""
    if not (above.trace and above.parent):
        return None
    from opentelemetry import trace

    return trace.set_span_in_context(trace.NonRecordingSpan(_span_context(above)))


def _span_context(above: TraceContext) -> Any:
    from opentelemetry import trace

    flags = trace.TraceFlags.SAMPLED if above.sampled else trace.TraceFlags.DEFAULT
    return trace.SpanContext(
        above.trace,
        above.parent,
        is_remote=True,
        trace_flags=trace.TraceFlags(flags),
        trace_state=trace.TraceState(state_members(above.state)),
    )
