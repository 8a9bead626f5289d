"""Answers about sessions and agents are those that the OpenAPI document tells of."""

from __future__ import annotations

from typing import Any

import httpx2
import jsonschema_rs
from openapi_spec_validator import OpenAPIV31SpecValidator


def check(document: dict[str, Any], path: str, response: httpx2.Response) -> None:
    """An answer has a status, a media type and a body of the document's."""
    answers = document["paths"][path][response.request.method.lower()]["responses"]
    told = answers.get(str(response.status_code))
    if told is None:
        assert response.status_code >= 400
        told = document["components"]["responses"]["Problem"]
    content = told.get("content", {})
    if not content:
        assert response.content == b""
        return
    schema = content[response.headers["content-type"]]["schema"]
    if "json" in response.headers["content-type"] and "ndjson" not in response.headers["content-type"]:
        jsonschema_rs.validate(document | schema, response.json())


async def test_every_answer_fits_the_document(world: Any) -> None:
    side = await world.side()
    document = (await side.client.get("/openapi.json")).json()
    OpenAPIV31SpecValidator(document).validate()
    one = "/v1/sessions/{id}"

    async def ask(path: str, method: str, body: Any = None, **parts: str) -> httpx2.Response:
        response = await side.client.request(method, path.format(**parts), json=body)
        check(document, path, response)
        return response

    started = await ask("/v1/sessions", "POST", {"agent": "helper", "id": "s"})
    again = await ask("/v1/sessions", "POST", {"agent": "helper", "id": "s"})
    assert (started.status_code, again.status_code) == (201, 200)
    cancelled = await ask(f"{one}/cancel", "POST", {}, id="s")
    assert cancelled.json() == {"run": None}
    await ask(f"{one}/messages", "POST", {"message": "wipe it"}, id="s")
    await side.until("s", "paused")
    (question,) = (await ask(f"{one}/approvals", "GET", id="s")).json()["approvals"]
    decided = {"decision": "reject", "reason": "no"}
    await ask(f"{one}/approvals/{{call}}", "POST", decided, id="s", call=question["id"])
    for path in (one, f"{one}/messages", f"{one}/export", "/v1/sessions", "/v1/agents"):
        await ask(path, "GET", id="s")
    await ask(f"{one}/fork", "POST", {"at": 1}, id="s")
    await ask("/v1/agents/messages", "POST", {"message": "hello"})
    await ask("/v1/agents/{name}/messages", "POST", {"message": "hello"}, name="helper")
    assert (await ask(one, "DELETE", id="s")).status_code == 204
    assert (await ask(one, "GET", id="s")).status_code == 404
    assert (await ask(f"{one}/messages", "POST", {"message": []}, id="s")).status_code == 400


async def test_the_lists_of_agents_need_no_token_and_questions_do(world: Any) -> None:
    ann, nobody = await world.of("ann", "")
    document = (await ann.client.get("/openapi.json")).json()
    listed = document["paths"]["/v1/agents"]["get"]
    assert listed["security"] == [{}, {"bearer": []}]
    assert (await nobody.client.get("/v1/agents")).json() == {"agents": []}
    assert "security" not in document["paths"]["/v1/agents/messages"]["post"]
    assert (await nobody.client.post("/v1/agents/messages", json={"message": "hello"})).status_code == 401
