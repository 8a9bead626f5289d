"""Engines of files through any history: what serves at the end, and that everything is closed once."""

from __future__ import annotations

import asyncio
import logging
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from enginehost import retries
from enginehost.catalog import Catalog
from enginehost.config import EngineConfig
from enginehost.engine import AbstractFunctionEngine, EngineState, Function, HostAccess
from enginehost.entrypoints import ENGINES, Alias
from enginehost.folder import look
from enginehost.lifecycle import Engines
from enginehost.loader import Loader, sources
from enginehost.plugins import PluginRegistry
from enginehost.redaction import Redactor
from enginehost.secrets import Secrets


class PlayConfig(EngineConfig):
    """How the engine behaves."""

    text: str = Field(default="", description="What it answers.")
    opening: str = Field(default="", description="What open() does.")
    closing: str = Field(default="", description="What close() does.")
    telling: str = Field(default="", description="What functions() does.")


class Player(AbstractFunctionEngine):
    """Does what its file says; remembers all that were opened and closed."""

    config_model = PlayConfig
    config: PlayConfig
    opened: ClassVar[list[Player]] = []
    closed: ClassVar[list[Player]] = []
    more: ClassVar[dict[str, list[str]]] = {}
    release: ClassVar[asyncio.Event]

    async def open(self) -> None:
        Player.opened.append(self)
        await behave(self.config.opening)

    async def close(self) -> None:
        Player.closed.append(self)
        await behave(self.config.closing)

    def functions(self) -> Any:
        if self.config.telling == "raises":
            raise RuntimeError("cannot tell")
        if self.config.telling == "lies":
            return ["add"]
        if self.config.telling == "later" and self in Player.opened:
            raise RuntimeError("cannot tell any more")
        mine = self.context.function(self.answer)
        names = Player.more.get(str(self.context.path), [])
        return [mine, *(self.context.function(self.answer, name=name) for name in names)]

    async def answer(self, arguments: dict[str, Any], call: Any) -> str:
        return self.config.text


class AtOnce(AbstractFunctionEngine):
    """Needs no opening; its close is counted like a Player's."""

    config_model = PlayConfig
    config: PlayConfig

    def __init__(self, context: Any, config: Any) -> None:
        super().__init__(context, config)

    async def close(self) -> None:
        Player.closed.append(self)  # type: ignore[arg-type]

    async def execute(self, parameters: dict[str, Any]) -> str:
        return self.config.text


async def behave(how: str) -> None:
    match how:
        case "waits":
            await Player.release.wait()
        case "flag":
            if not Player.release.is_set():
                raise RuntimeError("not yet")
        case "turns":
            await asyncio.sleep(0)
        case "raises":
            raise RuntimeError("not today")
        case "times out":
            raise TimeoutError("the peer is silent")
        case "exits":
            raise SystemExit(3)
        case "cancels":
            raise asyncio.CancelledError
        case "ignores":
            while not Player.release.is_set():
                try:
                    await Player.release.wait()
                except asyncio.CancelledError:
                    continue
        case _:
            return


@dataclass
class World:
    """A folder and what serves it, without a watcher."""

    root: Path
    open_timeout: float = 5.0
    drain_seconds: float = 5.0
    catalog: Catalog = field(default_factory=Catalog)

    def __post_init__(self) -> None:
        redactor = Redactor()
        secrets = Secrets(redactor=redactor)
        registry = PluginRegistry(())
        for name, cls in (("Player", Player), ("AtOnce", AtOnce)):
            registry.add_engine_class(Alias(name, f"tests:{name}", ENGINES, "tests", "1"), cls)
        self.told: list[Path] = []
        loader = Loader(
            registry, secrets, sources(secrets, self.root), HostAccess(), redactor, self.told.append
        )
        self.engines = Engines(
            self.catalog,
            loader,
            self.root,
            open_timeout=self.open_timeout,
            drain_seconds=self.drain_seconds,
        )

    async def catch_up(self) -> None:
        """Update to what the folder holds now, as the watcher would."""
        files = look(self.root).files
        known = self.engines.files
        changed = {path: seen for path, seen in files.items() if known.get(path) != seen}
        await self.engines.update(changed, [path for path in known if path not in files])

    async def settled(self) -> None:
        assert await self.engines.opened(20)

    def serving(self) -> dict[str, tuple[str, str]]:
        """Name → the file that serves it and its text."""
        found: dict[str, tuple[str, str]] = {}
        for entry in self.catalog:
            engine: Any = entry.record.engine
            assert engine is not None
            assert engine not in Player.closed
            found[entry.name] = (entry.record.path.relative_to(self.root).as_posix(), engine.config.text)  # type: ignore[union-attr]
        return found

    def shown(self) -> dict[str, tuple[str, str, list[str]]]:
        """Engine id → its file, state and the codes of its findings."""
        assert all(engine_id == record.engine_id for engine_id, record in self.catalog.records.items())
        return {
            engine_id: (
                record.path.relative_to(self.root).as_posix(),  # type: ignore[union-attr]
                str(record.state),
                sorted(found.code for found in record.diagnostics),
            )
            for engine_id, record in self.catalog.records.items()
        }


