"""What models are shown of results, and where tools come from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enginehost import Caller, Host, HostSettings
from enginehost.client import AsyncClient, Client
from enginehost.errors import Forbidden, WaitsForPerson
from enginehost.integrations.content import media_type_of, shown
from enginehost.integrations.facts import asks_person
from enginehost.integrations.source import arun, run, way_to
from enginehost.values import decode


@dataclass
class Odd:
    day: date
    raw: bytes


def test_bytes_are_named_in_the_text_and_stand_beside_it() -> None:
    value = {"a": [b"%PDF-1", Decimal("1.50")], "b": b"\0", "c": Odd(date(2026, 1, 2), b"xyz")}
    found = shown(value)
    assert [(blob.name, blob.media_type) for blob in found.blobs] == [
        ("file 1", "application/pdf"),
        ("file 2", "application/octet-stream"),
    ]
    assert found.value is value
    assert found.plain == {
        "a": ["[file 1: application/pdf, 6 bytes]", "1.50"],
        "b": "[file 2: application/octet-stream, 1 bytes]",
        "c": {"day": "2026-01-02", "raw": "[3 bytes]"},
    }
    assert decode(found.text.encode()) == found.plain
    assert media_type_of(b"RIFF0000WEBPVP8") == "image/webp"


@pytest.mark.parametrize(
    ("value", "streaming", "text"),
    [
        (["a", "b"], True, "ab"),
        (["a", "b"], False, '["a","b"]'),
        (["a", 1], True, '["a",1]'),
        ([], True, "[]"),
        ("plain", False, "plain"),
        (None, False, "null"),
    ],
)
def test_texts_of_a_stream_are_one_text(value: Any, streaming: bool, text: str) -> None:
    assert shown(value, streaming=streaming).text == text


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab$", max_size=3), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(PLAIN.filter(lambda value: not isinstance(value, str)))
def test_what_is_json_is_shown_as_it_is(value: Any) -> None:
    found = shown(value)
    assert (found.plain, found.blobs) == (value, ())
    assert decode(found.text.encode()) == value


def test_who_is_asked_is_as_for_the_hosts_own_agents() -> None:
    def asks(approval: str, destructive: bool | None = None, read_only: bool | None = None) -> bool:
        return asks_person(approval, destructive=destructive, read_only=read_only)

    assert [asks("always"), asks("never"), asks("destructive")] == [True, False, True]
    assert asks("never", destructive=True)
    assert not asks("destructive", destructive=False)
    assert not asks("destructive", read_only=True)


async def test_a_source_says_how_it_wants_to_be_used(awaited: Any) -> None:
    way = way_to(awaited.source)
    if isinstance(awaited.source, Client):
        return
    with pytest.raises(RuntimeError, match=r"give a (Client|HostSync)"):
        way.call("wipe", {})
    if isinstance(awaited.source, AsyncClient):
        with pytest.raises(TypeError, match="the token says who calls"):
            way_to(awaited.source, Caller("ann"))
    else:
        with pytest.raises(RuntimeError, match="atools"):
            way.offers((), "add numbers", 1)
    assert [offer.name for offer in await way.aoffers((), "add two numbers", 1)] != []


def test_a_host_without_its_loop_is_told_apart(tmp_path: Any) -> None:
    host = Host(None, None, settings=HostSettings(state_dir=tmp_path))
    with pytest.raises(RuntimeError, match="HostSync"):
        way_to(host)
    with pytest.raises(TypeError, match="not dict"):
        way_to({})


async def test_nothing_runs_that_a_person_has_to_approve(awaited: Any) -> None:
    way = way_to(awaited.source)
    with pytest.raises(WaitsForPerson):
        await arun(way, "wipe", {"what": "disk"})
    assert awaited.wiped == []


def test_nothing_runs_without_a_loop_either(blocking: Any) -> None:
    with pytest.raises(WaitsForPerson):
        run(way_to(blocking.source), "destroy", {"what": "disk"})
    assert blocking.wiped == []


async def test_a_caller_is_offered_what_it_may_call(limited: Any) -> None:
    way = way_to(limited.source, Caller("ann"))
    (offer,) = await way.aoffers((), "", None)
    assert (await arun(way, offer.name, {"a": 2})).text == "42"
    with pytest.raises(Forbidden):
        await arun(way, "story", {})
