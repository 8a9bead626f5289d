"""The example harnesses: what a scripted model gets to see, and that it stays the same from step to step."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from enginehost.agents.contract import AgentSpec, Harness, ToolSelection
from enginehost.agents.harnesses import (
    EmbeddingSearch,
    KnowledgeGraph,
    LiveTables,
    PatternExtraction,
    PromptRewriting,
)
from enginehost.agents.word_search import Words
from enginehost.catalog import EngineRecord
from enginehost.engine import AbstractFunctionEngine, Annotations, EngineContext, Function, FunctionSignature
from enginehost.host import Host
from enginehost.llm.message import Message, Role, Type
from enginehost.settings import HostSettings

SCRIPT = """
answers:
  - when: {system: You sum up}
    say: summary
  - when: {system: Rewrite}
    say: How tall is the Eiffel Tower?
  - when: {text: look}
    reply: [{call: {tool: stock, args: {}}}]
  - when: {result: '*'}
    say: "Seen $result"
  - say: "I read: $text"
"""
SEEN: list[list[Message]] = []


async def spy(messages: AsyncIterator[Message], turn: Any) -> AsyncIterator[Message]:
    """A stage that keeps what the model is shown."""
    rows: list[Message] = []
    SEEN.append(rows)
    async for message in messages:
        rows.append(message)
        yield message


class Stock(AbstractFunctionEngine):
    """A table that changes each time it is asked."""

    number = 0

    def functions(self) -> tuple[Function, ...]:
        return (
            Function(
                FunctionSignature("stock", "The stock.", annotations=Annotations(read_only=True)), self.run
            ),
        )

    async def run(self, arguments: dict[str, Any], call: Any) -> dict[str, int]:
        self.number += 1
        return {"apples": self.number}


@asynccontextmanager
async def talking(folder: Path, harness: Harness, **spec: Any) -> AsyncIterator[Any]:
    """Says things to an agent with this harness; gives what its model saw last, without the instructions."""
    smss = folder / "smss"
    smss.mkdir()
    (smss / "actor.smss").write_text("ENGINE_CLASS = Scripted\nENGINE_ALIAS = actor\nSCRIPT = actor.yaml\n")
    (smss / "actor.yaml").write_text(SCRIPT)
    SEEN.clear()
    async with Host(smss, None, settings=HostSettings(state_dir=folder), watch=False) as host:
        await host.add_engine(EngineRecord("stock", "Test"), Stock(EngineContext("stock")))
        agents = await host.agents()
        agents.register(
            AgentSpec(
                "helper", model="actor", instructions="Help.", harness=harness, context_stages=(spy,), **spec
            )
        )
        session = await agents.start(agent="helper")

        async def say(text: str) -> list[Message]:
            run = await session.write(text)
            assert run is not None
            assert (await session.wait(run)).state == "done"
            return SEEN[-1]

        yield say


def texts(rows: Sequence[Message]) -> list[str]:
    return [row.content for row in rows if row.type is Type.TEXT]


DOCUMENTS = ["Cats sleep a lot.", "The Eiffel Tower stands in Paris.", "Bread is baked from flour."]


async def test_words_find_passages_where_there_is_no_model_for_them(tmp_path: Path) -> None:
    async with talking(tmp_path, EmbeddingSearch(DOCUMENTS, top=1)) as say:
        shown = texts(await say("Where is the Eiffel tower?"))
        assert shown[-2].endswith("[1] The Eiffel Tower stands in Paris.")
        assert shown[-1] == "Where is the Eiffel tower?"
        shown = texts(await say("zzz"))
        assert not any("Passages" in text for text in shown[2:]), "nothing is near"


async def test_vectors_find_passages_and_are_made_once(tmp_path: Path) -> None:
    asked: list[int] = []

    async def embed(given: Sequence[str]) -> list[list[float]]:
        asked.append(len(given))
        return [[float("cat" in text.lower()), float("bread" in text.lower()), 0.1] for text in given]

    async with talking(tmp_path, EmbeddingSearch(DOCUMENTS, embed, top=1)) as say:
        assert texts(await say("my cat"))[0].endswith("[1] Cats sleep a lot.")
        assert "Bread" in texts(await say("old bread"))[-2]
    assert asked == [3, 1, 1]


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    drawn = random.Random(1)
    common = [" ".join(drawn.choices(["the", "a", "house", "tree"], k=20)) for _ in range(50)]
    scores = Words([*common, "the only zebra"]).scores("the zebra")
    assert scores.index(max(scores)) == 50
    assert Words([]).scores("a") == []


async def test_facts_that_patterns_find_are_shown_the_last_one_counts(tmp_path: Path) -> None:
    harness = PatternExtraction({"name": r"I am (\w+)", "order": r"#\d+"})
    async with talking(tmp_path, harness) as say:
        assert texts(await say("hello")) == ["hello"]
        assert texts(await say("I am Ann, it is #12"))[-2].endswith('{"name":"Ann","order":"#12"}')
        assert texts(await say("no, #13"))[-2].endswith('{"name":"Ann","order":"#13"}')


async def test_tables_are_shown_as_they_are_now_and_not_stored(tmp_path: Path) -> None:
    harness = LiveTables({"stock": ("stock", {})})
    async with talking(tmp_path, harness, tools=ToolSelection(names=("stock",))) as say:
        first = await say("hi")
        kinds = [row.type for row in first]
        assert kinds == [Type.TOOL_CALL, Type.TOOL_RESULT, Type.TEXT]
        assert first[1].content == '{"apples":1}'
        second = await say("again")
        assert [row.content for row in second if row.type is Type.TOOL_RESULT] == ['{"apples":2}']


async def test_what_a_graph_knows_of_the_named_things_is_shown(tmp_path: Path) -> None:
    triples = [
        ("Paris", "capital of", "France"),
        ("Eiffel Tower", "stands in", "Paris"),
        ("France", "part of", "Europe"),
        ("Rome", "capital of", "Italy"),
    ]
    async with talking(tmp_path, KnowledgeGraph(triples)) as say:
        shown = texts(await say("How tall is the eiffel tower?"))[-2]
        assert shown.endswith("Eiffel Tower — stands in → Paris")
        assert texts(await say("comparison"))[-1] == "comparison"
    further = KnowledgeGraph(triples, depth=3)
    assert further.around(["Eiffel Tower"]) == [triples[1], triples[0], triples[2]]
    assert len(KnowledgeGraph(triples, depth=3, most=2).around(["Paris"])) == 2
    assert KnowledgeGraph([]).things("anything") == []


async def test_a_rewritten_question_is_shown_and_the_users_own_is_kept(tmp_path: Path) -> None:
    async with talking(tmp_path, PromptRewriting()) as say:
        assert texts(await say("I like the Eiffel Tower.")) == ["I like the Eiffel Tower."]
        shown = texts(await say("How tall is it?"))
        assert shown[-1] == "How tall is the Eiffel Tower?"
        again = await say("look")
        assert "How tall is the Eiffel Tower?" in texts(again)
        assert all(row.type is not Type.DATA for row in again)


async def test_all_steps_of_a_turn_see_the_same_beginning(tmp_path: Path) -> None:
    harness = EmbeddingSearch(DOCUMENTS)
    async with talking(tmp_path, harness, tools=ToolSelection(names=("stock",))) as say:
        await say("look at the tower")
    before, after = SEEN
    assert after[: len(before)] == before
    assert [row.role for row in before] == [Role.USER, Role.USER]
