"""An agent as a class that runs alone, and what it needs of a folder or of a model it makes."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from enginehost import Agent, Host, HostSettings, Interface, tool
from enginehost.databus import AgentChange, DatabusConfig
from enginehost.errors import ConfigError, ExecutionFailed, UnknownFunction
from enginehost.genesis import GenesisAgent
from enginehost.testing.wire import Provider

from .conftest import PATIENCE, StartProgram, until
from .models import call, follows, say

CLERK = "ENGINE_CLASS = Scripted\nENGINE_ALIAS = clerk\nSCRIPT = clerk.yaml\n"
SCRIPT = """
answers:
  - when: {result: price}
    say: It costs $result.
  - when: {text: cost, offers: price}
    reply:
      - call: {tool: price, args: {number: 7}}
  - say: I am the clerk.
"""
SHOP = '''
import asyncio
from enginehost import Agent, tool


class ShopHelper(Agent):
    """Answers questions about orders."""

    model = "clerk"
    service_name = "Shop"
    specializations = ["orders"]
    default_capable = True
    stream = True

    async def on_start(self) -> None:
        self.prices = {7: 19.9}

    @tool(read_only=True)
    def price(self, number: int) -> float:
        """Look up the price of an article."""
        return self.prices[number]


if __name__ == "__main__":
    asyncio.run(ShopHelper().run())
'''


def folder_in(home: Path) -> Path:
    folder = home / "smss"
    folder.mkdir()
    (folder / "clerk.smss").write_text(CLERK)
    (folder / "clerk.yaml").write_text(SCRIPT)
    return folder


async def test_an_agent_alone_takes_its_model_from_the_folder_that_the_environment_names(
    program: StartProgram, at_home: Path, dds_domain: int
) -> None:
    async with (
        Interface(domain=dds_domain) as ui,
        program(SHOP, ENGINEHOST_FOLDER=str(folder_in(at_home))) as process,
    ):
        agent = await ui.wait_for("Shop", PATIENCE)
        assert (agent.name, agent.service, agent.default_capable) == ("shop_helper", "Shop", True)
        assert agent.description == "Answers questions about orders."
        assert agent.specializations == ("orders",)
        assert await ui.ask("What does it cost?", "get_orders_info") == "It costs 19.9."
        pieces = [piece async for piece in ui.stream("Hello", agent)]
        assert "".join(pieces) == "I am the clerk."
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
        await until(lambda: not ui.agents)


async def test_the_same_class_is_an_agent_of_a_host_whose_tools_run_in_a_worker(
    at_home: Path, dds_domain: int
) -> None:
    folder = folder_in(at_home)
    (folder / "shop.py").write_text(SHOP)
    (folder / "shop.smss").write_text("ENGINE_CLASS = shop:ShopHelper\n")
    async with Host(folder, DatabusConfig(domain=dds_domain)) as host, Interface(domain=dds_domain) as ui:
        assert await host.call("shop_helper", {"message": "What does it cost?"}) == ["It costs 19.9."]
        agent = await ui.wait_for("Shop", PATIENCE)
        assert agent.function == "Shop.shop_helper"
        assert await ui.ask("Hello", agent) == "I am the clerk."


class Made(Agent):
    """Has a model of its own."""

    model_engine = {"ENGINE_CLASS": "OpenAI", "MODEL": "small", "LIST_MODELS": "false", "API_KEY": "sk-own"}  # noqa: RUF012
    tools = "*"

    @tool
    async def double(self, number: int) -> int:
        """Double a number."""
        return 2 * number


async def test_an_agent_alone_makes_the_model_that_its_keys_describe(
    openai: Provider, dds_domain: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    openai.reacts = follows(lambda text, tools: call("double", number=4) if "double" in tools else say("no"))
    keys = Made.model_engine | {"BASE_URL": f"{openai.url}/v1"}
    monkeypatch.setattr(Made, "model_engine", keys)
    async with Interface(domain=dds_domain) as ui:
        running = asyncio.create_task(Made().run())
        assert await ui.ask("Double four", "made") == "It is 8."
        assert openai.seen[-1].headers["authorization"] == "Bearer sk-own"
        assert openai.seen[-1].json()["model"] == "small"
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"ENGINE_CLASS": "Nobodys"}, "Nobodys"),
        ({"ENGINE_CLASS": "LocalPython"}, "is no model"),
        ({"ENGINE_CLASS": "Scripted"}, "SCRIPT"),
    ],
)
async def test_a_model_that_cannot_be_made_keeps_the_agent_off_the_bus(
    at_home: Path, dds_domain: int, monkeypatch: pytest.MonkeyPatch, keys: Any, says: str
) -> None:
    monkeypatch.setattr(Made, "model_engine", keys)
    with pytest.raises(ConfigError, match=says):
        await Made().run()


class Parrot(GenesisAgent):
    """Says it again."""

    specializations = ["speech"]  # noqa: RUF012

    async def process_message(self, message: str) -> str:
        if "fail" in message:
            raise ExecutionFailed("it has a cold")
        return message.upper()


class Counting(GenesisAgent):
    """Counts what was said in a conversation."""

    def __init__(self) -> None:
        super().__init__("counting", "Counters")
        self.said: dict[str, int] = {}

    async def process_request(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["message"] == "fail":
            return {"message": "Error: it fails", "status": 1, "conversation_id": ""}
        conversation = request.get("conversation_id", "")
        self.said[conversation] = self.said.get(conversation, 0) + 1
        return {"message": f"{self.said[conversation]}", "status": 0, "conversation_id": conversation}


async def test_an_agent_may_answer_itself_without_a_model(at_home: Path, dds_domain: int) -> None:
    async with Interface(domain=dds_domain) as ui:
        running = [asyncio.create_task(one.run()) for one in (Parrot(), Counting())]
        assert await ui.ask("hello", "parrot") == "HELLO"
        with pytest.raises(ExecutionFailed, match="it has a cold"):
            await ui.ask("fail", "parrot")
        assert [await ui.ask("x", "counting", one) for one in ("a", "a", "b")] == ["1", "2", "1"]
        with pytest.raises(ExecutionFailed, match="it fails"):
            await ui.ask("fail", "Counters")
        with pytest.raises(UnknownFunction, match=r"no agent 'nobody' .* there is counting, parrot"):
            await ui.ask("x", "nobody", timeout=0.1)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def test_one_that_answers_itself_does_so_in_a_worker_too(at_home: Path, dds_domain: int) -> None:
    folder = folder_in(at_home)
    (folder / "parrot.py").write_text(
        "from enginehost.genesis import GenesisAgent\n\n\nclass Parrot(GenesisAgent):\n"
        '    """Says it again."""\n\n    def __init__(self):\n        super().__init__("parrot", "Birds")\n\n'
        "    async def process_message(self, message):\n        return message.upper()\n"
    )
    (folder / "parrot.smss").write_text("ENGINE_CLASS = parrot:Parrot\n")
    async with Host(folder, DatabusConfig(domain=dds_domain)) as host, Interface(domain=dds_domain) as ui:
        assert await host.call("parrot", {"message": "hi"}) == "HI"
        assert await ui.ask("hello", "Birds") == "HELLO"


async def test_arrivals_and_departures_are_told_as_they_happen(at_home: Path, dds_domain: int) -> None:
    heard: list[str] = []

    async def later(agent: Any) -> None:
        heard.append(f"-{agent.name}")

    def broken(agent: Any) -> None:
        raise OSError("no")

    async with Interface(domain=dds_domain) as ui:
        ui.on_arrival(broken)
        ui.on_arrival(lambda agent: heard.append(f"+{agent.name}"))
        ui.on_departure(later)
        first = asyncio.create_task(Parrot().run())
        await ui.wait_for("parrot", PATIENCE)
        events = ui.arrivals()
        event = await anext(events)
        assert (event.kind, event.agent.name) == (AgentChange.ARRIVED, "parrot")
        second = asyncio.create_task(Counting().run())
        event = await asyncio.wait_for(anext(events), PATIENCE)
        assert (event.kind, event.agent.name) == (AgentChange.ARRIVED, "counting")
        first.cancel()
        event = await asyncio.wait_for(anext(events), PATIENCE)
        assert (event.kind, event.agent.name) == (AgentChange.DEPARTED, "parrot")
        await events.aclose()
        await until(lambda: heard == ["+parrot", "+counting", "-parrot"])
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)


async def test_a_question_that_names_no_agent_goes_where_it_belongs(at_home: Path, dds_domain: int) -> None:
    class Weather(Parrot):
        """Knows the weather: rain, wind and temperatures."""

        specializations = ["weather"]  # noqa: RUF012

    class Desk(Parrot):
        """Answers whatever comes."""

        default_capable = True

    running = [asyncio.create_task(one().run()) for one in (Parrot, Weather)]
    async with Interface(domain=dds_domain) as ui:
        for name in ("parrot", "weather"):
            await ui.wait_for(name, PATIENCE)
        assert (await ui.choose("How much rain falls tomorrow?")).name == "weather"
        running.append(asyncio.create_task(Desk().run()))
        await ui.wait_for("desk", PATIENCE)
        assert (await ui.choose("How much rain falls tomorrow?")).name == "desk"
    async with Interface(domain=dds_domain, classifier=lambda text, agents: agents[-1]) as ui:
        await ui.wait_for("desk", PATIENCE)
        assert (await ui.choose("anything")).name == "desk"
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def test_settings_of_a_program_go_before_those_of_the_environment(
    at_home: Path, dds_domain: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINEHOST_DATABUS__DOMAIN", "9")
    settings = HostSettings(state_dir=at_home / "own", databus={"domain": dds_domain})
    running = asyncio.create_task(Parrot().run(settings=settings))
    async with Interface(settings=settings) as ui:
        assert await ui.ask("hello", "parrot") == "HELLO"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
