"""Engines that are slow to open or to close, or fail at it."""

from __future__ import annotations

import asyncio
from pathlib import PurePath

import pytest

from enginehost import retries
from enginehost.engine import EngineState

from .conftest import Player, a_world, load_one, smss


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
    monkeypatch.setattr("enginehost.closing.CLOSE_SECONDS", 0.05)
    with a_world(drain_seconds=0.05) as world:
        await load_one(world, closing=closing)
        await world.settled()
        async with asyncio.timeout(5):
            await world.engines.close()
        assert len(Player.closed) == 1
        assert "did not close cleanly" in caplog.text
        Player.release.set()


async def test_a_stop_waits_no_second_time_for_calls(caplog: pytest.LogCaptureFixture) -> None:
    with a_world(drain_seconds=600) as world:
        for name in ("a", "b"):
            (world.root / f"{name}.smss").write_text(smss(name, "one"))
        await world.catch_up()
        await world.settled()
        world.catalog.records["a"].running = 1
        world.catalog.records["b"].running = 1
        (world.root / "a.smss").unlink()
        await world.catch_up()  # it drains: one of its calls runs
        async with asyncio.timeout(5):
            await world.engines.close()
        assert len(Player.closed) == 2
        assert caplog.text.count("is closed with 1 calls running") == 2


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


async def test_many_engines_that_open_are_not_compared_with_one_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count, compared, equal = 300, 0, PurePath.__eq__

    def counted(one: PurePath, other: object) -> bool:
        nonlocal compared
        compared += 1
        return equal(one, other)

    with a_world() as world:
        for number in range(count):
            (world.root / f"{number}.smss").write_text(smss(f"f{number}", opening="turns"))
        monkeypatch.setattr(PurePath, "__eq__", counted)
        await world.catch_up()
        await world.settled()
        assert len(world.catalog) == count
        assert compared < 20 * count
        await world.engines.close()
