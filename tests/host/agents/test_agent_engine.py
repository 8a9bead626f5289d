"""Agents that are files or Python classes, in a real host with a scripted model."""

from __future__ import annotations

import asyncio
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from enginehost import Agent, Caller, tool
from enginehost.agents.contract import NO_TOOLS, UnknownOutcome
from enginehost.catalog import EngineRecord
from enginehost.engine import Call
from enginehost.errors import EngineHostError, ExecutionFailed
from enginehost.host import Host
from enginehost.llm.message import Type
from enginehost.settings import HostSettings

SCRIPT = """
answers:
  - when: {text: who are you, system: pirate}
    say: Arr.
  - when: {text: add}
    reply: [{call: {tool: add, args: {a: 1, b: 2}}}]
  - when: {text: ask the other}
    reply: [{call: {tool: other, args: {message: again}}}]
  - when: {text: loop}
    reply: [{call: {tool: other, args: {message: loop}}}]
  - when: {text: wipe}
    reply: [{call: {tool: wipe, args: {}}}]
  - when: {text: cook, offers: skill}
    reply: [{call: {tool: skill, args: {name: cooking}}}]
  - when: {text: fail}
    reply: [{error: {kind: failed, status: 400, message: no luck}}]
  - when: {text: hang}
    reply: [{text: Once}, {hang: true}]
  - when: {result: '*'}
    say: "Found $result"
  - say: "Turn $turn: $text"
"""
AGENT = """
ENGINE_CLASS = Agent
FUNCTION_NAME = helper
FUNCTION_DESCRIPTION = Helps.
MODEL = actor
TOOLS = *
"""


class Folder:
    """A folder of smss files, and hosts on it."""

    def __init__(self, path: Path) -> None:
        self.path = path / "smss"
        self.path.mkdir()
        self.write("actor.smss", "ENGINE_CLASS = Scripted\nENGINE_ALIAS = actor\nSCRIPT = actor.yaml\n")
        self.write("actor.yaml", SCRIPT)
        self.write("tools.py", "def add(a: int, b: int) -> int:\n    return a + b\n")
        self.write(
            "add.smss",
            "ENGINE_CLASS = LocalPython\nPYTHON_SCRIPT_PATH = tools.py\nFUNCTION_NAME = add\n"
            'FUNCTION_DESCRIPTION = Adds.\nFUNCTION_ANNOTATIONS = {"readOnly": true}\n',
        )

    def write(self, name: str, text: str) -> Path:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text), encoding="utf-8")
        return file

    def host(self, *, watch: bool = False, **settings: Any) -> Host:
        given = HostSettings(state_dir=self.path.parent / "state", **settings)
        return Host(self.path, None, settings=given, watch=watch)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def told(host: Host, name: str) -> str:
    return "\n".join(f"{one.code} {one.message}" for one in host.problems() if name in str(one.path))


async def test_a_file_is_an_agent_and_so_a_function_for_everyone(folder: Folder) -> None:
    folder.write("helper.smss", AGENT + "STREAM = no\nINSTRUCTIONS = You are a pirate.\n")
    async with folder.host() as host:
        assert await host.call("helper", {"message": "who are you"}) == "Arr."
        assert await host.call("helper", {"message": "please add"}) == "Found 3"
        assert await host.call("helper", {"message": "one", "conversation_id": "mine"}) == "Turn 1: one"
        assert await host.call("helper", {"message": "two", "conversation_id": "mine"}) == "Turn 2: two"
        signature = host.entry("helper").signature
        assert set(signature.properties) == {"message", "conversation_id"}
        assert signature.required == ("message",)
        assert signature.description == "Helps."
        with pytest.raises(EngineHostError, match="no luck"):
            await host.call("helper", {"message": "fail"})
        other = Caller("eve")
        with pytest.raises(EngineHostError) as raised:
            await host.call("helper", {"message": "x", "conversation_id": "mine"}, caller=other)
        assert raised.value.detail["reason"] == "taken"  # which an id that nobody may have is, too


