"""What a person relies on who edits files while the host runs, with whatever editor."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from enginehost.engine import EngineState
from enginehost.plugins import PluginRegistry

from .conftest import (
    SECONDS,
    Echo,
    Grace,
    answers,
    eventually,
    in_state,
    never_missing,
    serving,
    smss,
)


async def test_an_edit_takes_effect_and_the_old_version_is_closed(
    folder: Path, registry: PluginRegistry
) -> None:
    (folder / "a.smss").write_text(smss("a", "old"))
    async with serving(folder, registry) as host:
        (folder / "a.smss").write_text(smss("a", "new"))
        await answers(host, "a", "new")

        async def old_closed() -> bool:
            return Echo.closed == ["old"]

        await eventually(old_closed)


async def test_an_editors_rename_dance_never_takes_the_function_away(
    folder: Path, registry: PluginRegistry, grace: Grace
) -> None:
    path = folder / "a.smss"
    path.write_text(smss("a", "0"))
    async with serving(folder, registry) as host, never_missing(host, "a"):
        for number in range(1, 6):
            with grace.lasting():
                path.rename(folder / "a.smss~")
                assert await host.call("a") == str(number - 1)
                (folder / ".a.swp").write_text(smss("a", str(number)))
                (folder / ".a.swp").rename(path)
            await answers(host, "a", str(number))
            (folder / "a.smss~").unlink()


async def test_an_editor_that_leaves_a_gap_between_two_renames_never_takes_the_function_away(
    folder: Path, registry: PluginRegistry, grace: Grace
) -> None:
    path = folder / "a.smss"
    path.write_text(smss("a", "0"))
    async with serving(folder, registry) as host, never_missing(host, "a"):
        for number in (1, 2):
            with grace.lasting():
                path.rename(folder / "a.smss~")
                async with asyncio.timeout(SECONDS):
                    await grace.begun.wait()
                (folder / "a.smss.new").write_text(smss("a", str(number)))
                (folder / "a.smss.new").rename(path)
            await answers(host, "a", str(number))
            assert host.catalog.records["a"].state is EngineState.READY


async def test_an_editor_that_empties_the_file_and_writes_it_anew_never_takes_the_function_away(
    folder: Path, registry: PluginRegistry
) -> None:
    path = folder / "a.smss"
    path.write_text(smss("a", "0"))
    async with serving(folder, registry) as host, never_missing(host, "a"):
        for number in (1, 2):
            text = smss("a", str(number))
            with path.open("w") as file:
                await in_state(host, "a", EngineState.STALE)  # the host has seen it empty
                file.write(text[:30])
                file.flush()
                assert await host.call("a") == str(number - 1)
                file.write(text[30:])
            await answers(host, "a", str(number))
            assert host.catalog.records["a"].state is EngineState.READY


@pytest.mark.parametrize("half", ["", "ENGINE_CLASS = Ech", "ENGINE_CLASS = Echo\nFUNCTION_NA"])
async def test_a_new_file_that_is_seen_half_written_is_live_when_it_is_complete(
    half: str, folder: Path, registry: PluginRegistry
) -> None:
    text = smss("a", "whole")
    assert text.startswith(half)
    async with serving(folder, registry) as host:
        with (folder / "a.smss").open("w") as file:
            file.write(half)
            file.flush()
            await in_state(host, "a", EngineState.UNSUPPORTED if half.endswith("Ech") else EngineState.FAILED)
            assert host.problems()
            file.write(text[len(half) :])
        await answers(host, "a", "whole")
        assert host.catalog.records["a"].state is EngineState.READY
        assert host.problems() == []


async def test_a_broken_edit_leaves_the_old_version_serving_as_stale(
    folder: Path, registry: PluginRegistry
) -> None:
    path = folder / "a.smss"
    path.write_text(smss("a", "good"))
    async with serving(folder, registry) as host:
        path.write_text("ENGINE_CLASS = Echo\nFUNCTION_NAM")
        await in_state(host, "a", EngineState.STALE)
        assert await host.call("a") == "good"
        assert host.catalog.records["a"].reason
        path.write_text(smss("a", "better"))
        await answers(host, "a", "better")
        assert host.catalog.records["a"].state is EngineState.READY
        assert host.problems() == []


async def test_a_folder_that_is_swapped_never_loses_its_functions(
    folder: Path, registry: PluginRegistry
) -> None:
    (folder / "a.smss").write_text(smss("a", "1"))
    other = folder.with_name("other")
    other.mkdir()
    (other / "a.smss").write_text(smss("a", "2"))
    async with serving(folder, registry) as host, never_missing(host, "a"):
        folder.rename(folder.with_name("old"))
        other.rename(folder)
        await answers(host, "a", "2")


async def test_one_edit_after_another_is_live(folder: Path, registry: PluginRegistry) -> None:
    path = folder / "a.smss"
    path.write_text(smss("a", "0"))
    async with serving(folder, registry) as host:
        for number in range(1, 4):
            path.write_text(smss("a", str(number)))
            await answers(host, "a", str(number))


async def test_a_folder_that_is_swapped_again_and_again_never_loses_its_functions(
    folder: Path, registry: PluginRegistry, grace: Grace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enginehost.following.FOLDER_GRACE_SECONDS", 3600.0)
    (folder / "a.smss").write_text(smss("a", "1"))
    aside = folder.with_name("aside")
    async with serving(folder, registry) as host, never_missing(host, "a"):
        for _ in range(4):
            with grace.lasting():
                folder.rename(aside)
                async with asyncio.timeout(SECONDS):
                    await grace.begun.wait()
                assert await host.call("a") == "1"
                aside.rename(folder)
            assert await host.call("a") == "1"
        (folder / "a.smss").write_text(smss("a", "2"))
        await answers(host, "a", "2")
