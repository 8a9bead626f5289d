"""Conversations with agents through the clients, and what they survive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from enginehost.client.talk import backoff
from enginehost.errors import InvalidRequest, UnknownSession, WaitsForPerson

WORDS = "word " * 200


def test_a_conversation_from_start_to_end(client: Any) -> None:
    session = client.start("helper", system="Be brief.")
    assert session.ask("hello") == "You said: hello"
    assert session.about()["agent"] == "helper"
    assert session.id in [one["id"] for one in client.sessions()]
    contents = [one["content"] for one in session.history()]
    assert contents[-2:] == ["hello", "You said: hello"]
    fork = session.fork()
    assert fork.ask("again") == "You said: again"
    assert session.about()["run"]["state"] == "done"
    lines = b"".join(session.export())
    copy = client.import_session(lines)
    assert [one["content"] for one in copy.history()] == contents
    assert client.session(session.id).cancel() in (None, session.about()["run"])
    session.delete()
    with pytest.raises(UnknownSession):
        session.about()


def test_a_long_history_is_read_to_its_end(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from enginehost.client import session_asks

    session = client.start("helper")
    for text in ("one", "two", "three"):
        session.ask(text)
    whole = list(session.history())
    monkeypatch.setattr(session_asks, "PAGE", 2)
    assert list(session.history()) == whole
    assert list(session.history(whole[1]["sequence"])) == whole[2:]


@pytest.mark.parametrize(
    ("decide", "answer"),
    [
        (lambda session, id: session.approve(id), "disk is gone"),
        (lambda session, id: session.edit(id, {"what": "tape"}), "tape is gone"),
        (lambda session, id: session.reject(id, "not today"), "not today"),
    ],
    ids=["approve", "edit", "reject"],
)
def test_a_person_decides(client: Any, decide: Callable[[Any, str], Any], answer: str) -> None:
    session = client.start("helper")
    with pytest.raises(WaitsForPerson) as waits:
        session.ask("wipe it")
    (question,) = waits.value.detail["questions"]
    assert (question["tool"], question["args"]) == ("wipe", {"what": "disk"})
    assert session.approvals() == [question]
    position = session.about()["position"]
    decide(session, question["id"])
    said = "".join(event.text for event in session.events(position, until_end=True))
    assert answer in said
    with pytest.raises(InvalidRequest) as again:
        session.approve(question["id"])
    assert again.value.detail["reason"] == "settled"


def test_a_stream_goes_on_after_each_cut(
    client: Any, connect: Any, served: Any, cutting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enginehost.client.following.backoff", lambda _: 0.0)
    session = client.start("helper")
    proxy = cutting(served.url, 2000)
    through = connect(proxy.url).session(session.id)
    seen = list(through.stream("long please"))
    assert proxy.connections > 4  # about, send, and three streams
    assert "".join(event.text for event in seen).strip() == WORDS.strip()
    ids = [event.id for event in seen]
    assert len(set(ids)) == len(ids)
    assert seen[-1].data["state"] == "done"
    whole = list(session.events(until_end=True))
    again = list(through.events(until_end=True))
    assert [event.data["id"] for event in again if event.kind == "run"] == [
        event.data["id"] for event in whole if event.kind == "run"
    ]
    assert "".join(event.text for event in again) == "".join(event.text for event in whole)
    assert list(through.events(whole[-1].id, until_end=True)) == []


def test_a_stream_of_a_session_that_is_not_there_ends_at_once(client: Any) -> None:
    with pytest.raises(UnknownSession):
        list(client.session("nobody's").events())


def test_agents_are_listed_and_asked(client: Any) -> None:
    assert [one["name"] for one in client.agents()] == ["helper"]
    first = client.ask_agent("hello", "helper")
    assert (first.text, first.agent["name"]) == ("You said: hello", "helper")
    assert client.ask_agent("hello").text == "You said: hello"
    assert "".join(client.stream_agent("hello", conversation=first.conversation_id)) == "You said: hello"
    with pytest.raises(WaitsForPerson) as waits:
        client.ask_agent("wipe it", "helper", conversation=first.conversation_id)
    (question,) = waits.value.detail["questions"]
    told = {"question": question["id"], "decision": "approve"}
    assert "disk is gone" in client.decide("helper", first.conversation_id, told).text


def test_pauses_grow_and_are_bounded() -> None:
    assert 0 < backoff(0) <= 0.1
    assert 1.0 <= backoff(50) <= 2.0
