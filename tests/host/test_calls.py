"""What a caller can rely on when a function is called, through the host's public face."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import pytest

from enginehost import Call, Caller, EngineContext, Function, Host, HostSettings, Limits
from enginehost.catalog import EngineRecord
from enginehost.engine import AbstractFunctionEngine, Annotations, current_call, run_mode
from enginehost.errors import (
    CallCancelled,
    CallTimeout,
    EngineUnavailable,
    ExecutionFailed,
    InvalidArguments,
    OutcomeUnknown,
    Overloaded,
    ResultInvalid,
    TooLarge,
    UnknownFunction,
)
from enginehost.signature import FunctionSignature

NUMBERS = {
    "type": "object",
    "properties": {"a": {"type": "number"}, "b": {"type": "number", "default": 1}},
    "required": ["a"],
}


class Several(AbstractFunctionEngine):
    """An engine of given functions."""

    def __init__(self, functions: list[Function]) -> None:
        super().__init__(EngineContext("test"))
        self._functions = functions

    def functions(self) -> list[Function]:
        return self._functions


def function(
    run: Callable[[dict[str, Any], Call], Any],
    name: str = "f",
    parameters: dict[str, Any] | None = None,
    result: dict[str, Any] | None = None,
    **more: Any,
) -> Function:
    schema = parameters if parameters is not None else {"type": "object", "additionalProperties": True}
    mode = run_mode(run)
    signature = FunctionSignature(
        name, "", schema, result=result, annotations=Annotations(), streaming=mode.streams
    )
    return Function(signature, run, mode, **more)


@asynccontextmanager
async def serving(
    *functions: Function, log: io.StringIO | None = None, **settings: Any
) -> AsyncIterator[Host]:
    host = Host(None, None, settings=HostSettings(**settings), log=log)
    await host.start()
    await host.add_engine(EngineRecord("test", "Test"), Several(list(functions)))
    try:
        yield host
    finally:
        await host.stop(drain=1.0)


async def add(arguments: dict[str, Any], call: Call) -> Any:
    return arguments["a"] + arguments["b"]


async def test_an_async_function_gives_its_result() -> None:
    async with serving(function(add, "add", NUMBERS)) as host:
        assert await host.call("add", {"a": 1, "b": 2}) == 3


async def test_a_declared_default_fills_a_missing_argument() -> None:
    async with serving(function(add, "add", NUMBERS)) as host:
        assert await host.call("add", {"a": 1}) == 2


@pytest.mark.parametrize(
    ("arguments", "pointer", "message"),
    [
        ({"a": "x"}, "/a", "number"),
        ({}, "", '"a" is a required property'),
        ({"a": 1, "bb": 2}, "", 'did you mean "b"?'),
        ({"a": float("nan")}, "/a", ""),
        ({"a": True}, "/a", "number"),
        ({"a": None}, "/a", "number"),
    ],
)
async def test_arguments_that_do_not_fit_never_reach_the_function(
    arguments: dict[str, Any], pointer: str, message: str
) -> None:
    reached: list[Any] = []

    async def run(arguments: dict[str, Any], call: Call) -> None:
        reached.append(arguments)

    async with serving(function(run, "add", NUMBERS)) as host:
        with pytest.raises(InvalidArguments) as caught:
            await host.call("add", arguments)
    assert reached == []
    first = caught.value.detail["errors"][0]
    assert first["pointer"] == pointer
    assert message in first["message"]


async def test_arguments_that_are_no_object_are_refused() -> None:
    async with serving(function(add, "add", NUMBERS)) as host:
        with pytest.raises(InvalidArguments, match="must be an object"):
            await host.call("add", [1, 2])  # type: ignore[arg-type]


async def test_integers_beyond_two_to_the_53_stay_exact() -> None:
    async def same(arguments: dict[str, Any], call: Call) -> Any:
        return arguments["n"]

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    async with serving(function(same, "same", schema)) as host:
        for number in (2**53 + 1, 2**64 + 1, -(10**30)):
            assert await host.call("same", {"n": number}) == number
            assert (
                await host.call_json(host.new_call("same", Caller("x")), {"n": number})
                == str(number).encode()
            )


async def test_a_rich_value_counts_by_its_json_form() -> None:
    async def year(arguments: dict[str, Any], call: Call) -> int:
        return arguments["when"].year

    schema = {"type": "object", "properties": {"when": {"type": "string", "format": "date-time"}}}
    async with serving(function(year, "year", schema)) as host:
        assert await host.call("year", {"when": datetime.fromisoformat("2026-11-30T00:00:00+00:00")}) == 2026


async def test_an_unknown_function_names_the_nearest() -> None:
    async with serving(function(add, "add", NUMBERS)) as host:
        with pytest.raises(UnknownFunction) as caught:
            await host.call("addd", {})
    assert caught.value.detail["nearest"] == ["add"]


async def test_a_call_that_suspends_is_answered_at_its_deadline() -> None:
    cleaned = asyncio.Event()

    async def slow(arguments: dict[str, Any], call: Call) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.set()

    async with serving(function(slow, limits=Limits(timeout=0.05))) as host:
        with pytest.raises(CallTimeout):
            await host.call("f")
        assert cleaned.is_set()  # of the 60 s that it sleeps
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


async def test_a_caller_can_shorten_the_deadline_and_not_lengthen_it() -> None:
    async def left(arguments: dict[str, Any], call: Call) -> float | None:
        return call.remaining

    async with serving(function(left, limits=Limits(timeout=5))) as host:
        assert (await host.call("f", timeout=1)) <= 1
        assert 4 < (await host.call("f", timeout=100)) <= 5


async def test_a_nested_call_inherits_deadline_chain_and_caller() -> None:
    async def inner(arguments: dict[str, Any], call: Call) -> Any:
        return call.deadline, call.chain_id, call.parent, call.caller.subject

    async with serving() as host:

        async def outer(arguments: dict[str, Any], call: Call) -> Any:
            return (call.deadline, call.chain_id, call.span, call.caller.subject), await host.call("inner")

        functions = [function(outer, "outer", limits=Limits(timeout=3)), function(inner, "inner")]
        await host.add_engine(EngineRecord("more", "Test"), Several(functions))
        above, below = await host.call("outer", caller=Caller("alice"))
    assert above == below


async def test_a_sync_function_that_hangs_is_answered_at_its_deadline() -> None:
    release, ended = threading.Event(), threading.Event()

    def hang(arguments: dict[str, Any], call: Call) -> None:
        release.wait(10)
        ended.set()

    async with serving(function(hang, limits=Limits(timeout=0.05))) as host:
        with pytest.raises(CallTimeout):
            await host.call("f")
        assert not ended.is_set()
        release.set()


async def test_an_outside_cancellation_reaches_the_function_and_stays_a_cancellation() -> None:
    entered, cleaned = asyncio.Event(), asyncio.Event()

    async def slow(arguments: dict[str, Any], call: Call) -> None:
        entered.set()
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.set()

    async with serving(function(slow)) as host:
        task = asyncio.create_task(host.call("f"))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cleaned.is_set()
        assert host.in_flight == 0


async def test_a_function_that_cancels_itself_does_not_cancel_its_caller() -> None:
    async def odd(arguments: dict[str, Any], call: Call) -> None:
        if arguments["wait"]:
            await asyncio.sleep(0)
        raise asyncio.CancelledError

    async with serving(function(odd)) as host:
        for wait in (False, True):
            with pytest.raises(CallCancelled):
                await host.call("f", {"wait": wait})


async def test_what_a_function_raises_becomes_execution_failed_with_its_cause() -> None:
    async def fails(arguments: dict[str, Any], call: Call) -> None:
        raise ValueError("no such city")

    async with serving(function(fails)) as host:
        with pytest.raises(ExecutionFailed, match="ValueError: no such city") as caught:
            await host.call("f")
    assert isinstance(caught.value.__cause__, ValueError)
    assert caught.value.detail == {"type": "ValueError"}


async def test_a_text_for_callers_holds_no_secret_path_or_traceback() -> None:
    async def fails(arguments: dict[str, Any], call: Call) -> None:
        raise RuntimeError("postgres://bob:hunter22@db/x failed in /usr/lib/app/x.py: password=letmein")

    async with serving(function(fails)) as host:
        with pytest.raises(ExecutionFailed) as caught:
            await host.call("f")
    text = json.dumps(caught.value.to_json())
    assert "x.py" in text
    for forbidden in ("hunter22", "letmein", "/usr/lib", "Traceback"):
        assert forbidden not in text


async def test_a_result_that_breaks_the_signature_is_refused() -> None:
    async def wrong(arguments: dict[str, Any], call: Call) -> str:
        return "text"

    async with serving(function(wrong, result={"type": "number"})) as host:
        with pytest.raises(ResultInvalid):
            await host.call("f")


async def test_a_result_over_the_functions_size_limit_is_refused_on_every_way_in() -> None:
    async def big(arguments: dict[str, Any], call: Call) -> str:
        return "x" * 2000

    async with serving(function(big, limits=Limits(max_result_bytes=1000))) as host:
        for attempt in (
            host.call("f"),
            host.call_json(host.new_call("f", Caller("x")), {}),
            anext(host.stream("f")),
        ):
            with pytest.raises(TooLarge, match="1000 bytes"):
                await attempt


async def test_no_more_calls_run_at_once_than_allowed_and_a_full_queue_refuses() -> None:
    running: list[int] = [0, 0]
    release = asyncio.Event()

    async def busy(arguments: dict[str, Any], call: Call) -> int:
        running[0] += 1
        running[1] = max(running)
        await release.wait()
        running[0] -= 1
        return arguments["n"]

    async with serving(function(busy, limits=Limits(max_concurrency=2, queue_limit=3))) as host:
        tasks = [asyncio.create_task(host.call("f", {"n": n})) for n in range(6)]
        while not any(task.done() for task in tasks):
            await asyncio.sleep(0)
        release.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    assert results[:5] == [0, 1, 2, 3, 4]
    assert isinstance(results[5], Overloaded)
    assert running == [0, 2]


async def test_a_waiting_caller_that_leaves_gives_its_place_away() -> None:
    release = asyncio.Event()

    async def busy(arguments: dict[str, Any], call: Call) -> int:
        await release.wait()
        return arguments["n"]

    async with serving(function(busy, limits=Limits(max_concurrency=1))) as host:
        first, second, third = (asyncio.create_task(host.call("f", {"n": n})) for n in range(3))
        await asyncio.sleep(0)  # each task runs until it waits
        second.cancel()
        release.set()
        assert await first == 0
        assert await third == 2
        assert second.cancelled()


async def test_the_rate_limit_says_when_to_come_back() -> None:
    async with serving(function(add, "add", NUMBERS, limits=Limits(rate=2.0, burst=2))) as host:
        for _ in range(2):
            await host.call("add", {"a": 1})
        with pytest.raises(Overloaded) as caught:
            await host.call("add", {"a": 1})
    assert 0 < caught.value.retry_after <= 0.5


async def test_a_bound_parameter_is_filled_by_the_host() -> None:
    async def who(arguments: dict[str, Any], call: Call) -> Any:
        return arguments

    bind = {"user": "$caller.subject", "fixed": 7, "money": "$$5"}
    async with serving(function(who, bind=bind)) as host:
        found = await host.call("f", {"x": 1}, caller=Caller("alice"))
    assert found == {"x": 1, "user": "alice", "fixed": 7, "money": "$5"}


async def test_text_is_coerced_only_where_nothing_is_lost() -> None:
    async def same(arguments: dict[str, Any], call: Call) -> Any:
        return arguments

    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "b": {"type": "boolean"}, "s": {"type": "string"}},
    }
    async with serving(function(same, parameters=schema)) as host:
        given = {"n": "7", "b": "true", "s": "8"}
        assert json.loads(await host.call_json(host.new_call("f", Caller("x")), given, coerce=True)) == {
            "n": 7,
            "b": True,
            "s": "8",
        }
        with pytest.raises(InvalidArguments):
            await host.call_json(host.new_call("f", Caller("x")), {"n": "7.5"}, coerce=True)
        with pytest.raises(InvalidArguments):
            await host.call_json(host.new_call("f", Caller("x")), {"n": "7"})


async def count(arguments: dict[str, Any], call: Call) -> AsyncGenerator[int, None]:
    for number in range(arguments["to"]):
        yield number
        await asyncio.sleep(0)


async def test_a_stream_gives_items_as_they_come_and_a_call_collects_them() -> None:
    async with serving(function(count)) as host:
        assert [item async for item in host.stream("f", {"to": 3})] == [0, 1, 2]
        assert await host.call("f", {"to": 3}) == [0, 1, 2]


async def test_streaming_a_plain_function_gives_its_one_result() -> None:
    async with serving(function(add, "add", NUMBERS)) as host:
        assert [item async for item in host.stream("add", {"a": 1})] == [2]


async def test_leaving_a_stream_early_closes_the_generator_and_frees_its_place() -> None:
    closed: list[bool] = []

    async def endless(arguments: dict[str, Any], call: Call) -> AsyncGenerator[int, None]:
        try:
            while True:
                yield 1
        finally:
            closed.append(True)

    def endless_sync(arguments: dict[str, Any], call: Call) -> Any:
        try:
            while True:
                yield 1
        finally:
            closed.append(True)

    limits = Limits(max_concurrency=1, queue_limit=0)
    async with serving(
        function(endless, "a", limits=limits), function(endless_sync, "s", limits=limits)
    ) as host:
        for name in ("a", "s", "a", "s"):
            stream = host.stream(name)
            assert await anext(stream) == 1
            await stream.aclose()
        assert host.in_flight == 0
    assert closed == [True] * 4


async def test_a_stream_that_stalls_ends_at_its_deadline() -> None:
    async def stalls(arguments: dict[str, Any], call: Call) -> AsyncGenerator[int, None]:
        yield 1
        await asyncio.sleep(60)

    async with serving(function(stalls, limits=Limits(timeout=0.05))) as host:
        stream = host.stream("f")
        assert await anext(stream) == 1
        with pytest.raises(CallTimeout):
            await anext(stream)


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
    assert "41" not in json.dumps(lines[0].get("arguments", ""))


async def test_the_audit_has_who_what_when_and_outcome_and_values_only_when_asked(tmp_path: Any) -> None:
    for values in (False, True):
        path = tmp_path / f"audit-{values}.jsonl"
        async with serving(function(add, "add", NUMBERS), audit={"path": path, "values": values}) as host:
            await host.call("add", {"a": 4}, caller=Caller("bob", tenant="t"))
            with pytest.raises(UnknownFunction):
                await host.call("nothing", caller=Caller("bob"))
        done, refused = [json.loads(line) for line in path.read_text().splitlines()]
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


async def test_every_call_in_flight_at_a_stop_is_answered_or_refused() -> None:
    async def slow(arguments: dict[str, Any], call: Call) -> str:
        await asyncio.sleep(arguments["seconds"])
        return "done"

    async with serving(function(slow)) as host:
        tasks = [asyncio.create_task(host.call("f", {"seconds": 0.05 if n % 2 else 60})) for n in range(1000)]
        await asyncio.sleep(0)
        await host.stop(drain=0.3)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        with pytest.raises(EngineUnavailable):
            await host.call("f", {"seconds": 0})
    assert results[1::2] == ["done"] * 500
    assert {type(result) for result in results[0::2]} == {OutcomeUnknown}


async def test_a_call_that_had_not_begun_when_the_host_stopped_may_be_repeated() -> None:
    async def slow(arguments: dict[str, Any], call: Call) -> None:
        await asyncio.sleep(60)

    async with serving(function(slow, limits=Limits(max_concurrency=1))) as host:
        running, waiting = (asyncio.create_task(host.call("f", {})) for _ in range(2))
        await asyncio.sleep(0)
        await host.stop(drain=0.0)
        with pytest.raises(OutcomeUnknown, match="before the call ended"):
            await running
        with pytest.raises(EngineUnavailable, match="before the call began: it waited for its turn"):
            await waiting


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


async def test_a_timeout_says_whose_limit_passed() -> None:
    async def sleep(arguments: dict[str, Any], call: Call) -> None:
        await asyncio.sleep(60)

    async def items(arguments: dict[str, Any], call: Call) -> AsyncIterator[int]:
        await asyncio.sleep(60)
        yield 1

    async def outer(arguments: dict[str, Any], call: Call) -> Any:
        return await host.call("free")

    limits = Limits(timeout=0.05)
    async with serving(
        function(sleep, "own", limits=limits),
        function(sleep, "free"),
        function(items, "items", limits=limits),
        function(items, "free_items"),
        function(outer, "outer", limits=limits),
        default_timeout=0.2,
    ) as host:
        for name, timeout, limit in (
            ("own", None, "its TIMEOUT_SECONDS"),
            ("own", 0.01, "the caller's timeout"),
            ("free", None, "the host's default_timeout"),
            ("free", 0.01, "the caller's timeout"),
            ("free", 0, "the caller's timeout"),
            ("items", None, "its TIMEOUT_SECONDS"),
            ("free_items", None, "the host's default_timeout"),
            ("free_items", 0.01, "the caller's timeout"),
        ):
            with pytest.raises(
                CallTimeout, match=rf"^{name} did not answer within [\d.]+ s \({limit}\)$"
            ) as late:
                await host.call(name, timeout=timeout)
            assert late.value.detail["limit"] == limit
        with pytest.raises(CallTimeout) as late:
            await host.call("outer")
        assert (late.value.name, late.value.detail["limit"]) in {
            ("outer", "its TIMEOUT_SECONDS"),
            ("free", "what is left of the call that makes it"),
        }


async def test_a_result_without_json_form_is_told_with_function_place_and_setting() -> None:
    async def nan(arguments: dict[str, Any], call: Call) -> Any:
        return {"a": [float("nan")]}

    async def thing(arguments: dict[str, Any], call: Call) -> Any:
        return {"a": object()}

    async with serving(function(nan, "nan"), function(thing, "thing", result={"type": "object"})) as host:
        with pytest.raises(ResultInvalid) as refused:
            await host.call_json(host.new_call("nan"), {})
        assert refused.value.message == "nan: nan is no JSON number (at /a/0)"
        assert refused.value.detail["pointer"] == "/a/0"
        assert "allow_nan" in refused.value.detail["hint"]
        with pytest.raises(
            ResultInvalid, match=r"^thing: a value of type object has no JSON form \(at /a\)$"
        ):
            await host.call_json(host.new_call("thing"), {})
