"""OpenTelemetry spans of requests to models (semantic conventions of generative AI), without any content."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from enginehost.errors import EngineHostError
from enginehost.llm.message import Message, Usage
from enginehost.llm.model import Rows
from enginehost.steps import Step, StepKind, here
from enginehost.tracing import context_below

if TYPE_CHECKING:
    from enginehost.llm.trying import Attempt
    from enginehost.tracing import Tracing


def start(tracing: Tracing, attempt: Attempt) -> Any:
    """The span of a request, a child of what runs now; ``None`` where nobody records."""
    if not tracing.on:
        return None
    from opentelemetry import trace
    from opentelemetry.trace import SpanKind

    if tracing.tracer is None:
        return None
    request = attempt.request
    given = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": attempt.served.record.kind.casefold(),
        "gen_ai.request.model": request.model or attempt.served.engine.default_model,
        "gen_ai.request.max_tokens": request.max_tokens,
        "gen_ai.request.temperature": request.temperature,
        "gen_ai.request.stop_sequences": list(request.stop) or None,
        "gen_ai.output.type": "json" if request.schema is not None else "text",
        "enginehost.engine": attempt.served.record.engine_id,
    }
    attributes = {name: value for name, value in given.items() if value is not None}
    name = f"chat {attributes['gen_ai.request.model']}".rstrip()
    inside = trace.get_current_span().get_span_context().is_valid
    above = None if inside else context_below(here())
    return tracing.tracer.start_span(name, context=above, kind=SpanKind.CLIENT, attributes=attributes)


class ModelStep:
    """The same request as a step of its chain, with the ids of its span, where it has one."""

    def __init__(self, tracing: Tracing, attempt: Attempt, span: Any, content: Content | None) -> None:
        self._steps, self._attempt, self._content = tracing.steps, attempt, content
        ids = span.get_span_context() if span is not None else None
        own = (ids.trace_id, ids.span_id) if ids is not None and ids.is_valid else None
        name = attempt.served.name
        self._step: Step = self._steps.begin(StepKind.MODEL, name, here(), ids=own)

    def end(self, usage: Usage | None, outcome: str) -> None:
        """It has ended."""
        step, content = self._step, self._content
        step.about = {"engine": self._attempt.served.record.engine_id, "model": self._attempt.request.model}
        if usage is not None:
            step.about |= {"input_tokens": usage.input + usage.cached, "output_tokens": usage.output}
        step.given = content.given if content is not None else None
        self._steps.end(step, outcome, content.gave if content is not None else None)


_MOST_ROWS, _MOST_CHARACTERS = 20, 16_000
"""How much of what a model reads and says is kept for those who watch content: its last rows."""


class Content:
    """What a model reads and says, where somebody has switched that on."""

    def __init__(self) -> None:
        self._rows: deque[dict[str, str]] = deque(maxlen=_MOST_ROWS)
        self._said: list[str] = []

    def read(self, rows: Rows) -> Rows:
        """``rows``, watched; a repetition begins anew."""

        async def watched() -> AsyncGenerator[Message, None]:
            self._rows.clear()
            self._said.clear()
            async for row in rows():
                self._rows.append({"role": str(row.role), "content": row.content[:_MOST_CHARACTERS]})
                yield row

        return watched

    def said(self, message: Message) -> None:
        """A piece of the answer."""
        if sum(map(len, self._said)) < _MOST_CHARACTERS:
            query = message.query or {}
            called = f"{query['tool']}({query.get('args')})" if "tool" in query else ""
            self._said.append(message.content or called)

    @property
    def given(self) -> list[dict[str, str]]:
        """The last rows."""
        return list(self._rows)

    @property
    def gave(self) -> str:
        """The text, and the tools that are called."""
        return "".join(self._said)


def end(
    span: Any, attempt: Attempt, usage: Usage | None, failure: BaseException | None, outcome: str
) -> None:
    """End what :func:`start` gave."""
    if span is None:
        return
    from opentelemetry.trace import StatusCode

    if usage is not None:
        span.set_attribute("gen_ai.response.model", usage.model)
        span.set_attribute("gen_ai.usage.input_tokens", usage.input + usage.cached + usage.cache_written)
        span.set_attribute("gen_ai.usage.output_tokens", usage.output)
        span.set_attribute("gen_ai.usage.cache_read.input_tokens", usage.cached)
        span.set_attribute("gen_ai.usage.cache_creation.input_tokens", usage.cache_written)
    span.set_attribute("enginehost.engine", attempt.served.record.engine_id)
    if failure is not None:
        span.set_attribute("error.type", outcome)
        # what a provider says may quote what it was sent
        said = failure.detail.get("type") if isinstance(failure, EngineHostError) else None
        span.set_status(StatusCode.ERROR, str(said or outcome))
    span.end()
