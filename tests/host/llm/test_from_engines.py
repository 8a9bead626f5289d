"""Engines talk to the models of their host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from enginehost.catalog import EngineRecord
from enginehost.engine import AbstractFunctionEngine, EngineContext, FunctionSignature
from enginehost.errors import CallTimeout, EngineUnavailable, InvalidRequest
from enginehost.llm.message import Message
from enginehost.testing import engine_registry, running_host

TEXT = {"type": "object", "properties": {"text": {"type": "string"}, "model": {"type": "string"}}}
FILE = "ENGINE_CLASS = Asker\nFUNCTION_NAME = ask\nFUNCTION_DESCRIPTION = Asks.\nFUNCTION_PARAMETERS = [" + (
    '{"name": "text"}, {"name": "model"}]\n'
)


class Asker(AbstractFunctionEngine):
    """Asks the model that its caller names."""

    async def execute(self, parameters: dict[str, Any]) -> str:
        answer = await self.context.llm(parameters.get("model", "")).send(parameters["text"])
        return answer.text


def asker() -> Asker:
    return Asker(EngineContext("asker", signature=FunctionSignature("ask", "Asks.", TEXT)))


async def test_an_engine_of_a_program_asks_a_model_within_its_call(stage: Any) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with stage.host() as host:
        host._invoker.tracing._tracer, host._invoker.tracing.on = provider.get_tracer("test"), True
        await host.add_engine(EngineRecord("asker", "program"), asker())
        assert await host.call("ask", {"text": "hello", "model": "puppet"}) == "hello"
        chat, call = exporter.get_finished_spans()
        assert (chat.name, call.name) == ("chat puppet-1", "call ask")
        assert chat.parent is not None
        assert chat.parent.span_id == call.context.span_id
        with pytest.raises(InvalidRequest, match="no model engine is called 'nobody'"):
            await host.call("ask", {"text": "hello", "model": "nobody"})


async def test_a_model_that_hangs_is_left_when_the_call_of_the_engine_ends(stage: Any) -> None:
    left = asyncio.Event()

    async def hang(rows: Any, request: Any, engine: Any) -> AsyncGenerator[Message, None]:
        try:
            await asyncio.Event().wait()
            yield Message()
        finally:
            left.set()

    stage.play(hang)
    async with stage.host() as host:
        await host.add_engine(EngineRecord("asker", "program"), asker())
        with pytest.raises(CallTimeout):
            await host.call("ask", {"text": "hello"}, timeout=0.1)
        await asyncio.wait_for(left.wait(), 10)


async def test_an_engine_of_a_file_asks_the_version_of_the_model_that_serves_now(stage: Any) -> None:
    registry = engine_registry(stage.engine, "ENGINE_CLASS = Puppet")
    stage.write("puppet")
    from enginehost.plugins import ENGINES, Alias

    registry.add_engine_class(Alias("Asker", "", ENGINES, "somebody", ""), Asker)
    (stage.folder / "ask.smss").write_text(FILE)
    async with running_host(stage.folder, registry=registry) as host:
        assert await host.call("ask", {"text": "hello"}) == "hello"


def test_an_engine_without_a_host_has_no_models() -> None:
    with pytest.raises(EngineUnavailable, match="there are no models here"):
        asker().context.llm("gpt")