@contextmanager
def a_world(**options: Any) -> Iterator[World]:
    Player.opened, Player.closed, Player.more = [], [], {}
    Player.release = asyncio.Event()
    with tempfile.TemporaryDirectory() as folder:
        yield World(Path(folder), **options)


def smss(name: str, text: str = "", kind: str = "Player", **keys: str) -> str:
    lines = [
        f"ENGINE_CLASS = {kind}",
        f"FUNCTION_NAME = {name}",
        "FUNCTION_DESCRIPTION = d",
        f"TEXT = {text}",
    ]
    return "\n".join((*lines, *(f"{key.upper()} = {value}" for key, value in keys.items()), ""))


PATHS = ("a.smss", "b.smss", "c.smss", "x/a.smss", "y/a.smss", "y/b.smss")
paths = st.sampled_from(PATHS)


def writes(*ids: str) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(
        st.just("write"),
        paths,
        st.sampled_from(("f", "g", "h")),
        st.sampled_from(("", "one", "two", *ids)),
        st.sampled_from(("Player", "Player turns", "AtOnce")),
    )


operations = st.one_of(
    writes(),
    writes(),
    st.tuples(st.just("break"), paths, st.sampled_from(("empty", "half", "kind", "open"))),
    st.tuples(st.just("delete"), paths),
    st.tuples(st.just("rename"), paths, paths),
    st.tuples(st.just("look")),
    st.tuples(st.just("settle")),
)