async def test_no_database_is_opened_where_no_agent_is(folder: Folder) -> None:
    async with folder.host():
        pass
    assert not (folder.path.parent / "state" / "sessions.db").exists()
    folder.write("helper.smss", AGENT)
    async with folder.host():
        assert (folder.path.parent / "state" / "sessions.db").exists()


async def test_a_stream_gives_the_answer_as_it_comes_and_leaving_it_ends_the_turn(folder: Folder) -> None:
    folder.write("helper.smss", AGENT + "STREAM = yes\n")
    async with folder.host() as host:
        pieces = [item async for item in host.stream("helper", {"message": "say some words"})]
        assert "".join(pieces) == "Turn 1: say some words"
        items = host.stream("helper", {"message": "hang", "conversation_id": "c"})
        assert await anext(items) == "Once"
        await items.aclose()
        session = await (await host.agents()).start("c", agent="helper")
        run = await session.run()
        assert run is not None
        assert (await session.wait(run)).state == "cancelled"


async def test_a_call_whose_turn_waits_for_a_person_says_so_and_the_turn_goes_on(folder: Folder) -> None:
    folder.write(
        "wipe.smss",
        "ENGINE_CLASS = Command\nFUNCTION_NAME = wipe\nFUNCTION_DESCRIPTION = Wipes.\n"
        'COMMAND = ["echo", "clean"]\nAPPROVAL = always\n',
    )
    folder.write("helper.smss", AGENT)
    async with folder.host() as host:
        with pytest.raises(ExecutionFailed, match="May wipe run") as raised:
            await host.call("helper", {"message": "wipe", "conversation_id": "w"})
        assert raised.value.detail["conversation_id"] == "w"
        (question,) = raised.value.detail["questions"]
        session = await (await host.agents()).start("w")
        run = await session.run()
        await session.approve(question["id"])
        assert (await session.wait(run)).state == "done"
        assert await session.reply(run) == 'Found "clean"'


async def test_an_agent_among_the_tools_is_asked_in_a_conversation_of_its_own(folder: Folder) -> None:
    folder.write("helper.smss", AGENT)
    folder.write("other.smss", AGENT.replace("helper", "other") + "MAX_DEPTH = 2\n")
    async with folder.host() as host:
        answer = await host.call("helper", {"message": "ask the other"})
        assert "Turn 1: again" in answer
        looped = await host.call("helper", {"message": "loop"})
        assert "Found" in looped
        assert len(await (await host.agents()).sessions(Caller("local"))) < 12


async def test_a_newer_file_takes_effect_and_a_broken_one_leaves_the_old(folder: Folder) -> None:
    folder.write("helper.smss", AGENT + "AGENT_DIR = home\n")
    folder.write("home/AGENT.md", "You are nobody.")
    async with folder.host(watch=True) as host:
        assert await host.call("helper", {"message": "who are you"}) == "Turn 1: who are you"
        folder.write("home/AGENT.md", "You are a pirate.")
        await until(host, "Arr.")
        folder.write("home/AGENT.md", "---\nname: [\n---\nYou are a baker.")
        async with asyncio.timeout(20):
            while "AGENT.md:" not in told(host, "helper"):
                await asyncio.sleep(0.05)
        assert await host.call("helper", {"message": "who are you"}) == "Arr."


async def until(host: Host, answer: str) -> None:
    async with asyncio.timeout(20):
        while await host.call("helper", {"message": "who are you"}) != answer:
            await asyncio.sleep(0.05)


