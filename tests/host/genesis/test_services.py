"""A service alone in a process of its own, and inside a host."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from enginehost import Host, HostSettings, Service, tool
from enginehost.databus import Client, DatabusConfig
from enginehost.errors import (
    CallTimeout,
    ConfigError,
    ExecutionFailed,
    InvalidArguments,
)
from enginehost.testing import engine_registry

from .calculator import CalculatorService
from .conftest import PATIENCE, StartProgram, until

CALCULATOR = Path(__file__).with_name("calculator.py")
NAMES = {"add", "mirror", "count", "slowly", "divide", "hang", "sleep", "started", "who"}
SMSS = "ENGINE_CLASS = calculator:CalculatorService\n"


async def test_a_service_alone_is_called_by_clients_and_hosts(
    program: StartProgram, bus: Client, dds_domain: int
) -> None:
    async with program(CALCULATOR) as process:
        found = await bus.wait_for("CalculatorService.add", PATIENCE)
        assert found.description == "Add two numbers."
        assert found.properties["b"] == {"type": "integer", "description": "the second"}
        assert found.tags == ("math",)
        assert await bus.call("CalculatorService.add", {"a": 1, "b": 2}) == 3
        assert await bus.call("mirror", {"point": {"x": 1}}) == {"x": -1, "y": 0}
        assert [item async for item in bus.stream("count", {"up_to": 3})] == [0, 1, 2]
        assert await bus.call("slowly", {"words": ["a", "b"]}) == ["a", "b"]
        assert await bus.call("who") == "databus"
        with pytest.raises(InvalidArguments):
            await bus.call("add", {"a": 1, "b": "two"})
        with pytest.raises(ExecutionFailed, match="ZeroDivisionError"):
            await bus.call("divide", {"a": 1, "b": 0})
        for late in ("hang", "sleep"):
            with pytest.raises(CallTimeout):
                await bus.call(late)
        assert await bus.call("add", {"a": 2, "b": 2}) == 4
        async with Host(None, DatabusConfig(domain=dds_domain)) as host:
            await until(lambda: host.catalog.get("CalculatorService.add"))
            assert await host.call("add", {"a": 20, "b": 22}) == 42
        process.send_signal(signal.SIGTERM)
        said, told = await asyncio.wait_for(process.communicate(), PATIENCE)
        assert process.returncode == 0
        assert said.decode().split() == ["on_start", "on_stop"]
        line = told.decode().splitlines()[-1]
        assert line.startswith("CalculatorService offers add, ")
        assert line.endswith(f"(databus domain {dds_domain} on lo)")
        await until(lambda: not bus.functions("CalculatorService"))


async def test_monitors_see_a_service_alone_its_functions_and_its_calls_whenever_they_come(
    program: StartProgram, bus: Client, dds_domain: int
) -> None:
    async with program(CALCULATOR), AsyncExitStack() as stack:
        await bus.wait_for("CalculatorService.add", PATIENCE)
        for _ in range(2):  # the second one comes when the first has heard all
            assert await stack.enter_async_context(seen_by_a_monitor(bus, dds_domain)) == {
                ("component", "SERVICE", "CalculatorService"),
                ("component", "FUNCTION", "add"),
                ("step", "call", "add"),
            }


@asynccontextmanager
async def seen_by_a_monitor(bus: Client, domain: int) -> AsyncGenerator[set[tuple[str, str, str]]]:
    """What a monitor, which goes on until the end, sees of a call of ``add`` that is made for it."""
    words = (sys.executable, "-m", "enginehost", "monitor", "--domain", str(domain), "--json")
    monitor = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    assert monitor.stdout is not None
    found = set[tuple[str, str, str]]()
    calling = asyncio.create_task(keep_calling(bus))
    try:
        async with asyncio.timeout(PATIENCE):
            while len(found) < 3:
                told = json.loads(await monitor.stdout.readline())
                if told["event"] != "log" and told["name"] in ("CalculatorService", "add"):
                    found.add((told["event"], told["kind"], told["name"]))
        yield found
    finally:
        calling.cancel()
        await asyncio.wait({calling})
        monitor.kill()
        await monitor.wait()


async def keep_calling(bus: Client) -> None:
    """A call is told once the service has seen that somebody listens."""
    while True:
        await bus.call("CalculatorService.add", {"a": 1, "b": 2})
        await asyncio.sleep(0.05)


async def test_a_service_keeps_its_ids_and_ends_when_it_is_cancelled(bus: Client, at_home: Path) -> None:
    async def ids() -> tuple[str, str]:
        running = [asyncio.create_task(one.run()) for one in (CalculatorService(), Other())]
        for name in ("CalculatorService.add", "other.add"):
            await bus.wait_for(name, PATIENCE)
        found = await bus.call("CalculatorService.add", {"a": 1, "b": 1}), await bus.call("other.add")
        assert found == (2, "other")
        directory = bus._there().directory
        placed = {one.offer.signature.name: key for key, one in directory._placed.items()}
        for task in running:
            task.cancel()
        done = await asyncio.gather(*running, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in done)
        await until(lambda: not bus.functions())
        return placed["CalculatorService.add"], placed["other.add"]

    class Other(Service):
        service_name = "other"

        @tool
        def add(self) -> str:
            return "other"

    assert await ids() == await ids()


async def test_one_signal_ends_all_services_of_a_program(program: StartProgram, bus: Client) -> None:
    text = """
