"""The OpenAPI document: valid, complete, and with schemas that mean what they meant."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema_rs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openapi_spec_validator import OpenAPIV31SpecValidator

from enginehost.catalog import EngineRecord, Entry
from enginehost.engine import EngineContext
from enginehost.serve.openapi import moved, openapi_document
from enginehost.serve.routes import Routes
from enginehost.signature import FunctionSignature
from enginehost.testing.strategies import signatures

TREE = {
    "type": "object",
    "properties": {
        "root": {"$ref": "#/$defs/node"},
        "$ref": {"type": "string"},
        "default": {"$ref": "#/$defs/node"},
    },
    "required": ["root"],
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["value"],
            "default": {"$ref": "#/$defs/node"},
        }
    },
}


def entry(signature: FunctionSignature) -> Entry:
    async def run(parameters: Any, call: Any) -> None: ...

    return Entry(EngineContext("e", signature=signature).function(run), EngineRecord("e", "Test"))


async def test_the_document_is_valid_and_has_every_function(served: Any) -> None:
    document = (await served.client.get("/openapi.json")).json()
    OpenAPIV31SpecValidator(document).validate()
    names = {entry.name for entry in served.host.functions()}
    assert {path.removeprefix("/v1/functions/") for path in document["paths"]} == {
        name.replace("größe/weit", "gr%C3%B6%C3%9Fe%2Fweit") for name in names
    }
    operation = document["paths"]["/v1/functions/add"]["post"]
    assert operation["operationId"] == "add"
    assert operation["summary"] == "Addition"
    assert operation["tags"] == ["math"]
    assert "security" not in document


async def test_the_document_follows_the_functions(served: Any) -> None:
    before = (await served.client.get("/openapi.json")).json()
    await served.add("later")
    after = (await served.client.get("/openapi.json")).json()
    assert set(after["paths"]) - set(before["paths"]) == {"/v1/functions/later"}
    tagged = (await served.client.get("/openapi.json?tags=math")).json()
    assert list(tagged["paths"]) == ["/v1/functions/add"]


async def test_the_document_says_that_tokens_are_needed(serve: Any) -> None:
    async with serve(tokens=[{"name": "one", "token": "a-token-of-some-length"}]) as served:
        response = await served.client.get(
            "/openapi.json", headers={"authorization": "Bearer a-token-of-some-length"}
        )
        OpenAPIV31SpecValidator(response.json()).validate()
        assert response.json()["security"] == [{"bearer": []}]


async def test_all_routes_are_told_of_when_asked_for(served: Any) -> None:
    document = (await served.client.get("/openapi.json?routes=all")).json()
    OpenAPIV31SpecValidator(document).validate()
    routes = {re.sub(r":path\}", "}", route.path) for route in Routes(served.host).all()}  # type: ignore[attr-defined]
    pages = {path for path in routes if path == "/" or path.startswith(("/docs", "/.well-known/"))}
    talks = {
        path for path in routes if path.startswith(("/v1/sessions", "/v1/agents"))
    }  # there are no agents
    assert routes - pages - talks <= set(document["paths"])
    assert all("security" not in one for path in document["paths"].values() for one in path.values())
    assert (await served.client.get("/openapi.json?routes=some")).status_code == 400


async def test_the_document_says_what_needs_no_token(serve: Any) -> None:
    rules = {"default": "view", "rules": [{"allow": "call", "callers": "anyone", "tags": ["math"]}]}
    tokens = [{"name": "one", "token": "a-token-of-some-length"}]
    async with serve(tokens=tokens, policy=rules) as served:
        proof = {"authorization": "Bearer a-token-of-some-length"}
        document = (await served.client.get("/openapi.json?routes=all", headers=proof)).json()
        OpenAPIV31SpecValidator(document).validate()
        for path, methods in document["paths"].items():
            if path.startswith("/v1/functions/") and "post" in methods:
                body = {"a": 1, "b": 2} if path.endswith("/add") else {}
                answer = (
                    await served.client.post(path, json=body, timeout=10) if "sleep" not in path else None
                )
                needs = methods["post"].get("security", document["security"]) == [{"bearer": []}]
                assert answer is None or needs == (answer.status_code == 401), path
            elif "get" in methods and "{" not in path:
                assert (await served.client.get(path)).status_code != 401 or path == "/metrics", path


async def test_who_shows_no_proof_is_asked_for_it_where_there_is_no_agent(serve: Any) -> None:
    async with serve(tokens=[{"name": "one", "token": "a-token-of-some-length"}]) as served:
        answer = await served.client.post("/v1/agents/messages", json={"message": "hello"})
        assert answer.status_code == 401


def test_references_inside_a_schema_still_lead_to_what_they_meant() -> None:
    place = "#/components/schemas/tree.arguments"
    document = {"components": {"schemas": {"tree.arguments": moved(TREE, place)}}, "$ref": place}
    good = {"root": {"value": 1, "children": [{"value": 2}]}, "$ref": "text", "default": {"value": 3}}
    for instance in (
        good,
        good | {"root": {"value": "x"}},
        good | {"default": {}},
        {"root": {"value": 1, "children": [{}]}},
    ):
        assert jsonschema_rs.is_valid(document, instance) == jsonschema_rs.is_valid(TREE, instance)
    assert moved(TREE, place)["$defs"]["node"]["default"] == {"$ref": "#/$defs/node"}


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(signatures(), min_size=1, max_size=3, unique_by=lambda signature: signature.name))
def test_every_signature_makes_a_valid_document(given_signatures: list[FunctionSignature]) -> None:
    operations = [(entry(signature), f"op{number}") for number, signature in enumerate(given_signatures)]
    document = json.loads(json.dumps(openapi_document(operations, authenticates=True)))
    OpenAPIV31SpecValidator(document).validate()
    for number, signature in enumerate(given_signatures):
        schema = document | {"$ref": f"#/components/schemas/op{number}.arguments"}
        for instance in ({}, {"a": 1}, dict.fromkeys(signature.properties, 1)):
            assert jsonschema_rs.is_valid(schema, instance) == jsonschema_rs.is_valid(
                dict(signature.parameters), instance
            )
