"""Ids of sessions: the same rule on every face and database, and nobody is locked out of what he has."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import pytest

both_databases = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)
ODD = ("n\0l", "a/b", "a\\b", "what?", "a#b", "50%", ".", "..", "~hidden", "x" * 201, "")


@both_databases
async def test_what_no_id_can_be_is_refused_and_not_found(world: Any) -> None:
    side = await world.side()
    for odd in ODD:
        made = await side.post("", {"agent": "helper", "id": odd})
        assert (made.status_code, made.json()["code"]) == (400, "invalid_request"), odd
        if not odd:
            continue
        called = await side.client.post(
            "/v1/functions/helper", json={"message": "hi", "conversation_id": odd}
        )
        assert called.status_code == 400, odd
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/messages"), ("GET", "/events")):
        found = await side.client.request(method, f"/v1/sessions/n%00l{path}")
        assert (found.status_code, found.json()["code"]) == (404, "unknown_session"), path
    assert await side.start(id="a b:ü+1@x") == "a b:ü+1@x"


async def test_a_session_whose_id_no_new_one_could_have_is_reached_percent_encoded(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    side, odd = await world.side(), "../x/y?z#% ü"
    with monkeypatch.context() as before:
        before.setattr("enginehost.store.appending.check_new_id", str)
        assert await side.start(id=odd) == odd
    there = await side.post("", {"agent": "helper", "id": odd})
    assert (there.status_code, there.json()["id"]) == (200, odd)
    place = f"/{quote(odd, safe='')}"
    await side.say(place[1:], "add")
    await side.until(place[1:], "done")
    assert len((await side.get(f"{place}/messages")).json()["messages"]) > 2
    assert (await side.client.delete(f"/v1/sessions{place}")).status_code == 204
    assert (await side.get(place)).status_code == 404


@both_databases
async def test_of_many_starts_with_one_id_one_begins_the_session(world: Any) -> None:
    host = await world.host()
    sides = [await world.side(host), await world.side()]
    starts = [side.post("", {"agent": "helper", "id": "same"}) for side in sides for _ in range(10)]
    answers = [answer.status_code for answer in await asyncio.gather(*starts)]
    assert sorted(answers) == [200] * 19 + [201]
    rows = (await sides[0].get("/same/messages")).json()["messages"]
    assert [row["query"]["kind"] for row in rows] == ["options"]


async def test_an_id_of_somebody_else_cannot_be_had_by_a_call_either(world: Any) -> None:
    ann, bob = await world.of("ann", "bob")
    await ann.start(id="mine")
    refused = await bob.client.post("/v1/functions/helper", json={"message": "hi", "conversation_id": "mine"})
    assert (refused.status_code, refused.json()["reason"]) == (409, "taken")
    assert "choose another id" in refused.json()["detail"]
    free = await bob.client.post("/v1/functions/helper", json={"message": "hi", "conversation_id": "other"})
    assert free.status_code == 200


async def test_a_place_behind_the_end_is_refused(world: Any) -> None:
    side = await world.side()
    session = await side.start()
    refused = await side.get(f"/{session}/events", params={"after": "500.0"})
    assert refused.status_code == 400
    assert "behind the end" in refused.json()["detail"]


async def test_blank_messages_and_unknown_members_are_refused_in_good_words(world: Any) -> None:
    side = await world.side()
    session = await side.start()
    blank = await side.post(f"/{session}/messages", {"message": "  \n"})
    assert blank.status_code == 400
    called = await side.client.post("/v1/functions/helper", json={"message": "   "})
    assert called.status_code == 400
    unknown = await side.post(f"/{session}/fork", {"id": 3})
    assert unknown.json()["detail"] == "unknown member 'id'; there is only at"
    unknown = await side.post(f"/{session}/cancel", {"id": 3})
    assert unknown.json()["detail"] == "unknown member 'id'; none is taken"
