"""OpenTelemetry spans of requests to models (semantic conventions of generative AI), without any content."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from enginehost.errors import EngineHostError
from enginehost.llm.message import Usage

if TYPE_CHECKING:
    from enginehost.llm.trying import Attempt
    from enginehost.tracing import Tracing


def start(tracing: Tracing, attempt: Attempt) -> Any:
    """The span of a request, a child of what runs now; ``None`` where nobody records."""
    if not tracing.on:
        return None
    from opentelemetry.trace import SpanKind

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
    return tracing.tracer.start_span(name, kind=SpanKind.CLIENT, attributes=attributes)


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
