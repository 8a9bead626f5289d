"""What engines say of their functions and of themselves, at their start and while they serve."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from enginehost.engine import EngineState, Function

from .conftest import AtOnce, Player, a_world, load_one, smss


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
