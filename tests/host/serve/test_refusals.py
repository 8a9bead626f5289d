"""What a caller is told of a refusal, and what is written down of it, are the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from enginehost.host import Host
from enginehost.serve import HttpServer
from enginehost.settings import HostSettings

from .conftest import Serve, Served

JSON = {"content-type": "application/json"}
TOKENS = [{"name": "ada", "token": "correct-horse-battery"}]


@asynccontextmanager
async def audited(serve: Serve, tmp_path: Path, **settings: Any) -> AsyncGenerator[tuple[Served, Any]]:
    """A host with an audit; the second is a function that gives its lines, once the host has stopped."""
    path = tmp_path / "audit.jsonl"
    async with serve(audit={"path": str(path)}, **settings) as served:
        yield served, lambda: [json.loads(line) for line in path.read_text().splitlines()]


async def _refused(served: Served) -> list[httpx2.Response]:
    post = served.client.post
    wrong = {"authorization": "Bearer nobody-knows-this-one"}
    return [
        await post("/v1/functions/add", content="{", headers=JSON),
        await post("/v1/functions/add", content="x", headers={"content-type": "text/plain"}),
        await post("/v1/functions/add", json={"a": 1, "b": 2}),
        await post("/v1/functions/no_such", json={}),
        await post("/v1/functions/add", json={}, headers=wrong),
        await post("/api/function-no_such/execute", json={}),
        await post("/api/function-no_such/execute", json={}, headers=wrong),
        await post("/v1/functions/add", json={}, headers={"origin": "https://elsewhere.example"}),
        await served.client.get("/v1/functions", headers=wrong),
    ]


async def test_every_refused_call_is_audited_as_it_was_told(serve: Serve, tmp_path: Path) -> None:
    async with audited(serve, tmp_path, tokens=TOKENS) as (served, lines):
        answers = await _refused(served)
        metrics = (await served.client.get("/metrics", headers=bearer())).text
    told = [(one.json()["instance"], one.json()["code"], one.json()["detail"]) for one in answers]
    assert [(line["call_id"], line["outcome"], line["error"]) for line in lines()] == told
    assert [one.headers["x-call-id"] for one in answers] == [call_id for call_id, _, _ in told]
    unauthorized = sum(code == "unauthorized" for _, code, _ in told)
    assert f'enginehost_calls_refused_total{{outcome="unauthorized"}} {unauthorized}\n' in metrics


def bearer() -> dict[str, str]:
    return {"authorization": "Bearer correct-horse-battery"}


async def test_a_proof_that_fails_is_audited_with_the_address_it_came_from(
    serve: Serve, tmp_path: Path
) -> None:
    async with audited(serve, tmp_path, tokens=TOKENS) as (served, lines):
        headers = {"authorization": "Bearer nobody-knows-this-one"}
        await served.call("add", {"a": 1, "b": 2}, headers=headers)
        await served.call("add", {"a": 1, "b": 2}, headers=bearer())
    refused, made = lines()
    assert refused["function"] == "add"
    assert refused["peer"].startswith("127.0.0.1:")
    assert made["outcome"] == "ok"
    assert "peer" not in made


async def test_a_refusal_belongs_to_the_trace_it_came_with(serve: Serve, tmp_path: Path) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    headers = JSON | {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    async with audited(serve, tmp_path) as (served, lines):
        await served.client.post("/v1/functions/add", content="{", headers=headers)
    (line,) = lines()
    assert (line["chain_id"], line["parent_id"]) == (trace, "00f067aa0ba902b7")


async def test_a_detail_keeps_members_whose_names_are_taken(served: Any) -> None:
    problem = (await served.call("fail")).json()
    assert problem["type"] == "urn:enginehost:error:execution_failed"
    assert problem["error"] == {
        "code": "execution_failed",
        "message": problem["detail"],
        "detail": {"type": "RuntimeError"},
    }


async def test_a_limit_is_a_number(serve: Serve) -> None:
    async with serve(http={"max_body_bytes": 1000}) as served:
        answer = await served.client.post("/v1/functions/echo", content=b" " * 2000, headers=JSON)
    assert answer.status_code == 413
    assert answer.json()["limit"] == 1000
    assert answer.json()["error"]["detail"] == {"limit": 1000, "size": 2000}


async def test_integers_of_any_length_pass_up_to_what_python_reads(served: Any) -> None:
    for digits in (308, 309, 310, 4300):
        body = '{"a":%s,"b":0}' % ("7" * digits)
        answer = await served.client.post("/v1/functions/add", content=body, headers=JSON)
        assert answer.text == '{"result":%s}' % ("7" * digits)
    answer = await served.client.post("/v1/functions/add", content='{"a":%s}' % ("7" * 4301), headers=JSON)
    assert answer.status_code == 400
    assert answer.json()["detail"] == "not JSON: an integer has 4301 digits, and may have 4300"


async def test_a_body_that_is_not_utf_8_is_told_where(served: Any) -> None:
    answer = await served.client.post("/v1/functions/echo", content=b'{"a": "\xff"}', headers=JSON)
    assert answer.json()["detail"] == "not JSON: byte 8 (0xff) is not UTF-8"


@pytest.mark.parametrize("request_", [b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x00"])
async def test_what_is_no_http_is_answered_with_a_problem(served: Any, request_: bytes) -> None:
    answer = await served.raw(request_)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"application/problem+json" in head
    assert json.loads(body)["code"] == "invalid_request"


REST = "ENGINE_CLASS = REST\nAPI_ENDPOINT_URL = http://127.0.0.1:1\n"
FAILED = {
    "secret.smss": f'{REST}HEADERS = {{"X": "${{secret:none}}"}}\n',
    "schema.smss": f'{REST}FUNCTION_RESULT = {{"type": 5}}\n',
    "auth.smss": f"{REST}AUTH = perhaps\n",
    "unknown.smss": "ENGINE_CLASS = LocalPythn\n",
    "missing.smss": "ENGINE_CLASS = REST\n",
}


async def test_a_function_whose_file_is_wrong_is_unavailable_with_the_reason(tmp_path: Path) -> None:
    for file, text in FAILED.items():
        name = file.removesuffix(".smss")
        (tmp_path / file).write_text(f'{text}FUNCTION_NAME = {name}\nFUNCTION_TAGS = [inner, "b c"]\n')
    policy = {"default": "call", "rules": [{"deny": "view", "callers": "anyone", "functions": ["auth"]}]}
    settings = HostSettings(policy=policy)  # pyright: ignore[reportArgumentType]
    async with Host(tmp_path, None, settings=settings, watch=False) as host, _client(host) as client:
        for record in host.catalog.records.values():
            assert record.declared is not None, record
            assert record.declared.tags == ("inner", "b c")
            for path in (f"/v1/functions/{record.engine_id}", f"/api/function-{record.engine_id}/execute"):
                answer = await client.post(path, json={})
                if record.engine_id == "auth":
                    assert answer.status_code == 404
                else:
                    assert answer.status_code == 503, (record, answer.text)
                    assert answer.json()["reason"] == record.reason
                    assert record.reason in answer.json()["detail"]


@asynccontextmanager
async def _client(host: Host) -> AsyncGenerator[httpx2.AsyncClient]:
    server = HttpServer(host, "127.0.0.1:0")
    await server.start()
    try:
        async with httpx2.AsyncClient(base_url=server.url) as client:
            yield client
    finally:
        await server.stop()


async def test_what_is_wrong_with_the_host_is_told_with_its_engines(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("default: call\n")
    settings = HostSettings(policy={"file": policy})  # pyright: ignore[reportArgumentType]
    async with (
        Host(tmp_path / "later", None, settings=settings, watch=False) as host,
        _client(host) as client,
    ):
        (found,) = (await client.get("/v1/engines")).json()["problems"]
    assert found["code"] == "folder-missing"
    assert str(tmp_path) not in json.dumps(found)


async def test_strangers_do_not_hear_what_is_wrong_where_callers_are_known(tmp_path: Path) -> None:
    settings = HostSettings(tokens=TOKENS)  # pyright: ignore[reportArgumentType]
    async with (
        Host(tmp_path / "later", None, settings=settings, watch=False) as host,
        _client(host) as client,
    ):
        assert (await client.get("/v1/engines")).json()["problems"] is None
        assert (await client.get("/v1/engines", headers=bearer())).json()["problems"]


async def test_since_is_a_time_as_the_log_has_it(served: Any) -> None:
    for engine in (await served.client.get("/v1/engines")).json()["engines"]:
        assert engine["since"].endswith("+00:00")
        assert engine["since"][10] == "T"


async def test_one_tag_may_be_given_as_a_text(served: Any) -> None:
    assert [entry.name for entry in served.host.functions(tags="math")] == ["add"]
    assert served.host.functions(tags="ma") == []


async def test_a_place_that_is_taken_is_counted_in_words(served: Any) -> None:
    first = asyncio.create_task(served.call("one"))
    await served.sleeper.until(lambda: served.sleeper.running == 1)
    refused = await served.call("one")
    served.sleeper.go.set()
    assert (await first).status_code == 200
    assert refused.json()["detail"] == "one runs 1 call at once and its queue is full"


LONG = 20_000
"""Characters of each text that a caller chooses, where answers and lines are measured."""
SHORT = 9_000
"""Bytes that a line may have then: its few texts are cut."""
MOST = 40_000
"""Bytes that an answer may have: up to twenty faults of arguments, which stand in it twice."""
MAP = {
    "type": "object",
    "properties": {
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "rows": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    },
}


async def _chosen(served: Served, text: str) -> list[httpx2.Response]:
    """Refusals of requests that hold ``text`` wherever a caller may choose one."""
    post, get = served.client.post, served.client.get
    twice = f'{{"v": {{"{text}": 1, "{text}": 2}}}}'
    return [
        await post("/v1/functions/map", content=twice, headers=JSON),
        await post(f"/v1/functions/map?format={text}", json={}),
        await post(f"/v1/functions/{text}", json={}),
        await get(f"/v1/functions/{text}"),
        await get(f"/v1/functions/map?format={text}"),
        await get(f"/v1/tools?format={text}"),
        await get(f"/v1/functions?limit={text}"),
        await get(f"/v1/functions?cursor={text}"),
        await post(f"/api/function-{text}/execute", json={}),
        await get(f"/api/function-{text}/definition"),
        await get(f"/api/function-tools/definition?function={text}"),
        await post("/v1/functions/map", json={text: 1}),
        await post("/v1/functions/map", json={"m": {text: text}}),
        await post("/v1/functions/map", json={"m": {text + str(n): text for n in range(50)}}),
        await post("/v1/functions/map", json={"rows": [{"n": text}] * 30}),
        await post("/v1/functions/map", json={}, headers={"request-timeout": text}),
        await post("/v1/functions/map", content="{}", headers={"content-type": text}),
        await post("/v1/functions/map", json={}, headers={"authorization": f"Basic {text}"}),
    ]


async def test_no_text_of_a_caller_makes_an_answer_or_a_line_long(
    serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "enginehost")
    async with audited(serve, tmp_path) as (served, lines):
        await served.add("map", parameters=MAP)
        answers = await _chosen(served, "k" * LONG)
        megabytes = "k" * 5_000_000
        answers.append(
            await served.client.post(
                "/v1/functions/map", content=f'{{"{megabytes}": 1, "{megabytes}": 2}}', headers=JSON
            )
        )
    assert all(one.status_code >= 400 for one in answers)
    assert [len(one.content) for one in answers if len(one.content) > MOST] == []
    assert [line for line in lines() if len(json.dumps(line)) > SHORT] == []
    assert [one for one in caplog.messages if len(one) > SHORT] == []


async def test_no_record_holds_what_a_caller_sent(
    serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "enginehost")
    async with audited(serve, tmp_path) as (served, lines):
        await served.add("map", parameters=MAP)
        post = served.client.post
        answers = [
            await post("/v1/functions/map", json={"m": {"k3y/~ 77": "v4lue"}}),
            await post("/v1/functions/map", json={"m": {"7777": "v4lue"}}),
            await post("/v1/functions/map", json={"rows": [{"n": 1}, {"n": "v4lue"}]}),
            await post("/v1/functions/map", json={"k3y": 1}),
            await post("/v1/functions/map", content='{"k3y": 1, "k3y": 2}', headers=JSON),
            await post("/v1/functions/map?format=k3y", json={}),
            await served.client.get("/v1/functions/map?format=k3y"),
        ]
    assert answers[0].json()["errors"][0]["pointer"] == "/m/k3y~1~0 77"  # the caller reads it all
    assert "'k3y' stands twice" in answers[4].json()["detail"]
    errors = [line["error"] for line in lines()]
    assert errors == [
        "the arguments do not fit at /m/*",
        "the arguments do not fit at /m/*",
        "the arguments do not fit at /rows/1/n",
        "the arguments do not fit at the top",
        "a key stands twice in one object",
        "no kind of spec is called as was asked",
    ]
    written = json.dumps(lines()) + " ".join(
        one for one in caplog.messages if not one.startswith("HTTP Request")
    )
    assert not [value for value in ("k3y", "v4lue", "7777") if value in written]
