"""What a program asks a host over HTTP with: functions, errors, retries, deadlines."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enginehost.client import (
    AsyncClient,
    AsyncSession,
    Client,
    ConnectionLost,
    HostUnreachable,
    NotAHost,
    Session,
    asks,
)
from enginehost.client.events import EventReader
from enginehost.errors import (
    CallTimeout,
    EngineUnavailable,
    ExecutionFailed,
    InvalidArguments,
    OutcomeUnknown,
    Unauthorized,
    UnknownFunction,
)

TOKEN = "ann-" + "s" * 40
SECRET = "wrong-" + "x" * 40


def answer(status: str, body: Any, *headers: str, media: str = "application/json") -> bytes:
    data = json.dumps(body).encode()
    lines = [
        f"HTTP/1.1 {status}",
        f"content-type: {media}",
        f"content-length: {len(data)}",
        "connection: close",
    ]
    return "\r\n".join([*lines, *headers, "", ""]).encode() + data


def refusal(status: int, code: str, *headers: str, **detail: Any) -> bytes:
    error = {"code": code, "message": f"it is {code}", "detail": detail}
    problem = {"title": code, "status": status, "detail": error["message"], "code": code, "error": error}
    return answer(f"{status} No", problem, *headers, media="application/problem+json")


@pytest.mark.parametrize(("blocking", "awaited"), [(Client, AsyncClient), (Session, AsyncSession)])
def test_both_clients_have_the_same_methods(blocking: type, awaited: type) -> None:
    def methods(cls: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(found).parameters)
            for name, found in vars(cls).items()
            if callable(found) and not name.startswith("_")
        }

    assert methods(blocking) == methods(awaited)
    documented = {name: inspect.getdoc(getattr(blocking, name)) for name in methods(blocking)}
    assert all(documented.values())


def test_what_there_is(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asks, "PAGE", 2)
    names = [one["name"] for one in client.functions()]
    assert names == sorted(["add", "count", "echo", "fail", "größe/weit", "helper", "sleep", "trace", "wipe"])
    assert [one["name"] for one in client.functions(tags="math")] == ["add"]
    assert [one["name"] for one in client.functions(query="echo")] == ["echo"]
    assert client.describe("größe/weit")["engine"]["id"] == "tests"
    (tool,) = client.tools("openai", tags=["math"])
    assert tool == client.spec("add", "openai")
    assert [tool["name"] for tool in client.tools("mcp", query="add numbers", most=1)] == ["add"]
    assert "tests" in [one["id"] for one in client.engines()]
    assert (client.alive(), client.status()) == (True, "ready")


def test_values_come_back_as_they_were_sent(client: Any) -> None:
    sent = {"raw": b"\x00\xff", "large": 2**70, "marker": {"$bytes": "no"}, "list": [b"", None, 1.5]}
    assert client.call("echo", sent) == sent
    assert client.call("add", {"a": 1, "b": 2}) == 3
    assert client.call("größe/weit") == "far"


def test_a_stream_brings_each_item_as_it_comes(client: Any) -> None:
    expected = [{"n": number, "raw": bytes([number])} for number in range(3)]
    assert list(client.stream("count")) == expected
    assert client.call("count") == expected
    assert list(client.stream("add", {"a": 1, "b": 2})) == [3]


def test_a_stream_that_is_left_cancels_its_call(client: Any, served: Any) -> None:
    served.functions.woken.clear()
    items = client.stream("sleep")
    assert next(items) == "awake"
    assert served.functions.sleeping.wait(10)
    items.close()
    assert served.functions.woken.wait(10)


def test_errors_are_those_of_the_host(client: Any) -> None:
    with pytest.raises(UnknownFunction) as unknown:
        client.call("ad")
    assert unknown.value.detail["nearest"] == ["add"]
    with pytest.raises(InvalidArguments) as invalid:
        client.call("add", {"a": 1, "b": "two"})
    assert invalid.value.detail["errors"][0]["pointer"] == "/b"
    with pytest.raises(ExecutionFailed) as failed:
        client.call("fail")
    assert failed.value.detail["type"] == "RuntimeError"
    with pytest.raises(InvalidArguments):
        list(client.stream("add", {}))
    with pytest.raises(TypeError):
        client.call(7)


def test_a_deadline_is_told_to_the_host(client: Any, raw: Callable[..., Any], connect: Any) -> None:
    with pytest.raises(CallTimeout) as late:
        client.call("sleep", timeout=0.2)
    assert late.value.detail["limit"] == "the caller's timeout"
    there = raw(answer("200 OK", {"result": 1}))
    assert connect(there.url, timeout=7).call("x") == 1
    assert (
        b"\r\nrequest-timeout: 7\r\n" in there.requests[0].lower()
        or b"request-timeout: 6.9" in there.requests[0]
    )
    with pytest.raises(ValueError, match="above 0"):
        client.call("add", {"a": 1, "b": 2}, timeout=0)


def test_a_trace_goes_on_in_the_host(client: Any) -> None:
    from opentelemetry.sdk.trace import TracerProvider

    with TracerProvider().get_tracer("t").start_as_current_span("above") as span:
        # the awaited client runs elsewhere: what is current there is that of the portal's caller
        traced = client.call("trace")
    assert traced == f"{span.get_span_context().trace_id:032x}"


def test_what_has_not_run_is_sent_again(raw: Callable[..., Any], connect: Any) -> None:
    there = raw(
        refusal(503, "engine_unavailable", "retry-after: 0", state="loading"),
        refusal(429, "overloaded", "retry-after: 1", retry_after=0.01),
        answer("200 OK", {"result": "done"}),
    )
    assert connect(there.url).call("x", {"a": 1}) == "done"
    assert len(there.requests) == 3
    assert {request.rpartition(b"\r\n\r\n")[2] for request in there.requests} == {b'{"a":1}'}


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (refusal(502, "outcome_unknown"), OutcomeUnknown),
        (refusal(502, "execution_failed", "retry-after: 0"), ExecutionFailed),
        (refusal(503, "engine_unavailable", "retry-after: 0", state="failed"), EngineUnavailable),
        (refusal(503, "engine_unavailable"), EngineUnavailable),
        (answer("503 Busy", "a proxy says so", "retry-after: 0"), NotAHost),
        (answer("200 OK", [1]), NotAHost),
        (None, ConnectionLost),
    ],
)
def test_what_may_have_run_or_will_not_is_never_sent_again(
    reply: bytes | None, error: type[Exception], raw: Callable[..., Any], connect: Any
) -> None:
    there = raw(reply)
    with pytest.raises(error):
        connect(there.url).call("x")
    assert len(there.requests) == 1


def test_what_only_reads_is_sent_again_when_the_connection_breaks(
    raw: Callable[..., Any], connect: Any
) -> None:
    there = raw(None, answer("200 OK", {"engines": []}))
    assert connect(there.url).engines() == []
    gone = raw(None)
    with pytest.raises(HostUnreachable):
        connect(gone.url, retries=0).engines()


def test_no_host_is_an_error_of_its_own(connect: Any, raw: Callable[..., Any]) -> None:
    gone = raw()
    gone.close()
    nowhere = connect(gone.url, retries=1)
    with pytest.raises(HostUnreachable) as error:
        nowhere.call("x")
    assert error.value.code == "engine_unavailable"
    assert gone.url in error.value.message
    assert nowhere.alive() is False


def test_a_token_is_shown_nowhere(connect: Any, serve: Any, raw: Callable[..., Any]) -> None:
    with serve(tokens=[{"name": "ann", "token": TOKEN}]) as served:
        assert connect(served.url, TOKEN).call("add", {"a": 1, "b": 2}) == 3
        wrong = connect(served.url, SECRET)
        with pytest.raises(Unauthorized) as error:
            wrong.call("add", {"a": 1, "b": 2})
    assert "ENGINEHOST_TOKEN" in error.value.detail["hint"]
    broken = connect(raw(None).url, SECRET)
    with pytest.raises(ConnectionLost) as lost:
        broken.call("x")
    for one in (error, lost):
        shown = "".join(traceback.TracebackException.from_exception(one.value, capture_locals=True).format())
        assert SECRET not in shown
    assert SECRET not in repr(wrong)
    for place in (f"http://ann:{SECRET}@127.0.0.1", f"ftp://127.0.0.1/?{SECRET}"):
        with pytest.raises(ValueError, match="URL") as refused:
            connect(place)
        assert "ann" not in str(refused.value)
    with pytest.raises(ValueError, match="token") as refused:
        connect(served.url, SECRET + "\n")
    assert SECRET not in str(refused.value)


def test_a_closed_client_says_so(served: Any) -> None:
    with Client(served.url) as client:
        assert client.alive()
    with pytest.raises(RuntimeError, match="closed"):
        client.call("add", {"a": 1, "b": 2})


def test_a_real_host_is_found_by_the_environment(
    smss: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = (sys.executable, "-m", "enginehost", "run", str(smss), "--http", "127.0.0.1:0", "--log", "json")
    environ = {**os.environ, "ENGINEHOST_DATABUS": "off", "ENGINEHOST_STATE_DIR": str(tmp_path)}
    process = subprocess.Popen(run, cwd=tmp_path, env=environ, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        events = map(json.loads, process.stderr)
        url = next(event["http"] for event in events if event["event"] == "listening")
        next(event for event in events if event["event"] == "ready")
        monkeypatch.setenv("ENGINEHOST_URL", url)
        with Client() as client:
            assert client.call("add", {"a": 1, "b": 2}) == 3
            assert list(client.stream("countdown", {"start": 2, "seconds": 0})) == [2, 1, 0]
            assert client.start("assistant").ask("hello")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        assert process.stderr is not None
        process.stderr.close()


def test_the_client_is_light() -> None:
    code = "import sys, enginehost.client; print(*sorted({n.partition('.')[0] for n in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"httpx2", "pydantic", "starlette", "anyio", "opentelemetry"} & set(done.stdout.split())


EVENT = st.tuples(
    st.text("abc123.", max_size=5), st.sampled_from(["", "item", "run"]), st.text("xy{}: \u2028", max_size=20)
)


@given(
    st.lists(EVENT, max_size=5), st.lists(st.integers(0, 200), max_size=6), st.sampled_from(["\n", "\r\n"])
)
def test_events_are_the_same_however_they_are_cut(
    events: list[tuple[str, str, str]], cuts: list[int], end: str
) -> None:
    text = ": hello" + end * 2
    for place, name, data in events:
        text += f"id: {place}{end}event: {name}{end}data: {data}{end}{end}"
    whole, reader, found = text.encode(), EventReader(), list[Any]()
    edges = [0, *sorted(cut % (len(whole) + 1) for cut in cuts), len(whole)]
    for begin, stop in pairwise(edges):
        found += reader.feed(whole[begin:stop])
    assert [(one.id, one.name, one.data.decode()) for one in found] == events
