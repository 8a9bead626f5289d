"""Spans of turns and tool calls, without any content."""

from __future__ import annotations

from typing import Any

import pytest

from enginehost.tracing import Tracing


async def test_a_turn_and_its_tools_are_spans_without_content(
    world: Any, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    async def add(parameters: dict[str, Any], call: Any) -> int:
        return parameters["n"]

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    def refresh(tracing: Tracing) -> None:
        tracing.on, tracing._tracer = True, provider.get_tracer("test")

    monkeypatch.setattr(Tracing, "refresh", refresh)
    await world.start(kit.function(add))
    world.model.answers = [[kit.call("add", n=1), kit.call("add", n="secret")], kit.text("secret")]
    session, _ = await world.said("secret")
    await world.agents.close(1.0)
    spans = {span.name: span for span in exporter.get_finished_spans()}
    turn, tool = spans["invoke_agent helper"], spans["execute_tool add"]
    assert turn.attributes["gen_ai.conversation.id"] == session.id
    assert turn.attributes["enginehost.run.state"] == "done"
    assert tool.parent.span_id == turn.context.span_id
    assert "error.type" in {key for span in exporter.get_finished_spans() for key in span.attributes}
    assert "secret" not in "".join(span.to_json() for span in exporter.get_finished_spans())
