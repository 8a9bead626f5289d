"""Programs in the shapes of Genesis's own: what they name, with what they pass, and what they get."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from enginehost import Host
from enginehost.databus import Client, DatabusConfig
from enginehost.engine import Call
from enginehost.errors import ConfigError
from enginehost.genesis import (
    EnhancedServiceBase,
    GenesisAgent,
    GenesisInterface,
    GenesisRPCService,
    GenesisService,
    MonitoredAgent,
    MonitoredInterface,
    MonitoredService,
    OpenAIGenesisAgent,
    genesis_function,
    genesis_tool,
    on_start,
)
from enginehost.testing.wire import Provider

from .conftest import PATIENCE, StartProgram, until
from .models import call, follows, say

SERVICE = '''
from enginehost.genesis import GenesisRPCService, genesis_tool

class TemperatureService(GenesisRPCService):
    @genesis_tool
    async def to_fahrenheit(self, celsius: float) -> float:
        """Convert degrees Celsius into degrees Fahrenheit."""
        return celsius * 9 / 5 + 32

if __name__ == "__main__":
    import asyncio
    asyncio.run(TemperatureService().run())
'''
AGENT = '''
import asyncio

from enginehost.genesis import OpenAIGenesisAgent, genesis_tool

class WardrobeAgent(OpenAIGenesisAgent):
    @genesis_tool
    async def layers(self, celsius: int) -> int:
        """How many layers of clothes to wear."""
        return max(1, 4 - celsius // 8)

    async def on_start(self):
        print("dressed", flush=True)

if __name__ == "__main__":
    asyncio.run(WardrobeAgent().run())
'''


def script(text: str, tools: list[str]) -> dict[str, Any]:
    if "Fahrenheit" in text and "to_fahrenheit" in tools:
        return call("to_fahrenheit", celsius=10)
    if "wear" in text and "layers" in tools:
        return call("layers", celsius=10)
    return say(f"heard {text}")


@pytest.mark.parametrize("decorator", ["@genesis_tool", "@genesis_tool()"])
async def test_a_service_and_an_agent_run_and_find_each_other_however_their_tools_are_decorated(
    program: StartProgram, openai: Provider, bus: Client, decorator: str
) -> None:
    openai.reacts = follows(script)
    interface = GenesisInterface("desk", "DeskService")
    service_text, agent_text = (one.replace("@genesis_tool", decorator) for one in (SERVICE, AGENT))
    async with program(service_text) as service:
        await bus.wait_for("TemperatureService.to_fahrenheit", PATIENCE)
        assert await bus.call("to_fahrenheit", {"celsius": 10}) == 50
        async with program(agent_text) as agent:
            assert await interface.connect_to_agent("WardrobeAgent", timeout_seconds=PATIENCE)
            (about,) = interface.available_agents.values()
            assert (about["prefered_name"], about["service_name"]) == ("wardrobe_agent", "WardrobeAgent")
            reply = await interface.send_request({"message": "What shall I wear?"})
            assert reply["status"] == 0
            assert reply["message"] == "It is 3."
            again = {"message": "How much is it in Fahrenheit?", "conversation_id": reply["conversation_id"]}
            assert await interface.send_request(again) == {
                "message": "It is 50.0.",
                "status": 0,
                "conversation_id": reply["conversation_id"],
            }
            history = openai.seen[-1].json()["messages"]
            assert "What shall I wear?" in str(history)  # memory is per conversation
            other = await interface.send_request({"message": "How much is it in Fahrenheit?"})
            assert other["conversation_id"] != reply["conversation_id"]
            assert "wear" not in str(openai.seen[-1].json()["messages"])
            agent.terminate()
            said, _ = await asyncio.wait_for(agent.communicate(), PATIENCE)
            assert said == b"dressed\n"
        service.terminate()
        await asyncio.wait_for(service.wait(), PATIENCE)
    await until(lambda: not interface.available_agents)
    reply = await interface.send_request({"message": "Anybody?"}, timeout_seconds=0.2)
    assert reply["status"] != 0
    assert reply["message"].startswith("Error: ")
    await interface.close()


async def test_an_agent_answers_its_own_program_directly(openai: Provider, bus: Client) -> None:
    openai.reacts = follows(script)

    class Wardrobe(OpenAIGenesisAgent):
        def __init__(self) -> None:
            super().__init__(
                model_name="small",
                agent_name="Wardrobe Helper",
                base_service_name="Wardrobe",
                description="Says what to wear.",
                enable_agent_communication=True,
            )
            self.define_capabilities(
                agent_type="SPECIALIZED_AGENT", specializations=["clothes"], classification_tags=["dress"]
            )

        @genesis_tool(description="How many layers of clothes.", operation_type="lookup")
        async def layers(self, celsius: int) -> int:
            return celsius - 7

    agent = Wardrobe()
    for _ in range(2):  # after close() it goes on the bus anew
        assert await agent.process_message("What shall I wear?") == "It is 3."
        await until(lambda: bus.agents())
        (seen,) = bus.agents()
        assert (seen.name, seen.service, seen.type) == ("Wardrobe_Helper", "Wardrobe", "SPECIALIZED_AGENT")
        assert (seen.description, seen.default_capable) == ("Says what to wear.", True)
        assert (seen.specializations, seen.tags) == (("clothes",), ("dress",))
        reply = await agent.process_request({"message": "Hi", "conversation_id": "c1"})
        assert reply == {"message": "heard Hi", "status": 0, "conversation_id": "c1"}
        assert openai.seen[-1].json()["model"] == "small"
        (tool,) = openai.seen[-1].json()["tools"]
        assert tool["function"]["description"] == "How many layers of clothes."
        await agent.close()
        await until(lambda: not bus.agents())
    openai.says(b"")
    openai.reacts = None
    reply = await agent.process_request({"message": "Hi"})
    assert reply["status"] == 1
    assert reply["message"].startswith("Error: ")
    await agent.close()


async def test_without_agent_communication_other_agents_are_no_tools(
    openai: Provider, bus: Client, dds_domain: int
) -> None:
    class Other(GenesisAgent):
        """Is asked."""

        async def process_message(self, message: str) -> str:
            return "other"

    other = asyncio.create_task(Other().run())
    await bus.wait_for("Other.other", PATIENCE)

    async def tools(talks: bool) -> list[str]:
        agent = OpenAIGenesisAgent(agent_name="asks", enable_agent_communication=talks)
        await agent.process_message("Hi")
        await agent.close()
        return [one["function"]["name"] for one in openai.seen[-1].json().get("tools", ())]

    assert await tools(False) == []
    assert len(await tools(True)) == 1
    other.cancel()
    await asyncio.gather(other, return_exceptions=True)


async def test_an_agent_without_a_key_is_not_offered(
    openai: Provider, bus: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("OPENAI_BASE_URL")
    with pytest.raises(ConfigError, match="OpenAIGenesisAgent has no key for gpt-4o") as caught:
        await OpenAIGenesisAgent().run()
    assert "OPENAI_API_KEY" in caught.value.hint
    assert bus.agents() == []


class Shop(EnhancedServiceBase):
    """In the way of the first era's larger examples."""

    def __init__(self) -> None:
        super().__init__("ShopService", capabilities=["shop", "orders"])
        self._advertise_functions()
        self.register_enhanced_function(
            self.stock,
            "How many there are.",
            {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]},
            operation_type="query",
        )

    @genesis_function(description="The price of an item.", operation_type="lookup")
    async def price(self, item: str, request_info: Any = None) -> dict[str, float]:
        assert isinstance(request_info, Call)
        return {"result": 2.5 if item == "tea" else 4.0}

    @genesis_function
    def total(self, items: list[str], factor: float = 1.0) -> float:
        """What items cost together.

        Args:
            items: their names
        """
        return factor * len(items)

    async def stock(self, item: str) -> int:
        return len(item)


