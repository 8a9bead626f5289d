"""The real host on the bus."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from enginehost.catalog import EngineRecord
from enginehost.databus import DatabusConfig
from enginehost.engine import AbstractFunctionEngine, EngineContext
from enginehost.errors import ERROR_TABLE, ConfigError
from enginehost.host import Host
from enginehost.settings import HostSettings
from enginehost.signature import FunctionSignature

pytest.importorskip("cyclonedds")

NUMBER = {"type": "integer"}


class Add(AbstractFunctionEngine):
    async def execute(self, parameters: dict[str, Any]) -> int:
        return parameters["a"] + parameters["b"]


def add_engine() -> Add:
    parameters = {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "required": ["a", "b"]}
    return Add(EngineContext("add", signature=FunctionSignature("add", parameters=parameters)))


async def test_a_peer_calls_a_function_of_the_host_until_it_goes(dds_domain, peer, tmp_path):
    settings = HostSettings(state_dir=tmp_path)
    async with Host(None, DatabusConfig(domain=dds_domain), settings=settings) as host:
        await host.add_engine(EngineRecord("add", "test"), add_engine())
        await peer.sees("add")
        assert (await peer.call("add", {"a": 1, "b": 2}))["result"] == "3"
        wrong = await peer.call("add", {"a": 1}, "r2")
        assert wrong["status"] == ERROR_TABLE["invalid_arguments"].bus
        await host.remove_engine("add")
        await peer.sees()
        await host.add_engine(EngineRecord("add", "test"), add_engine())
        await peer.sees("add")
    await peer.sees()


def drop(folder: Path, description: str, operator: str) -> None:
    """A script, and the file that serves a function of it, put there as an editor does."""
    files = {
        f"{description}.py": f"def reckon(a, b):\n    return a {operator} b\n",
        "reckon.smss": dedent(f"""
            ENGINE_CLASS = LocalPython
            PYTHON_SCRIPT_PATH = {description}.py
            FUNCTION_NAME = reckon
            FUNCTION_DESCRIPTION = {description}
            FUNCTION_PARAMETERS = [{{"name": "a", "type": "integer"}}, {{"name": "b", "type": "integer"}}]
            FUNCTION_REQUIRED_PARAMETERS = ["a", "b"]
        """),
    }
    for name, text in files.items():
        (folder / "new").write_text(text)
        (folder / "new").replace(folder / name)


async def test_files_of_a_running_folder_come_change_and_go_on_the_bus(dds_domain, peer, tmp_path):
    folder = tmp_path / "smss"
    folder.mkdir()
    settings = HostSettings(state_dir=tmp_path / "state")
    async with Host(folder, DatabusConfig(domain=dds_domain), settings=settings):
        await peer.until(lambda: peer.providers)
        assert not peer.capabilities
        drop(folder, "Adds", "+")
        await peer.sees("reckon")
        first = peer.named("reckon")
        assert first["description"] == "Adds"
        assert set(json.loads(first["parameter_schema"])["properties"]) == {"a", "b"}
        assert (await peer.call("reckon", {"a": 6, "b": 7}, "r1"))["result"] == "13"

        drop(folder, "Multiplies", "*")
        await peer.until(lambda: peer.named("reckon")["description"] == "Multiplies")
        assert peer.named("reckon")["function_id"] == first["function_id"]
        assert (await peer.call("reckon", {"a": 6, "b": 7}, "r2"))["result"] == "42"

        assert not peer.disposed
        (folder / "reckon.smss").unlink()
        await peer.sees()
        assert peer.disposed == {first["function_id"]}


async def test_a_host_keeps_its_functions_ids_over_a_restart(dds_domain, peer, tmp_path):
    ids: set[str] = set()
    for _ in range(2):
        async with Host(
            None, DatabusConfig(domain=dds_domain), settings=HostSettings(state_dir=tmp_path)
        ) as host:
            await host.add_engine(EngineRecord("add", "test"), add_engine())
            await peer.sees("add")
            ids.add(peer.named("add")["function_id"])
        await peer.sees()
    assert len(ids) == 1


async def test_a_host_with_tokens_shows_nothing_to_peers_without(dds_domain, peer, tmp_path):
    settings = HostSettings(state_dir=tmp_path, tokens=({"name": "ci", "token": "0123456789abcdef0123"},))
    async with Host(None, DatabusConfig(domain=dds_domain), settings=settings) as host:
        await host.add_engine(EngineRecord("add", "test"), add_engine())
        await peer.until(lambda: peer.providers)
        assert host.bus is not None
        async with asyncio.timeout(10):
            while host.bus.describe()["pending"]:
                await asyncio.sleep(0.001)
        assert host.bus.describe()["capabilities"] == 0
    assert not peer.capabilities


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"key_file": "none.pem"}, "there is no key"),
        ({"sign": True}, "there is no key"),
        ({"transport": "cyclon"}, "no databus transport is called 'cyclon'"),
    ],
)
def test_mistakes_that_show_at_once_are_told_before_anything_starts(tmp_path, said, message):
    settings = HostSettings.model_validate({"state_dir": tmp_path, "databus": said})
    with pytest.raises(ConfigError, match=message):
        Host(None, settings=settings)
    Host(None, None, settings=settings)


async def test_a_host_says_what_it_does_without(dds_domain, tmp_path):
    config = DatabusConfig(domain=dds_domain, peers="nope.invalid", accept="trusted")
    async with Host(None, config, settings=HostSettings(state_dir=tmp_path)) as host:
        found = {one.code: one.message for one in host.problems()}
        assert host.bus is not None
        assert host.bus.describe()["unresolved_peers"] == ["nope.invalid"]
    assert "left out: nope.invalid" in found["databus-peers"]
    assert "there is no trust file" in found["databus-trust"]


async def test_refused_requests_are_audited(dds_domain, peer, tmp_path):
    path = tmp_path / "audit.jsonl"
    settings = HostSettings(state_dir=tmp_path, audit={"path": path})  # type: ignore[arg-type]
    async with Host(None, DatabusConfig(domain=dds_domain, max_request_bytes=100), settings=settings) as host:
        await host.add_engine(EngineRecord("add", "test"), add_engine())
        await peer.sees("add")
        await peer.call("add", "[]", "r1")
        await peer.call("add", "x" * 200, "r2")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["function"], line["face"], line["outcome"]) for line in lines] == [
        ("add", "databus", "invalid_request"),
        ("add", "databus", "too_large"),
    ]
