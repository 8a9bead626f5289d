"""Ways onto the databus that plugins add: the setting names one, and the bus runs over it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from enginehost import Host, HostSettings
from enginehost.catalog import EngineRecord
from enginehost.contributions import Implementation
from enginehost.databus import Capability, Databus, DatabusConfig, ExecutionReply, ExecutionRequest
from enginehost.engine import AbstractFunctionEngine, EngineContext
from enginehost.errors import ConfigError, EngineUnavailable
from enginehost.settings import DatabusSettings, PolicySettings
from enginehost.signature import FunctionSignature

PLUGIN = """
    made = []

    def factory(config):
        from {test} import Wire
        made.append(Wire(config))
        return made[-1]

    @hookimpl
    def register_transports(register):
        register("carrier-pigeon", factory)
"""


class Wire:
    """A transport within this process."""

    def __init__(self, config: DatabusConfig) -> None:
        self.config = config
        self.capabilities: dict[str, Capability] = {}
        self.replies: asyncio.Queue[ExecutionReply] = asyncio.Queue()
        self.changed = asyncio.Condition()
        self.handler: Any = None
        self.closed = False
        self.fails: set[str] = set()

    async def serve(self, handler: Any, partition: str, gone: Any) -> None:
        self.handler = handler
        if "serve" in self.fails:
            raise OSError("no perch")

    async def publish(self, capabilities: Sequence[Capability]) -> None:
        if "publish" in self.fails:
            self.fails.remove("publish")
            raise OSError("no ink")
        async with self.changed:
            self.capabilities |= {one.name: one for one in capabilities}
            self.changed.notify_all()

    async def withdraw(self, function_ids: Sequence[str], *, dispose: bool = True) -> None:
        gone = [name for name, one in self.capabilities.items() if one.function_id in function_ids]
        for name in gone:
            del self.capabilities[name]

    async def reply(self, reply: ExecutionReply, source: str, partition: str = "") -> bool:
        await self.replies.put(reply)
        return True

    async def listen(self, handler: Any, partition: str, gone: Any) -> None:
        """Nobody else is on this bus."""

    async def watch(self, watcher: Any) -> None:
        """Nobody else is on this bus."""

    async def follow(self, topic: str, watcher: Any) -> None:
        """Nobody else is on this bus."""

    def listened(self, topic: str) -> bool:
        return False

    async def close(self) -> None:
        self.closed = True
        if "close" in self.fails:
            raise OSError("lost")

    def describe(self) -> dict[str, Any]:
        return {"birds": 1}

    async def sees(self, name: str) -> Capability:
        async with asyncio.timeout(20), self.changed:
            await self.changed.wait_for(lambda: name in self.capabilities)
        return self.capabilities[name]


class Echo(AbstractFunctionEngine):
    async def execute(self, parameters: dict[str, Any]) -> Any:
        return parameters


def echo(name: str, *tags: str) -> Echo:
    parameters = {"type": "object", "properties": {"a": {}}}
    return Echo(EngineContext(name, signature=FunctionSignature(name, parameters=parameters, tags=tags)))


def by_wire(wires: list[Wire], fails: set[str]) -> dict[str, Implementation]:
    def factory(config: DatabusConfig) -> Wire:
        if "join" in fails:
            raise SystemExit("no pigeon")
        wires.append(Wire(config))
        wires[-1].fails = fails
        return wires[-1]

    return {"wire": Implementation("birds", "register_transports", factory)}


async def test_the_setting_names_a_transport_and_functions_are_called_over_it(
    site: Any, tmp_path: Path
) -> None:
    site.add_hooks("birds", "birds_plugin", PLUGIN.format(test=__name__))
    bus = DatabusSettings(transport="carrier-pigeon", service="post", enabled=True)
    settings = HostSettings(state_dir=tmp_path, databus=bus)
    async with Host(None, settings=settings, registry=site.registry()) as host:
        import birds_plugin  # pyright: ignore[reportMissingImports]

        (wire,) = birds_plugin.made
        assert wire.config.service == "post"
        assert host.bus is not None
        about = host.bus.describe()
        assert (about["transport"], about["birds"]) == ("carrier-pigeon", 1)
        await host.add_engine(EngineRecord("echo", "Test"), echo("echo"))
        capability = await wire.sees("echo")
        await wire.handler([ExecutionRequest("r1", capability.function_id, b'{"a": 1}', 0, b"")])
        async with asyncio.timeout(20):
            reply = await wire.replies.get()
        assert (reply.status, reply.result) == (0, b'{"a":1}')
    assert wire.closed
    assert wire.capabilities == {}


async def test_what_peers_may_only_see_is_not_called_public(tmp_path: Path) -> None:
    rules = {"default": "view", "rules": [{"allow": "call", "callers": "anyone", "tags": ["open"]}]}
    policy = PolicySettings.model_validate(rules)
    wires: list[Wire] = []
    async with Host(None, None, settings=HostSettings(state_dir=tmp_path, policy=policy)) as host:
        bus = Databus(host, DatabusConfig(transport="wire"), by_wire(wires, set()))
        await bus.start()
        for name, tags in (("free", ("open",)), ("kept", ())):
            await host.add_engine(EngineRecord(name, "Test"), echo(name, *tags))
        free, kept = [await wires[0].sees(name) for name in ("free", "kept")]
        await bus.stop()
    assert json.loads(free.security_requirements) == {"level": "public"}
    assert json.loads(kept.security_requirements)["level"] == "authenticated"


@pytest.mark.parametrize(
    ("name", "hint"), [("cyclon", "did you mean cyclone?"), ("x", "there are cyclone, wire")]
)
async def test_an_unknown_transport_is_a_wrong_setting(tmp_path: Path, name: str, hint: str) -> None:
    async with Host(None, None, settings=HostSettings(state_dir=tmp_path)) as host:
        with pytest.raises(ConfigError, match=f"no databus transport is called '{name}'") as raised:
            Databus(host, DatabusConfig(transport=name), by_wire([], set()))
    assert raised.value.hint == hint


async def test_a_host_with_an_unknown_transport_does_not_start(tmp_path: Path) -> None:
    settings = HostSettings(state_dir=tmp_path, databus=DatabusSettings(transport="cyclon"))
    with pytest.raises(ConfigError, match="cyclon"):
        await Host(None, settings=settings).start()


@pytest.mark.parametrize(
    ("fails", "reason"),
    [("join", "wire of birds does not start: SystemExit: no pigeon"), ("serve", "OSError: no perch")],
)
async def test_a_transport_that_fails_to_start_says_why(tmp_path: Path, fails: str, reason: str) -> None:
    wires: list[Wire] = []
    async with Host(None, None, settings=HostSettings(state_dir=tmp_path)) as host:
        bus = Databus(host, DatabusConfig(transport="wire"), by_wire(wires, {fails}))
        with pytest.raises(EngineUnavailable, match=reason):
            await bus.start()
        assert bus.describe()["joined"] is False
    assert all(wire.closed for wire in wires)


async def test_a_transport_that_fails_once_hears_of_the_next_function(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wires: list[Wire] = []
    async with Host(None, None, settings=HostSettings(state_dir=tmp_path)) as host:
        bus = Databus(host, DatabusConfig(transport="wire"), by_wire(wires, {"publish", "close"}))
        await bus.start()
        await host.add_engine(EngineRecord("one", "Test"), echo("one"))
        while "no ink" not in caplog.text:
            await asyncio.sleep(0)
        await host.add_engine(EngineRecord("two", "Test"), echo("two"))
        await wires[0].sees("two")
        await bus.stop()
    assert "the databus does not hear of one" in caplog.text
    assert "did not close cleanly" in caplog.text


def test_no_plugin_takes_the_name_of_the_hosts_own(site: Any) -> None:
    from enginehost.contributions import collect

    site.add_hooks(
        "cuckoo",
        "cuckoo_plugin",
        "@hookimpl\ndef register_transports(register):\n    register('cyclone', dict)\n",
    )
    registry = site.registry()
    assert collect(registry).transports == {}
    assert "cyclone already comes from the host" in registry.problems[0].message