async def test_agent_dir_names_describes_and_instructs(folder: Folder) -> None:
    folder.write("a.smss", "ENGINE_CLASS = Agent\nMODEL = actor\nAGENT_DIR = home\n")
    folder.write("home/AGENT.md", "---\nname: cook\ndescription: Cooks.\n---\nYou are a pirate.\n")
    folder.write("home/AGENTS.md", "other")
    folder.write("home/skills/cooking/SKILL.md", "---\ndescription: How to cook.\n---\nStir.\n")
    folder.write("home/skills/Bad/SKILL.md", "---\nname: Bad\ndescription: x\n---\nStir.\n")
    async with folder.host() as host:
        assert host.entry("cook").signature.description == "Cooks."
        assert await host.call("cook", {"message": "who are you"}) == "Arr."
        assert "Stir." in await host.call("cook", {"message": "cook"})
        problems = told(host, "a.smss")
        assert "shadowed-file home has AGENT.md and AGENTS.md" in problems
        assert "home/skills/Bad/SKILL.md:2: 'Bad' is no name of a skill" in problems


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("STAGES = budgte", "STAGES: there is no stage named 'budgte'"),
        ('STAGES = [{"budget": {"tokens": "x"}}]', "STAGES: the stage budget: tokens"),
        ("STAGES = own:stage", "would run inside the host"),
        ("AGENT_DIR = nowhere", "there is no folder nowhere"),
        ("INSTRUCTIONS = nowhere.md", "INSTRUCTIONS: nowhere.md cannot be read"),
        ("ON_UNKNOWN_OUTCOME = maybe", "ON_UNKNOWN_OUTCOME"),
        ("MAX_STEPS = 0", "MAX_STEPS"),
        ("APPROVE = none, add", "none stands alone"),
    ],
)
async def test_what_is_wrong_is_said_at_its_key(folder: Folder, lines: str, message: str) -> None:
    folder.write("helper.smss", f"{AGENT}{lines}\n")
    async with folder.host() as host:
        assert message in told(host, "helper")
        assert await host.call("add", {"a": 1, "b": 2}) == 3


async def test_stages_and_harness_of_ones_own_run_where_the_host_allows_it(folder: Folder) -> None:
    folder.write(
        "own.py",
        """
        from dataclasses import replace

        from enginehost.agents.harnesses import PatternExtraction


        def loud(mark):
            async def stage(messages, turn):
                async for message in messages:
                    yield replace(message, content=message.content.upper() + mark)

            return stage


        class Facts(PatternExtraction):
            def __init__(self):
                super().__init__({"name": r"I am (\\w+)"})
        """,
    )
    folder.write(
        "helper.smss",
        AGENT + 'STAGES = ["hide_reasoning", {"own:loud": {"mark": ""}}]\nHARNESS = own:Facts\n',
    )
    async with folder.host(in_process_python=True) as host:
        assert await host.call("helper", {"message": "hello"}) == "TURN 1: HELLO"


def test_keys_say_what_an_agent_may(tmp_path: Path) -> None:
    from enginehost.agents.config import AgentConfig

    config = AgentConfig.model_validate(
        {"tools": "a, b", "approve": ["every", "c", "d_*"], "on_unknown_outcome": "FAIL", "max_steps": 3}
    )
    assert config.selection.names == ("a", "b")
    assert not config.selection.every
    assert (config.approval.every, config.approval.tools) == (True, ("c",))
    assert config.approval_patterns == ["d_*"]
    assert config.on_unknown_outcome is UnknownOutcome.FAIL
    assert config.limits.steps == 3
    assert AgentConfig().selection == NO_TOOLS


# Python classes


class Shop(Agent):
    """Answers questions
    about orders.

    More about it.
    """

    model = "actor"
    instructions = "You are a pirate."
    tools = ("add",)

    def __init__(self, *given: Any) -> None:
        self.seen: list[str] = []
        super().__init__(*given)

    @tool(read_only=True)
    async def order(self, number: int, call: Call, copy: bool = False) -> dict[str, Any]:
        """Look up an order.

        Args:
            number: of the order
        """
        self.seen.append(call.caller.subject)
        return {"number": number, "copy": copy}

    @tool(destructive=True)
    def wipe(self) -> str:
        """Wipe."""
        return "clean"


def test_typed_methods_are_tools() -> None:
    spec = Shop().spec
    assert (spec.name, spec.description) == ("shop", "Answers questions about orders.")
    order, wipe = spec.functions
    assert order.signature.description == "Look up an order."
    assert order.signature.parameters == {
        "type": "object",
        "properties": {
            "number": {"type": "integer", "description": "of the order"},
            "copy": {"type": "boolean", "default": False},
        },
        "required": ["number"],
        "additionalProperties": False,
    }
    assert wipe.signature.annotations.destructive is True


