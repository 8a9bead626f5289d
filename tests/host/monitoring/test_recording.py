"""A host records its chains; faults cost events and nothing else."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from enginehost import EngineContext, Function, Host, HostSettings
from enginehost.call import Call
from enginehost.caller import Caller
from enginehost.catalog import EngineRecord
from enginehost.cli.app import app
from enginehost.engine import AbstractFunctionEngine, Annotations, FunctionSignature
from enginehost.errors import ExecutionFailed
from enginehost.monitoring.database import close_lost, latest, steps_of, write
from enginehost.monitoring.seen import Seen
from enginehost.monitoring.writer import ChainWriter
from enginehost.serve.network import picture
from enginehost.store.connecting import database_of

SECRET = "correct-horse-battery"
ANYTHING = {"type": "object", "additionalProperties": True}


class Functions(AbstractFunctionEngine):
    """Functions that call one another."""

    def __init__(self, host: Host) -> None:
        super().__init__(EngineContext("e"))
        self._host = host

    def functions(self) -> list[Function]:
        made = []
        for name in ("add", "outer"):
            hints = Annotations(read_only=True)
            made.append(
                Function(FunctionSignature(name, name, ANYTHING, annotations=hints), getattr(self, name))
            )
        return made

    async def add(self, arguments: dict[str, Any], call: Call) -> Any:
        if arguments.get("fail"):
            raise ValueError("no good")
        return arguments.get("a", 0) + 1

    async def outer(self, arguments: dict[str, Any], call: Call) -> Any:
        return await self._host.call("add", arguments)


async def recorded(folder: Path, mode: str, *arguments: dict[str, Any]) -> dict[str, Any]:
    settings = HostSettings(state_dir=folder, record_chains=mode)  # type: ignore[arg-type]
    async with Host(None, None, settings=settings) as host:
        host.redactor.add(SECRET)
        await host.add_engine(EngineRecord("e", "Test"), Functions(host))
        for one in arguments:
            with suppress(ExecutionFailed):
                await host.call("outer", one, caller=Caller("ada", face="http"))
        host.write_down()
        found = picture(host, Caller("ada"))
    assert host.recorded()["dropped"] == 0  # type: ignore[index]
    return found


def run(folder: Path, *words: str) -> Any:
    config = folder / "enginehost.yaml"
    config.write_text(f"state_dir: {folder}\n")
    return CliRunner().invoke(app, [*words, "--config", str(config)])


async def test_a_chain_is_listed_replayed_and_explained(tmp_path: Path) -> None:
    await recorded(tmp_path, "values", {"a": 1}, {"a": 2, "fail": SECRET})
    chains = json.loads(run(tmp_path, "chains", "--json").output)["chains"]
    assert [(one["root"], one["status"], one["failed"]) for one in chains] == [
        ("outer", "execution_failed", True),
        ("outer", "ok", False),
    ]
    bad, good = (one["chain"] for one in chains)
    failed = json.loads(run(tmp_path, "chains", "--failed", "--json").output)["chains"]
    assert [one["chain"] for one in failed] == [bad]

    told = json.loads(run(tmp_path, "why", bad[:9], "--json").output)["cause"]
    assert told["way"] == ["outer", "add"]
    assert told["last_good"] == good
    assert "it was given something else" in told["changed"]
    assert "failed at" in run(tmp_path, "why", bad).output

    steps = json.loads(run(tmp_path, "replay", good, "--json").output)["steps"]
    assert [(one["name"], one["given"], one["gave"]) for one in steps] == [
        ("outer", {"a": 1}, 2),
        ("add", {"a": 1}, 2),
    ]
    assert SECRET not in run(tmp_path, "replay", bad).output
    assert "***" in run(tmp_path, "replay", bad).output


async def test_content_is_kept_only_where_that_is_switched_on(tmp_path: Path) -> None:
    await recorded(tmp_path, "on", {"a": 1, "question": "what is my balance"})
    rows = sqlite3.connect(tmp_path / "sessions.db").execute("SELECT * FROM chain_events").fetchall()
    assert len(rows) == 2
    assert "balance" not in str(rows)


async def test_the_network_tells_who_called_whom(tmp_path: Path) -> None:
    settings = HostSettings(state_dir=tmp_path)
    async with Host(None, None, settings=settings) as host:
        await host.add_engine(EngineRecord("e", "Test"), Functions(host))
        await host.call("outer", {"a": 1}, caller=Caller("ada", face="http"))
        with pytest.raises(ExecutionFailed):
            await host.call("outer", {"fail": 1}, caller=Caller("ada", face="http"))
        host.write_down()
        found = picture(host, Caller("bob"))
        edges = {(one["from"], one["to"]): (one["calls"], one["errors"]) for one in found["edges"]}
        assert edges == {("caller:ada", "function:outer"): (2, 1), ("function:outer", "function:add"): (2, 1)}
        assert {one["id"] for one in found["nodes"]} >= {"host:local", "function:add", "caller:ada"}
        assert found["recorder"] is None


def sights(tmp_path: Path, *seen: Seen) -> Any:
    made = database_of(f"sqlite:///{tmp_path / 'sessions.db'}", synchronous="normal", lock_timeout=1)
    made.upgrade()
    link = made.writer()
    for one in seen:
        write(made, link, [one])
    return made, link


@pytest.mark.parametrize("end", ["ok", "execution_failed"])
def test_a_chain_that_waited_for_a_person_ends_as_its_turn_does(tmp_path: Path, end: str) -> None:
    waits = "waits_for_person"
    call = Seen("a" * 32, "1", kind="call", name="planner", started=1.0, ended=2.0, outcome=waits)
    turn = Seen("a" * 32, "2", "1", kind="turn", name="planner", started=1.1, ended=1.9)
    made, link = sights(tmp_path, call, replace(turn, outcome=waits))
    [paused] = latest(link, most=5)
    assert (paused.outcome, paused.failed) == (waits, False)
    assert latest(link, most=5, failed=True) == []
    write(made, link, [replace(turn, call="3", started=5.0, ended=6.0, outcome=end)])
    [found] = latest(link, most=5)
    assert (found.outcome, found.failed) == (end, end != "ok")
    link.close()


def test_what_an_earlier_start_of_a_host_left_running_is_lost(tmp_path: Path) -> None:
    step = Seen("a" * 32, "1", kind="call", name="slow", host="h", start="first", started=1.0)
    others = [
        replace(step, chain="b" * 32, host="another"),
        replace(step, chain="c" * 32, start="second"),
        replace(step, chain="d" * 32, outcome="ok", ended=2.0),
    ]
    made, link = sights(tmp_path, step, *others)
    close_lost(made, link, "h", "second")
    found = {one.chain[0]: (one.outcome, one.failed) for one in latest(link, most=9)}
    assert found == {"a": ("outcome_unknown", True), "b": ("", False), "c": ("", False), "d": ("ok", False)}
    assert steps_of(link, "a" * 32)["1"].outcome == "outcome_unknown"
    link.close()


@pytest.mark.parametrize("wrong", ["xyz", "12", "abcd"])
async def test_an_id_that_means_no_chain_is_an_error(tmp_path: Path, wrong: str) -> None:
    await recorded(tmp_path, "on", {"a": 1})
    from enginehost.errors import EngineHostError

    result = run(tmp_path, "why", "ffffffffffff" if wrong == "abcd" else wrong)
    assert result.exit_code != 0
    assert isinstance(result.exception, EngineHostError)


async def test_a_full_disk_drops_events_counts_them_and_hurts_no_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    full = [True]
    real = type(database_of(f"sqlite:///{tmp_path / 'x.db'}", synchronous="normal", lock_timeout=1)).writer

    def writer(self: Any) -> Any:
        link = real(self)
        if full:
            link.run("PRAGMA max_page_count = 1")
        return link

    settings = HostSettings(state_dir=tmp_path, record_chains="values")
    async with Host(None, None, settings=settings) as host:
        monkeypatch.setattr("enginehost.store.sqlite.Sqlite.writer", writer)
        await host.add_engine(EngineRecord("e", "Test"), Functions(host))
        calls = 0
        async with asyncio.timeout(20):
            while not host.recorded()["dropped"]:  # type: ignore[index]
                assert await host.call("add", {"a": calls, "text": "x" * 5000}) == calls + 1
                calls += 1
                await asyncio.sleep(0.001)
            full.clear()
            before = host.recorded()["recorded"]  # type: ignore[index]
            while host.recorded()["recorded"] == before:  # type: ignore[index]
                await host.call("add", {})
                await asyncio.sleep(0.01)
    assert "chains cannot be recorded (the database is full)" in caplog.text
    assert "are recorded again" in caplog.text


def test_what_does_not_fit_into_the_queue_is_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enginehost.monitoring.writer.MOST_WAITING", 10)
    writer = ChainWriter(f"sqlite:///{tmp_path / 'x.db'}", days=None)
    for _ in range(25):
        writer.put(lambda _: (), None)
    assert writer.describe() == {"recorded": 0, "dropped": 15}
