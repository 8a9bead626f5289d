"""Recorded chains in both kinds of database."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

from enginehost.monitoring import database as chains
from enginehost.monitoring.database import DAY
from enginehost.monitoring.seen import Seen
from enginehost.store.connecting import database_of


async def test_parts_of_steps_from_several_writers_become_one_chain(url: str) -> None:
    await asyncio.to_thread(_parts, url)


def _parts(url: str) -> None:
    database = database_of(url, synchronous="normal", lock_timeout=5)
    database.upgrade()
    one, two = database.writer(), database.writer()
    chain, now = uuid.uuid4().hex, time.time()

    def seen(call: str, **more: Any) -> Seen:
        return Seen(chain, call, kind="call", **more)

    chains.write(database, two, [seen("b", parent="a", name="add", ended=now, outcome="internal")])
    chains.write(database, one, [seen("a", name="outer", started=now - 2)])
    chains.write(database, two, [seen("b", parent="a", started=now - 1, gave='"\0\ud800"')])
    chains.write(database, one, [seen("a", name="outer", started=now - 2, ended=now, outcome="ok")] * 2)
    head = chains.head_of(one, chain)
    assert head is not None
    assert (head.root, head.outcome, head.failed, head.started) == ("outer", "ok", True, now - 2)
    steps = chains.steps_of(one, chain)
    assert (steps["a"].outcome, steps["a"].duration) == ("ok", 2.0)
    assert (steps["b"].outcome, steps["b"].started, steps["b"].name) == ("internal", now - 1, "add")
    assert chains.beginning_with(one, chain[:20]) == [chain]
    assert chain in [found.chain for found in chains.latest(two, most=50, failed=True, root="outer")]
    chains.retire(database, one, now - DAY)
    assert chains.head_of(two, chain) is not None
    chains.retire(database, one, now + DAY)
    assert chains.head_of(two, chain) is None
    assert chains.steps_of(two, chain) == {}
    one.close()
    two.close()
