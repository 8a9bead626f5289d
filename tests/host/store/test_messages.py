"""What is stored is there, in order, for its owner alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from enginehost.errors import InvalidRequest, UnknownSession
from enginehost.llm.message import Message, Role, Status, Type, Usage, system, user
from enginehost.store.port import Owner, Position, Settled
from enginehost.store.sql import SqlStore

from .conftest import call, result

Open = Callable[..., Awaitable[SqlStore]]


async def texts(store: SqlStore, session: str, owner: Owner) -> list[str]:
    return [message.content async for message in store.context(session, owner)]


async def test_numbers_have_neither_holes_nor_doubles_however_many_write(
    open_store: Open, owner: Owner, session: str
) -> None:
    stores = [await open_store(), await open_store()]

    async def write(store: SqlStore, name: str) -> list[int]:
        stored = [await store.append(session, [user(name), user(name)], owner) for _ in range(5)]
        assert all(second.sequence == first.sequence + 1 for first, second in stored)
        return [one.sequence for pair in stored for one in pair]

    found = await asyncio.gather(*(write(stores[n % 2], str(n)) for n in range(10)))
    assert sorted(number for numbers in found for number in numbers) == list(range(1, 101))
    rows = await stores[0].history(session, owner, limit=200)
    assert [row.sequence for row in rows] == list(range(1, 101))
    for name, numbers in enumerate(found):
        assert [row.sequence for row in rows if row.content == str(name)] == numbers


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.floats(allow_nan=False, allow_infinity=False, width=32),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(st.text(max_size=8), json_values, max_size=3)
odd_text = st.text(st.characters(exclude_categories=()), max_size=50)  # lone surrogates and NUL too
messages = st.builds(
    Message,
    st.sampled_from(Role),
    st.sampled_from([Type.TEXT, Type.DATA, Type.REASONING, Type.FILE]),
    odd_text | st.builds(lambda text: text * 70_000, st.text(min_size=1, max_size=2)),
    st.none() | objects,
    st.none() | objects,
    st.none() | st.builds(Usage, st.integers(0, 9), st.integers(0, 9), cost=st.none() | st.just(0.25)),
    st.sampled_from([Status.DONE, Status.CANCELLED]),
)


@given(rows=st.lists(messages, min_size=1, max_size=5))
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
async def test_any_message_comes_back_as_it_was(store: SqlStore, rows: list[Message]) -> None:
    owner, session = Owner("ada", "acme"), uuid4().hex
    stored = await store.append(session, rows, owner)
    assert [said(one) for one in await store.history(session, owner)] == [said(one) for one in rows]
    assert await store.history(session, owner) == stored
    whole: dict[str, Message] = {}
    async for piece in store.context(session, owner):
        before = whole.get(piece.id)
        whole[piece.id] = _joined(before, piece)
    assert sorted(map(repr, map(said, whole.values()))) == sorted(map(repr, map(said, rows)))


def _joined(before: Message | None, piece: Message) -> Message:
    return piece if before is None else replace(piece, content=before.content + piece.content)


def said(message: Message) -> tuple[Any, ...]:
    return (
        message.role,
        message.type,
        message.content,
        message.query,
        message.provider,
        message.usage,
        message.status,
    )


async def test_what_is_no_json_is_refused_and_stops_nobody_else(
    store: SqlStore, owner: Owner, session: str
) -> None:
    bad = Message(Role.USER, query={"a": object()})
    outcomes = await asyncio.gather(
        store.append(session, [user("a")], owner),
        store.append(session, [bad], owner),
        store.append(session, [user("b")], owner),
        return_exceptions=True,
    )
    assert isinstance(outcomes[1], InvalidRequest)
    assert sorted(await texts(store, session, owner)) == ["a", "b"]


async def test_an_id_that_is_there_already_is_refused_and_stops_nobody_else(
    store: SqlStore, owner: Owner, session: str
) -> None:
    (first,) = await store.append(session, [user("a")], owner)
    outcomes = await asyncio.gather(
        store.append(session, [user("b")], owner),
        store.append(session, [Message(Role.USER, id=first.id)], owner),
        store.append(session, [user("c")], owner),
        return_exceptions=True,
    )
    assert isinstance(outcomes[1], InvalidRequest)
    assert [row.sequence for row in await store.history(session, owner)] == [1, 2, 3]


@pytest.mark.parametrize("foreign", ["subject", "tenant"])
async def test_a_foreign_session_answers_like_an_unknown_one(
    store: SqlStore, owner: Owner, session: str, agent: str, foreign: str
) -> None:
    other = Owner("eve", "acme") if foreign == "subject" else Owner(owner.subject, "other")
    await store.append(session, [user("mine")], owner)
    run = await store.start_run(session, agent, owner)

    async def read_all(stream: Any) -> list[Any]:
        return [one async for one in stream]

    def ways(name: str) -> list[Callable[[], Awaitable[Any]]]:
        return [
            lambda: read_all(store.context(name, other)),
            lambda: read_all(store.rows_json(name, other)),
            lambda: read_all(store.export(name, other)),
            lambda: read_all(store.events(name, other, Position(1))),
            lambda: store.history(name, other),
            lambda: store.fork(name, 1, other),
            lambda: store.delete(name, other),
            lambda: store.runs(name, other),
            lambda: store.start_run(name, agent, other),
        ]

    for known, unknown in zip(ways(session), ways("nobody-s"), strict=True):
        with pytest.raises(UnknownSession) as told:
            await known()
        with pytest.raises(UnknownSession) as same:
            await unknown()
        assert told.value.message.replace(session, "nobody-s") == same.value.message
    with pytest.raises(UnknownSession):
        await store.append(session, [user("theirs")], other)
    assert await store.cancel_run(run.id, other) is None
    assert await store.sessions(other) == []
    assert await texts(store, session, owner) == ["mine"]


async def test_of_two_results_or_decisions_of_a_call_at_once_one_counts(
    open_store: Open, owner: Owner, session: str
) -> None:
    stores = [await open_store(), await open_store()]
    await stores[0].append(session, [call("c1")], owner)
    question = Message(Role.SYSTEM, Type.APPROVAL, query={"id": "c1", "kind": "call"})
    decision = Message(Role.USER, Type.APPROVAL, query={"id": "c1", "kind": "call", "decision": "approve"})
    for message in (result("c1"), decision, call("c1")):
        outcomes = await asyncio.gather(
            *(one.append(session, [user("beside"), message], owner) for one in stores * 3),
            return_exceptions=True,
        )
        counted = [one for one in outcomes if isinstance(one, list)]
        assert len(counted) == (0 if message.type is Type.TOOL_CALL else 1)
        assert {type(one) for one in outcomes if one not in counted} == {Settled}
    await stores[0].append(session, [question, question], owner)  # to ask is not to decide
    beside = [row for row in await stores[0].history(session, owner) if row.content == "beside"]
    assert len(beside) == 2  # nothing of what was refused is there


async def test_a_context_has_instructions_first_and_a_summary_for_what_it_stands_for(
    store: SqlStore, owner: Owner, session: str
) -> None:
    failed = Message(Role.ASSISTANT, content="half", status=Status.FAILED)
    approval = Message(Role.SYSTEM, Type.APPROVAL, query={"id": "c"})
    await store.append(session, [user("1"), system("be kind"), user("3"), failed, approval], owner)
    assert await texts(store, session, owner) == ["be kind", "1", "3"]
    summary = Message(Role.ASSISTANT, Type.COMPACTION, "so far", {"upto": 3})
    await store.append(session, [user("6"), summary, user("8")], owner)
    assert await texts(store, session, owner) == ["be kind", "so far", "6", "8"]
    lines = b"".join([chunk async for chunk in store.rows_json(session, owner, context=True)])
    assert [line.rpartition(b":")[2] for line in lines.splitlines()][:2] == [b'"be kind"}', b'"so far"}']
    again = Message(Role.ASSISTANT, Type.COMPACTION, "all", {"upto": 8})
    await store.append(session, [again], owner)
    assert await texts(store, session, owner) == ["be kind", "all"]


async def test_a_fork_goes_on_from_a_row_and_leaves_the_other_alone(
    store: SqlStore, owner: Owner, session: str
) -> None:
    rows = await store.append(session, [user(str(n)) for n in range(1, 6)], owner)
    fork = await store.fork(session, 3, owner)
    assert await texts(store, fork, owner) == ["1", "2", "3"]
    (head,) = await store.append(fork, [user("x")], owner)
    assert (head.prev, head.sequence > 3) == (rows[2].id, True)
    (second,) = await store.append(fork, [user("y")], owner)
    assert second.prev == ""
    deeper = await store.fork(fork, head.sequence, owner, new=f"{session}-deeper")
    shallow = await store.fork(fork, 2, owner)  # before the fork began: from the first session
    await store.append(deeper, [user("z")], owner)
    assert await texts(store, deeper, owner) == ["1", "2", "3", "x", "z"]
    assert await texts(store, shallow, owner) == ["1", "2"]
    assert await texts(store, session, owner) == ["1", "2", "3", "4", "5"]
    page = await store.history(deeper, owner, after=1, limit=2)
    assert [row.content for row in page] == ["2", "3"]
    page = await store.history(deeper, owner, before=page[-1].sequence + 1, limit=2)
    assert [row.content for row in page] == ["2", "3"]
    for nothing in (0, 6, 99):
        with pytest.raises(InvalidRequest, match=f"no row {nothing} "):
            await store.fork(session, nothing, owner)
    with pytest.raises(InvalidRequest, match="no row 4 "):
        await store.fork(shallow, 4, owner)  # only the first session has one
    with pytest.raises(InvalidRequest):
        await store.fork(session, 3, owner, new=fork)


async def test_a_deleted_session_leaves_what_forks_need_until_they_go_too(
    store: SqlStore, owner: Owner, session: str, raw: Callable[..., list[tuple[Any, ...]]]
) -> None:
    long = user("é" * 100_000)
    await store.append(session, [user("1"), long, user("3"), long], owner)
    fork = await store.fork(session, 2, owner)
    deeper = await store.fork(fork, 1, owner)
    await store.append(fork, [user("x")], owner)
    await store.delete(session, owner)
    with pytest.raises(UnknownSession):
        await texts(store, session, owner)
    assert [info.id for info in await store.sessions(owner)] == [fork, deeper]
    assert "".join(await texts(store, fork, owner)) == "1" + "é" * 100_000 + "x"
    await store.append(session, [user("anew")], owner)  # the id is free
    assert await texts(store, session, owner) == ["anew"]
    await store.delete(fork, owner)
    assert await texts(store, deeper, owner) == ["1"]
    await store.delete(deeper, owner)
    await store.delete(session, owner)
    assert raw("SELECT count(*) FROM messages WHERE substr(session, 1, 1) = '~'") == [(0,)]
    assert raw("SELECT count(*) FROM parts WHERE message NOT IN (SELECT id FROM messages)") == [(0,)]
    assert {info.id for info in await store.sessions(owner)} == set()


async def test_old_sessions_are_retired_and_used_ones_stay(
    store: SqlStore, owner: Owner, session: str, agent: str
) -> None:
    old = Message(Role.USER, content="old", created_at=1000.0)
    for name in ("old", "busy"):
        await store.append(f"{session}-{name}", [old], owner)
    await store.append(f"{session}-new", [user("new")], owner)
    await store.start_run(f"{session}-busy", agent, owner)
    assert await store.retire(2000.0) == 1
    assert {info.id for info in await store.sessions(owner)} == {f"{session}-busy", f"{session}-new"}


async def test_sessions_are_listed_latest_first_page_by_page(
    store: SqlStore, owner: Owner, session: str
) -> None:
    for number in range(5):
        row = Message(Role.USER, content="x", created_at=1000.0 + number)
        await store.append(f"{session}-{number}", [row, row], owner)
    await store.fork(f"{session}-4", 1, owner, new=f"{session}-fork")
    first = await store.sessions(owner, limit=3)
    assert [info.id for info in first] == [f"{session}-fork", f"{session}-4", f"{session}-3"]
    assert [info.messages for info in first] == [0, 2, 2]
    assert (first[1].created_at, first[1].owner) == (1004.0, owner)
    rest = await store.sessions(owner, before=first[-1].modified_at)
    assert [info.id for info in rest] == [f"{session}-{number}" for number in (2, 1, 0)]


async def test_an_operator_reads_contents_with_sql(
    store: SqlStore, owner: Owner, session: str, raw: Callable[..., list[tuple[Any, ...]]]
) -> None:
    await store.append(session, [user('say "hi"'), result("c1", "[1]")], owner)
    rows = raw(
        f"SELECT role, content, tenant FROM conversation WHERE session = '{session}' ORDER BY sequence"
    )
    assert [tuple(row) for row in rows] == [("user", 'say "hi"', "acme"), ("tool", "[1]", "acme")]


@pytest.mark.parametrize("name", ["", "~x", "x" * 201, "a\nb"])
async def test_a_session_id_that_cannot_be_one_is_refused(store: SqlStore, owner: Owner, name: str) -> None:
    with pytest.raises(InvalidRequest):
        await store.append(name, [user("x")], owner)


async def test_a_content_in_history_is_cut_at_a_million_characters(
    store: SqlStore, owner: Owner, session: str
) -> None:
    await store.append(session, [user("x" * 1_000_001), user("y" * 1_000_000)], owner)
    long, fits = await store.history(session, owner)
    assert (len(long.content), long.query) == (1_000_000, {"cut": True})
    assert (len(fits.content), fits.query) == (1_000_000, None)
