"""Long stretches of plain texts come from the database as the JSON that the rows would have made."""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from enginehost.agents.context import batches_for_model
from enginehost.agents.rows import Question, notice, question
from enginehost.errors import InvalidRequest
from enginehost.llm.body import Writer, written
from enginehost.llm.input import rows_of
from enginehost.llm.message import Message, Role, Status, Type, system, user
from enginehost.llm.model import ModelRequest
from enginehost.llm.passage import Batch, Context, Passage, PlainForm, each
from enginehost.store import passages
from enginehost.store.chain_tables import chain_metadata
from enginehost.store.port import Owner
from enginehost.store.sql import SqlStore

for name in ("openai", "anthropic", "bedrock"):
    sys.path.append(str(Path(__file__).parents[3] / f"plugins/enginehost-{name}/src"))
from enginehost_anthropic.rows import Rows as AnthropicWriter  # noqa: E402
from enginehost_bedrock.rows import Rows as BedrockWriter  # noqa: E402
from enginehost_openai.chat_body import ChatWriter  # noqa: E402
from enginehost_openai.responses_body import ResponsesWriter  # noqa: E402
from enginehost_openai.tools import Tools  # noqa: E402

REQUEST = ModelRequest("m")
WRITERS: dict[str, Callable[[], Writer]] = {
    "chat": lambda: ChatWriter(Tools(REQUEST, "openai"), return_reasoning=True),
    "responses": lambda: ResponsesWriter(Tools(REQUEST, "openai-responses"), "m"),
    "anthropic": lambda: AnthropicWriter(REQUEST),
    "bedrock": lambda: BedrockWriter(REQUEST, True),
}
FORM = ChatWriter.plain
TEXTS = st.one_of(
    st.sampled_from(
        [
            "a",
            "",
            " \n",
            'he said "no", {"content":"x"}',
            "\0\x1f\\",
            "ä€😀",
            "\ud800x",
            '"content":"',
            "x" * 5000,
        ]
    ),
    st.text(max_size=12),
)
QUERIES = st.sampled_from([None, {"step": 1}, {"content": "ä"}, {"big": 1 << 70}])


class World:
    """A store, the loop that it lives on, and sessions in it."""

    def __init__(self, runner: asyncio.Runner, store: SqlStore) -> None:
        self.run, self.store = runner.run, store
        self.owner = Owner(f"ada-{uuid.uuid4().hex}", "acme")

    async def session(self, rows: list[Message]) -> str:
        session = f"s-{uuid.uuid4().hex}"
        await self.store.append(session, rows, self.owner)
        return session

    def context(self, session: str, form: PlainForm | None) -> AsyncGenerator[Batch, None]:
        return batches_for_model(self.store.batches(session, self.owner, form), lazily)

    async def body(self, session: str, writer: Writer, *, passages: bool) -> bytes | str:
        """What a provider is sent, or why nothing is."""
        context = Context(lambda form: self.context(session, form if passages else None))
        with rows_of(context) as rows:
            try:
                return b"".join([chunk async for chunk in written(b"{", rows, writer, b"}")])
            except InvalidRequest as error:
                return error.message

    async def batches(self, session: str, form: PlainForm | None = FORM) -> list[Batch]:
        return [batch async for batch in self.store.batches(session, self.owner, form)]


async def lazily(row: Message) -> str:
    return '"lazy"'