async def test_functions_of_a_service_are_described_as_its_decorators_say(at_home: Any) -> None:
    async with Host(None, None) as host:
        from enginehost.catalog import EngineRecord

        await host.add_engine(EngineRecord("shop", "program"), Shop())
        found = {entry.name: entry.signature for entry in host.functions()}
        assert list(found) == ["price", "stock", "total"]
        assert found["price"].tags == ("shop", "orders", "lookup")
        assert found["stock"].tags == ("shop", "orders", "query")
        assert found["price"].description == "The price of an item."
        assert set(found["price"].properties) == {"item"}
        assert found["total"].properties["items"] == {
            "type": "array",
            "items": {"type": "string"},
            "description": "their names",
        }
        assert await host.call("price", {"item": "tea"}) == {"result": 2.5}
        assert await host.call("stock", {"item": "tea"}) == 3
        assert await host.call("total", {"items": ["a", "b"]}) == 2.0


async def test_domain_id_goes_before_the_settings(
    at_home: Any, dds_domain: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINEHOST_DATABUS__DOMAIN", "9")

    class Named(MonitoredService):
        def __init__(self) -> None:
            super().__init__("Named", ["x"], domain_id=dds_domain)

        @genesis_tool()
        def name(self) -> str:
            return self.service_name

    running = asyncio.create_task(Named().run())
    async with Client(domain=dds_domain) as bus:
        await bus.wait_for("Named.name", PATIENCE)
    async with MonitoredInterface("x", domain_id=dds_domain) as interface:
        assert not await interface.connect_to_agent("Named", timeout_seconds=0.1)  # a service is no agent
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_discovery_and_departure_callbacks_hear_of_agents(at_home: Any, dds_domain: int) -> None:
    heard: list[str] = []

    async def discovered(about: dict[str, Any]) -> None:
        heard.append(f"+{about['prefered_name']}")

    async def departed(agent_id: str) -> None:
        heard.append(f"-{len(agent_id)}")

    class One(MonitoredAgent):
        """Answers."""

        started = 0

        @on_start
        def begin(self) -> None:
            self.started += 1

        async def process_message(self, message: str) -> str:
            return str(self.started)

    async with MonitoredInterface("desk") as interface:
        interface.register_discovery_callback(discovered)
        interface.register_departure_callback(departed)
        running = asyncio.create_task(One("one", "OneService").run())
        assert await interface.connect_to_agent("OneService")
        assert (await interface.send_request({"message": "x"}))["message"] == "1"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await until(lambda: heard == ["+one", "-36"])


def test_every_name_is_there() -> None:
    assert issubclass(OpenAIGenesisAgent, MonitoredAgent)
    assert issubclass(MonitoredAgent, GenesisAgent)
    assert issubclass(MonitoredService, GenesisRPCService)
    assert issubclass(GenesisService, GenesisRPCService)
    assert issubclass(MonitoredInterface, GenesisInterface)


async def test_a_file_may_name_such_a_class(at_home: Any, dds_domain: int) -> None:
    folder = at_home / "smss"
    folder.mkdir()
    (folder / "temperature.py").write_text(SERVICE)
    (folder / "temperature.smss").write_text("ENGINE_CLASS = temperature:TemperatureService\n")
    async with Host(folder, DatabusConfig(domain=dds_domain)) as host, Client(domain=dds_domain) as bus:
        assert await host.call("to_fahrenheit", {"celsius": 0}) == 32
        await bus.wait_for("TemperatureService.to_fahrenheit", PATIENCE)
