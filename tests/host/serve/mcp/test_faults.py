"""What clients do that they should not, and what becomes of those who are slow, gone or out of rights."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.host.issuer import Issuer, make_key, running_issuer
from tests.host.serve.mcp.test_messages import OLD, post, request

from enginehost.serve.mcp import exchange


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with running_issuer() as made:
        made.keys = {"rsa": make_key("RS256", "rsa")}
        yield made


def payload(headers: dict[str, str], body: Any) -> bytes:
    content = json.dumps(body).encode()
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return (
        f"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{head}"
        f"content-length: {len(content)}\r\n\r\n"
    ).encode() + content


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001,
        b'{"jsonrpc":"2.0","id":' + b"9" * 5_000 + b',"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":true,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":5}',
        b"\xff\xfe",
        b"",
        b"[" + b'{"jsonrpc":"2.0","id":1,"method":"ping"},' * 200 + b"1]",
    ],
)
async def test_json_bombs_are_refused_and_the_next_request_is_answered(served: Any, body: bytes) -> None:
    refused = await post(served, {"mcp-protocol-version": OLD}, body)
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] in (-32700, -32600)
    fine = await post(served, *request("tools/call", name="add", arguments={"a": 10**30, "b": 1}))
    assert fine.json()["result"]["structuredContent"]["result"] > 10**29


async def test_a_body_that_is_too_large_is_refused(serve: Any) -> None:
    async with serve(http={"max_body_bytes": 1_000}) as served:
        assert (await post(served, *request("tools/list", x="y" * 2_000))).status_code == 413


async def test_a_request_id_may_come_again_and_is_answered_each_time(served: Any) -> None:
    headers, body = request("tools/call", name="add", arguments={"a": 1, "b": 1})
    answers = await asyncio.gather(*(post(served, headers, body) for _ in range(20)))
    assert {answer.json()["id"] for answer in answers} == {7}
    assert {answer.json()["result"]["content"][0]["text"] for answer in answers} == {"2"}


async def begun(served: Any, capabilities: dict[str, Any] | None = None) -> dict[str, str]:
    """The headers of a client past its handshake."""
    about = {"protocolVersion": OLD, "capabilities": capabilities or {}, "clientInfo": {"name": "c"}}
    said = await post(served, *request("initialize", OLD, **about))
    return request("ping", OLD)[0] | {"mcp-session-id": said.headers["mcp-session-id"]}


async def test_a_call_of_an_older_client_is_cancelled_by_a_message_of_its_own_session(served: Any) -> None:
    headers, other = await begun(served), await begun(served)
    body = request("tools/call", OLD, name="sleep", arguments={})[1]
    asking = asyncio.ensure_future(post(served, headers, body))
    await served.sleeper.until(lambda: served.sleeper.running == 1)
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    assert (await post(served, other, note)).status_code == 202
    assert (await post(served, headers, request("ping", OLD)[1])).status_code == 200
    assert served.sleeper.running == 1
    assert (await post(served, headers, note)).status_code == 202
    await served.sleeper.until(lambda: served.sleeper.cancelled == 1)
    async with asyncio.timeout(20):
        assert (await asking).content == b""


async def test_sessions_end_and_none_is_made_up(served: Any) -> None:
    headers = await begun(served)
    assert (await post(served, headers, request("ping", OLD)[1])).status_code == 200
    assert (await served.client.delete("/mcp", headers=headers)).status_code == 204
    for wrong in (headers["mcp-session-id"], "made-up", ""):
        said = await post(served, headers | {"mcp-session-id": wrong}, request("ping", OLD)[1])
        assert said.status_code == 404


async def chatter(parameters: dict[str, Any], call: Any) -> str:
    for number in range(20_000):
        call.progress(number, message="x" * 1_000)
        call.progress(number - 1)
        if number % 100 == 0:
            await asyncio.sleep(0)
    return "done"


async def test_a_slow_reader_costs_bounded_memory_and_holds_up_nobody(served: Any) -> None:
    await served.add("chatter", chatter)
    headers, body = request("tools/call", name="chatter", arguments={}, _meta={"progressToken": 1})
    reader, writer = await asyncio.open_connection(*served.place, limit=4_096)
    writer.write(payload(headers, body))
    async with asyncio.timeout(30):
        await reader.readuntil(b"data: ")
        before = own_bytes()
        for _ in range(20):
            fine = await post(served, *request("tools/call", name="add", arguments={"a": 1, "b": 1}))
            assert fine.status_code == 200
            await asyncio.sleep(0.01)
        assert own_bytes() - before < 15e6
        text = b""
        while b'"result"' not in text:
            text = text[-100_000:] + await reader.read(65_536)
    writer.close()
    data = [line[6:] for line in text.splitlines() if line.startswith(b"data: ")][-3:]
    told = [json.loads(line).get("params", {}).get("progress") for line in data[:-1]]
    assert told == sorted(told)
    assert json.loads(data[-1])["result"]["content"][0]["text"] == "done"


def own_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_who_vanishes_while_it_is_told_something_ends_its_call(served: Any) -> None:
    headers, body = request("tools/call", name="sleep_stream", arguments={}, _meta={"progressToken": "p"})
    reader, writer = await asyncio.open_connection(*served.place)
    writer.write(payload(headers, body))
    async with asyncio.timeout(20):
        assert b'"message":"awake"' in await reader.readuntil(b'awake"')
        writer.transport.abort()
        await served.sleeper.until(lambda: served.sleeper.cancelled == 1)
    assert served.host.in_flight == 0


async def test_nothing_is_told_after_the_answer_and_nothing_without_being_asked(served: Any) -> None:
    async def tells(parameters: dict[str, Any], call: Any) -> str:
        call.progress(2, 3)
        call.progress(1, 3)
        call.log("debug", "for nobody")
        call.log("error", {"a": 1}, "mine")
        asyncio.get_running_loop().call_later(0.05, call.progress, 3)
        return "told"

    await served.add("tells", tells)
    quiet = await post(served, *request("tools/call", name="tells", arguments={}))
    assert quiet.headers["content-type"] == "application/json"
    level = {"io.modelcontextprotocol/logLevel": "warning", "progressToken": 5}
    loud = await post(served, *request("tools/call", name="tells", arguments={}, _meta=level))
    said = [json.loads(line[6:]) for line in loud.text.splitlines() if line.startswith("data: ")]
    assert [one.get("params") for one in said[:-1]] == [
        {"progressToken": 5, "progress": 2, "total": 3},
        {"level": "error", "data": {"a": 1}, "logger": "mine"},
    ]
    assert said[-1]["result"]["content"][0]["text"] == "told"


@pytest.fixture
async def trusting(serve: Any, issuer: Issuer) -> AsyncIterator[Any]:
    rules = {
        "default": "deny",
        "rules": [{"subjects": ["ann", "bob"], "allow": "view"}, {"subjects": ["ann"], "allow": "call"}],
    }
    settings = {"oidc": [{"issuer": issuer.url, "audience": "us", "leeway": 0}], "policy": rules}
    async with serve(**settings) as served:
        yield served


async def test_a_stream_ends_when_the_token_it_began_with_has_run_out(
    trusting: Any, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "QUIET_SECONDS", 0.2)
    headers, body = request("subscriptions/listen", notifications={"toolsListChanged": True})
    headers["authorization"] = f"Bearer {issuer.token(sub='ann', exp=int(time.time()) + 2)}"
    options = {"content": json.dumps(body), "headers": {"content-type": "application/json"} | headers}
    async with asyncio.timeout(20), trusting.client.stream("POST", "/mcp", **options) as stream:
        assert stream.status_code == 200
        lines = [line async for line in stream.aiter_lines()]
    assert any("acknowledged" in line for line in lines)


async def test_clients_learn_where_tokens_come_from_and_what_theirs_lacks(
    trusting: Any, issuer: Issuer
) -> None:
    place = f"{trusting.server.url}/.well-known/oauth-protected-resource"
    headers, body = request("tools/call", name="add", arguments={"a": 1, "b": 1})
    refused = await post(trusting, headers, body)
    assert refused.status_code == 401, refused.text
    assert f'resource_metadata="{place}/mcp"' in refused.headers["www-authenticate"]
    for path in (place, f"{place}/mcp"):
        told = (await trusting.client.get(path)).json()
        assert told["authorization_servers"] == [issuer.url]
        assert told["resource"] == f"{trusting.server.url}/mcp"
    wrong = await post(trusting, headers | {"authorization": "Bearer nothing"}, body)
    assert (wrong.status_code, 'error="invalid_token"' in wrong.headers["www-authenticate"]) == (401, True)
    others = issuer.token(sub="ann", aud="somebody else")
    assert (await post(trusting, headers | {"authorization": f"Bearer {others}"}, body)).status_code == 401
    poor = await post(trusting, headers | {"authorization": f"Bearer {issuer.token(sub='bob')}"}, body)
    assert (poor.status_code, 'error="insufficient_scope"' in poor.headers["www-authenticate"]) == (403, True)
    fine = await post(trusting, headers | {"authorization": f"Bearer {issuer.token(sub='ann')}"}, body)
    assert fine.json()["result"]["structuredContent"] == {"result": 2}


async def test_a_host_without_tokens_has_no_metadata(served: Any) -> None:
    assert (await served.client.get("/.well-known/oauth-protected-resource")).status_code == 404
    quiet = await served.client.get("/mcp", headers={"accept": "application/json"})
    assert quiet.status_code == 405
