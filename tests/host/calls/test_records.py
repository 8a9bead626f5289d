"""What is written down of a call, and what the function knows of it."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from enginehost import Call, Caller
from enginehost.engine import current_call
from enginehost.errors import (
    ExecutionFailed,
    InvalidArguments,
    ResultInvalid,
    TooLarge,
    UnknownFunction,
)

from .conftest import NUMBERS, add, count, function, serving


async def test_the_function_sees_its_call() -> None:
    async def mine(arguments: dict[str, Any], call: Call) -> bool:
        return current_call() is call

    async with serving(function(mine)) as host:
        assert await host.call("f") is True
        assert current_call() is None


async def test_each_call_is_one_log_line_without_values() -> None:
    log = io.StringIO()
    async with serving(function(add, "add", NUMBERS), log=log) as host:
        await host.call("add", {"a": 41}, caller=Caller("alice", face="http"))
        with pytest.raises(InvalidArguments):
            await host.call("add", {"a": "secret-value"})
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [line["outcome"] for line in lines] == ["ok", "invalid_arguments"]
    assert lines[0]["function"] == "add"
    assert lines[0]["subject"] == "alice"
    assert len(lines[0]["call_id"]) == 16
    assert "arguments" not in lines[0]
    assert lines[1]["error"] == "the arguments do not fit at /a"
    assert "secret-value" not in log.getvalue()


async def repeats(arguments: dict[str, Any], call: Call) -> None:
    raise ValueError(arguments["card"])


async def test_the_audit_has_who_what_when_and_outcome_and_values_only_when_asked(tmp_path: Any) -> None:
    for values in (False, True):
        path = tmp_path / f"audit-{values}.jsonl"
        functions = function(add, "add", NUMBERS), function(repeats, "repeats")
        async with serving(*functions, audit={"path": path, "values": values}) as host:
            await host.call("add", {"a": 4}, caller=Caller("bob", tenant="t"))
            with pytest.raises(UnknownFunction):
                await host.call("nothing", caller=Caller("bob"))
            with pytest.raises(InvalidArguments):
                await host.call("add", {"a": "4111-1111"})
            with pytest.raises(ExecutionFailed):
                await host.call("repeats", {"card": "4111-1111"})
        done, refused, unfit, failed = [json.loads(line) for line in path.read_text().splitlines()]
        assert ("4111-1111" in path.read_text()) == values
        assert unfit["error"] == "the arguments do not fit at /a"
        assert failed["error"] == ("repeats failed: ValueError: 4111-1111" if values else "ValueError")
        assert (done["subject"], done["tenant"], done["function"], done["outcome"]) == (
            "bob",
            "t",
            "add",
            "ok",
        )
        assert refused["outcome"] == "unknown_function"
        assert done.get("arguments") == ({"a": 4} if values else None)
        assert path.stat().st_mode & 0o077 == 0


async def test_an_audit_with_values_keeps_no_result_that_was_refused(tmp_path: Any) -> None:
    async def answers(arguments: dict[str, Any], call: Call) -> Any:
        return "x" * 3000

    path = tmp_path / "audit.jsonl"
    large, odd = function(answers, "large"), function(answers, "odd", result={"type": "number"})
    audit = {"path": path, "values": True}
    async with serving(large, odd, audit=audit, max_result_bytes=2000) as host:
        for name, error in (("large", TooLarge), ("odd", ResultInvalid)):
            with pytest.raises(error):
                await host.call_json(host.new_call(name), {"a": 1})
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["arguments"], line["result"]) for line in lines] == [({"a": 1}, None)] * 2


async def test_metrics_count_calls_by_function_and_outcome() -> None:
    from prometheus_client.parser import text_string_to_metric_families

    async with serving(function(add, 'a"dd\\', NUMBERS)) as host:
        await host.call('a"dd\\', {"a": 1})
        with pytest.raises(UnknownFunction):
            await host.call("nothing")
        families = {family.name: family for family in text_string_to_metric_families(host.metrics().decode())}
    (sample,) = families["enginehost_calls"].samples
    assert (sample.labels, sample.value) == ({"function": 'a"dd\\', "outcome": "ok"}, 1.0)
    assert families["enginehost_calls_refused"].samples[0].labels == {"outcome": "unknown_function"}
    duration = {
        s.name: s.value for s in families["enginehost_call_duration_seconds"].samples if "le" not in s.labels
    }
    assert duration["enginehost_call_duration_seconds_count"] == 1.0


async def test_a_recording_span_gives_the_call_its_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)

    async def ids(arguments: dict[str, Any], call: Call) -> Any:
        return call.span, call.trace, trace.get_current_span().get_span_context().span_id

    async def fails(arguments: dict[str, Any], call: Call) -> None:
        raise ValueError("x")

    async with serving(function(ids), function(fails, "g"), function(count, "count")) as host:
        span, chain, current = await host.call("f")
        assert [item async for item in host.stream("count", {"to": 2})] == [0, 1]
        with pytest.raises(ExecutionFailed):
            await host.call("g")
    first, streamed, failed = exporter.get_finished_spans()
    assert (first.context.span_id, first.context.trace_id) == (span, chain) == (current, chain)  # type: ignore[union-attr]
    assert streamed.name == "call count"
    assert failed.attributes["error.type"] == "execution_failed"  # type: ignore[index]
