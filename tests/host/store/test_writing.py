"""Messages that are written as they come."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable

import pytest

from enginehost.errors import InvalidRequest
from enginehost.llm.message import Message, Role, Status, Type, Usage, user
from enginehost.store.port import Owner, Settled
from enginehost.store.sql import SqlStore

from .conftest import call, program, result

Open = Callable[..., Awaitable[SqlStore]]


async def test_what_was_written_is_there_within_a_quarter_of_a_second(
    open_store: Open, owner: Owner, session: str
) -> None:
    store, other = await open_store(), await open_store()
    writing = await store.begin(session, Message(Role.ASSISTANT), owner)
    assert (writing.message.sequence, writing.message.status) == (1, Status.OPEN)
    for number in range(10):
        await writing.write(f"{number},")
    await asyncio.sleep(0.25)
    (row,) = await other.history(session, owner)
    assert (row.content, row.status) == ("0,1,2,3,4,5,6,7,8,9,", Status.OPEN)
    assert [one async for one in other.context(session, owner)] == []  # a model sees what is whole
    await writing.write("and the rest")
    await writing.finish(usage=Usage(output=4), provider={"signature": "x"})
    (row,) = await other.history(session, owner)
    assert (row.content, row.status) == ("0,1,2,3,4,5,6,7,8,9,and the rest", Status.DONE)
    assert (row.usage, row.provider) == (Usage(output=4), {"signature": "x"})
    assert [one async for one in other.context(session, owner)] == [row]


@pytest.mark.parametrize("text", ["", "short", "long " * 50_000, "\ud800 odd \x00"])
async def test_short_and_long_ones_come_back_as_written(
    store: SqlStore, owner: Owner, session: str, text: str
) -> None:
    writing = await store.begin(session, Message(Role.ASSISTANT, content=text[:3]), owner)
    await writing.write(text[3:10])
    await asyncio.sleep(0.12)
    await writing.write(text[10:])
    await writing.finish(Status.CANCELLED)
    (row,) = await store.history(session, owner)
    assert (row.content, row.status) == (text, Status.CANCELLED)
    assert "".join([one.content async for one in store.context(session, owner)]) == text


async def test_a_streamed_result_counts_from_its_beginning_and_a_failed_one_not(
    store: SqlStore, owner: Owner, session: str
) -> None:
    await store.append(session, [call("c1")], owner)
    writing = await store.begin(session, result("c1", ""), owner)
    with pytest.raises(Settled):
        await store.begin(session, result("c1", ""), owner)
    await writing.finish(Status.FAILED)
    second = await store.begin(session, result("c1", "[1,"), owner)
    await second.write("2]")
    await second.finish(query={"tool": "add", "id": "c1", "error": True})
    row = (await store.history(session, owner))[-1]
    assert (row.content, row.query) == ("[1,2]", {"tool": "add", "id": "c1", "error": True})
    with pytest.raises(Settled):
        await store.append(session, [result("c1")], owner)


async def test_a_piece_cannot_be_appended(store: SqlStore, owner: Owner, session: str) -> None:
    with pytest.raises(InvalidRequest):
        await store.append(session, [Message(Role.USER, status=Status.OPEN)], owner)


async def test_a_thousand_at_once_are_written_together(store: SqlStore, owner: Owner, session: str) -> None:
    async def write(number: int) -> None:
        writing = await store.begin(f"{session}-{number}", Message(Role.ASSISTANT), owner)
        for token in range(5):
            await writing.write(f"{token} ")
            await asyncio.sleep(0.02)
        await writing.finish()

    await asyncio.gather(*map(write, range(1000)))
    rows = [(await store.history(f"{session}-{number}", owner))[0] for number in range(0, 1000, 97)]
    assert {(row.content, row.status) for row in rows} == {("0 1 2 3 4 ", Status.DONE)}


async def test_what_waits_is_stored_when_the_store_closes(
    open_store: Open, owner: Owner, session: str
) -> None:
    closing, other = await open_store(), await open_store()
    writing = await closing.begin(session, Message(Role.ASSISTANT), owner)
    for text in ("a", "b", "c"):
        await writing.write(text)
    await closing.close()
    (row,) = await other.history(session, owner)
    assert row.content == "abc"


FLAT = """
def memory():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

writing = await store.begin(session, Message(Role.TOOL, Type.TOOL_RESULT, query={"id": "c"}), owner)
await writing.write("x" * 10_000_000)
begun = memory()
for number in range(200):
    await writing.write(f"{number:010}" * 100_000)
await writing.finish()
wrote = memory()
size = 0
async for piece in store.context(session, owner):
    size += len(piece.content)
async for event in store.events(session, owner):
    size += len(event.message.content)
    if event.message.whole:
        break
async for chunk in store.export(session, owner):
    size += len(chunk)
print(size, wrote - begun, memory() - begun)
"""


def test_a_content_of_200_megabytes_never_stands_in_memory(sqlite_url: str) -> None:
    done = subprocess.run(
        [*program(FLAT), sqlite_url, "s", "ada"], capture_output=True, text=True, timeout=100, check=True
    )
    size, writing, reading = map(int, done.stdout.split())
    assert size > 3 * 210_000_000
    assert writing < 30 << 20
    assert reading < 30 << 20


async def test_rows_of_a_type_that_no_one_writes_in_pieces_are_written_too(
    store: SqlStore, owner: Owner, session: str
) -> None:
    await store.append(session, [user("x")], owner)
    writing = await store.begin(session, Message(Role.ASSISTANT, Type.REASONING), owner)
    await writing.write("because")
    await writing.finish(provider={"signature": "s"})
    row = (await store.history(session, owner))[-1]
    assert (row.type, row.content, row.provider) == (Type.REASONING, "because", {"signature": "s"})
