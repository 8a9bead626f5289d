"""What an agent's file or class says in vain is told at its key; what is wrong in a part of it names that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from enginehost import Agent, tool
from enginehost.agents.agent_file import read_agent_file
from enginehost.agents.config import AgentConfig
from enginehost.agents.contract import Harness
from enginehost.cli.checking import check
from enginehost.diagnostics import Diagnostic
from enginehost.engine import EngineContext, make_engine
from enginehost.errors import ConfigError, EngineHostError, ExecutionFailed
from enginehost.host import Host
from enginehost.settings import HostSettings
from enginehost.store.port import RunState

HELPER = "ENGINE_CLASS = Agent\nFUNCTION_NAME = helper\nFUNCTION_DESCRIPTION = Helps.\nMODEL = actor\n"
FUNCTION = (
    "ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = tools.py\nFUNCTION_NAME = {0}\n"
    "FUNCTION_DESCRIPTION = Does.\n"
)
SCRIPT = "answers:\n  - reply: [{text: 'Half an '}, {call: {tool: add, args: {a: 1, b: 2}}}]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "smss"
    made.mkdir()
    files = {
        "actor.smss": "ENGINE_CLASS = Scripted\nENGINE_ALIAS = actor\nSCRIPT = actor.yaml\n",
        "actor.yaml": SCRIPT,
        "add.smss": FUNCTION.format("add"),
        "skill.smss": FUNCTION.format("skill"),
        "tools.py": "def add(a: int, b: int):\n    return a + b\n\n\ndef skill():\n    return 1\n",
        "helper/AGENT.md": "---\nversion: 1\nmodel: gpt\n---\nHelp.",
        "helper/skills/one/SKILL.md": "---\nname: one\ndescription: One.\n---\nOne.",
        "skills/two/SKILL.md": "---\nname: two\ndescription: Two.\n---\nTwo.",
    }
    for name, text in files.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(text)
    return made


def found_in(folder: Path, text: str, *, config: Path | None = None) -> list[Diagnostic]:
    """What is found in a file with these keys (line 5 is the first of them)."""
    (folder / "helper.smss").write_text(HELPER + text)
    return [one for one in check([folder], config, load=False)[1] if one.path.endswith("helper.smss")]


def host(folder: Path, **settings: Any) -> Host:
    return Host(
        folder, None, settings=HostSettings(state_dir=folder.parent / "state", **settings), watch=False
    )


@pytest.mark.parametrize(
    ("text", "code", "message", "hint"),
    [
        ("APPROVE = ad", "names-nothing", "APPROVE: there is no function ad", "did you mean add?"),
        ("APPROVE = evry", "names-nothing", "APPROVE: there is no function evry", "did you mean every?"),
        (
            'STAGES = [{"approval": {"tools": ["ad"]}}]',
            "names-nothing",
            "STAGES: there is no function ad",
            "add?",
        ),
        (
            'STAGES = [{"compaction": {"model": "zz"}}]',
            "names-nothing",
            "STAGES: no model engine",
            "model file",
        ),
        ("LAZY_TOOLS = nope", "names-nothing", "LAZY_TOOLS: there is no function nope", "enginehost list"),
        ("LAZY_TOOLS = add", "not-read-only", "LAZY_TOOLS: add is not read-only", "readOnly"),
        ("TOOL_TAGS = notag", "names-nothing", "TOOL_TAGS: no function has the tag notag", "FUNCTION_TAGS"),
        ("TOOLS = helper", "names-nothing", "TOOLS: an agent does not ask itself", "leave"),
        (
            "FALLBACK_MODEL = add",
            "names-nothing",
            "FALLBACK_MODEL: no model engine is called 'add'",
            "model file",
        ),
        (
            "TOOLS = *\nAGENT_DIR = helper",
            "name-taken",
            "TOOLS: the function skill is hidden",
            "another name",
        ),
        ('FUNCTION_RESULT = {"type": "integer"}', "no-effect", "FUNCTION_RESULT has no effect", "delete"),
        ("AGENT_DIR = helper", "no-effect", "helper/AGENT.md:3: model has no effect", "write MODEL"),
        ("STAGES = [5]", "bad-stage", "STAGES: entry 1 is 5, and names no stage", "budget"),
        (
            'STAGES = [{"budget": {"tokens": "x"}}]',
            "bad-stage",
            "STAGES: the stage budget: tokens has to be a whole number",
            "",
        ),
    ],
)
def test_what_names_nothing_or_does_nothing_is_told(
    folder: Path, text: str, code: str, message: str, hint: str
) -> None:
    (found,) = [one for one in found_in(folder, text) if one.code == code]
    assert found.message.startswith(message)
    assert hint in found.hint
    assert found.line in (5, 6)


def test_names_that_mean_something_are_not_told(folder: Path) -> None:
    given = "TOOLS = *\nAPPROVE = add, destructive, wipe_*\nSTAGES = hide_reasoning\nSKILLS = []\n"
    assert found_in(folder, given) == []


@pytest.mark.parametrize(
    ("written", "has"),
    [("", ["one"]), ("SKILLS = *", ["one", "two"]), ("SKILLS = two", ["two"]), ("SKILLS = []", [])],
)
async def test_skills_are_those_of_its_folder_or_all_or_those_that_are_named(
    folder: Path, written: str, has: list[str]
) -> None:
    (folder / "helper.smss").write_text(f"{HELPER}AGENT_DIR = helper\n{written}\n")
    async with host(folder) as running:
        agents = await running.agents()
        session = await agents.start(agent="helper")
        functions = [one for one in session.spec.functions if one.signature.name == "skill"]
    names = functions[0].signature.parameters["properties"]["name"]["enum"] if functions else []
    assert names == has


def test_front_matter_is_told_at_the_files_own_lines(tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").write_text("---\nname: a\nname: b\n---\nText.")
    with pytest.raises(ConfigError, match="given twice, first on line 2") as raised:
        read_agent_file(tmp_path)
    assert raised.value.line == 3
    (tmp_path / "AGENT.md").write_text("---\nname: a b/c\n---\nText.")
    with pytest.raises(ConfigError, match="'a b/c' is no name"):
        read_agent_file(tmp_path)


# limits


@pytest.mark.parametrize("stream", ["no", "yes"])
async def test_a_call_whose_turn_ends_at_a_limit_fails_with_what_was_said(folder: Path, stream: str) -> None:
    (folder / "helper.smss").write_text(f"{HELPER}TOOLS = add\nMAX_STEPS = 1\nSTREAM = {stream}\n")
    async with host(folder) as running, asyncio.timeout(40):
        with pytest.raises(ExecutionFailed, match="used up the 1 steps") as raised:
            await running.call("helper", {"message": "x", "conversation_id": "mine"})
    detail = raised.value.detail
    assert (detail["reason"], detail["text"], detail["conversation_id"]) == ("limit", "Half an ", "mine")


# classes


class Shop(Agent):
    aprove = ("x",)
    instruction = "Sell."
    MAX_STEPS = 1
    stock = 5

    @tool
    def add(self, n: int) -> int:
        return n


def test_attributes_that_are_nearly_a_key_are_told() -> None:
    assert [one.partition(" has no effect; did you mean ")[::2] for one in Shop().doubts] == [
        ("Shop.aprove", "approve?"),
        ("Shop.instruction", "instructions?"),
        ("Shop.MAX_STEPS", "max_steps?"),
    ]


async def test_a_class_in_a_process_of_its_own_says_what_of_it_does_nothing(folder: Path) -> None:
    text = 'from enginehost import Agent, tool\n\n\nclass Shop(Agent):\n    """Sells."""\n\n    {0}\n'
    (folder / "shop.smss").write_text("ENGINE_CLASS = shop:Shop\n")
    (folder / "shop.py").write_text(text.format('aprove = ["x"]; model = "actor"'))
    async with host(folder) as running:
        reasons = {one.title: one.shown_reason for one in running.catalog.records.values()}
    assert reasons["shop.smss"] == "Shop.aprove has no effect; did you mean approve?"
    for wrong, told in (
        ("model = 5", "Shop.model: has to be text"),
        ("def __init__(self, shop): pass", "Shop cannot be made: it takes (shop)"),
        ("def __init__(self): pass", "the constructor of Shop leaves out its base class's"),
    ):
        (folder / "shop.py").write_text(text.format(wrong))
        async with host(folder) as running:
            reasons = {one.title: one.shown_reason for one in running.catalog.records.values()}
        assert told in reasons["shop.smss"]
        assert "pydantic" not in reasons["shop.smss"]


def test_names_that_hide_each_other_are_told(folder: Path) -> None:
    from enginehost.agents.missing import Surroundings, missing

    class Selling(Shop):
        tools = "add"
        agents = "add"

    spec = Selling().spec
    (entry,) = spec.functions
    around = Surroundings(lambda name: "", {"add": entry.signature}.get, lambda tag: True, {"add"})
    told = {one.key: one.message for one in missing(spec, around) if one.code == "name-taken"}
    assert told == {
        "TOOLS": "TOOLS: the function add is hidden by the agent's own tool",
        "AGENTS": "AGENTS: the agent add hides a tool of the same name",
    }


def test_an_engine_class_that_takes_something_else_is_told_what_it_is_given() -> None:
    class Own(Agent):
        def __init__(self, shop: str) -> None:
            super().__init__()

    with pytest.raises(ConfigError, match=r"Own cannot be made: it takes \(shop") as raised:
        make_engine(Own, EngineContext("own"), AgentConfig())
    assert "def __init__(self, context, config)" in raised.value.hint


# stages and harnesses of one's own


async def coroutine(messages: Any, turn: Any) -> int:
    return 5


def plain(messages: Any, turn: Any) -> int:
    return 5


def generator(messages: Any, turn: Any) -> Iterator[int]:
    yield 5


def factory() -> Any:
    return numbers


async def numbers(messages: AsyncIterator[Any], turn: Any) -> AsyncIterator[Any]:
    async for _ in messages:
        yield 5


async def breaks(messages: AsyncIterator[Any], turn: Any) -> AsyncIterator[Any]:
    async for message in messages:
        yield message.nothing


@pytest.mark.parametrize(
    ("stage", "told"),
    [
        (coroutine, "coroutine is no stage: it is a coroutine"),
        (generator, "generator is no stage: it is no async generator"),
        (factory, "factory is no stage: it takes ()"),
    ],
)
def test_what_can_be_no_stage_is_refused_when_it_is_read(stage: Any, told: str) -> None:
    class Staged(Agent):
        stages = (stage,)

    with pytest.raises(ConfigError) as raised:
        Staged()
    assert f"STAGES: {told}" in raised.value.message


def test_a_function_that_is_no_stage_is_refused_in_a_file(folder: Path) -> None:
    allowing = folder.parent / "host.yaml"
    allowing.write_text("in_process_python: true\n")
    (found,) = found_in(folder, "STAGES = os:system", config=allowing)
    assert (found.code, found.line) == ("bad-stage", 5)
    assert found.message.startswith("STAGES: os:system is no stage: it takes (command)")


class Names(Harness):
    async def tools(self, session: Any) -> Any:
        return ["add"]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"stages": (plain,)}, "STAGES: the stage plain is no async generator of messages: it gave a int"),
        ({"stages": (numbers,)}, "STAGES: the stage numbers gave a int, and no Message"),
        ({"stages": (breaks,)}, "STAGES: the stage breaks failed: AttributeError"),
        ({"context_stages": (breaks,)}, "CONTEXT_STAGES: the stage breaks failed: AttributeError"),
        ({"harness": Names()}, "HARNESS: Names.tools gave a str, and no Tool"),
    ],
)
async def test_a_turn_that_fails_by_a_stage_or_a_harness_names_it(
    world: Any, kit: Any, spec: dict[str, Any], told: str
) -> None:
    await world.start(**spec)
    world.model.answers = [kit.text("Hello.")]
    _, run = await world.said()
    assert run.state is RunState.FAILED
    assert run.error["message"].startswith(told)


async def test_an_error_of_the_model_passes_a_stage_as_it_is(world: Any, kit: Any) -> None:
    async def passing(messages: AsyncIterator[Any], turn: Any) -> AsyncIterator[Any]:
        async for message in messages:
            yield message

    await world.start(stages=(passing,))
    world.model.answers = [[EngineHostError("no luck")]]
    _, run = await world.said()
    assert run.error["message"] == "no luck"
