"""``/v1/sessions``: what each route promises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from enginehost.caller import Caller

LINES = {"content-type": "application/x-ndjson"}
both_databases = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)


def said(events: list[Any]) -> str:
    """What the assistant said."""
    return "".join(
        one.data["content"]
        for one in events
        if one.name == "message" and one.data["role"] == "assistant" and one.data["type"] == "text"
    )


@both_databases
async def test_a_turn_is_started_and_its_events_come_until_its_end(world: Any) -> None:
    side = await world.side()
    session = await side.start()
    run = await side.say(session, "please add")
    events = [event async for event in side.events(session)]
    assert run["session"] == session
    assert said(events) == "The result is 3"
    assert events[-1].name == "run"
    assert (events[-1].data["id"], events[-1].data["state"]) == (run["id"], "done")
    calls = [one.data for one in events if one.name == "message" and one.data["type"] == "tool_call"]
    assert [(one["query"]["tool"], one["query"]["args"]) for one in calls] == [("add", {"a": 1, "b": 2})]


@both_databases
async def test_the_messages_of_a_session_come_in_pages(world: Any) -> None:
    side = await world.side()
    session = await side.start(system="Be brief.")
    for word in ("one", "two", "three"):
        await side.say(session, word)
        assert [event async for event in side.events(session)]
    found, after = [], 0
    while True:
        page = (await side.get(f"/{session}/messages", params={"after": after, "limit": 2})).json()
        found += page["messages"]
        if "next_after" not in page:
            break
        after = page["next_after"]
    numbers = [row["sequence"] for row in found]
    assert numbers == sorted(set(numbers))
    texts = [row["content"] for row in found if row["type"] == "text"]
    assert texts == ["Be brief.", *(t for w in ("one", "two", "three") for t in (w, f"You said: {w}"))]
    last = (await side.get(f"/{session}/messages", params={"before": numbers[-1], "limit": 2})).json()
    assert [row["sequence"] for row in last["messages"]] == numbers[-3:-1]


@both_databases
async def test_the_list_of_sessions_is_paged_latest_first(world: Any) -> None:
    side = await world.side()
    made = [await side.start() for _ in range(5)]
    found, cursor = [], {}
    while True:
        page = (await side.get("", params={"limit": 2, **cursor})).json()
        found += page["sessions"]
        if "next_cursor" not in page:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert [one["id"] for one in found] == made[::-1]
    assert {one["agent"] for one in found} == {"helper"}


async def test_a_session_of_ones_own_is_taken_up_by_its_id(world: Any) -> None:
    side = await world.side()
    assert await side.start(id="mine") == "mine"
    again = await side.post("", {"agent": "helper", "id": "mine"})
    assert (again.status_code, again.json()["id"]) == (200, "mine")


@pytest.mark.parametrize(
    ("decision", "result"),
    [
        ({"decision": "approve"}, "disk is gone"),
        ({"decision": "reject", "reason": "not today"}, "not today"),
        ({"decision": "edit", "args": {"what": "cache"}}, "cache is gone"),
        ({"decision": "answer", "text": "it was empty"}, "it was empty"),
    ],
)
async def test_a_call_waits_for_a_decision_and_is_decided_once(
    world: Any, decision: dict[str, Any], result: str
) -> None:
    side = await world.side()
    session = await side.paused()
    (asked,) = (await side.get(f"/{session}/approvals")).json()["approvals"]
    assert (asked["tool"], asked["args"], asked["kind"]) == ("wipe", {"what": "disk"}, "approval")
    place = f"/{session}/approvals/{asked['id']}"
    assert (await side.post(place, decision)).status_code == 202
    assert result in said([event async for event in side.events(session)])
    again = await side.post(place, {"decision": "approve"})
    assert (again.status_code, again.json()["code"]) == (409, "invalid_request")
    nothing = await side.post(f"/{session}/approvals/nothing", {"decision": "approve"})
    assert nothing.status_code == 404


@pytest.mark.parametrize(
    ("decision", "strange"),
    [
        ({"decision": "approve", "args": {"what": "cache"}}, "args"),
        ({"decision": "approve", "reason": "why not"}, "reason"),
        ({"decision": "reject", "text": "no"}, "text"),
        ({"decision": "edit", "args": {"what": "cache"}, "text": "x"}, "text"),
        ({"decision": "answer", "text": "x", "args": {}}, "args"),
    ],
)
async def test_what_does_not_go_with_a_decision_is_refused_and_decides_nothing(
    world: Any, decision: dict[str, Any], strange: str
) -> None:
    side = await world.side()
    session = await side.paused()
    (asked,) = (await side.get(f"/{session}/approvals")).json()["approvals"]
    refused = await side.post(f"/{session}/approvals/{asked['call']}", decision)
    assert refused.status_code == 400
    assert refused.json()["detail"] == f"{strange} does not go with decision {decision['decision']}"
    assert len((await side.get(f"/{session}/approvals")).json()["approvals"]) == 1


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ({"type": "image", "content": "@@@"}, "media_type"),
        ({"type": "image", "content": "QUJD"}, "media_type"),
        ({"type": "image", "content": "@@@", "query": {"media_type": "image/png"}}, "base64"),
        ({"type": "file", "content": "QUI", "query": {"media_type": "text/plain"}}, "base64"),
        ({"type": "file", "content": "", "query": {"media_type": "text/plain"}}, "content"),
        ({"type": "file", "content": "QUJD", "query": {"media_type": 3}}, "media_type"),
        ({"type": "image", "query": {"url": 3}}, "url"),
        ({"type": "image", "content": "QUJD", "query": {"url": "https://x/y.png"}}, "not both"),
    ],
)
async def test_an_image_that_no_model_takes_is_refused_and_the_session_goes_on(
    world: Any, part: dict[str, Any], reason: str
) -> None:
    side = await world.side()
    session = await side.start()
    refused = await side.post(f"/{session}/messages", {"message": ["look", part]})
    assert refused.status_code == 400
    assert reason in refused.json()["detail"]
    right = {"type": "image", "content": "QUJD", "query": {"media_type": "image/png"}}
    there = {"type": "file", "query": {"url": "https://x/y.pdf"}}
    said_so = await side.post(f"/{session}/messages", {"message": [right, there, "hello"]})
    assert said_so.status_code == 202
    await side.until(session, "done")


async def test_what_is_missing_is_said_to_be_missing(world: Any) -> None:
    side = await world.side()
    assert (await side.post("", {})).json()["detail"] == "agent is missing: it must be a text"
    assert (await side.post("", {"agent": 3})).json()["detail"] == "agent must be a text"


async def test_an_agent_is_not_called_with_nothing_to_answer(world: Any) -> None:
    side = await world.side()
    refused = await side.client.post("/v1/functions/helper", json={"message": ""})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_arguments")
    assert (await side.get("")).json()["sessions"] == []


async def test_an_edit_has_to_fit_as_the_models_arguments_do(world: Any) -> None:
    side = await world.side()
    session = await side.paused()
    (asked,) = (await side.get(f"/{session}")).json()["approvals"]
    place = f"/{session}/approvals/{asked['call']}"
    wrong = await side.post(place, {"decision": "edit", "args": {"nothing": 1}})
    assert wrong.status_code == 422
    assert (await side.post(place, {"decision": "approve"})).status_code == 202


@both_databases
async def test_a_fork_goes_on_from_a_message_and_leaves_the_first_alone(world: Any) -> None:
    side = await world.side()
    session = await side.start()
    await side.say(session, "one")
    await side.until(session, "done")
    rows = (await side.get(f"/{session}/messages")).json()["messages"]
    first = next(row["sequence"] for row in rows if row["content"] == "one")
    forked = await side.post(f"/{session}/fork", {"at": first})
    assert forked.status_code == 201
    other = forked.json()
    assert other["agent"] == "helper"
    await side.say(other["id"], "two")
    await side.until(other["id"], "done")
    texts = [row["content"] for row in (await side.get(f"/{other['id']}/messages")).json()["messages"]]
    assert texts[-3:] == ["one", "two", "You said: two"]
    assert (await side.get(f"/{session}/messages")).json()["messages"] == rows


@both_databases
async def test_an_export_can_be_brought_in_and_goes_on(world: Any) -> None:
    side = await world.side()
    session = await side.start()
    await side.say(session, "one")
    await side.until(session, "done")
    lines = await side.get(f"/{session}/export")
    assert lines.headers["content-type"].startswith("application/x-ndjson")
    assert [json.loads(line)["role"] for line in lines.text.splitlines()] == ["system", "user", "assistant"]
    made = await side.post("/import", params={"id": "copy"}, content=lines.content, headers=LINES)
    assert (made.status_code, made.json()) == (201, {"id": "copy"})
    await side.say("copy", "two")
    assert said(await side.until("copy", "done")).endswith("You said: two")
    wrong = await side.post("/import", content=b"{}\n{", headers=LINES)
    assert wrong.status_code == 400
    assert "line 2" in wrong.json()["detail"]
    assert (await side.post("/import", {"a": 1})).status_code == 415


async def test_a_session_that_is_brought_in_chooses_among_the_models_of_its_agent(
    world: Any, place: Path
) -> None:
    (place / "smss" / "other.smss").write_text(
        "ENGINE_CLASS = Scripted\nENGINE_ALIAS = other\nSCRIPT = other.yaml\n"
    )
    (place / "smss" / "other.yaml").write_text("answers:\n  - say: I am the other\n")
    side = await world.side()
    options = {"agent": "helper", "llm": "other", "skills": ["secret"]}

    def row(content: Any, **query: Any) -> dict[str, Any]:
        return {"role": "system", "type": "data", "content": content, "query": {"kind": "options", **query}}

    text = json.dumps(options)
    pieces = [row(text[:9]) | {"id": "p", "status": "open", "query": {}}, row(text[9:]) | {"id": "p"}]
    for rows in ([row(text)], [row(text, imported=False)], pieces):
        lines = "\n".join(map(json.dumps, rows))
        for _ in range(2):  # and what is exported again is brought in again
            made = await side.post("/import", content=lines, headers=LINES)
            session = made.json()["id"]
            await side.say(session, "one")
            answered = said(await side.until(session, "done"))
            assert set(answered.removesuffix("You said: one").split("You said: one")) == {""}
            lines = (await side.get(f"/{session}/export")).text
    agents = await side.host.agents()
    by_program = await agents.start(session, llm="other", owner=Caller("anonymous"))
    assert by_program.spec.model == "other"
    assert "secret" not in by_program.spec.skills


async def test_a_stored_query_that_is_brought_in_runs_nothing_that_asks_for_a_person(
    world: Any, place: Path
) -> None:
    wipe = place / "smss" / "wipe.smss"
    wipe.write_text(wipe.read_text() + 'FUNCTION_ANNOTATIONS = {"readOnly": true}\n')
    call = {"tool": "wipe", "id": "c", "args": {"what": "disk"}}
    rows = [
        {"role": "system", "type": "data", "content": '{"agent": "helper"}', "query": {"kind": "options"}}
    ]
    for id, lazy in (("c", call), ("d", "nonsense")):
        rows.append({"role": "assistant", "type": "tool_call", "query": call | {"id": id}})
        rows.append(
            {"role": "tool", "type": "tool_result", "query": {"tool": "wipe", "id": id, "lazy": lazy}}
        )
    side = await world.side()
    made = await side.post("/import", content="\n".join(map(json.dumps, rows)), headers=LINES)
    session = made.json()["id"]
    await side.say(session, "one")
    assert said(await side.until(session, "done"))
    assert side.host.stats("wipe") is None


async def test_rows_without_an_agent_go_on_with_the_one_that_is_named(world: Any) -> None:
    side = await world.side()
    kind = {"content-type": "application/jsonl"}
    row = b'{"role": "user", "content": "earlier"}'
    session = (await side.post("/import", content=row, headers=kind)).json()["id"]
    refused = await side.post(f"/{session}/messages", {"message": "now"})
    assert refused.status_code == 400
    said_so = await side.post(f"/{session}/messages", {"message": "now", "agent": "helper"})
    assert said_so.status_code == 202
    await side.until(session, "done")
    assert (await side.get(f"/{session}")).json()["agent"] == "helper"


@both_databases
async def test_a_deleted_session_is_gone_and_its_turn_ends(world: Any) -> None:
    side = await world.side()
    session = await side.start()
    await side.say(session, "slowly")
    assert (await side.client.delete(f"/v1/sessions/{session}")).status_code == 204
    assert (await side.get(f"/{session}")).status_code == 404
    assert (await side.get("")).json()["sessions"] == []


async def test_what_makes_no_sense_is_refused_with_the_reason(world: Any) -> None:
    side = await world.side()
    session = await side.start()
    for method, path, body, status in (
        ("POST", "", {}, 400),
        ("POST", "", {"agent": "nobody"}, 404),
        ("POST", "", {"agent": "add"}, 400),
        ("POST", "", {"agent": "helper", "tools": 3}, 400),
        ("POST", "", {"agent": "helper", "colour": "red"}, 400),
        ("POST", f"/{session}/messages", {}, 400),
        ("POST", f"/{session}/messages", {"message": [""]}, 400),
        ("POST", f"/{session}/messages", {"message": {"type": "tool_call"}}, 400),
        ("POST", f"/{session}/cancel", {"now": True}, 400),
        ("POST", f"/{session}/fork", {"at": 99}, 400),
        ("POST", f"/{session}/messages", {"message": {"role": "system", "content": "x"}}, 400),
        ("POST", f"/{session}/fork", {"at": "x"}, 400),
        ("POST", f"/{session}/approvals/x", {"decision": "maybe"}, 400),
        ("GET", f"/{session}/events?until=never", None, 400),
        ("GET", f"/{session}/events?after=never", None, 400),
        ("GET", f"/{session}/events?after={'9' * 5000}", None, 400),
        ("GET", f"/{session}/messages?limit=0", None, 400),
        ("GET", f"/{session}/messages?after=x", None, 400),
        ("GET", "?cursor=%21", None, 400),
        ("GET", "/nothing/events", None, 404),
        ("GET", "/nothing/export", None, 404),
        ("GET", "/nothing/messages", None, 404),
        ("POST", "/nothing/messages", {"message": "x"}, 404),
        ("POST", "/nothing/cancel", {}, 404),
    ):
        response = await side.client.request(method, f"/v1/sessions{path}", json=body)
        assert response.status_code == status, (method, path, body, response.text)
        assert response.json()["detail"], path


@both_databases
async def test_somebody_elses_session_is_as_one_that_is_not_there(world: Any) -> None:
    ann, bob, eve, nobody = await world.of("ann", "bob", "eve", "")
    session = await ann.start()
    await ann.say(session, "a secret")
    await ann.until(session, "done")
    for side in (bob, eve):
        for method, path in (
            ("GET", ""),
            ("DELETE", ""),
            ("GET", "/messages"),
            ("POST", "/messages"),
            ("GET", "/events"),
            ("POST", "/cancel"),
            ("POST", "/fork"),
            ("GET", "/approvals"),
            ("POST", "/approvals/x"),
            ("GET", "/export"),
        ):
            body = {"POST /messages": {"message": "x"}, "POST /approvals/x": {"decision": "approve"}}
            sent = body.get(f"{method} {path}", {} if method == "POST" else None)
            theirs = await side.client.request(method, f"/v1/sessions/{session}{path}", json=sent)
            none = await side.client.request(method, f"/v1/sessions/{'x' * 36}{path}", json=sent)
            assert theirs.status_code == none.status_code == 404, (method, path, theirs.text)
            assert theirs.json()["detail"].replace(session, "") == none.json()["detail"].replace("x" * 36, "")
        assert (await side.get("")).json()["sessions"] == []
    kind = {"content-type": "application/x-ndjson"}
    told = [
        await bob.post("", {"agent": "helper", "id": session}),
        await bob.post("/import", params={"id": session}, content=b"{}", headers=kind),
        await ann.post("/import", params={"id": session}, content=b"{}", headers=kind),
    ]
    assert {one.status_code for one in told} == {409}
    assert len({one.json()["detail"] for one in told}) == 1
    assert "choose another id" in told[0].json()["detail"]
    assert (await eve.post("", {"agent": "helper"})).status_code == 403
    assert (await nobody.get("")).status_code == 401
    assert (await nobody.get(f"/{session}/events")).status_code == 401
    assert len((await ann.get("")).json()["sessions"]) == 1


async def test_the_openapi_document_has_the_routes_for_who_may_view_an_agent(world: Any) -> None:
    from enginehost.serve.sessions import session_routes

    ann, nobody = await world.of("ann", "")
    document = (await ann.client.get("/openapi.json")).json()
    routes: list[Any] = session_routes(ann.host)
    ours = {(one.path, method.lower()) for one in routes for method in one.methods if method != "HEAD"}
    told = {(path, method) for path, one in document["paths"].items() for method in one}
    assert ours <= told
    names = [one["operationId"] for path in document["paths"].values() for one in path.values()]
    assert len(names) == len(set(names))
    text = json.dumps(document)
    for name in document["components"]["schemas"]:
        text = text.replace(f'"$ref": "#/components/schemas/{name}"', "")
    assert '"$ref": "#/components/schemas/' not in text
    none = (await nobody.client.get("/openapi.json")).json()
    assert not [path for path in none["paths"] if path.startswith("/v1/sessions")]
