"""Calling functions over HTTP."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from enginehost.json_arguments import read_object
from enginehost.names import face_name
from enginehost.specs import spec_kinds
from enginehost.values import LARGE

from .conftest import whoami

JSON = {"content-type": "application/json"}


def head(name: str, length: int) -> bytes:
    lines = f"POST /v1/functions/{name} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return lines.encode() + b"Content-Length: %d\r\n" % length


async def test_arguments_go_in_and_the_result_comes_out(served: Any) -> None:
    response = await served.call("add", {"a": 1, "b": 2})
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {"result": 3}


async def test_numbers_beyond_doubles_pass_unchanged(served: Any) -> None:
    body = '{"a":9007199254740993,"b":100000000000000000000000000000000000007}'
    response = await served.client.post("/v1/functions/add", content=body, headers=JSON)
    assert response.text == f'{{"result":{9007199254740993 + 10**38 + 7}}}'


async def test_a_name_is_percent_decoded_and_a_mapped_one_resolved(served: Any) -> None:
    for shown in (quote("größe/weit", safe=""), "gr%C3%B6%C3%9Fe/weit", face_name("größe/weit", "openai")):
        response = await served.call(shown, {"x": 1})
        assert response.json() == {"result": {"x": 1}}, shown


async def test_a_name_that_any_kind_of_tools_shows_is_resolved(served: Any) -> None:
    name = "größe/" * 20
    await served.add(name, parameters={"type": "object", "additionalProperties": True})
    shown = {kind: served.host.face_names(kind).to_face(name) for kind in spec_kinds()}
    assert len(set(shown.values())) > 3
    for kind, face in shown.items():
        response = await served.call(quote(face, safe=""), {"x": 1})
        assert response.json() == {"result": {"x": 1}}, kind
        assert (await served.client.get(f"/v1/functions/{quote(face, safe='')}")).json()["name"] == name
    assert served.host.resolve(shown["mcp"]) == served.host.resolve(shown["mcp"], "mcp") == name


async def test_a_function_that_has_a_name_goes_before_one_that_is_shown_under_it(served: Any) -> None:
    shown = face_name("größe/weit", "openai")
    await served.add(shown, whoami)
    assert "subject" in (await served.call(shown)).json()["result"]


OPTIONAL = {
    "type": "object",
    "properties": {
        "who": {"type": "string"},
        "größe": {"type": ["integer", "null"]},
        "n": {"type": "integer"},
    },
    "required": ["who"],
}


async def test_arguments_are_taken_as_a_model_of_that_kind_sends_them(served: Any) -> None:
    await served.add("greet", parameters=OPTIONAL)
    sent = {"who": "Ada", "größe": None, "n": None}
    assert (await served.call("greet", sent)).status_code == 422
    taken = await served.call("greet?format=openai-strict", sent)
    assert taken.json() == {"result": {"who": "Ada", "größe": None}}
    (tool,) = [one for one in served.host.tools("anthropic") if one["name"] == "greet"]
    _, renamed, _ = tool["input_schema"]["properties"]
    assert renamed != "größe"
    taken = await served.call("greet?format=anthropic", {"who": "Ada", renamed: 7})
    assert taken.json() == {"result": {"who": "Ada", "größe": 7}}
    events = {"accept": "text/event-stream"}
    taken = await served.call("greet?format=openai-strict", sent, headers=events)
    assert 'data: {"who":"Ada","größe":null}' in taken.text


async def test_an_unknown_format_is_refused_and_an_unknown_function_is_not_found(served: Any) -> None:
    refused = await served.call("add?format=opnai", {"a": 1, "b": 2})
    assert refused.status_code == 400
    assert "openai" in refused.json()["kinds"]
    missing = await served.call("nope?format=openai", {})
    assert missing.status_code == 404
    assert "instance" in missing.json()
    for query in ("", "format=", "formats=opnai", "%"):
        assert (await served.call(f"add?{query}", {"a": 1, "b": 2})).json() == {"result": 3}, query


async def test_a_format_does_not_tell_of_functions_that_the_caller_may_not_view(serve: Any) -> None:
    async with serve(policy={"default": "deny"}) as served:
        deep = {"a": 1}
        for _ in range(200):
            deep = {"a": deep}
        hidden, missing = [await served.call(f"{n}?format=openai", deep) for n in ("add", "nope")]
    assert hidden.status_code == missing.status_code == 404


@pytest.mark.parametrize("length", ["", "Content-Length: 0\r\n"], ids=["no length", "length 0"])
async def test_a_request_without_body_needs_no_content_type(served: Any, length: str) -> None:
    head = f"POST /v1/functions/echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{length}"
    assert (await served.raw(f"{head}\r\n".encode())).endswith(b'\r\n\r\n{"result":{}}')
    foreign = await served.raw(f"{head}Origin: https://elsewhere.example\r\n\r\n".encode())
    assert foreign.startswith(b"HTTP/1.1 403 ")
    typed = await served.raw(f"{head}Content-Type: text/plain\r\n\r\n".encode())
    assert typed.startswith(b"HTTP/1.1 415 ")
    chunked = await served.raw(f"{head}Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n".encode())
    assert length or chunked.startswith(b"HTTP/1.1 415 ")


async def test_wrong_arguments_are_named_by_pointer(served: Any) -> None:
    response = await served.call("add", {"a": "x"})
    problem = response.json()
    assert response.status_code == problem["status"] == 422
    assert response.headers["content-type"] == "application/problem+json"
    assert problem["code"] == "invalid_arguments"
    assert problem["type"] == "urn:enginehost:error:invalid_arguments"
    assert problem["title"] == "Invalid arguments"
    assert problem["instance"] == response.headers["x-call-id"]
    assert "/a" in {error["pointer"] for error in problem["errors"]}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("{", 400),
        ("[]", 400),
        ('{"a": NaN}', 400),
        ('{"a": "\\ud800"}', 400),
        ('{"a":1,"a":1}', 400),
        ('{"c": 1}', 422),
    ],
)
async def test_a_bad_body_is_refused_with_a_reason(served: Any, body: str, status: int) -> None:
    response = await served.client.post("/v1/functions/add", content=body, headers=JSON)
    assert response.status_code == status
    assert response.json()["detail"]


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/json; charset=latin-1"},
        {"content-type": "application/json", "content-encoding": "gzip"},
        {},
    ],
    ids=str,
)
async def test_only_plain_json_is_taken(served: Any, headers: dict[str, str]) -> None:
    response = await served.client.post("/v1/functions/add", content=b'{"a":1,"b":2}', headers=headers)
    assert response.status_code == 415
    assert "application/json" in response.json()["detail"] or "Content-Encoding" in response.json()["detail"]


@pytest.mark.parametrize(
    "media", ["application/json; charset=utf-8", "Application/JSON", 'application/json;charset="UTF-8"']
)
async def test_json_may_be_spelled_in_every_legal_way(served: Any, media: str) -> None:
    response = await served.client.post(
        "/v1/functions/add", content=b'{"a":1,"b":2}', headers={"content-type": media}
    )
    assert response.json() == {"result": 3}


async def test_a_problem_may_hold_numbers_of_any_size(served: Any) -> None:
    parameters = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 2**70}}}
    await served.add("big", parameters=parameters)
    response = await served.call("big", {"n": 2**80})
    assert response.status_code == 422
    assert str(2**70) in response.text


async def test_an_unknown_function_is_404_with_the_nearest(served: Any) -> None:
    response = await served.call("ad", {"a": 1, "b": 2})
    assert response.status_code == 404
    assert response.json()["nearest"] == ["add"]


async def test_a_function_that_raises_is_502_and_shows_no_traceback(served: Any) -> None:
    response = await served.call("fail")
    assert response.status_code == 502
    assert response.json()["code"] == "execution_failed"
    assert "it broke" in response.json()["detail"]
    assert "Traceback" not in response.text
    assert ".py" not in response.text


async def test_a_function_that_takes_too_long_is_504(served: Any) -> None:
    response = await served.call("slow")
    assert response.status_code == 504
    assert response.json()["timeout"] == pytest.approx(0.05)


@pytest.mark.parametrize("header", ["request-timeout", "x-request-timeout"])
async def test_a_client_may_wait_shorter(served: Any, header: str) -> None:
    response = await served.call("sleep", headers={header: "0.05"})
    assert response.status_code == 504
    assert response.json()["timeout"] == pytest.approx(0.05)


@pytest.mark.parametrize("seconds", ["0", "-1", "soon", "nan", "inf", "", "1_0"])
async def test_a_timeout_that_is_none_is_refused(served: Any, seconds: str) -> None:
    response = await served.call("add", {"a": 1, "b": 2}, headers={"request-timeout": seconds})
    assert response.status_code == 400


async def test_of_two_timeouts_none_is_taken(served: Any) -> None:
    for name in ("request-timeout", "x-request-timeout"):
        headers = [("request-timeout", "5"), (name, "5")]
        response = await served.call("add", {"a": 1, "b": 2}, headers=headers)
        assert response.status_code == 400, name


async def test_of_two_content_types_none_is_taken(served: Any) -> None:
    headers = [("content-type", "text/plain"), ("content-type", "application/json")]
    response = await served.client.post("/v1/functions/add", content=b'{"a":1,"b":2}', headers=headers)
    assert response.status_code == 400


async def test_a_huge_timeout_is_taken_on_streams_too(served: Any) -> None:
    headers = {"request-timeout": "1e300", "accept": "text/event-stream"}
    assert (await served.call("count", headers=headers)).text.endswith('event: done\ndata: {"items":3}\n\n')


async def test_a_full_function_is_429_with_retry_after(served: Any) -> None:
    first = asyncio.create_task(served.call("one"))
    await served.sleeper.until(lambda: served.sleeper.running == 1)
    second = await served.call("one")
    served.sleeper.go.set()
    assert second.status_code == 429
    assert int(second.headers["retry-after"]) >= 1
    assert (await first).json() == {"result": "slept"}


async def test_the_callers_trace_goes_on_in_the_call_and_its_id_comes_back(served: Any) -> None:
    trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    response = await served.call("whoami", headers={"traceparent": f"00-{trace}-{parent}-01"})
    result = response.json()["result"]
    assert result["trace"] == trace
    assert result["parent"] == int(parent, 16)
    assert result["call"] == response.headers["x-call-id"]


@pytest.mark.parametrize(
    "given",
    ["", "junk", "ff-" + "1" * 32 + "-" + "1" * 16 + "-01", "00-" + "0" * 32 + "-" + "1" * 16 + "-01"],
)
async def test_a_malformed_trace_is_ignored(served: Any, given: str) -> None:
    response = await served.call("whoami", headers={"traceparent": given})
    assert response.json()["result"]["parent"] == 0


async def test_a_streaming_function_is_collected_into_a_list(served: Any) -> None:
    assert (await served.call("count", {"to": 4})).json() == {"result": [0, 1, 2, 3]}


def events(text: str) -> list[tuple[str, Any]]:
    """The events of a stream (WHATWG HTML, server-sent events)."""
    found: list[tuple[str, Any]] = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


EVENTS = {"accept": "text/event-stream"}


async def test_a_streaming_function_streams_events(served: Any) -> None:
    response = await served.call("count", {"to": 2}, headers=EVENTS)
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["x-call-id"]
    assert events(response.text) == [("item", 0), ("item", 1), ("done", {"items": 2})]


@pytest.mark.parametrize(
    ("accept", "asked"),
    [
        (["application/json, text/event-stream"], True),
        (["application/json", "text/event-stream"], True),
        (["Text/Event-Stream ; q=0.5, */*"], True),
        (["text/event-stream;charset=utf-8;q=1.0"], True),
        (["text/event-stream;q=0"], False),
        (["text/event-stream; Q=0.000"], False),
        (["text/event-stream;q=none"], False),
        (["text/event-stream;q=0.4, application/json;q=0.8"], False),
        (["text/event-streams"], False),
        (["*/*"], False),
    ],
    ids=str,
)
async def test_events_are_for_who_asks_for_them(served: Any, accept: list[str], asked: bool) -> None:
    response = await served.call("count", headers=[("accept", one) for one in accept])
    assert response.headers["content-type"].startswith("text/event-stream" if asked else "application/json")


async def test_items_arrive_while_the_function_runs(served: Any) -> None:
    async with served.client.stream(
        "POST", "/v1/functions/sleep_stream", json={}, headers=EVENTS
    ) as response:
        chunks = response.aiter_text()
        assert events(await anext(chunks)) == [("item", "awake")]
        served.sleeper.go.set()
        assert events("".join([chunk async for chunk in chunks])) == [
            ("item", "slept"),
            ("done", {"items": 2}),
        ]


async def test_an_endless_stream_leaves_others_their_turn_and_ends_with_its_client(served: Any) -> None:
    body = {"to": 10**15}
    async with served.client.stream("POST", "/v1/functions/count", json=body, headers=EVENTS) as response:
        chunks = response.aiter_raw()
        for _ in range(5):
            await anext(chunks)
        assert (await served.call("add", {"a": 1, "b": 2})).json() == {"result": 3}
    async with asyncio.timeout(20):
        while served.host.in_flight:
            await served.client.get("/healthz")


async def test_a_plain_function_gives_one_result_event(served: Any) -> None:
    response = await served.call("add", {"a": 1, "b": 2}, headers=EVENTS)
    assert events(response.text) == [("result", 3), ("done", {"items": 1})]


async def test_a_stream_that_fails_at_once_has_its_status(served: Any) -> None:
    for name, arguments, status in (("fail", {}, 502), ("add", {}, 422), ("nope", {}, 404)):
        response = await served.call(name, arguments, headers=EVENTS)
        assert response.status_code == status
        assert response.headers["content-type"] == "application/problem+json"


async def test_a_stream_that_fails_later_ends_with_the_problem(served: Any) -> None:
    response = await served.call("fail_late", headers=EVENTS)
    (first, last) = events(response.text)
    assert first == ("item", 1)
    assert last[0] == "error"
    assert last[1]["code"] == "execution_failed"
    assert last[1]["instance"] == response.headers["x-call-id"]


async def test_a_quiet_stream_shows_signs_of_life(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("enginehost.serve.execute.QUIET_SECONDS", 0.05)
    async with served.client.stream("POST", "/v1/functions/sleep", json={}, headers=EVENTS) as response:
        chunks = response.aiter_text()
        assert await anext(chunks) == ": still running\n\n"
        served.sleeper.go.set()
        assert events("".join([chunk async for chunk in chunks])) == [
            ("result", "slept"),
            ("done", {"items": 1}),
        ]


@pytest.mark.parametrize("name", ["sleep", "sleep_stream"])
@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_a_client_that_goes_away_cancels_its_call(served: Any, name: str, accept: str) -> None:
    sleeper = served.sleeper
    call = asyncio.create_task(served.call(name, headers={"accept": accept}))
    await sleeper.until(lambda: sleeper.running == 1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await sleeper.until(lambda: sleeper.cancelled == 1)
    assert (await served.call("add", {"a": 1, "b": 2})).json() == {"result": 3}
    assert served.host.in_flight == 0


async def test_semoss_paths_take_the_arguments_and_give_the_plain_result(served: Any) -> None:
    response = await served.client.post("/api/function-adder/execute", json={"a": 1, "b": 2})
    assert response.json() == 3
    definition = (await served.client.get("/api/function-adder/definition")).json()
    assert list(definition) == ["name", "description", "parameters"]
    assert definition["parameters"]["required"] == ["a", "b"]


async def test_an_engine_with_several_functions_wants_a_choice_on_semoss_paths(served: Any) -> None:
    response = await served.client.post("/api/function-tools/execute", json={})
    assert response.status_code == 400
    assert "count" in response.json()["functions"]
    chosen = await served.client.post("/api/function-tools/execute?function=count", json={"to": 1})
    assert chosen.json() == [0]
    missing = await served.client.get("/api/function-nope/definition")
    assert missing.status_code == 404


async def test_many_calls_on_one_connection_keep_their_order(served: Any) -> None:
    one = head("add", 13)
    request = (
        (one + b'\r\n{"a":1,"b":1}')
        + (one + b'\r\n{"a":2,"b":2}')
        + (one + b'Connection: close\r\n\r\n{"a":3,"b":3}')
    )
    answer = await served.raw(request)
    assert [part.split(b"}")[0] for part in answer.split(b'{"result":')[1:]] == [b"2", b"4", b"6"]


async def test_a_body_may_come_in_pieces(served: Any) -> None:
    async def pieces() -> Any:
        for piece in (b'{"a"', b':1,"b', b'":2}'):
            yield piece

    response = await served.client.post("/v1/functions/add", content=pieces(), headers=JSON)
    assert response.json() == {"result": 3}


async def test_a_client_that_goes_away_in_its_body_leaves_nothing_behind(served: Any) -> None:
    reader, writer = await asyncio.open_connection(*served.place)
    writer.write(head("add", 99) + b"\r\n{")
    await writer.drain()
    writer.close()
    assert (await served.call("add", {"a": 1, "b": 2})).json() == {"result": 3}
    del reader


async def test_a_body_over_the_limit_is_413_declared_or_not(serve: Any) -> None:
    async with serve(http={"max_body_bytes": 1000}) as served:

        async def pieces() -> Any:
            for _ in range(100):
                yield b'"' + b"x" * 30

        for content in (b" " * 1001, b" " * 3_000_000, pieces()):
            response = await served.client.post("/v1/functions/echo", content=content, headers=JSON)
            assert response.status_code == 413
            assert response.json()["limit"] == 1000
        body = b'{"x":"' + b"y" * (1000 - 8) + b'"}'
        assert (await served.client.post("/v1/functions/echo", content=body, headers=JSON)).status_code == 200


async def test_a_client_that_asks_first_need_not_send_a_body_that_is_too_large(served: Any) -> None:
    request = head("echo", 20_000_000) + b"Expect: 100-continue\r\n\r\n"
    answer = await served.raw(request, until_close=False)
    assert answer.startswith(b"HTTP/1.1 413 ")


async def test_a_body_that_never_comes_is_given_up(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("enginehost.serve.request._BODY_SECONDS", 0.05)
    answer = await served.raw(head("echo", 9) + b"\r\n{", until_close=False)
    assert answer.startswith(b"HTTP/1.1 408 ")


async def test_a_bug_in_the_host_is_a_problem_document(
    served: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    async def broken(*args: Any, **options: Any) -> bytes:
        raise KeyError("secret detail")

    monkeypatch.setattr(served.host, "call_json", broken)
    response = await served.call("add", {"a": 1, "b": 2})
    assert response.status_code == 500
    assert response.json()["code"] == "internal"
    assert "secret" not in response.text
    assert "failed inside the host" in caplog.text
    assert isinstance(response, httpx2.Response)


@pytest.mark.parametrize("events", [False, True])
async def test_a_large_body_is_read_beside_the_loop_and_its_call_knows(
    served: Any, monkeypatch: pytest.MonkeyPatch, events: bool
) -> None:
    threads: list[int] = []

    def read(body: bytes) -> dict[str, Any]:
        threads.append(threading.get_ident())
        return read_object(body)

    async def is_large(parameters: dict[str, Any], call: Any) -> bool:
        return call.large

    monkeypatch.setattr("enginehost.serve.execute.read_object", read)
    await served.add("is_large", is_large, {"type": "object", "additionalProperties": True})
    headers = {"accept": "text/event-stream"} if events else {}
    small = await served.call("is_large", {"a": "x"}, headers=headers)
    large = await served.call("is_large", {"a": "x" * LARGE}, headers=headers)
    assert ("false" in small.text, "true" in large.text) == (True, True)
    assert threads[0] == threading.get_ident() != threads[1]
    broken = await served.client.post(
        "/v1/functions/is_large", content=b'{"a": ' + b" " * LARGE, headers=JSON | headers
    )
    assert (broken.status_code, broken.json()["code"]) == (400, "invalid_request")