@pytest.fixture
def world(url: str) -> Iterator[World]:
    with asyncio.Runner() as runner:
        store = SqlStore(url)
        runner.run(store.open())
        yield World(runner, store)
        runner.run(store.close())


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces and passages of a few rows."""
    for name, value in (("_FEWEST", 2), ("_MOST", 5), ("_SIZE", 600)):
        monkeypatch.setattr(passages, name, value)


def said(role: Role, content: str, query: Any = None) -> Message:
    return Message(role, content=content, query=query)


def in_turns(texts: list[str], query: Any, first: int) -> list[Message]:
    roles = (Role.USER, Role.ASSISTANT)
    return [said(roles[(number + first) % 2], text, query) for number, text in enumerate(texts)]


def called(name: str, content: str) -> list[Message]:
    name += uuid.uuid4().hex
    query = {"tool": "t", "id": name, "step": 1}
    return [
        Message(Role.ASSISTANT, Type.TOOL_CALL, query=query | {"args": {}}),
        Message(Role.TOOL, Type.TOOL_RESULT, content, query),
    ]


TURNS = st.builds(in_turns, st.lists(TEXTS, min_size=1, max_size=9), QUERIES, st.integers(0, 1))
ROLES = st.sampled_from([Role.USER, Role.ASSISTANT])
OTHERS = st.one_of(
    st.builds(called, st.just("c"), TEXTS),
    st.builds(lambda rows: rows[:1], st.builds(called, st.just("open"), TEXTS)),
    TEXTS.map(lambda text: [Message(Role.ASSISTANT, Type.REASONING, text, {"step": 1}, {"x": 1})]),
    st.builds(
        lambda role, text, status: [replace(said(role, text), status=status)],
        ROLES,
        TEXTS,
        st.sampled_from([Status.FAILED, Status.CANCELLED]),
    ),
    st.just([notice("so it is")]),
    st.just([question(Question.APPROVAL, "c", "May it?")]),
    st.just([said(Role.USER, "long " * 20_000)]),
    TEXTS.map(lambda text: [Message(Role.ASSISTANT, Type.DATA, text)]),
    TEXTS.map(lambda text: [system(text)]),
    st.builds(lambda n: [Message(Role.USER, Type.COMPACTION, "so far", {"upto": n})], st.integers(0, 9)),
)
ROWS = st.lists(st.one_of(TURNS, TURNS, OTHERS), min_size=1, max_size=6).map(
    lambda runs: [row for run in runs for row in run]
)


@settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(rows=ROWS, later=ROWS, at=st.integers(1, 20))
def test_a_body_with_passages_is_the_body_of_the_rows(
    world: World, small: None, rows: list[Message], later: list[Message], at: int
) -> None:
    async def check() -> None:
        session = await world.session(rows)
        fork = await world.store.fork(session, min(at, len(rows)), world.owner)
        await world.store.append(fork, later, world.owner)
        for name in (session, fork):
            for make in WRITERS.values():
                found = [await world.body(name, make(), passages=one) for one in (True, False)]
                assert found[0] == found[1]
            given_ = [await world.batches(name, form) for form in (FORM, None)]
            assert await _all(given_[0]) == await _all(given_[1])

    world.run(check())


async def _all(batches: list[Batch]) -> list[Message]:
    async def source() -> AsyncGenerator[Batch, None]:
        for batch in batches:
            yield batch

    return [row async for row in each(source())]


def test_a_long_talk_is_mostly_passages_between_messages(world: World) -> None:
    async def check() -> None:
        rows = [system("be kind"), *in_turns(["hello"] * 5000, None, 0)]
        batches = await world.batches(await world.session(rows))
        alone = sum(len(batch) for batch in batches if not isinstance(batch, Passage))
        assert alone < 300
        for number, batch in enumerate(batches):
            if isinstance(batch, Passage):
                assert not isinstance(batches[number - 1], Passage)
                assert not isinstance(batches[number + 1], Passage)

    world.run(check())


def test_what_was_written_as_it_came_is_in_a_passage_too(world: World) -> None:
    async def check() -> None:
        session = await world.session([user("a")])
        for role in (Role.ASSISTANT, Role.USER) * 3:
            writing = await world.store.begin(session, Message(role), world.owner)
            await writing.write('"ä')
            await writing.write('\\"')
            await writing.finish()
        await world.store.append(session, [said(Role.ASSISTANT, "end")], world.owner)
        (passage,) = [one for one in await world.batches(session) if isinstance(one, Passage)]
        assert b"".join(passage.texts).count(b'"\\"\xc3\xa4\\\\\\""') == 6

    world.run(check())


def test_where_a_call_is_open_a_passage_comes_as_messages(world: World) -> None:
    async def check() -> None:
        opened = called("c", "")[0]
        session = await world.store.fork(await world.session([opened]), 1, world.owner)
        await world.store.append(session, in_turns(list("abcdef"), None, 0), world.owner)
        found = [batch async for batch in world.context(session, FORM)]
        assert not any(isinstance(batch, Passage) for batch in found)
        assert any(isinstance(batch, Passage) for batch in await world.batches(session))

    world.run(check())


def test_a_context_that_is_left_half_read_lets_go(world: World) -> None:
    async def check() -> None:
        session = await world.session(in_turns(["x" * 200] * 9000, None, 0))
        body = written(
            b"",
            Context(partial(world.context, session)),
            ChatWriter(Tools(REQUEST, "openai"), return_reasoning=False),
        )
        async for _ in body:
            break
        before = asyncio.all_tasks()
        await body.aclose()
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert len(left) < len(before - {asyncio.current_task()})
        assert not [task for task in left if "Readers.run" in repr(task.get_coro())]

    world.run(check())


def test_rows_from_before_the_column_are_read_as_messages(
    tmp_path: Path, url: str, raw: Callable[..., Any]
) -> None:
    """A database of the first version, with rows in it, is brought up to date."""
    rows = in_turns(list("abcdefgh"), None, 0)
    with asyncio.Runner() as runner:
        first = World(runner, SqlStore(url))
        runner.run(first.store.open())
        session = runner.run(first.session(rows))
        runner.run(first.store.close())
        raw("ALTER TABLE messages DROP COLUMN text_at")
        for table in chain_metadata.sorted_tables:
            raw(f"DROP TABLE {table.name}")
        raw("UPDATE alembic_version SET version_num = 's0001'")
        second = World(runner, SqlStore(url))
        second.owner = first.owner
        runner.run(second.store.open())
        runner.run(second.store.append(session, in_turns(list("ijklmn"), None, 0), second.owner))
        batches = runner.run(second.batches(session))
        read = runner.run(_all(batches))
        runner.run(second.store.close())
    assert [row.content for row in read] == list("abcdefghijklmn")


def test_a_form_ends_the_object_of_its_text() -> None:
    with pytest.raises(ValueError, match="brace"):
        PlainForm((b"[", b"]"), (b"{", b"}"))
