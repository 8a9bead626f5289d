"""A process that takes the place of one that died need not wait for its lease."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from enginehost.agents.holders import Place

pytest.importorskip("fcntl")


def test_who_has_a_place_is_known_as_those_before_it_and_as_nobody_beside_it(tmp_path: Path) -> None:
    with Place(tmp_path) as one, Place(tmp_path) as other:
        assert one.origin
        assert one.origin != other.origin
    with Place(tmp_path) as next_one:
        assert next_one.origin == one.origin
    with Place(tmp_path / "copy") as copied:
        assert copied.origin not in (one.origin, other.origin)


def test_where_nothing_can_be_written_the_lease_says_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with Place(tmp_path / "file") as place:
        assert place.origin == ""


async def test_what_others_of_a_place_held_is_free_and_nothing_else(world: Any) -> None:
    store = (await world.start()).store
    held: dict[str, str] = {}
    for holder in ("place.before", "place.now", "elsewhere.1", "places.2"):
        session = await world.agents.start(agent="helper")
        await store.beat(holder, 1_000.0)
        held[holder] = (await store.start_run(session.id, holder, session.owner)).id
        assert (await store.claim(holder, [holder], lease=1_000.0)).id == held[holder]
    await store.succeed("place", "place.now")
    taken = [await store.claim("place.now", [holder]) for holder in held]
    assert [run.id if run is not None else "" for run in taken] == [held["place.before"], "", "", ""]