async def test_a_class_serves_in_a_program_of_its_own(folder: Folder) -> None:
    folder.write(
        "actor.yaml", SCRIPT.replace("tool: add, args: {a: 1, b: 2}", "tool: order, args: {number: 7}")
    )
    shop = Shop()
    async with folder.host() as host:
        await host.add_engine(EngineRecord("shop", "Test"), shop)
        assert await host.call("shop", {"message": "who are you"}) == "Arr."
        answer = await host.call("shop", {"message": "add"}, caller=Caller("ann"))
        assert answer == 'Found {"number":7,"copy":false}'
        assert shop.seen == ["ann"]
        agents = await host.agents()
        session = await agents.start(agent="shop")
        run = await session.write("wipe")
        assert (await session.wait(run)).state == "paused"
        assert [row.type for row in await session.questions()] == [Type.APPROVAL]


async def test_a_file_names_a_class_whose_tools_run_in_a_process_of_their_own(folder: Folder) -> None:
    folder.write(
        "shop.py",
        '''
        import os

        from enginehost import Agent, tool


        class ShopHelper(Agent):
            """Answers questions about orders."""

            model = "nobody"
            instructions = "You are a pirate."

            @tool(read_only=True)
            def add(self, a: int, b: int) -> list[int]:
                """Add."""
                return [a + b, os.getpid()]
        ''',
    )
    folder.write("shop.smss", "ENGINE_CLASS = shop:ShopHelper\nMODEL = actor\n")
    async with folder.host() as host:
        assert [entry.name for entry in host.functions()] == ["add", "shop_helper"]
        assert await host.call("shop_helper", {"message": "who are you"}) == "Arr."
        found = await host.call("shop_helper", {"message": "add"})
        assert found.startswith("Found [3,")
        import os

        assert str(os.getpid()) not in found


async def test_turns_of_a_host_that_stops_go_on_in_the_next(folder: Folder) -> None:
    folder.write("helper.smss", AGENT)
    first = folder.host()
    await first.start()
    session = await (await first.agents()).start("s", agent="helper")
    run = await session.write("hang")
    assert run is not None
    await first.stop(0.0)
    folder.write("actor.yaml", "answers: [{say: I go on}]\n")
    async with folder.host() as host:
        session = await (await host.agents()).start("s", agent="helper")
        async with asyncio.timeout(20):
            assert (await session.wait(run)).state == "done"
        assert await session.reply(run) == "I go on"


async def test_a_database_that_cannot_be_opened_fails_the_agents_and_nothing_else(folder: Folder) -> None:
    folder.write("helper.smss", AGENT)
    (folder.path.parent / "broken.db").write_bytes(b"no database at all" * 100)
    store = {"url": f"sqlite:///{folder.path.parent / 'broken.db'}"}
    async with folder.host(store=store) as host:
        assert await host.call("add", {"a": 1, "b": 2}) == 3
        with pytest.raises(EngineHostError) as raised:
            await host.call("helper", {"message": "x"})
        assert raised.value.code == "engine_unavailable"
        assert "database" in raised.value.message


async def test_skills_of_the_folder_are_for_agents_that_name_them(folder: Folder) -> None:
    folder.write("skills/cooking/SKILL.md", "---\ndescription: How to cook.\n---\nStir.\n")
    folder.write("helper.smss", AGENT + "SKILLS = cooking, bakign\n")
    folder.write("other.smss", AGENT.replace("helper", "other"))
    async with folder.host() as host:
        assert "Stir." in await host.call("helper", {"message": "cook"})
        assert await host.call("other", {"message": "cook"}) == "Turn 1: cook"
        assert "there is no skill bakign" in told(host, "helper")


async def test_of_two_agents_of_one_name_the_one_with_the_function_answers(folder: Folder) -> None:
    folder.write("a.smss", AGENT + "INSTRUCTIONS = You are a pirate.\n")
    folder.write("b.smss", AGENT + "INSTRUCTIONS = You are a baker.\n")
    async with folder.host() as host:
        assert await host.call("helper", {"message": "who are you"}) == "Arr."
        assert list(host.agent_specs()) == ["helper"]
