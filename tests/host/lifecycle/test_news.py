"""What the log says of engines while the host runs: each thing once, and a thousand in a few lines."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from enginehost import news
from enginehost.engine import EngineState

from .conftest import Player, World, a_world, smss


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(news, "MOMENT_SECONDS", 0.01)


@contextmanager
def following(caplog: pytest.LogCaptureFixture) -> Iterator[World]:
    """A world whose start is over."""
    caplog.set_level(logging.INFO, "enginehost")
    with a_world() as world:
        world.engines.news.start()
        yield world


async def lines(world: World, caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the folder as it is now makes the log say, without where the folder is."""
    caplog.clear()
    await world.catch_up()
    await world.settled()
    async with asyncio.timeout(10):
        while world.engines.news._timer is not None:
            await asyncio.sleep(0.001)
    said = [record for record in caplog.records if record.name == "enginehost.news"]
    return [f"{r.levelname} {r.getMessage().replace(f'{world.root}/', '')}" for r in said]


def write(world: World, name: str, text: str) -> Path:
    path = world.root / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


async def test_what_comes_changes_and_goes_is_told_by_its_file_and_its_function(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with following(caplog) as world:
        path = write(world, "x/a.smss", smss("f"))
        assert await lines(world, caplog) == ["INFO loaded x/a.smss (f)"]
        write(world, "x/a.smss", smss("a", "two"))
        assert await lines(world, caplog) == ["INFO reloaded x/a.smss"]
        path.unlink()
        assert await lines(world, caplog) == ["INFO removed x/a.smss"]
        assert await lines(world, caplog) == []
        await world.engines.close()


async def test_a_problem_is_told_once_and_again_when_it_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    with following(caplog) as world:
        path = write(world, "a.smss", smss("a", tex="x"))
        (warning,) = [line for line in await lines(world, caplog) if "WARNING" in line]
        assert warning == "WARNING a.smss:5:1: the key TEX has no effect (did you mean TEXT?)"
        write(world, "b.smss", smss("b"))
        assert await lines(world, caplog) == ["INFO loaded b.smss"]
        await world.engines.update({path: world.engines.files[path]})  # a look at everything
        assert [line for line in await lines(world, caplog) if "TEX" in line] == []
        write(world, "a.smss", smss("a"))
        assert await lines(world, caplog) == ["INFO reloaded a.smss"]
        write(world, "a.smss", smss("a", tex="x"))
        assert warning in await lines(world, caplog)
        await world.engines.close()


async def test_what_broke_and_what_serves_again_are_told(caplog: pytest.LogCaptureFixture) -> None:
    with following(caplog) as world:
        write(world, "a.smss", smss("a"))
        write(world, "b.smss", smss("b", kind="Plyer"))
        told = await lines(world, caplog)
        assert told[0] == "INFO loaded a.smss"
        assert told[1].startswith(
            "ERROR b.smss:1:1: no plugin provides the engine class 'Plyer' (did you mean"
        )
        write(world, "a.smss", smss("a", opening="raises"))
        (stale,) = await lines(world, caplog)
        assert stale.startswith("ERROR a.smss: RuntimeError: not today; the version before stays (")
        write(world, "a.smss", smss("a"))
        write(world, "b.smss", smss("b", kind="AtOnce"))
        assert await lines(world, caplog) == ["INFO serves now: a.smss, b.smss"]
        record = world.catalog.records["a"]
        caplog.clear()
        world.engines.engine_failed(record, "the database is down")
        (failed,) = await lines(world, caplog)
        assert failed.startswith("ERROR a.smss: the database is down (")
        world.engines.functions_changed(world.root / "a.smss")
        assert await lines(world, caplog) == ["INFO serves now: a.smss"]
        await world.engines.close()


async def test_an_engine_that_is_tried_again_and_again_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with following(caplog) as world:
        path = write(world, "a.smss", smss("a", opening="flag"))
        told = [line for _ in range(2) for line in await lines(world, caplog)]
        for _ in range(3):
            await world.engines.update({path: world.engines.files[path]})
            told += await lines(world, caplog)
        (problem,) = told
        assert "RuntimeError: not yet" in problem
        Player.release.set()
        await world.engines.update({path: world.engines.files[path]})
        assert await lines(world, caplog) == ["INFO loaded a.smss"]
        await world.engines.close()


async def test_a_name_that_is_taken_is_told_and_so_is_that_it_is_free_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with following(caplog) as world:
        first = write(world, "a.smss", smss("f", "one"))
        write(world, "b.smss", smss("f", "two"))
        assert await lines(world, caplog) == [
            "INFO loaded a.smss (f)",
            "WARNING b.smss: 'f' is also declared by a.smss, which keeps the name"
            " (give one of them another FUNCTION_NAME)",
        ]
        assert world.catalog.records["b"].state is EngineState.CONFLICT
        first.unlink()
        assert await lines(world, caplog) == ["INFO removed a.smss (f)", "INFO serves now: b.smss (f)"]
        assert world.serving() == {"f": ("b.smss", "two")}
        await world.engines.close()


async def test_a_thousand_files_make_a_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    with following(caplog) as world:
        for number in range(1000):
            write(world, f"f{number:03}.smss", smss(f"f{number:03}", kind="AtOnce", tex="x"))
        told = await lines(world, caplog)
        assert told[0] == (
            f"INFO loaded 1000 engines: {', '.join(f'f{n:03}.smss' for n in range(10))} and 990 more"
        )
        assert len(told) == 12
        assert told[-1].startswith("WARNING and 990 problems more")
        await world.engines.close()


async def test_a_traceback_is_told_once_and_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    def raises() -> None:
        raise RuntimeError("cannot connect with hunter2-hunter2")

    with following(caplog) as world:
        for name in ("a", "b"):
            write(world, f"{name}.smss", smss(name))
        await lines(world, caplog)
        world.redact("hunter2-hunter2")
        try:
            raises()
        except RuntimeError as error:
            for name in ("a", "b"):
                world.engines.engine_failed(world.catalog.records[name], "the database is down", error)
        told = await lines(world, caplog)
        assert len(told) == 2
        shown = [record.exc_info for record in caplog.records if record.exc_info]
        ((_, traceback, _),) = [one for one in shown if isinstance(one, tuple)]
        assert "in raises" in str(traceback)
        assert "hunter2" not in str(traceback)
        await world.engines.close()


async def test_the_start_tells_problems_alone_and_the_end_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "enginehost")
    with a_world() as world:
        write(world, "a.smss", smss("a", tex="x"))
        write(world, "b.smss", smss("b"))
        assert await lines(world, caplog) == []
        world.engines.news.start()
        (said,) = caplog.records
        problem: Any = getattr(said, "problem", {})
        assert (problem["code"], problem["line"]) == ("unknown-key", 5)
        caplog.clear()
        await world.engines.close()
        assert caplog.records == []
