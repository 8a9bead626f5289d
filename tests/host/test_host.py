"""The host's own life: whatever start and stop meet, nothing is left running and nothing hangs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from enginehost import Call, EngineContext, Function, Host, HostSettings
from enginehost.catalog import EngineRecord
from enginehost.engine import AbstractFunctionEngine, run_mode
from enginehost.errors import ConfigError, EngineUnavailable, UnknownFunction
from enginehost.signature import FunctionSignature
from enginehost.testing.leftovers import leftovers, snapshot


async def echo(arguments: dict[str, Any], call: Call) -> Any:
    return arguments


class One(AbstractFunctionEngine):
    """An engine of one function that counts its closes and can be made to fail."""

    def __init__(self, run: Any = echo, fails: str = "") -> None:
        super().__init__(EngineContext("test"))
        self._run = run
        self._fails = fails
        self.closed = 0

    async def open(self) -> None:
        if self._fails == "open":
            raise RuntimeError("cannot open")

    async def close(self) -> None:
        self.closed += 1

    def functions(self) -> Any:
        if self._fails == "functions":
            return [1]
        schema = {"type": "object", "additionalProperties": True}
        return [Function(FunctionSignature("f", "", schema), self._run, run_mode(self._run))]


def settings(**more: Any) -> HostSettings:
    return HostSettings(**more)


async def test_a_host_that_cannot_write_its_audit_does_not_start_and_leaves_nothing(tmp_path: Path) -> None:
    before = snapshot()
    host = Host(tmp_path, None, settings=settings(audit={"path": tmp_path}))
    with pytest.raises(ConfigError, match="audit"):
        await host.start()
    assert not host.ready
    assert await leftovers(before, 5) == set()


async def test_a_host_with_a_wrong_policy_does_not_come_to_be(tmp_path: Path) -> None:
    before = snapshot()
    policy = tmp_path / "policy.yaml"
    policy.write_text("rules: {{{")
    with pytest.raises(ConfigError):
        Host(tmp_path, None, settings=settings(policy={"file": policy}))
    assert await leftovers(before, 5) == set()


async def test_a_host_whose_databus_is_required_and_missing_does_not_start_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import enginehost.databus as databus

    class Missing:
        def __init__(self, *_: Any) -> None:
            """Nothing to hold."""

        async def start(self) -> None:
            raise EngineUnavailable("the DDS library is not installed")

        async def stop(self) -> None:
            raise AssertionError("what never started is not stopped")

    monkeypatch.setattr(databus, "Databus", Missing)
    before = snapshot()
    audit = tmp_path / "audit.jsonl"
    host = Host(
        tmp_path / "smss",
        "auto",
        settings=settings(databus={"enabled": True}, audit={"path": audit}, state_dir=tmp_path),
    )
    with pytest.raises(EngineUnavailable):
        await host.start()
    assert await leftovers(before, 5) == set()
    async with Host(tmp_path / "smss", "auto", settings=settings(state_dir=tmp_path)) as other:
        assert other.bus is None
        assert "databus" in {problem.code for problem in other.problems()}
    assert await leftovers(before, 5) == set()


async def test_a_start_that_is_cancelled_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot()
    entered = asyncio.Event()

    async def never(*_: object) -> None:
        entered.set()
        await asyncio.Event().wait()

    monkeypatch.setattr("enginehost.host_life.join_bus", never)
    host = Host(tmp_path, None, settings=settings())
    starting = asyncio.create_task(host.start())
    await entered.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert await leftovers(before, 5) == set()


async def test_a_host_stops_without_a_start_and_as_often_as_one_likes(tmp_path: Path) -> None:
    before = snapshot()
    await Host(tmp_path, None, settings=settings()).stop()
    host = Host(tmp_path, None, settings=settings(audit={"path": tmp_path / "audit.jsonl"}))
    await host.start()
    engine = One()
    await host.add_engine(EngineRecord("test", "Test"), engine)
    await host.call("f")
    await asyncio.gather(*(host.stop() for _ in range(3)))
    await host.stop()
    assert engine.closed == 1
    assert await leftovers(before, 5) == set()


async def test_a_host_that_has_not_started_says_so_and_how_to_start_it(tmp_path: Path) -> None:
    host = Host(tmp_path, None, settings=settings())
    said = r"does not run yet: use `async with Host.*`await host.start\(\)`"
    with pytest.raises(EngineUnavailable, match=said):
        await host.call("f")
    with pytest.raises(EngineUnavailable, match=said):
        await anext(host.stream("f"))
    async with host:
        with pytest.raises(UnknownFunction):
            await host.call("f")


async def test_a_host_starts_once(tmp_path: Path) -> None:
    host = Host(tmp_path, None, settings=settings())
    await host.start()
    with pytest.raises(RuntimeError, match="starts once"):
        await host.start()
    assert host.ready
    await host.stop()
    with pytest.raises(RuntimeError, match="starts once"):
        await host.start()


async def test_a_stop_that_is_cancelled_can_be_ended_by_another(tmp_path: Path) -> None:
    before = snapshot()
    release = asyncio.Event()

    async def waits(arguments: dict[str, Any], call: Call) -> str:
        await release.wait()
        return "done"

    host = Host(tmp_path, None, settings=settings(audit={"path": tmp_path / "audit.jsonl"}))
    await host.start()
    engine = One(waits)
    await host.add_engine(EngineRecord("test", "Test"), engine)
    call = asyncio.create_task(host.call("f"))
    await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await host.stop(drain=60)
    release.set()
    await host.stop()
    assert await call == "done"
    assert engine.closed == 1
    assert await leftovers(before, 5) == set()
    (line,) = (tmp_path / "audit.jsonl").read_text().splitlines()
    assert json.loads(line)["outcome"] == "ok"


@pytest.mark.parametrize("fails", ["open", "functions"])
async def test_an_added_engine_that_fails_is_closed_and_not_shown(fails: str) -> None:
    async with Host(None, None, settings=settings()) as host:
        engine = One(fails=fails)
        with pytest.raises((RuntimeError, TypeError)):
            await host.add_engine(EngineRecord("test", "Test"), engine)
        assert engine.closed == 1
        assert dict(host.catalog.records) == {}
    assert engine.closed == 1


async def test_an_added_engine_takes_no_other_ones_id() -> None:
    async with Host(None, None, settings=settings()) as host:
        await host.add_engine(EngineRecord("test", "Test"), One())
        with pytest.raises(ValueError, match="already"):
            await host.add_engine(EngineRecord("test", "Test"), One())
        assert await host.call("f", {"a": 1}) == {"a": 1}


async def test_a_signature_whose_schema_is_none_is_an_error_of_configuration() -> None:
    class Wrong(One):
        def functions(self) -> Any:
            schema = {"type": "object", "properties": {"a": {"type": "strange"}}}
            return [Function(FunctionSignature("f", "", schema), echo)]

    async with Host(None, None, settings=settings()) as host:
        await host.add_engine(EngineRecord("test", "Test"), Wrong())
        with pytest.raises(ConfigError, match="schema"):
            await host.call("f")


async def test_a_script_that_was_missing_is_picked_up_when_it_comes(tmp_path: Path) -> None:
    folder = tmp_path / "smss"
    folder.mkdir()
    (folder / "a.smss").write_text(
        "ENGINE_CLASS = LocalPython\nFUNCTION_NAME = f\nFUNCTION_DESCRIPTION = d\nPYTHON_SCRIPT_PATH = f.py\n"
    )
    async with Host(folder, None, settings=settings(state_dir=tmp_path)) as host:
        with pytest.raises(EngineUnavailable):
            await host.call("f")
        (folder / "f.py").write_text("def f(:\n")
        (folder / "f.py").write_text("def f():\n    return 7\n")
        async with asyncio.timeout(20):
            while host.catalog.get("f") is None:
                await asyncio.sleep(0.02)
        assert await host.call("f") == 7


@pytest.mark.parametrize("name", [["add"], b"add", None, 3, {"add": 1}], ids=str)
async def test_a_name_that_is_no_text_is_a_mistake_of_the_program_that_calls(name: Any) -> None:
    async with Host(None, None, settings=settings()) as host:
        message = rf"^the name of a function has to be text, not {type(name).__name__}$"
        with pytest.raises(TypeError, match=message):
            await host.call(name)
        with pytest.raises(TypeError, match=message):
            host.stream(name)
        with pytest.raises(TypeError, match=message):
            host.entry(name)