import asyncio
from enginehost import Service, tool

class Base(Service):
    @tool
    def name_of(self) -> str:
        return self.service_name

async def main() -> None:
    await asyncio.gather(Base("one").run(), Base("two").run())

asyncio.run(main())
"""
    async with program(text) as process:
        for name in ("one", "two"):
            await bus.wait_for(f"{name}.name_of", PATIENCE)
            assert await bus.call(f"{name}.name_of") == name
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0


async def test_what_keeps_a_service_from_running_is_told_by_run(
    at_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(Service):
        stopped = 0

        @tool
        def one(self) -> int:
            return 1

        async def on_start(self) -> None:
            raise OSError("no disk")

        def on_stop(self) -> None:
            Broken.stopped += 1

    with pytest.raises(OSError, match="no disk"):
        await Broken().run()
    assert Broken.stopped == 0  # it never began
    monkeypatch.setenv("ENGINEHOST_DATABUS__ENABLED", "false")
    with pytest.raises(ConfigError, match="Broken runs alone, and the databus is switched off"):
        await Broken().run()


async def test_a_host_offers_a_service_of_a_file_under_its_own_name(
    at_home: Path, bus: Client, dds_domain: int
) -> None:
    folder = at_home / "smss"
    folder.mkdir()
    (folder / "calculator.py").write_text(CALCULATOR.read_text())
    (folder / "calculator.smss").write_text(SMSS)
    async with Host(folder, DatabusConfig(domain=dds_domain, service="here")) as host:
        assert [str(one) for one in host.problems()] == []
        assert {entry.name for entry in host.functions()} == NAMES
        assert await host.call("mirror", {"point": {"x": 1, "y": 2}}) == {"x": -1.0, "y": -2.0}
        assert await host.call("count", {"up_to": 2}) == [0, 1]
        assert host.entry("mirror").signature.annotations.read_only is True
        assert host.entry("mirror").signature.result is not None
        with pytest.raises(CallTimeout):
            await host.call("hang")
        assert await host.call("started") == 1
        await bus.wait_for("CalculatorService.add", PATIENCE)
        assert await bus.call("CalculatorService.add", {"a": 1, "b": 2}) == 3
        assert {one.name.partition(".")[0] for one in bus.functions()} == {"CalculatorService"}
        text = CALCULATOR.read_text().replace("return a + b", "return 100 * (a + b)")
        (folder / "calculator.py").write_text(text)

        async def changed() -> bool:
            return await host.call("add", {"a": 1, "b": 2}) == 300

        async with asyncio.timeout(PATIENCE):
            while not await changed():
                await asyncio.sleep(0.05)


async def test_a_schema_that_is_too_large_for_a_capability_is_told_by_the_service(
    at_home: Path, dds_domain: int
) -> None:
    """The description of a function is asked for under its own service's name."""
    folder = at_home / "smss"
    folder.mkdir()
    (folder / "wide.smss").write_text("ENGINE_CLASS = wide:Wide\n")
    (folder / "wide.py").write_text(
        "from typing import Literal\nfrom enginehost import Service, tool\n"
        f"WORDS = {tuple(f'word{number:05}' for number in range(1200))!r}\n"
        "class Wide(Service):\n    @tool\n    def pick(self, word: Literal[WORDS]) -> str:\n"
        "        return word\n"
    )
    async with Host(folder, DatabusConfig(domain=dds_domain)), Client(domain=dds_domain) as bus:
        await bus.wait_for("Wide.pick", PATIENCE)
        await until(lambda: [one for one in bus.functions("Wide") if "word" in one.properties])


async def test_a_service_that_cannot_be_made_says_where_and_why(at_home: Path) -> None:
    folder = at_home / "smss"
    folder.mkdir()
    (folder / "bad.smss").write_text("ENGINE_CLASS = bad:Bad\n")
    (folder / "bad.py").write_text(
        "from enginehost import Service, tool\nfrom collections.abc import Callable\n"
        "class Bad(Service):\n    @tool\n    def go(self, work: Callable[[], int]) -> int:\n        ...\n"
    )
    (folder / "calculator.py").write_text(CALCULATOR.read_text())
    (folder / "calculator.smss").write_text(SMSS)
    async with Host(folder, None, settings=HostSettings(state_dir=at_home / "state")) as host:
        assert await host.call("add", {"a": 1, "b": 2}) == 3
        record = host.catalog.records["bad"]
        assert "Bad.go, parameter work: " in record.reason


async def test_a_plugin_may_provide_a_service_under_an_alias(at_home: Path) -> None:
    folder = at_home / "smss"
    folder.mkdir()
    text = "ENGINE_CLASS = Calculator\n"
    (folder / "calculator.smss").write_text(text)
    async with Host(folder, None, registry=engine_registry(CalculatorService, text)) as host:
        assert [str(one) for one in host.problems()] == []
        assert await host.call("add", {"a": 1, "b": 2}) == 3
        assert await host.call("started") == 1
        assert host.entry("add").function.service == "CalculatorService"
