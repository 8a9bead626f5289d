"""What the protocol says of single messages: read, refused, answered, by whatever client."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.serve.mcp.messages import message_of, parsed
from enginehost.serve.mcp.results import Shape
from enginehost.serve.mcp.wire import Fault
from enginehost.signature import FunctionSignature
from enginehost.values import write

SUM = {"a": 1, "b": 1}
MODERN, OLD = "2026-07-28", "2025-11-25"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def request(method: str, version: str = MODERN, **params: Any) -> tuple[dict[str, str], dict[str, Any]]:
    """Headers and body of a request as a client of ``version`` sends it."""
    headers = {"mcp-protocol-version": version, "accept": "application/json, text/event-stream"}
    if version == MODERN:
        params["_meta"] = META | params.get("_meta", {})
        headers["mcp-method"] = method
        if "name" in params:
            headers["mcp-name"] = params["name"]
    return headers, {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


async def post(served: Any, headers: dict[str, str], body: Any) -> Any:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await served.client.post(
        "/mcp", content=content, headers={"content-type": "application/json"} | headers
    )


async def test_each_revision_gets_what_it_wants_of_a_result(served: Any) -> None:
    told = await post(served, *request("server/discover"))
    assert told.json()["result"]["supportedVersions"][0] == MODERN
    assert told.json()["result"]["resultType"] == "complete"
    listed = (await post(served, *request("tools/list"))).json()["result"]
    assert (listed["cacheScope"], listed["ttlMs"] > 0) == ("private", True)
    begun = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    said = (await post(served, *request("initialize", OLD, **begun))).json()["result"]
    assert (said["protocolVersion"], said["serverInfo"]["name"]) == ("2025-06-18", "enginehost")
    said = (await post(served, *request("initialize", OLD, **begun | {"protocolVersion": "1999"}))).json()
    assert said["result"]["protocolVersion"] == OLD
    assert (await post(served, *request("ping", OLD))).json() == {"jsonrpc": "2.0", "id": 7, "result": {}}
    old = (await post(served, *request("tools/list", OLD))).json()["result"]
    assert "resultType" not in old
    assert [tool["name"] for tool in old["tools"]] == [tool["name"] for tool in listed["tools"]]


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"body": b"{"}, 400, -32700),
        ({"body": b"[" * 100_000 + b"]" * 100_000}, 400, -32700),
        ({"body": b"[]"}, 400, -32600),
        ({"body": b'"text"'}, 400, -32600),
        ({"body": b'{"jsonrpc":"2.0","id":null,"method":"ping"}'}, 400, -32600),
        ({"body": b'{"jsonrpc":"1.0","id":1,"method":"ping"}'}, 400, -32600),
        ({"body": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}'}, 400, -32602),
        ({"mcp-protocol-version": "2031-01-01"}, 400, -32020),
        ({"mcp-method": "tools/call"}, 400, -32020),
        ({"_meta": None}, 400, -32602),
        ({"method": "nothing/here"}, 404, -32601),
        ({"method": "ping"}, 404, -32601),
        ({"cursor": 5}, 400, -32602),
        ({"cursor": "\x00"}, 400, -32602),
    ],
)
async def test_what_is_no_request_of_its_revision_is_refused(
    served: Any, change: dict[str, Any], status: int, code: int
) -> None:
    headers, body = request(change.get("method", "tools/list"))
    headers |= {name: value for name, value in change.items() if name.startswith("mcp-")}
    if "_meta" in change:
        body["params"]["_meta"] = {}
    if "cursor" in change:
        body["params"]["cursor"] = change["cursor"]
    answer = await post(served, headers, change.get("body", body))
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/json"


async def test_a_version_that_nobody_speaks_is_answered_with_those_that_are(served: Any) -> None:
    headers, body = request("tools/list", "2031-01-01")
    refused = (await post(served, headers, body)).json()["error"]
    assert refused["data"] == {"supported": [MODERN], "requested": "2031-01-01"}


async def test_http_has_its_own_refusals(served: Any) -> None:
    headers, body = request("tools/list")
    wrong = await post(served, headers | {"content-type": "text/xml"}, body)
    assert wrong.status_code == 415
    for method in ("GET", "DELETE", "PUT"):
        assert (await served.client.request(method, "/mcp")).status_code == 405
    foreign = await post(served, headers | {"origin": "https://evil.example"}, body)
    assert foreign.status_code == 403
    assert (await post(served, headers | {"host": "evil.example"}, body)).status_code in (403, 421)
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    taken = await post(served, {"mcp-protocol-version": OLD}, note)
    assert (taken.status_code, taken.content) == (202, b"")


async def test_arrays_of_messages_are_answered_in_the_revision_that_has_them(served: Any) -> None:
    batch = [
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "nope"},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "add", "arguments": SUM}},
    ]
    found = (await post(served, {"mcp-protocol-version": "2025-03-26"}, batch)).json()
    assert [one["id"] for one in found] == [1, 2, 3]
    assert found[1]["error"]["code"] == -32601
    assert found[2]["result"]["structuredContent"] == {"result": 2}


async def test_a_call_whose_client_goes_away_is_cancelled(served: Any) -> None:
    headers, body = request("tools/call", name="sleep", arguments={})
    asking = asyncio.ensure_future(post(served, headers, body))
    await served.sleeper.until(lambda: served.sleeper.running == 1)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await served.sleeper.until(lambda: served.sleeper.cancelled == 1)


async def test_those_who_listen_hear_that_the_tools_changed(served: Any) -> None:
    headers, body = request("subscriptions/listen", notifications={"toolsListChanged": True})
    options = {"content": json.dumps(body), "headers": {"content-type": "application/json"} | headers}
    async with asyncio.timeout(20), served.client.stream("POST", "/mcp", **options) as stream:
        lines = (line async for line in stream.aiter_lines() if line.startswith("data: "))
        first = json.loads((await anext(lines))[6:])
        assert first["params"]["notifications"] == {"toolsListChanged": True}
        await served.add("late")
        changed = json.loads((await anext(lines))[6:])
    assert changed["method"] == "notifications/tools/list_changed"
    assert changed["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": 7}
    events = {"accept": "text/event-stream"}
    async with asyncio.timeout(20), served.client.stream("GET", "/mcp", headers=events) as stream:
        lines = stream.aiter_lines()
        assert (await anext(lines)).startswith(":")
        await served.add("later")
        data = await anext(line async for line in lines if line.startswith("data: "))
    assert json.loads(data[6:]) == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


async def test_a_request_may_come_in_pieces_of_a_byte(served: Any) -> None:
    headers, body = request("tools/call", name="add", arguments={"a": 1, "b": 2})
    content = json.dumps(body).encode()
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    text = (
        f"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{head}"
        f"content-length: {len(content)}\r\nconnection: close\r\n\r\n"
    ).encode() + content
    reader, writer = await asyncio.open_connection(*served.place)
    for byte in text:
        writer.write(bytes([byte]))
        await writer.drain()
    async with asyncio.timeout(20):
        answer = await reader.read(-1)
    writer.close()
    assert b'"structuredContent":{"result":3}' in answer


async def test_who_may_see_nothing_without_a_proof_is_asked_for_one(serve: Any) -> None:
    tokens = [{"name": "ann", "token": "a" * 40}]
    rules = {"default": "deny", "rules": [{"allow": "call", "subjects": ["ann"]}]}
    async with serve(tokens=tokens, policy=rules) as served:
        headers, body = request("tools/list")
        refused = await post(served, headers, body)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Bearer")
        listed = await post(served, headers | {"authorization": f"Bearer {'a' * 40}"}, body)
        assert len(listed.json()["result"]["tools"]) > 3


@settings(max_examples=100, deadline=None)
@given(JSON.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=50))
def test_whatever_comes_is_a_message_or_a_fault(data: bytes) -> None:
    codes: list[int] = []
    try:
        message_of(parsed(data))
    except Fault as fault:
        codes.append(fault.code)
    assert set(codes) <= {-32700, -32600, -32602}


@settings(max_examples=100, deadline=None)
@given(JSON, st.sampled_from([None, {"type": "object"}, {}, {"type": "integer"}]))
def test_every_result_is_there_as_text_and_as_a_value(value: Any, schema: Any) -> None:
    found = json.loads(Shape(FunctionSignature("f", result=schema)).result(write(value)))
    [block] = found["content"]
    assert block["text"] == value if isinstance(value, str) else json.loads(block["text"]) == value
    if schema is not None:
        shown = found["structuredContent"]
        assert (shown if schema == {"type": "object"} else shown["result"]) == value
