"""Spans of calls: what the caller said of its trace decides, and goes on."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, Sampler

from enginehost import Call, EngineContext, Function, Host, HostSettings
from enginehost.catalog import EngineRecord
from enginehost.databus.identity import Identity
from enginehost.databus.port import ExecutionReply, ExecutionRequest
from enginehost.databus.respond import Responder
from enginehost.engine import AbstractFunctionEngine
from enginehost.serve import HttpServer
from enginehost.trace_context import NO_TRACE, TraceContext, read_trace, state_members

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
STATE = "vendor=t61rcWkgMzE,other@tenant=1"
MEMBERS = [("vendor", "t61rcWkgMzE"), ("other@tenant", "1")]


class Functions(AbstractFunctionEngine):
    """An engine of functions: one tells of its span, the others call it."""

    def __init__(self, host: Host) -> None:
        super().__init__(EngineContext("e"))
        self._host = host

    def functions(self) -> list[Function]:
        made = self.context.function
        return [made(getattr(self, name), name=name) for name in ("current", "nested", "stream", "relay")]

    async def current(self, arguments: dict[str, Any], call: Call) -> Any:
        span = trace.get_current_span().get_span_context()
        return {"sampled": span.trace_flags.sampled, "state": span.trace_state.to_header()}

    async def nested(self, arguments: dict[str, Any], call: Call) -> Any:
        return await self._host.call("current")

    async def stream(self, arguments: dict[str, Any], call: Call) -> AsyncIterator[Any]:
        yield await self._host.call("current")

    async def relay(self, arguments: dict[str, Any], call: Call) -> Any:
        made = self._host.new_call("current", call.caller, TraceContext(1, 2))
        return json.loads(await self._host.call_json(made, {}))


Traced = Callable[..., Any]


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Traced:
    """``async with traced(sampler) as (host, spans)``: a host that is traced, and what it recorded."""

    @asynccontextmanager
    async def tracing(sampler: Sampler | None = None) -> AsyncIterator[Any]:
        exporter = InMemorySpanExporter()
        provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
        async with Host(None, None, settings=HostSettings()) as host:
            await host.add_engine(EngineRecord("e", "Test"), Functions(host))
            yield (
                host,
                lambda: {span.name.removeprefix("call "): span for span in exporter.get_finished_spans()},
            )

    return tracing


async def over_http(host: Host, name: str, flags: str, **headers: str) -> str:
    server = HttpServer(host, "127.0.0.1:0")
    await server.start()
    try:
        async with httpx2.AsyncClient(base_url=server.url, timeout=30) as client:
            headers["traceparent"] = f"00-{TRACE}-{PARENT}-{flags}"
            return (await client.post(f"/v1/functions/{name}", json={}, headers=headers)).text
    finally:
        await server.stop()


async def over_the_databus(host: Host, name: str, flags: str, **metadata: str) -> str:
    replies: list[ExecutionReply] = []

    class Transport:
        async def reply(self, reply: ExecutionReply, source: str, partition: str) -> bool:
            replies.append(reply)
            return True

    responder = Responder(
        host,
        Transport(),  # type: ignore[arg-type]
        Identity(None),
        str,
        max_in_flight=4,
        max_request_bytes=1000,
    )
    metadata["traceparent"] = f"00-{TRACE}-{PARENT}-{flags}"
    request = ExecutionRequest("1", name, b"{}", 0, json.dumps(metadata).encode(), "writer")
    await responder.receive([request])
    await responder.close(drain=20)
    return replies[0].result.decode()


def parent_of(span: ReadableSpan) -> trace.SpanContext:
    assert span.parent is not None
    return span.parent


FACES = pytest.mark.parametrize("ask", [over_http, over_the_databus], ids=["http", "databus"])


@FACES
@pytest.mark.parametrize("name", ["current", "nested", "stream"])
async def test_a_caller_that_does_not_record_its_span_gets_no_recorded_call(
    traced: Traced, ask: Any, name: str
) -> None:
    async with traced() as (host, spans):
        assert "false" in await ask(host, name, "00")
    assert spans() == {}


@FACES
@pytest.mark.parametrize("flags", ["01", "03", "ff"])
async def test_a_caller_that_records_its_span_gets_a_recorded_child(
    traced: Traced, ask: Any, flags: str
) -> None:
    async with traced() as (host, spans):
        assert "true" in await ask(host, "current", flags)
    above = parent_of(spans()["current"])
    assert (f"{above.trace_id:032x}", f"{above.span_id:016x}", above.is_remote) == (TRACE, PARENT, True)


async def test_a_call_that_is_not_recorded_has_the_ids_of_its_trace_all_the_same(traced: Traced) -> None:
    calls: list[Call] = []
    async with traced() as (host, _):
        made = host.new_call

        def new_call(*arguments: Any) -> Call:
            calls.append(made(*arguments))
            return calls[-1]

        host.new_call = new_call  # type: ignore[method-assign]
        await over_the_databus(host, "current", "00")
    (call,) = calls
    assert (call.chain_id, f"{call.parent:016x}") == (TRACE, PARENT)
    assert call.span not in (0, call.parent)


@FACES
@pytest.mark.parametrize("name", ["current", "nested", "stream"])
async def test_tracestate_goes_on_to_what_the_function_traces(traced: Traced, ask: Any, name: str) -> None:
    async with traced() as (host, spans):
        assert STATE in await ask(host, name, "01", tracestate=STATE)
    assert {tuple(span.context.trace_state.items()) for span in spans().values()} == {tuple(MEMBERS)}


async def test_the_sampler_has_the_last_word(traced: Traced) -> None:
    sampler = ParentBased(ALWAYS_OFF, remote_parent_not_sampled=ALWAYS_ON, remote_parent_sampled=ALWAYS_OFF)
    async with traced(sampler) as (host, spans):
        await over_http(host, "nested", "01")
        assert spans() == {}
        await over_http(host, "nested", "00")
    assert set(spans()) == {"nested", "current"}


@pytest.mark.parametrize("name", ["nested", "stream"])
async def test_a_call_made_by_a_function_is_a_local_child_of_that_functions_call(
    traced: Traced, name: str
) -> None:
    async with traced() as (host, spans):
        await over_http(host, name, "01")
    outer, inner = spans()[name].context, parent_of(spans()["current"])
    assert (inner.span_id, inner.trace_id, inner.is_remote) == (outer.span_id, outer.trace_id, False)


@pytest.mark.parametrize("name", ["nested", "stream"])
async def test_a_chain_whose_first_call_is_sampled_out_is_out_as_a_whole(traced: Traced, name: str) -> None:
    async with traced(ParentBased(ALWAYS_OFF)) as (host, spans):
        assert [item async for item in host.stream(name)] == [{"sampled": False, "state": ""}]
    assert spans() == {}


async def test_a_function_that_passes_on_the_ids_of_another_trace_makes_a_child_of_that(
    traced: Traced,
) -> None:
    async with traced() as (host, spans):
        await host.call("relay")
    above = parent_of(spans()["current"])
    assert (above.trace_id, above.span_id, above.is_remote) == (1, 2, True)


ONES = f"{'1' * 32}-{'1' * 16}"


@pytest.mark.parametrize(
    "given",
    [
        "",
        "junk",
        f"ff-{ONES}-01",
        f"00-{'0' * 32}-{'1' * 16}-01",
        f"00-{'1' * 32}-{'0' * 16}-01",
        f"00-{ONES}-01-more",
        f"00-{ONES}-01more",
        f"01-{ONES}-01more",
        f"00-{ONES.replace('1', 'A')}-01",
        f"00-{ONES}-1",
        f"00-{ONES}-01\n",
        f" 00-{ONES}-01",
    ],
)
def test_a_traceparent_that_breaks_the_rules_is_none(given: str) -> None:
    assert read_trace(given, STATE) == NO_TRACE


@pytest.mark.parametrize(
    ("given", "sampled"),
    [
        (f"00-{ONES}-01", True),
        (f"00-{ONES}-02", False),
        (f"cc-{ONES}-01", True),
        (f"cc-{ONES}-00-more", False),
    ],
)
def test_the_flags_say_whether_the_caller_records(given: str, sampled: bool) -> None:
    ones = (int("1" * 32, 16), int("1" * 16, 16))
    assert read_trace(given.format(ONES), "a=b") == TraceContext(*ones, sampled, "a=b")


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.booleans())
def test_any_ids_come_back_as_they_were_written(trace_id: int, parent: int, sampled: bool) -> None:
    text = f"00-{trace_id:032x}-{parent:016x}-{sampled:02x}"
    assert read_trace(text) == TraceContext(trace_id, parent, sampled)


@settings(max_examples=150, deadline=None)
@given(st.text() | st.from_regex(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}.*", fullmatch=True))
def test_no_traceparent_is_an_error(text: str) -> None:
    read = read_trace(text)
    assert (read.trace == 0) == (read.parent == 0)
    assert 0 <= read.trace < 2**128
    assert 0 <= read.parent < 2**64


@pytest.mark.parametrize(
    ("state", "members"),
    [
        (STATE, MEMBERS),
        ("", []),
        (" a=1 ,\t, b=x y ", [("a", "1"), ("b", "x y")]),
        ("a=1,a=2", []),
        ("A=1", []),
        ("a=1,b", []),
        ("0=1", []),
        ("0t@v=1,t@v/s=2", [("0t@v", "1"), ("t@v/s", "2")]),
        ("t@v@w=1", []),
        ("t@0=1", []),
        ("a=1=2", []),
        ("a=", []),
        (",".join(f"k{n}=v" for n in range(33)), []),
    ],
)
def test_a_tracestate_is_taken_whole_or_not_at_all(state: str, members: list[tuple[str, str]]) -> None:
    assert state_members(state) == members


@settings(max_examples=150, deadline=None)
@given(st.text())
def test_what_is_read_of_any_tracestate_the_sdk_takes_without_a_word(state: str) -> None:
    members = state_members(state)
    assert list(trace.TraceState(members).items()) == members
