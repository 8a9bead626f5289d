"""A caller sees and calls what the policy allows, and nothing else exists for it, on every route."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from enginehost.catalog import Catalog
from enginehost.names import FaceNames, face_name
from enginehost.policy import Policy

ONE, ALL = "token-of-one-function", "token-of-all-functions"
TOKENS = [{"name": "one", "token": ONE}, {"name": "all", "token": ALL}]
POLICY = {
    "rules": [
        {"allow": "call", "subjects": ["one"], "functions": ["add"]},
        {"allow": "call", "subjects": ["all"]},
    ]
}


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def test_a_token_for_one_function_sees_only_that_one_on_every_route(serve: Any) -> None:
    async with serve(tokens=TOKENS, policy=POLICY) as served:
        for token, expected in ((ONE, ["add"]), (ALL, [entry.name for entry in served.host.functions()])):
            options = {"headers": bearer(token)}

            async def get(path: str, options: Any = options) -> Any:
                return (await served.client.get(path, **options)).json()

            assert [one["name"] for one in (await get("/v1/functions"))["functions"]] == expected
            assert len(await get("/v1/tools?format=mcp")) == len(expected)
            assert len((await get("/openapi.json"))["paths"]) == len(expected)
            shown = [name for engine in (await get("/v1/engines"))["engines"] for name in engine["functions"]]
            assert sorted(shown) == expected
        headers = bearer(ONE)
        everything = [
            (await served.client.get(path, headers=headers)).text
            for path in ("/v1/functions", "/v1/tools", "/v1/engines", "/openapi.json")
        ]
        assert not [text for text in everything if "whoami" in text or 'tools"' in text]
        assert (await served.call("add", {"a": 1, "b": 2}, headers=headers)).json() == {"result": 3}
        assert (await served.client.get("/v1/functions/add", headers=headers)).status_code == 200


async def test_what_a_token_may_not_see_answers_as_if_it_were_not_there(serve: Any) -> None:
    async with serve(tokens=TOKENS, policy=POLICY) as served:
        headers = bearer(ONE)
        for name in ("whoami", "no_such"):
            answers = [
                await served.call(name, headers=headers),
                await served.call(name, headers=headers | {"accept": "text/event-stream"}),
                await served.client.get(f"/v1/functions/{name}", headers=headers),
                await served.client.get(f"/v1/functions/{name}?format=openai", headers=headers),
                await served.client.post(f"/api/function-{name}/execute", json={}, headers=headers),
            ]
            assert [answer.status_code for answer in answers] == [404] * 5
            assert not [one for answer in answers for one in answer.json()["nearest"] if one != "add"]
        hidden = await served.client.post("/api/function-tools/execute", json={}, headers=headers)
        absent = await served.client.post("/api/function-xxxxx/execute", json={}, headers=headers)
        assert _without_id(json.loads(hidden.text.replace("tools", "xxxxx"))) == _without_id(absent.json())


def _without_id(problem: dict[str, Any]) -> dict[str, Any]:
    assert problem["instance"]
    return problem | {"instance": ""}


async def test_without_a_token_everything_asks_for_one_alike(serve: Any) -> None:
    async with serve(tokens=TOKENS, policy=POLICY) as served:
        for name in ("add", "no_such"):
            for answer in (
                await served.call(name, {"a": 1, "b": 2}),
                await served.client.get(f"/v1/functions/{name}"),
                await served.call(name, headers={"accept": "text/event-stream"}),
            ):
                assert answer.status_code == 401
                assert answer.headers["www-authenticate"].startswith("Bearer")
        assert (await served.client.get("/v1/functions")).json()["functions"] == []


async def test_a_wrong_token_is_401_everywhere_but_on_probes(serve: Any) -> None:
    async with serve(tokens=TOKENS) as served:
        for wrong in ("Bearer wrong-token-altogether", "Basic dXNlcjpwYXNz", "Bearer", "", "Bearer \xff"):
            headers = {"authorization": wrong.encode("latin-1")}
            for path in ("/v1/functions", "/v1/tools", "/openapi.json", "/metrics", "/docs"):
                assert (await served.client.get(path, headers=headers)).status_code == 401, (wrong, path)
            assert (await served.call("add", {"a": 1, "b": 2}, headers=headers)).status_code == 401
            assert (await served.client.get("/healthz", headers=headers)).status_code == 200


@pytest.mark.parametrize("body", [b"{", b'{"a": "x"}', b"[]", b" " * 2000, b'{"a": NaN}'], ids=str)
async def test_who_calls_is_asked_before_what_is_called_and_sent(serve: Any, body: bytes) -> None:
    async with serve(tokens=TOKENS, policy=POLICY, http={"max_body_bytes": 1000}) as served:
        headers = bearer("wrong-token-altogether") | {"content-type": "application/json"}
        for name in ("add", "whoami", "no_such"):
            answer = await served.client.post(f"/v1/functions/{name}", content=body, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")


@pytest.mark.parametrize("body", [b"{", b'{"a": "x"}', b"[]", b" " * 2000, b'{"a": 1, "a": 1}'], ids=len)
async def test_who_shows_no_proof_and_needs_one_is_told_so_whatever_was_sent(serve: Any, body: bytes) -> None:
    rules = [
        {"allow": "view", "callers": "anyone", "functions": ["whoami"]},
        {"allow": "call", "callers": "anyone", "functions": ["echo"]},
    ]
    async with serve(tokens=TOKENS, policy={"rules": rules}, http={"max_body_bytes": 1000}) as served:
        for name in ("add", "whoami", "no_such", "no_such?format=no_such"):
            for headers in ({"content-type": "application/json"}, {"content-type": "text/plain"}):
                answer = await served.client.post(f"/v1/functions/{name}", content=body, headers=headers)
                assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized"), name
        echoed = await served.call("echo", {"a": 1})
        assert echoed.json() == {"result": {"a": 1}}
        plain = await served.client.post("/v1/functions/echo", content=b"{")
        assert plain.status_code == 415


async def test_metrics_need_a_token_where_there_are_tokens(serve: Any) -> None:
    async with serve(tokens=TOKENS) as served:
        assert (await served.client.get("/metrics")).status_code == 401
        assert (await served.client.get("/metrics", headers=bearer(ONE))).status_code == 200
    async with serve(tokens=TOKENS, http={"public_metrics": True}) as served:
        assert (await served.client.get("/metrics")).status_code == 200


async def test_the_caller_reaches_the_function(serve: Any) -> None:
    async with serve(tokens=TOKENS) as served:
        response = await served.call("whoami", headers=bearer(ALL))
        assert response.json()["result"]["subject"] == "all"


async def test_metrics_name_the_functions_that_a_token_may_view_and_sum_the_others(serve: Any) -> None:
    async with serve(tokens=TOKENS, policy=POLICY) as served:
        await served.call("add", {"a": 1, "b": 2}, headers=bearer(ALL))
        for name in ("whoami", "echo", "echo"):
            await served.call(name, {}, headers=bearer(ALL))
        await served.host.remove_engine("tools")  # what was called and is gone is as hidden as before
        one = (await served.client.get("/metrics", headers=bearer(ONE))).text
        assert 'calls_total{function="add",outcome="ok"} 1\n' in one
        assert 'calls_total{function="(others)",outcome="ok"} 3\n' in one
        assert 'duration_seconds_count{function="(others)"} 3\n' in one
        assert "whoami" not in one
        assert "echo" not in one
        everything = (await served.client.get("/metrics", headers=bearer(ALL))).text
        assert 'calls_total{function="echo",outcome="ok"} 2\n' in everything
        assert "(others)" not in everything


async def test_open_metrics_name_nothing_that_anonymous_callers_may_not_view(serve: Any) -> None:
    async with serve(tokens=TOKENS, policy=POLICY, http={"public_metrics": True}) as served:
        await served.call("add", {"a": 1, "b": 2}, headers=bearer(ALL))
        text = (await served.client.get("/metrics")).text
        assert 'calls_total{function="(others)",outcome="ok"} 1\n' in text
        assert '"add"' not in text
    async with serve() as served:
        await served.call("add", {"a": 1, "b": 2})
        assert 'calls_total{function="add",outcome="ok"} 1\n' in (await served.client.get("/metrics")).text


async def test_a_mapped_name_tells_nothing_of_a_hidden_function(serve: Any) -> None:
    async with serve(tokens=TOKENS, policy=POLICY) as served:
        mapped = face_name("größe/weit", "openai")
        assert (await served.call(mapped, headers=bearer(ALL))).status_code == 200
        for path in (f"/v1/functions/{mapped}", f"/v1/functions/{mapped}?format=openai"):
            for answer in (
                await served.client.post(path, json={}, headers=bearer(ONE)),
                await served.client.get(path, headers=bearer(ONE)),
            ):
                assert answer.status_code == 404
                assert mapped in answer.json()["detail"]
                assert "größe" not in answer.text


async def test_what_is_hidden_costs_what_costs_that_which_there_is_not(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Counter[str]()

    def counted(owner: type, name: str) -> None:
        real = getattr(owner, name)

        def counting(*given: Any, **options: Any) -> Any:
            asked[name] += 1
            return real(*given, **options)

        monkeypatch.setattr(owner, name, counting)

    counted(Policy, "rights")
    counted(Policy, "may_view")
    counted(Catalog, "get")
    counted(FaceNames, "from_face")
    async with serve(tokens=TOKENS, policy=POLICY) as served:
        await served.add("whoamx")
        costs: dict[str, list[dict[str, int]]] = {}
        for name in ("whoami", "whoamy"):
            for method, sent in (("POST", {"a": 1}), ("GET", None)):
                for _ in range(2):  # what is remembered the first time is not counted
                    asked.clear()
                    path = f"/v1/functions/{name}"
                    await served.client.request(method, path, headers=bearer(ONE), json=sent)
                costs.setdefault(name, []).append(dict(asked))
    assert costs["whoami"] == costs["whoamy"]


async def test_while_the_host_loads_what_is_hidden_is_as_if_it_were_yet_to_come(serve: Any) -> None:
    async with serve(tokens=TOKENS, policy=POLICY) as served:
        served.host._invoker.not_yet = "the host is still loading its folder"
        for name in ("whoami", "no_such"):
            answer = await served.client.get(f"/v1/functions/{name}", headers=bearer(ONE))
            assert (answer.status_code, answer.json()["state"]) == (503, "loading")
        assert (await served.client.get("/v1/functions/add", headers=bearer(ONE))).status_code == 200
