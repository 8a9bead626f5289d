"""The ids of engines where files declare one twice, or change what they declare."""

from __future__ import annotations

import asyncio
import threading

from .conftest import Player, a_world, load_one, smss


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
