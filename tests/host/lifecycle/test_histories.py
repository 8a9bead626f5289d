"""Through any history of files: what serves at the end, and that everything is closed once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.folder import look

from .conftest import Player, World, a_world, smss

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
