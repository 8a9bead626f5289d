"""What HTTP tells of functions, tools and engines, and the routes for operation."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import enginehost.serve
from enginehost.catalog import EngineRecord
from enginehost.engine import AbstractFunctionEngine, EngineContext, EngineState, Limits
from enginehost.names import face_name
from enginehost.signature import Annotations, FunctionSignature
from enginehost.specs import spec_kinds

from .conftest import Functions, echo

STANDARD = [
    "add",
    "count",
    "echo",
    "fail",
    "fail_late",
    "größe/weit",
    "one",
    "sleep",
    "sleep_stream",
    "slow",
    "whoami",
]
STANDARD.sort()


async def test_functions_are_listed_by_name(served: Any) -> None:
    answer = (await served.client.get("/v1/functions")).json()
    assert [one["name"] for one in answer["functions"]] == STANDARD
    assert answer["total"] == len(STANDARD)
    assert "next_cursor" not in answer
    assert answer["functions"][0] == {
        "name": "add",
        "description": "Does add.",
        "tags": ["math"],
        "streaming": False,
        "state": "ready",
        "engine": "adder",
    }


async def test_the_list_comes_in_pages_that_hold_each_function_once(served: Any) -> None:
    found: list[str] = []
    cursor = ""
    while cursor is not None:
        answer = (await served.client.get("/v1/functions", params={"limit": 4, "cursor": cursor})).json()
        found += [one["name"] for one in answer["functions"]]
        cursor = answer.get("next_cursor")
    assert found == STANDARD


async def test_the_list_is_filtered_by_tag_and_text(served: Any) -> None:
    async def names(query: str) -> list[str]:
        answer = (await served.client.get(f"/v1/functions?{query}")).json()
        return [one["name"] for one in answer["functions"]]

    assert await names("tags=math") == ["add"]
    assert await names("tags=other,math") == ["add"]
    assert await names("tags=other&tags=math") == ["add"]
    assert await names("tags=other") == []
    assert await names("q=FAIL") == ["fail", "fail_late"]
    assert await names("q=does+add") == ["add"]


async def test_a_wrong_page_is_refused(served: Any) -> None:
    for query in ("limit=0", "limit=x", "limit=-1", "limit=1001", "limit=٣", "cursor=!", "cursor=gA=="):
        response = await served.client.get(f"/v1/functions?{query}")
        assert response.status_code == 400, query


async def test_a_function_is_described_wholly(served: Any) -> None:
    answer = (await served.client.get("/v1/functions/add")).json()
    assert answer["parameters"]["required"] == ["a", "b"]
    assert answer["result"] == {"type": "number"}
    assert answer["annotations"] == {"title": "Addition", "readOnly": True}
    assert answer["limits"] == {}
    assert answer["engine"]["state"] == "ready"
    assert set(answer["specs"]) == set(spec_kinds())
    for kind, link in answer["specs"].items():
        spec = (await served.client.get(link)).json()
        assert spec == served.host.tools(kind, tags=["math"])[0], kind


async def test_hints_are_spelled_as_in_the_file_and_only_limits_that_are_set_are_shown(served: Any) -> None:
    hints = Annotations(destructive=False, idempotent=True, open_world=False)
    signature = FunctionSignature("limited", annotations=hints)
    limits = Limits(timeout=2.5, rate=3.0, burst=2)
    made = replace(EngineContext("limited", signature=signature).function(echo), limits=limits)
    await served.host.add_engine(EngineRecord("limited", "Test"), Functions("limited", [made]))
    answer = (await served.client.get("/v1/functions/limited")).json()
    assert answer["annotations"] == {"destructive": False, "idempotent": True, "openWorld": False}
    assert answer["limits"] == {"timeout": 2.5, "rate": 3.0, "burst": 2}


async def test_a_function_with_any_name_can_be_described_and_its_links_followed(served: Any) -> None:
    mapped = face_name("größe/weit", "openai")
    answer = (await served.client.get(f"/v1/functions/{mapped}")).json()
    assert answer["name"] == "größe/weit"
    spec = (await served.client.get(answer["specs"]["openai"])).json()
    assert spec["function"]["name"] == mapped


async def test_tools_come_in_every_kind(served: Any) -> None:
    for kind in spec_kinds():
        tools = (await served.client.get("/v1/tools", params={"format": kind})).json()
        assert len(tools) == len(STANDARD)
    assert (await served.client.get("/v1/tools?tags=math")).json()[0]["function"]["name"] == "add"
    response = await served.client.get("/v1/tools?format=cobol")
    assert response.status_code == 400
    assert "openai" in response.json()["kinds"]


async def test_engines_show_their_states_and_reasons(served: Any) -> None:
    record = EngineRecord("broken", "Test", state=EngineState.FAILED, reason="script missing")
    served.host.catalog.put_record(record)
    engines = {one["id"]: one for one in (await served.client.get("/v1/engines")).json()["engines"]}
    assert engines["adder"]["functions"] == ["add"]
    assert engines["broken"]["state"] == "failed"
    assert engines["broken"]["reason"] == "script missing"


async def test_what_hinders_an_engine_that_serves_is_its_reason(served: Any) -> None:
    class Hindered(AbstractFunctionEngine):
        @property
        def trouble(self) -> str:
            return "its service failed 10 times in a row"

    engine = Hindered(EngineContext("hindered"))
    served.host.catalog.put_record(
        EngineRecord(
            "hindered", "Test", state=EngineState.READY, engine=engine, in_doubt=FunctionSignature("h")
        )
    )
    engines = {one["id"]: one for one in (await served.client.get("/v1/engines")).json()["engines"]}
    assert (engines["hindered"]["state"], engines["hindered"]["reason"]) == ("ready", engine.trouble)
    assert engines["adder"]["reason"] == ""


async def test_a_function_whose_engine_failed_is_503_with_the_reason(served: Any) -> None:
    declared = FunctionSignature("lost")
    record = EngineRecord(
        "broken", "Test", state=EngineState.FAILED, reason="script missing", declared=declared
    )
    served.host.catalog.put_record(record)
    for response in (await served.call("lost"), await served.client.get("/v1/functions/lost")):
        assert response.status_code == 503
        assert response.json()["reason"] == "script missing"
        assert response.headers["retry-after"]


async def test_what_is_not_there_is_a_problem_document(served: Any) -> None:
    for method, path, status in (
        ("GET", "/nothing", 404),
        ("POST", "/v1/functions", 405),
        ("DELETE", "/v1/functions/add", 405),
        ("PUT", "/v1/functions/add", 405),
        ("GET", "/api/function-adder/execute", 405),
        ("GET", "/docs/../settings", 404),
        ("POST", "/healthz", 405),
    ):
        response = await served.client.request(method, path)
        assert (response.status_code, response.headers["content-type"]) == (
            status,
            "application/problem+json",
        ), path
        if status == 405:
            assert response.headers["allow"]


@pytest.mark.parametrize("path", ["execute", "definition"])
async def test_an_engine_that_is_not_there_is_told_as_an_engine(served: Any, path: str) -> None:
    method = "POST" if path == "execute" else "GET"
    for engine_id, detail in (
        ("zz", "no engine with the id 'zz'"),
        ("add", "no engine with the id 'add'; did you mean adder?"),
        ("adder?function=ad", "no function named 'ad'; did you mean add?"),
    ):
        engine_id, _, query = engine_id.partition("?")
        response = await served.client.request(method, f"/api/function-{engine_id}/{path}?{query}")
        assert (response.status_code, response.json()["detail"]) == (404, detail)


async def test_head_is_get_without_a_body(served: Any) -> None:
    response = await served.client.head("/v1/functions")
    assert response.status_code == 200
    assert response.content == b""


async def test_probes_follow_the_hosts_life(served: Any) -> None:
    assert (await served.client.get("/healthz")).json() == {"status": "ok"}
    assert (await served.client.get("/readyz")).json() == {"status": "ready"}
    served.host.ready = False
    loading = await served.client.get("/readyz")
    assert (loading.status_code, loading.json()["status"]) == (503, "loading")
    await served.host.stop()
    draining = await served.client.get("/readyz")
    assert (draining.status_code, draining.json()["status"]) == (503, "draining")
    assert (await served.client.get("/healthz")).status_code == 200
    refused = await served.call("add", {"a": 1, "b": 2})
    assert refused.status_code == 503
    assert refused.headers["retry-after"]


async def test_metrics_count_calls(served: Any) -> None:
    await served.call("add", {"a": 1, "b": 2})
    response = await served.client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert re.search(r'enginehost_calls_total\{[^}]*function="add"[^}]*\} 1', response.text)


async def test_the_docs_page_runs_only_its_own_script(served: Any) -> None:
    assert (await served.client.get("/")).headers["location"] == "docs"
    page = await served.client.get("/docs")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "http:" not in page.text
    assert "https:" not in page.text
    for linked in re.findall(r'(?:src|href)="(docs/[^"]+)"', page.text):
        response = await served.client.get(f"/{linked}")
        assert response.status_code == 200
        assert response.headers["x-content-type-options"] == "nosniff"
    assert " style=" not in page.text
    assert not re.search(r"<script>|\son\w+=", page.text)


async def test_the_docs_page_can_be_switched_off(serve: Any) -> None:
    async with serve(http={"docs": False}) as served:
        for path in ("/", "/docs", "/docs/docs.js"):
            assert (await served.client.get(path)).status_code == 404


@pytest.mark.parametrize(
    "dangerous", ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]
)
def test_the_docs_script_makes_no_markup_of_text(dangerous: str) -> None:
    script = Path(enginehost.serve.__file__).parent / "page" / "docs.js"
    assert dangerous not in script.read_text()
