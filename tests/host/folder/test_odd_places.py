"""Links, pipes, names and folders that are not as they should be stop nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from enginehost import Host
from enginehost.plugins import PluginRegistry

from .conftest import (
    answers,
    eventually,
    serving,
    smss,
    vanishes,
)

NOT_UTF8 = os.fsdecode(b"bad\xff")


async def test_a_folder_that_is_not_there_yet(tmp_path: Path, registry: PluginRegistry) -> None:
    folder = tmp_path / "later"
    async with serving(folder, registry) as host:
        assert [problem.code for problem in host.problems()] == ["folder-missing"]
        folder.mkdir()
        (folder / "a.smss").write_text(smss("a", "1"))
        await answers(host, "a", "1")


async def test_deep_trees_beside_the_files_are_not_watched(folder: Path, registry: PluginRegistry) -> None:
    from enginehost.folder import look

    for tree in (".git/objects", "node_modules/x/y", "__pycache__"):
        (folder / tree).mkdir(parents=True)
    (folder / "kept").mkdir()
    assert sorted(path.name for path in look(folder).folders) == ["kept", "smss"]


async def test_a_symlink_loop_is_read_once(folder: Path, registry: PluginRegistry) -> None:
    (folder / "a.smss").write_text(smss("a", "1"))
    (folder / "loop").symlink_to(folder)
    async with serving(folder, registry) as host:
        assert [entry.name for entry in host.functions()] == ["a"]


async def test_a_link_to_a_folder_that_holds_it_brings_nothing_in(
    folder: Path, registry: PluginRegistry, tmp_path: Path
) -> None:
    (folder / "inner" / "deep").mkdir(parents=True)
    (folder / "inner" / "a.smss").write_text(smss("a"))
    (tmp_path / "secret.smss").write_text(smss("secret"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "b.smss").write_text(smss("b"))
    (folder / "out").symlink_to("../elsewhere")
    links = {
        folder / "uplink": "..",
        folder / "self": ".",
        folder / "odd.smss": "..",
        folder / "inner" / "deep" / "up": tmp_path,
        folder / "inner" / "deep" / "cycle": "..",
        tmp_path / "elsewhere" / "back": folder,
        tmp_path / "elsewhere" / "above": tmp_path,
    }
    for link, target in links.items():
        link.symlink_to(target)
    seen = {str(link).replace(str(tmp_path / "elsewhere"), str(folder / "out")) for link in links}
    async with serving(folder, registry) as host:
        assert [entry.name for entry in host.functions()] == ["a", "b"]
        problems = host.problems()
        assert {problem.message for problem in problems} == {"the link leads to a folder that holds it"}
        assert {problem.path for problem in problems} == seen


async def test_a_link_that_leads_nowhere_or_to_itself_is_left_out_with_a_warning(
    folder: Path, registry: PluginRegistry
) -> None:
    (folder / "a.smss").write_text(smss("a", "1"))
    (folder / "loop.smss").symlink_to("loop.smss")
    (folder / "one.smss").symlink_to("other.smss")
    (folder / "other.smss").symlink_to("one.smss")
    (folder / "dangling.smss").symlink_to("nowhere")

    def unusable(host: Host) -> dict[str, str]:
        return {Path(one.path).stem: one.message for one in host.problems() if one.code == "unusable-file"}

    async with serving(folder, registry) as host:
        assert await host.call("a") == "1"
        assert unusable(host) == dict.fromkeys(
            ("loop", "one", "other", "dangling"), "the link leads to no file"
        )
        (folder / "loop.smss").unlink()
        (folder / "late.smss").symlink_to("late.smss")

        async def told() -> bool:
            return unusable(host).keys() == {"late", "one", "other", "dangling"}

        await eventually(told)


async def test_a_folder_removed_while_the_host_runs_does_not_stop_it(
    folder: Path, registry: PluginRegistry
) -> None:
    (folder / "a.smss").write_text(smss("a", "1"))
    async with serving(folder, registry) as host:
        shutil.rmtree(folder)
        await vanishes(host, "a")
        folder.mkdir()
        (folder / "b.smss").write_text(smss("b", "2"))
        await answers(host, "b", "2")


@pytest.mark.parametrize("name", [f"{NOT_UTF8}.smss", f"{NOT_UTF8}.txt", f"{NOT_UTF8}/inner.smss"])
async def test_a_name_that_is_not_utf8_stops_nothing(
    name: str, folder: Path, registry: PluginRegistry
) -> None:
    async with serving(folder, registry) as host:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(smss("odd"))
        (folder / "a.smss").write_text(smss("a", "1"))
        await answers(host, "a", "1")
        (folder / "a.smss").write_text(smss("a", "2"))
        await answers(host, "a", "2")
        (folder / "a.smss").unlink()
        await vanishes(host, "a")
        assert host.functions() == []


async def test_a_file_whose_name_is_not_utf8_is_left_out_with_a_warning(
    folder: Path, registry: PluginRegistry
) -> None:
    (folder / f"{NOT_UTF8}.smss").write_text(smss("odd"))
    (folder / "a.smss").write_text(smss("a"))
    async with serving(folder, registry) as host:
        assert [entry.name for entry in host.functions()] == ["a"]
        [problem] = host.problems()
        assert (problem.code, problem.message) == ("unusable-file", "its name is not UTF-8")
        assert str(problem).encode()  # it can be printed and sent


@pytest.mark.parametrize("place", ["a.smss", "new.smss", "script"])
async def test_a_pipe_in_place_of_a_file_holds_up_nobody(
    place: str, folder: Path, registry: PluginRegistry
) -> None:
    (folder / "script").write_text("text")
    (folder / "a.smss").write_text(smss("a", script="script"))
    async with serving(folder, registry) as host:
        (folder / place).unlink(missing_ok=True)
        os.mkfifo(folder / place)
        (folder / "b.smss").write_text(smss("b", "1"))
        await answers(host, "b", "1")


async def test_links_out_of_the_folder_are_followed_but_not_into_the_systems(
    folder: Path, registry: PluginRegistry, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.smss").write_text(smss("a", "A"))
    (folder / "out").symlink_to(tmp_path / "elsewhere")
    for number, target in enumerate(("/proc", "/", "/proc/self/root", "/dev/fd")):
        (folder / f"system{number}").symlink_to(target)
    async with serving(folder, registry) as host:
        assert await host.call("a") == "A"
        assert len(host.functions()) == 1
        unusable = {problem.path for problem in host.problems() if problem.code == "unusable-file"}
        assert unusable == {str(folder / f"system{number}") for number in range(4)}