class Files:
    """The files, and for each its last good content since it was last absent."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.good: dict[str, str] = {}
        self.broken: set[str] = set()
        self.count = 0

    def do(self, operation: tuple[Any, ...]) -> None:
        kind, *rest = operation
        path = self.root / rest[0] if rest else self.root
        if kind == "write":
            _, name, engine, how = rest
            self.count += 1
            keys = {"engine": engine} if engine else {}
            alias, _, opening = how.partition(" ")
            text = smss(name, str(self.count), alias, opening=opening, **keys)
            self.write(rest[0], text)
            self.good[rest[0]] = text
            self.broken.discard(rest[0])
        elif kind == "break":
            self.count += 1
            self.write(rest[0], self.bad(rest[0], rest[1]) + f"# {self.count}\n")
            self.broken.add(rest[0])
        elif kind == "delete":
            path.unlink(missing_ok=True)
            self.forget(rest[0])
        elif kind == "rename" and path.exists() and rest[0] != rest[1]:
            (self.root / rest[1]).parent.mkdir(exist_ok=True)
            path.rename(self.root / rest[1])
            content = (self.root / rest[1]).read_text()
            was_broken = rest[0] in self.broken
            self.forget(rest[0])
            if was_broken:
                self.broken.add(rest[1])
            else:
                self.good[rest[1]] = content
                self.broken.discard(rest[1])

    def bad(self, path: str, how: str) -> str:
        content = self.good.get(path, smss("f"))
        return {
            "empty": "",
            "half": content[: len(content) // 3],
            "kind": content.replace("Player", "Nobody").replace("AtOnce", "Nobody"),
            "open": smss("f", "x", opening="raises"),
        }[how]

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(exist_ok=True)
        (self.root / path).write_text(text)

    def forget(self, path: str) -> None:
        self.good.pop(path, None)
        self.broken.discard(path)


async def _history(steps: list[tuple[Any, ...]]) -> None:
    before = asyncio.all_tasks()
    with a_world() as world:
        files = Files(world.root)
        for step in steps:
            if step[0] == "look":
                await world.catch_up()
            elif step[0] == "settle":
                await world.settled()
            else:
                files.do(step)
                # Every content is seen and opened, so that the last good one is known.
                await world.catch_up()
                await world.settled()
        await world.catch_up()
        await world.settled()
        # A fresh start on the last good contents; broken files that never were good stay as they are.
        for path in files.broken & set(files.good):
            files.write(path, files.good[path])
        fresh = World(world.root)
        await fresh.catch_up()
        await fresh.settled()
        assert world.serving() == fresh.serving()
        stale = {path for path in files.broken if path in files.good}
        for engine_id, (path, state, codes) in fresh.shown().items():
            mine = world.shown()[engine_id]
            if path in stale:
                assert mine[:2] == (path, "stale")
            else:
                assert mine == (path, state, codes)
        assert set(world.shown()) == set(fresh.shown())
        await world.engines.close()
        await fresh.engines.close()
        assert dict(world.catalog.records) == {}
        assert len(world.catalog) == 0
        closed = [id(engine) for engine in Player.closed]
        assert len(closed) == len(set(closed))
        assert {id(engine) for engine in Player.opened} <= set(closed)
    assert asyncio.all_tasks() == before


@given(steps=st.lists(operations, max_size=14))
@settings(max_examples=60, deadline=None)
def test_any_history_of_files_ends_in_what_a_fresh_start_gives(steps: list[tuple[Any, ...]]) -> None:
    asyncio.run(_history(steps))


@given(steps=st.lists(operations | writes("one~b"), max_size=14), seed=st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_overlapping_updates_leave_no_ghost_and_close_everything_once(
    steps: list[tuple[Any, ...]], seed: int
) -> None:
    """Files change while earlier versions are still being read and opened."""

    async def play() -> None:
        with a_world() as world:
            files, running = Files(world.root), list[asyncio.Task[None]]()
            for step in steps:
                files.do(step)
                running.append(asyncio.create_task(world.catch_up()))
                for _ in range(seed):
                    await asyncio.sleep(0)
            await asyncio.gather(*running)
            await world.catch_up()
            await world.settled()
            files_now = {path.relative_to(world.root).as_posix() for path in look(world.root).files}
            assert {path for path, _, _ in world.shown().values()} == files_now
            fresh = World(world.root)
            await fresh.catch_up()
            await fresh.settled()
            for name, (path, text) in fresh.serving().items():
                if path in files.good and path not in files.broken:
                    assert text in files.good[path]
                    assert name in world.serving()
            await world.engines.close()
            await fresh.engines.close()
            closed = [id(engine) for engine in Player.closed]
            assert len(closed) == len(set(closed))
            assert {id(engine) for engine in Player.opened} <= set(closed)

    asyncio.run(play())


async def load_one(world: World, **keys: str) -> None:
    (world.root / "a.smss").write_text(smss("f", **keys))
    await world.catch_up()


@pytest.mark.parametrize(
    ("opening", "reason"),
    [
        ("waits", "did not open within 0.05 s"),
        ("ignores", "did not open within 0.05 s"),
        ("raises", "not today"),
        ("times out", "the peer is silent"),
        ("exits", "tried to exit"),
        ("cancels", "cancelled itself"),
    ],
)
async def test_an_engine_that_does_not_open_fails_with_the_reason_and_is_closed(
    opening: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("enginehost.patience.GRACE_SECONDS", 0.05)
    with a_world(open_timeout=0.05 if opening in ("waits", "ignores") else 20) as world:
        await load_one(world, opening=opening)
        await world.settled()
        record = world.catalog.records["a"]
        assert record.state is EngineState.FAILED
        assert reason in record.reason
        assert len(Player.closed) == 1
        Player.release.set()
        await world.engines.close()


@pytest.mark.parametrize("closing", ["waits", "ignores", "raises", "exits", "cancels"])
async def test_an_engine_that_does_not_close_holds_nothing_back(
    closing: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("enginehost.patience.GRACE_SECONDS", 0.05)
    monkeypatch.setattr("enginehost.lifecycle.CLOSE_SECONDS", 0.05)
    with a_world(drain_seconds=0.05) as world:
        await load_one(world, closing=closing)
        await world.settled()
        async with asyncio.timeout(5):
            await world.engines.close()
        assert len(Player.closed) == 1
        assert "did not close cleanly" in caplog.text
        Player.release.set()


async def test_a_stop_while_an_engine_opens_closes_it_and_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("enginehost.patience.GRACE_SECONDS", 0.05)
    for opening in ("waits", "ignores"):
        with a_world() as world:
            await load_one(world, opening=opening)
            while not Player.opened:
                await asyncio.sleep(0)
            async with asyncio.timeout(5):
                await world.engines.close()
            assert Player.closed == Player.opened
            Player.release.set()


@pytest.mark.parametrize(("telling", "reason"), [("raises", "cannot tell"), ("lies", "functions() gave str")])
async def test_an_engine_that_cannot_tell_its_functions_fails(telling: str, reason: str) -> None:
    with a_world() as world:
        await load_one(world, telling=telling)
        assert reason in world.catalog.records["a"].reason
        assert world.serving() == {}
        await world.engines.close()


async def test_an_engine_that_cannot_tell_its_functions_after_opening_fails_and_is_closed() -> None:
    with a_world() as world:
        await load_one(world, telling="later")
        await world.settled()
        assert "cannot tell any more" in world.catalog.records["a"].reason
        assert Player.closed == Player.opened
        await world.engines.close()


async def test_an_edit_that_fails_halfway_keeps_the_old_version_though_its_id_changed() -> None:
    with a_world() as world:
        await load_one(world, engine="the-id")
        await world.settled()
        for broken in ("", "ENGINE_CLASS = Player\nFUNC", smss("f", opening="raises", engine="another")):
            (world.root / "a.smss").write_text(broken)
            await world.catch_up()
            await world.settled()
            assert world.shown()["the-id"][1] == "stale"
            assert list(world.serving()) == ["f"]
        (world.root / "a.smss").write_text(smss("f", "new", engine="another"))
        await world.catch_up()
        await world.settled()
        assert list(world.shown()) == ["another"]
        assert world.serving() == {"f": ("a.smss", "new")}
        await world.engines.close()


async def test_files_of_one_name_in_three_folders_all_serve() -> None:
    with a_world() as world:
        for number, folder in enumerate(("x", "y", "z")):
            (world.root / folder).mkdir()
            (world.root / folder / "add.smss").write_text(smss(f"f{number}"))
        await world.catch_up()
        await world.settled()
        assert list(world.serving()) == ["f0", "f1", "f2"]
        assert sorted(world.shown()) == ["add", "add~y/add", "add~z/add"]
        await world.engines.close()


async def test_an_engine_that_changes_from_another_thread_is_asked_again_also_under_a_derived_id() -> None:
    with a_world() as world:
        for path in ("a.smss", "b.smss"):
            (world.root / path).write_text(smss(path[0], engine="one"))
        await world.catch_up()
        await world.settled()
        path = world.root / "b.smss"
        Player.more[str(path)] = ["more"]
        engine = world.catalog.records["one~b"].engine
        assert engine is not None
        thread = threading.Thread(target=engine.context.changed)
        thread.start()
        await asyncio.to_thread(thread.join)
        assert world.told == [path]
        world.engines.functions_changed(path)
        assert world.serving()["more"] == ("b.smss", "")
        await world.engines.close()


async def test_a_change_told_while_the_engine_is_being_made_is_not_lost() -> None:
    with a_world() as world:
        path = world.root / "a.smss"
        path.write_text(smss("f", kind="AtOnce"))
        asked: list[int] = []
        entered, go_on = threading.Event(), threading.Event()

        def told(self: Any) -> list[Function]:
            asked.append(1)
            if len(asked) == 1:
                entered.set()
                assert go_on.wait(10)
            return [self.context.function(self.execute)]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(AtOnce, "functions", told)
            update = asyncio.create_task(world.catch_up())
            assert await asyncio.to_thread(entered.wait, 10)
            world.engines.functions_changed(path)
            go_on.set()
            await update
        assert len(asked) == 2
        await world.engines.close()


async def test_an_engine_that_can_no_longer_tell_keeps_what_it_told(caplog: pytest.LogCaptureFixture) -> None:
    with a_world() as world:
        await load_one(world)
        await world.settled()
        with pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.ERROR):
            patch.setattr(Player, "functions", lambda self: [1])
            world.engines.functions_changed(world.root / "a.smss")
        world.engines.functions_changed(world.root / "nothing.smss")
        assert list(world.serving()) == ["f"]
        assert "could not say which functions it has" in caplog.text
        await world.engines.close()


async def test_only_files_that_gave_no_engine_are_tried_again_when_something_beside_them_changes() -> None:
    with a_world() as world:
        for path, telling in (("a.smss", "raises"), ("b.smss", ""), ("x/c.smss", "raises")):
            (world.root / path).parent.mkdir(exist_ok=True)
            (world.root / path).write_text(smss(path[-6], telling=telling))
        await world.catch_up()
        await world.settled()
        unmade = world.engines.unmade
        assert unmade(world.root / "script.py") == [world.root / "a.smss"]
        assert len(unmade(world.root / "x" / "deep" / "script.py")) == len(unmade()) == 2
        assert unmade(world.root.parent / "script.py") == []
        await world.engines.close()


async def test_an_engine_that_says_that_it_cannot_serve_is_withdrawn_until_it_says_otherwise() -> None:
    with a_world() as world:
        (world.root / "a.smss").write_text(smss("f", "one"))
        await world.catch_up()
        await world.settled()
        record = world.catalog.records["a"]
        world.engines.engine_failed(record, "the database is down")
        world.engines.engine_failed(record, "still down")
        assert world.shown() == {"a": ("a.smss", "failed", ["cannot-serve"])}
        assert (world.serving(), record.reason) == ({}, "still down")
        world.engines.functions_changed(world.root / "a.smss")
        assert world.shown() == {"a": ("a.smss", "ready", [])}
        assert world.serving() == {"f": ("a.smss", "one")}
        await world.engines.close()
        assert Player.opened == Player.closed


async def test_a_stale_engine_that_failed_meanwhile_is_stale_again_when_it_serves() -> None:
    with a_world() as world:
        (world.root / "a.smss").write_text(smss("f", "one"))
        await world.catch_up()
        await world.settled()
        (world.root / "a.smss").write_text(smss("f", "two", opening="raises"))
        await world.catch_up()
        await world.settled()
        record = world.catalog.records["a"]
        assert record.state is EngineState.STALE
        stale = record.reason
        world.engines.engine_failed(record, "down")
        world.engines.functions_changed(world.root / "a.smss")
        assert (record.state, record.reason) == (EngineState.STALE, stale)
        await world.engines.close()
        assert sorted(map(id, Player.opened)) == sorted(map(id, Player.closed))


@pytest.mark.parametrize("opening", ["", "raises"])
async def test_a_failed_engine_gives_way_to_the_next_version_and_is_closed(opening: str) -> None:
    with a_world() as world:
        (world.root / "a.smss").write_text(smss("f", "one"))
        await world.catch_up()
        await world.settled()
        old = world.catalog.records["a"]
        world.engines.engine_failed(old, "down")
        (world.root / "a.smss").write_text(smss("f", "two", opening=opening))
        await world.catch_up()
        await world.settled()
        state = "failed" if opening else "ready"
        assert world.shown()["a"][1] == state
        world.engines.engine_failed(old, "an old version has nothing to say")
        assert world.shown()["a"][1] == state
        await world.engines.close()
        assert sorted(map(id, Player.opened)) == sorted(map(id, Player.closed))


async def test_what_did_not_open_is_opened_when_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_SECONDS", 0.01)
    with a_world() as world:
        (world.root / "a.smss").write_text(smss("f", "one", opening="flag"))
        await world.catch_up()
        await world.settled()
        assert world.shown()["a"][1] == "failed"
        Player.release.set()
        async with asyncio.timeout(10):
            while world.shown()["a"][1] != "ready":
                await asyncio.sleep(0.01)
        await world.engines.close()
