"""Whoever follows a session sees all of it, once, in one order, from wherever they begin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

import pytest

from enginehost.errors import EngineUnavailable, UnknownSession
from enginehost.llm.message import Message, Role, Status, Usage, user
from enginehost.store.port import Event, Fence, Owner, Position, RunState
from enginehost.store.sql import SqlStore

from .conftest import program, result

Open = Callable[..., Awaitable[SqlStore]]


class Follower:
    """Collects what one subscriber gets."""

    def __init__(self, store: SqlStore, session: str, owner: Owner, after: Position | None) -> None:
        self.events: list[Event] = []
        self._arrived = asyncio.Event()
        self.task = asyncio.create_task(self._follow(store, session, owner, after))

    async def _follow(self, store: SqlStore, session: str, owner: Owner, after: Position | None) -> None:
        async with aclosing(store.events(session, owner, after)) as events:
            async for event in events:
                self.events.append(event)
                self._arrived.set()

    async def until(self, done: Callable[[list[Event]], bool]) -> list[Event]:
        async with asyncio.timeout(10):
            while not done(self.events):
                self._arrived.clear()
                await self._arrived.wait()
        return self.events

    async def at(self, position: Position) -> list[Event]:
        return await self.until(lambda events: bool(events) and events[-1].at == position)


@asynccontextmanager
async def following(
    store: SqlStore, session: str, owner: Owner, after: Position | None = None
) -> AsyncIterator[Follower]:
    follower = Follower(store, session, owner, after)
    try:
        yield follower
    finally:
        follower.task.cancel()
        await asyncio.gather(follower.task, return_exceptions=True)


def shown(events: list[Event]) -> list[tuple[str, str, str]]:
    """What events say, with pieces of one message joined."""
    found: list[tuple[str, str, str]] = []
    for event in events:
        if event.run is not None:
            found.append((event.run.id, "", event.run.state))
            continue
        assert event.message is not None
        message = event.message
        if found and found[-1][0] == message.id:
            found[-1] = (message.id, found[-1][1] + message.content, message.status)
        else:
            found.append((message.id, message.content, message.status))
    return found


async def turn(store: SqlStore, session: str, owner: Owner, agent: str) -> Position:
    """A turn as a runner writes it; gives the position of its end."""
    (first,) = await store.append(session, [user("hello")], owner)
    run = await store.start_run(session, agent, owner, started_by=first.sequence)
    claimed = await store.claim("p", [agent])
    assert claimed is not None
    fence = Fence(run.id, claimed.epoch)
    writing = await store.begin(session, Message(Role.ASSISTANT), owner, fence=fence)
    for number in range(5):
        await writing.write(f"piece {number} é, ")
        await asyncio.sleep(0.03)
    await writing.finish(usage=Usage(input=1))
    await store.change_run(fence, RunState.DONE)
    return Position(writing.message.sequence + 1)


async def test_what_is_stored_comes_first_and_then_what_happens(
    open_store: Open, owner: Owner, session: str, agent: str
) -> None:
    here, elsewhere = await open_store(), await open_store()
    await here.append(session, [user("before")], owner)
    async with following(here, session, owner) as one, following(elsewhere, session, owner) as other:
        await one.at(Position(1))
        end = await turn(here, session, owner, agent)
        await one.at(end)
        await other.at(end)
        states = [event.run.state for event in one.events if event.run]
        assert states == [RunState.QUEUED, RunState.RUNNING, RunState.DONE]
        assert len([event for event in one.events if event.message and not event.message.whole]) > 1
        expected = "".join(f"piece {number} é, " for number in range(5))
        assert [text for _, text, _ in shown(one.events)] == ["before", "hello", "", "", expected, ""]
        assert shown(other.events) == shown(one.events)
        usage = [event.message.usage for event in one.events if event.message and event.message.usage]
        assert usage == [Usage(input=1)]
    async with following(elsewhere, session, owner) as late:
        await late.at(end)
        assert shown(late.events) == shown(one.events)


async def test_from_any_event_on_the_rest_comes_and_nothing_twice(
    store: SqlStore, owner: Owner, session: str, agent: str
) -> None:
    await store.append(session, [user("x" * 100_000)], owner)
    async with following(store, session, owner) as whole:
        end = await turn(store, session, owner, agent)
        await whole.at(end)
    events = whole.events
    texts = {event.message.id: "" for event in events if event.message}
    for number, event in enumerate(events[:-1]):
        if event.message:
            texts[event.message.id] += event.message.content
        async with following(store, session, owner, event.at) as rest:
            got = await rest.at(end)
            assert [one.run for one in got if one.run] == [one.run for one in events[number + 1 :] if one.run]
            both = dict(texts)
            for one in got:
                if one.message:
                    both[one.message.id] += one.message.content
            assert list(both.values()) == [text for _, text, _ in shown(events) if text]
    middle = Position(0, 70_001)  # no event ends there, and a client may say so all the same
    async with following(store, session, owner, middle) as rest:
        got = await rest.at(end)
        assert shown(got)[0][1] == "x" * (100_000 - 70_001)


async def test_messages_that_are_written_side_by_side_come_one_after_the_other(
    open_store: Open, owner: Owner, session: str
) -> None:
    here, elsewhere = await open_store(), await open_store()
    await here.append(session, [user("go")], owner)
    async with following(here, session, owner) as one, following(elsewhere, session, owner) as other:
        await one.at(Position(1))
        first = await here.begin(session, result("a", ""), owner)
        second = await here.begin(session, result("b", ""), owner)
        for number in range(4):
            await second.write(f"b{number}")
            await first.write(f"a{number}")
            await asyncio.sleep(0.06)
        await second.finish()
        await here.append(session, [user("after")], owner)
        assert "b0" not in "".join(text for _, text, _ in shown(one.events))
        await first.finish()
        for follower in (one, other):
            await follower.at(Position(4))
            texts = [text for _, text, _ in shown(follower.events)]
            assert texts == ["go", "a0a1a2a3", "b0b1b2b3", "after"]


async def test_a_slow_subscriber_misses_nothing_and_holds_nobody_up(
    store: SqlStore, owner: Owner, session: str
) -> None:
    await store.append(session, [user("0")], owner)
    async with aclosing(store.events(session, owner)) as slow, following(store, session, owner) as quick:
        assert (await anext(slow)).at == Position(1)
        for number in range(1, 701):
            await store.append(session, [user(str(number))], owner)
        await quick.at(Position(701))
        got = [await anext(slow) for _ in range(700)]
    assert [event.message.content for event in got if event.message] == [str(n) for n in range(1, 701)]
    assert [event.at for event in quick.events] == [Position(n) for n in range(1, 702)]


async def test_leaving_disturbs_no_other(store: SqlStore, owner: Owner, session: str) -> None:
    await store.append(session, [user("0")], owner)
    async with following(store, session, owner) as stays:
        async with following(store, session, owner) as leaves:
            await leaves.at(Position(1))
        await store.append(session, [user("1")], owner)
        await stays.at(Position(2))
    assert len(leaves.events) == 1


async def test_a_fork_shows_its_past_and_then_its_own(store: SqlStore, owner: Owner, session: str) -> None:
    await store.append(session, [user("1"), user("2"), user("3")], owner)
    fork = await store.fork(session, 2, owner)
    async with following(store, fork, owner) as one:
        await one.at(Position(2))
        (row,) = await store.append(fork, [user("x")], owner)
        await store.append(session, [user("4")], owner)
        await one.at(Position(row.sequence))
    assert [text for _, text, _ in shown(one.events)] == ["1", "2", "x"]


async def test_a_session_that_is_deleted_ends_with_an_error(
    open_store: Open, owner: Owner, session: str
) -> None:
    here, elsewhere = await open_store(), await open_store()
    await here.append(session, [user("1")], owner)
    async with following(here, session, owner) as one, following(elsewhere, session, owner) as other:
        await one.at(Position(1))
        await other.at(Position(1))
        await here.delete(session, owner)
        for follower in (one, other):
            with pytest.raises(UnknownSession):
                await asyncio.wait_for(follower.task, 5)


async def test_closing_the_store_lets_subscribers_go(open_store: Open, owner: Owner, session: str) -> None:
    store = await open_store()
    await store.append(session, [user("1")], owner)
    async with following(store, session, owner) as one:
        await one.at(Position(1))
        cancels = asyncio.ensure_future(anext(store.cancelled("p"), None))
        await asyncio.sleep(0.05)
        await store.close()
        with pytest.raises(EngineUnavailable):
            await asyncio.wait_for(one.task, 5)
        assert await asyncio.wait_for(cancels, 5) is None


async def test_a_message_whose_writer_was_killed_ends_for_those_who_follow(
    open_store: Open, owner: Owner, session: str, url: str, raw: Callable[..., object]
) -> None:
    body = """
    writing = await store.begin(session, Message(Role.ASSISTANT), owner)
    await writing.write("half an ans")
    await asyncio.sleep(0.3)
    print("written", flush=True)
    await asyncio.sleep(60)
    """
    writer = await asyncio.create_subprocess_exec(
        *program(body), url, session, owner.subject, stdout=asyncio.subprocess.PIPE
    )
    assert writer.stdout is not None
    assert await writer.stdout.readline() == b"written\n"
    store = await open_store()
    async with following(store, session, owner) as one:
        await one.until(lambda events: bool(events))
        writer.kill()
        await writer.wait()
        raw("UPDATE processes SET until = 0 WHERE holder LIKE 'store:%'")  # as time would
        await store.append(session, [user("still there?")], owner)
        async with following(store, session, owner) as other:  # who looks finds the writer dead
            await other.at(Position(2))
        await one.at(Position(2))
    statuses = [event.message.status for event in one.events if event.message]
    assert statuses == [Status.OPEN, Status.FAILED, Status.DONE]
    assert [text for _, text, _ in shown(one.events)] == ["half an ans", "still there?"]
