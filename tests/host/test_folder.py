"""What a person relies on who drops, edits, renames and deletes files while the host runs."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from enginehost import Host, HostSettings
from enginehost.config import EngineConfig
from enginehost.engine import AbstractFunctionEngine, Call, EngineContext, EngineState
from enginehost.entrypoints import ENGINES, Alias
from enginehost.errors import ConfigError, EngineUnavailable, UnknownFunction
from enginehost.following import Following
from enginehost.plugins import PluginRegistry

SECONDS = 60.0
"""How long a test waits for what should take a fraction of a second."""


class EchoConfig(EngineConfig):
    """Keys of the test engine."""

    text: str = Field(default="", description="What it answers.")
    script: str = Field(default="", description="A file it depends on.")
    open_waits: bool = Field(default=False, description="Whether opening waits until it is let go.")
    open_fails: bool = Field(default=False, description="Whether opening fails.")
    wait: bool = Field(default=False, description="Whether a call waits until released.")
    must_exist: bool = Field(default=False, description="Whether no engine is made without the script.")


class Echo(AbstractFunctionEngine):
    """Answers with its text; remembers the engines that were closed."""

    config_model = EchoConfig
    config: EchoConfig
    closed: list[str] = []  # noqa: RUF012 - the tests read it
    opening: list[str] = []  # noqa: RUF012 - likewise
    opens: asyncio.Event
    release: asyncio.Event

    def __init__(self, context: EngineContext, config: EchoConfig) -> None:
        super().__init__(context, config)
        if config.must_exist and not (context.folder / config.script).exists():
            raise ConfigError(f"there is no file {config.script}")

    async def open(self) -> None:
        if self.config.open_waits:
            Echo.opening.append(self.config.text)
            await Echo.opens.wait()
        if self.config.open_fails:
            raise RuntimeError("cannot open today")

    async def close(self) -> None:
        Echo.closed.append(self.config.text)

    def watched(self) -> list[Path]:
        return [self.context.folder / self.config.script] if self.config.script else []

    async def execute(self, parameters: dict[str, Any], call: Call) -> str:
        if self.config.wait:
            await Echo.release.wait()
        if self.config.script:
            return (self.context.folder / self.config.script).read_text()
        return self.config.text


@pytest.fixture
def registry() -> PluginRegistry:
    registry = PluginRegistry([])
    registry.add_engine_class(Alias("Echo", "tests:Echo", ENGINES, "tests", "1"), Echo)
    Echo.closed, Echo.opening = [], []
    return registry


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "smss"
    folder.mkdir()
    return folder


def smss(name: str, text: str = "", **keys: Any) -> str:
    lines = [f"ENGINE_CLASS = Echo\nFUNCTION_NAME = {name}\nFUNCTION_DESCRIPTION = d\nTEXT = {text}\n"]
    lines += [f"{key.upper()} = {value}\n" for key, value in keys.items()]
    return "".join(lines)


@asynccontextmanager
async def serving(folder: Path, registry: PluginRegistry, **settings: Any) -> AsyncIterator[Host]:
    host = Host(folder, None, settings=HostSettings(**settings), registry=registry)
    await host.start()
    try:
        yield host
    finally:
        await host.stop(drain=0.5)


async def eventually(check: Callable[[], Awaitable[bool]]) -> float:
    """Seconds until ``check`` holds; fails after :data:`SECONDS`."""
    started = time.monotonic()
    while time.monotonic() - started < SECONDS:
        if await check():
            return time.monotonic() - started
        await asyncio.sleep(0.01)
    pytest.fail(f"not so within {SECONDS:g} s")


async def answers(host: Host, name: str, text: str) -> float:
    async def check() -> bool:
        try:
            return await host.call(name) == text
        except (UnknownFunction, EngineUnavailable):
            return False

    return await eventually(check)


async def vanishes(host: Host, name: str) -> float:
    async def check() -> bool:
        return host.catalog.get(name) is None

    return await eventually(check)


async def in_state(host: Host, engine_id: str, state: EngineState) -> None:
    async def check() -> bool:
        record = host.catalog.records.get(engine_id)
        return record is not None and record.state is state

    await eventually(check)


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


class Grace:
    """The time that something may be gone, which is over when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.over = asyncio.Event()
        self.begun = asyncio.Event()
        self.over.set()
        monkeypatch.setattr(Following, "_pause", lambda following, seconds: self._pause())

    async def _pause(self) -> None:
        self.begun.set()
        await self.over.wait()

    @contextmanager
    def lasting(self) -> Generator[None]:
        """Meanwhile it is not over; ``begun`` is set when the host has seen that something is gone."""
        self.begun.clear()
        self.over.clear()
        try:
            yield
        finally:
            self.over.set()


@pytest.fixture
async def grace(monkeypatch: pytest.MonkeyPatch) -> Grace:
    return Grace(monkeypatch)


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


@asynccontextmanager
async def never_missing(host: Host, name: str) -> AsyncGenerator[None]:
    """Call ``name`` all the time meanwhile; each call has to be answered."""
    over, calls = asyncio.Event(), 0

    async def keep_calling() -> None:
        nonlocal calls
        while not over.is_set():
            await host.call(name)
            calls += 1
            await asyncio.sleep(0.001)

    caller = asyncio.create_task(keep_calling())
    try:
        yield
    finally:
        over.set()
        await caller
    assert calls


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


async def test_a_folder_that_is_not_there_yet(tmp_path: Path, registry: PluginRegistry) -> None:
    folder = tmp_path / "later"
    async with serving(folder, registry) as host:
        assert [problem.code for problem in host.problems()] == ["folder-missing"]
        folder.mkdir()
        (folder / "a.smss").write_text(smss("a", "1"))
        await answers(host, "a", "1")


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


async def test_one_edit_after_another_is_live(folder: Path, registry: PluginRegistry) -> None:
    path = folder / "a.smss"
    path.write_text(smss("a", "0"))
    async with serving(folder, registry) as host:
        for number in range(1, 4):
            path.write_text(smss("a", str(number)))
            await answers(host, "a", str(number))


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


NOT_UTF8 = os.fsdecode(b"bad\xff")


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
