"""What a person relies on who drops, renames and deletes files while the host runs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from enginehost.engine import EngineState
from enginehost.errors import EngineUnavailable
from enginehost.plugins import PluginRegistry

from .conftest import (
    Echo,
    answers,
    eventually,
    in_state,
    serving,
    smss,
    vanishes,
)


async def test_a_folder_of_files_serves_the_functions_they_declare(
    folder: Path, registry: PluginRegistry
) -> None:
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    (folder / "a.smss").write_text(smss("a", "A"))
    (folder / "deep" / "er" / "b.smss").write_text(smss("b", "B"))
    (folder / ".hidden" / "c.smss").write_text(smss("c"))
    (folder / "d.smss.temp").write_text(smss("d"))
    async with serving(folder, registry) as host:
        assert [entry.name for entry in host.functions()] == ["a", "b"]
        assert await host.call("b") == "B"


async def test_one_bad_file_hurts_no_other(folder: Path, registry: PluginRegistry) -> None:
    (folder / "good.smss").write_text(smss("good", "G"))
    for name, content in {
        "binary": os.urandom(500),
        "empty": b"",
        "unicode": b"FUNCTION_NAME = \\uZZZZ\n",
        "class": b"ENGINE_CLASS = Nobody\nFUNCTION_NAME = x\n",
        "noname": b"ENGINE_CLASS = Echo\n",
        "json": b"ENGINE_CLASS = Echo\nFUNCTION_NAME = j\nFUNCTION_PARAMETERS = {{{\n",
        "type": b"ENGINE_CLASS = Echo\nFUNCTION_NAME = t\nOPEN_WAITS = soon\n",
        "secret": b"ENGINE_CLASS = Echo\nFUNCTION_NAME = s\nTEXT = ${secret:missing}\n",
        "cycle": b"ENGINE_CLASS = Echo\nFUNCTION_NAME = s\nTEXT = ${A}\nA = ${TEXT}\n",
        "huge": b"#" * (5 * 1024 * 1024),
    }.items():
        (folder / f"{name}.smss").write_bytes(content)
    (folder / "directory.smss").mkdir()
    async with serving(folder, registry) as host:
        assert await host.call("good") == "G"
        assert [entry.name for entry in host.functions()] == ["good"]
        states = {record.path.stem: record for record in host.catalog.records.values() if record.path}
        assert {stem: str(record.state) for stem, record in states.items()} == (
            dict.fromkeys(states, "failed") | {"good": "ready", "class": "unsupported"}
        )
        assert all(record.reason for stem, record in states.items() if stem != "good")
        assert all(str(folder) not in record.reason for record in states.values())


async def test_a_dropped_file_is_live_without_a_restart(folder: Path, registry: PluginRegistry) -> None:
    async with serving(folder, registry) as host:
        (folder / "a.smss").write_text(smss("a", "1"))
        await answers(host, "a", "1")
        (folder / "sub").mkdir()
        (folder / "sub" / "b.smss").write_text(smss("b", "2"))
        await answers(host, "b", "2")


async def test_renaming_a_function_leaves_no_ghost(folder: Path, registry: PluginRegistry) -> None:
    path = folder / "a.smss"
    path.write_text(smss("a", "1"))
    async with serving(folder, registry) as host:
        path.write_text(smss("b", "1"))
        await answers(host, "b", "1")
        assert host.catalog.get("a") is None


async def test_deleting_and_renaming_files(folder: Path, registry: PluginRegistry) -> None:
    path = folder / "a.smss"
    path.write_text(smss("a", "1"))
    async with serving(folder, registry) as host:
        path.rename(folder / "z.smss")
        await in_state(host, "z", EngineState.READY)
        await answers(host, "a", "1")
        (folder / "z.smss").unlink()
        await vanishes(host, "a")
        assert dict(host.catalog.records) == {}


async def test_the_lexicographically_first_file_keeps_a_name_and_the_other_takes_over(
    folder: Path, registry: PluginRegistry
) -> None:
    (folder / "b.smss").write_text(smss("same", "b"))
    async with serving(folder, registry) as host:
        assert await host.call("same") == "b"
        (folder / "a.smss").write_text(smss("same", "a"))
        await answers(host, "same", "a")
        (problem,) = host.problems()
        assert problem.code == "name-conflict"
        assert "b.smss" in problem.path
        assert "a.smss" in problem.message
        (folder / "a.smss").unlink()
        await answers(host, "same", "b")
        assert host.problems() == []


async def test_two_files_with_one_engine_id_both_serve_and_one_is_warned(
    folder: Path, registry: PluginRegistry
) -> None:
    for name in ("a", "b"):
        (folder / f"{name}.smss").write_text(smss(name, name, engine="one"))
    async with serving(folder, registry) as host:
        assert await host.call("a") == "a"
        assert await host.call("b") == "b"
        assert sorted(host.catalog.records) == ["one", "one~b"]
        assert [problem.code for problem in host.problems()] == ["duplicate-engine-id"]
        (folder / "a.smss").unlink()
        await vanishes(host, "a")
        await in_state(host, "one", EngineState.READY)
        assert await host.call("b") == "b"
        assert host.problems() == []


async def test_a_changed_script_reloads_the_engines_that_name_it(
    folder: Path, registry: PluginRegistry
) -> None:
    outside = folder.parent / "scripts"
    outside.mkdir()
    for name, where in (("in", folder / "x.txt"), ("out", outside / "y.txt")):
        where.write_text("1")
        (folder / f"{name}.smss").write_text(
            smss(name, "closed-" + name, script=os.path.relpath(where, folder))
        )
    async with serving(folder, registry) as host:
        assert await host.call("in") == "1"
        for where in (folder / "x.txt", outside / "y.txt"):
            where.write_text("2")

        async def both_reloaded() -> bool:
            return sorted(Echo.closed) == ["closed-in", "closed-out"]

        await eventually(both_reloaded)


async def test_a_folder_that_vanishes_and_returns(folder: Path, registry: PluginRegistry) -> None:
    (folder / "a.smss").write_text(smss("a", "1"))
    async with serving(folder, registry) as host:
        aside = folder.with_name("aside")
        folder.rename(aside)
        await vanishes(host, "a")
        assert [problem.code for problem in host.problems()] == ["folder-missing"]
        aside.rename(folder)
        await answers(host, "a", "1")
        assert host.problems() == []
        (folder / "a.smss").write_text(smss("a", "2"))
        await answers(host, "a", "2")


async def test_a_thousand_files_dropped_at_once_all_serve(folder: Path, registry: PluginRegistry) -> None:
    async with serving(folder, registry) as host:
        for number in range(1000):
            (folder / f"f{number}.smss").write_text(smss(f"f{number}", str(number)))

        async def all_there() -> bool:
            return len(host.catalog) == 1000

        await eventually(all_there)
        assert await host.call("f999") == "999"


async def test_a_running_call_ends_on_the_version_it_started_on(
    folder: Path, registry: PluginRegistry
) -> None:
    Echo.release = asyncio.Event()
    path = folder / "a.smss"
    path.write_text(smss("a", "old", wait="true"))
    async with serving(folder, registry, drain_seconds=5) as host:
        old = host.catalog.records["a"]
        running = asyncio.create_task(host.call("a"))
        await asyncio.sleep(0)
        path.write_text(smss("a", "new"))

        async def replaced() -> bool:
            return host.catalog.records["a"] is not old

        await eventually(replaced)
        assert await host.call("a") == "new"
        assert Echo.closed == []
        Echo.release.set()
        assert await running == "old"

        async def old_closed() -> bool:
            return Echo.closed == ["old"]

        await eventually(old_closed)


async def test_a_slow_engine_is_loading_until_it_is_open_and_serves_its_old_version_meanwhile(
    folder: Path, registry: PluginRegistry
) -> None:
    Echo.opens = asyncio.Event()
    path = folder / "a.smss"
    async with serving(folder, registry) as host:
        path.write_text(smss("a", "1", open_waits="true"))
        await in_state(host, "a", EngineState.LOADING)
        with pytest.raises(EngineUnavailable, match="loading"):
            await host.call("a")
        Echo.opens.set()
        await answers(host, "a", "1")
        Echo.opens.clear()
        path.write_text(smss("a", "2", open_waits="true"))

        async def second_opens() -> bool:
            return Echo.opening[-1] == "2"

        await eventually(second_opens)
        assert await host.call("a") == "1"
        Echo.opens.set()
        await answers(host, "a", "2")


async def test_an_engine_that_does_not_open_says_why(folder: Path, registry: PluginRegistry) -> None:
    Echo.opens = asyncio.Event()
    (folder / "fails.smss").write_text(smss("fails", open_fails="true"))
    (folder / "slow.smss").write_text(smss("slow", open_waits="true"))
    async with serving(folder, registry, open_timeout=0.2) as host:
        for name, text in (("fails", "cannot open today"), ("slow", "within 0.2 s")):
            with pytest.raises(EngineUnavailable) as caught:
                await host.call(name)
            assert text in caught.value.detail["reason"]
        (folder / "fails.smss").write_text(smss("fails", "mended"))
        await answers(host, "fails", "mended")


async def test_a_script_that_appears_mends_every_engine_that_names_it(
    folder: Path, registry: PluginRegistry
) -> None:
    (folder / "script").write_text("1")
    (folder / "a.smss").write_text(smss("a", script="script"))
    async with serving(folder, registry) as host:
        (folder / "script").unlink()
        (folder / "b.smss").write_text(smss("b", script="script", must_exist="true"))
        await in_state(host, "b", EngineState.FAILED)
        (folder / "script").write_text("2")
        await answers(host, "b", "2")
        await answers(host, "a", "2")
