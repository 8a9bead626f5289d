"""Whole sessions as JSON lines."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from enginehost.errors import InvalidRequest, UnknownSession
from enginehost.llm.message import Message, Role, Status, Type, user
from enginehost.store.loading import parse_line
from enginehost.store.port import Owner
from enginehost.store.sql import SqlStore

from .conftest import call, result
from .test_messages import messages, said


async def chunks(data: bytes, size: int = 1000) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def exported(store: SqlStore, session: str, owner: Owner) -> bytes:
    return b"".join([chunk async for chunk in store.export(session, owner)])


@given(rows=st.lists(messages, min_size=1, max_size=5), size=st.integers(1, 200_000))
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
async def test_an_export_loads_as_the_same_session(store: SqlStore, rows: list[Message], size: int) -> None:
    ada, bob = Owner("ada"), Owner("bob", "other")
    first = await store.load(chunks(b"\n".join([b'{"content":"x"}'])), ada)
    await store.append(first, rows, ada)
    data = await exported(store, first, ada)
    second = await store.load(chunks(data, size), bob)
    here = await store.history(first, ada)
    there = await store.history(second, bob)
    assert [said(one) for one in there] == [said(one) for one in here]
    assert [one.sequence for one in there] == [one.sequence for one in here]
    assert [one.created_at for one in there] == [one.created_at for one in here]
    assert all(json.loads(line)["role"] for line in data.splitlines())


async def test_numbers_that_a_summary_names_stay_those_of_their_rows(
    store: SqlStore, owner: Owner, session: str, agent: str
) -> None:
    await store.append(session, [user("1")], owner)
    await store.start_run(session, agent, owner)  # takes a number that is no row's
    (row,) = await store.append(session, [user("2")], owner)
    summary = Message(Role.ASSISTANT, Type.COMPACTION, "so far", {"upto": row.sequence})
    await store.append(session, [summary, user("3")], owner)
    loaded = await store.load(chunks(await exported(store, session, owner)), owner)
    assert [one.content async for one in store.context(loaded, owner)] == ["so far", "3"]


async def test_a_fork_is_written_out_whole(store: SqlStore, owner: Owner, session: str) -> None:
    await store.append(session, [user("1"), call("c"), result("c"), user("4")], owner)
    fork = await store.fork(session, 3, owner)
    await store.append(fork, [user("x")], owner)
    loaded = await store.load(chunks(await exported(store, fork, owner)), owner, session=f"{session}-l")
    await store.delete(session, owner)
    await store.delete(fork, owner)
    assert [one.content async for one in store.context(loaded, owner)] == ["1", "", "3", "x"]


async def test_rows_of_other_programs_load(store: SqlStore, owner: Owner) -> None:
    seed: list[dict[str, Any]] = [
        {"ID": "a", "session": "s", "sequence": 0, "role": "system", "type": "text", "content": "be kind"},
        {"role": "user", "content": "add", "createdAt": "2026-01-02T03:04:05Z", "sequence": None},
        {"role": "assistant", "type": "tool", "query": {"tool": "add", "id": "c1", "args": {}}},
        {"role": "system", "type": "tool", "query": '{"tool": "add", "id": "c1"}', "content": "3"},
    ]
    data = "\r\n".join(map(json.dumps, seed)).encode()
    session = await store.load(chunks(data, 7), owner)
    rows = await store.history(session, owner)
    assert [(row.sequence, row.role, row.type) for row in rows] == [
        (1, Role.SYSTEM, Type.TEXT),
        (2, Role.USER, Type.TEXT),
        (3, Role.ASSISTANT, Type.TOOL_CALL),
        (4, Role.TOOL, Type.TOOL_RESULT),
    ]
    assert rows[1].created_at == 1767323045.0
    assert rows[3].call_id == "c1"


@pytest.mark.parametrize(
    "line",
    [
        "no json",
        "[1]",
        '{"role": "king"}',
        '{"type": "song"}',
        '{"content": 3}',
        '{"query": 3}',
        '{"usage": {"dollars": 3}}',
        '{"role": "system", "type": "tool"}',
        '{"created_at": "yesterday"}',
        '{"status": "open", "id": "x"}',
        '{"sequence": 9223372036854775807}',
        '{"sequence": -1}',
        '{"sequence": true}',
        '{"sequence": "7"}',
        '{"created_at": 1e300}',
        '{"usage": {"input": "many"}}',
        '{"usage": {"output": -1}}',
        '{"type": "compaction", "query": {"upto": "x"}}',
        "[" * 100_000,
    ],
)
async def test_a_line_that_is_no_message_is_told_and_leaves_nothing(
    store: SqlStore, owner: Owner, session: str, line: str
) -> None:
    good = b'{"content": "x"}\n' * 700
    with pytest.raises(InvalidRequest, match=r"line 701|whole"):
        await store.load(chunks(good + line.encode()), owner, session=session)
    with pytest.raises(UnknownSession):
        await store.history(session, owner)
    await store.load(chunks(good), owner, session=session)


@pytest.mark.parametrize("numbers", [(5, 4), (5, None, 5), (0, 2, 1)])
async def test_numbers_that_do_not_rise_are_told_by_their_line(
    store: SqlStore, owner: Owner, session: str, numbers: tuple[int | None, ...]
) -> None:
    lines = [json.dumps({"content": "x", "sequence": number}).encode() for number in numbers]
    with pytest.raises(InvalidRequest, match=f"line {len(numbers)} is no message: sequence {numbers[-1]}"):
        await store.load(chunks(b"\n".join(lines)), owner, session=session)
    with pytest.raises(UnknownSession):
        await store.history(session, owner)
    assert await store.load(chunks(b"\n".join(lines[:-1])), owner, session=session) == session


async def test_a_taken_id_is_told_the_same_whoever_has_it(
    store: SqlStore, owner: Owner, session: str
) -> None:
    await store.append(session, [user("x")], owner)
    told: list[str] = []
    for who in (owner, Owner("eve")):
        with pytest.raises(InvalidRequest, match="choose another id") as error:
            await store.load(chunks(b'{"content": "y"}'), who, session=session)
        told.append(str(error.value.to_json()))
    assert told[0] == told[1]


async def test_nothing_is_loaded_into_a_session_that_is_there(
    store: SqlStore, owner: Owner, session: str
) -> None:
    await store.append(session, [user("x")], owner)
    for who in (owner, Owner("eve")):
        with pytest.raises(InvalidRequest):
            await store.load(chunks(b'{"content": "y"}'), who, session=session)
    with pytest.raises(InvalidRequest):
        await store.load(chunks(b"\n\n"), owner)
    assert len(await store.history(session, owner)) == 1


@given(
    st.binary(max_size=60) | st.text().map(lambda text: json.dumps({"content": text, "role": text}).encode())
)
@settings(max_examples=100, deadline=None)
def test_no_line_is_too_odd_to_be_told(line: bytes) -> None:
    with suppress(InvalidRequest):
        assert parse_line(line, 1).status in Status
