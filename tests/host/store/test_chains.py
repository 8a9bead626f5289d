"""Recorded chains in both kinds of database."""

from __future__ import annotations

import asyncio
import time
import uuid
from contextlib import closing
from typing import Any

import pytest

from enginehost.monitoring import database as chains
from enginehost.monitoring.database import DAY
from enginehost.monitoring.decisions import Linked, linked, settle
from enginehost.monitoring.seen import Seen
from enginehost.store.connecting import database_of
from enginehost.store.link import Database, Link
from enginehost.values import encode


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


@pytest.mark.parametrize(
    ("decision", "ended", "status", "failed"),
    [
        ("approve", "ok", "ok", False),
        ("edit", "execution_failed", "execution_failed", True),
        ("approve", "waits_for_person", "waits", False),
        ("cancel", "cancelled", "cancelled", True),
        ("approve", "cancelled", "waits", False),  # who decided went before the answer came
        ("approve", "invalid_request", "waits", False),
        ("approve", "engine_unavailable", "waits", False),
    ],
)
async def test_a_chain_that_waited_elsewhere_ends_as_the_decision_of_its_conversation(
    url: str, decision: str, ended: str, status: str, failed: bool
) -> None:
    await asyncio.to_thread(_decided, url, decision, ended, status, failed)


def _decided(url: str, decision: str, ended: str, status: str, failed: bool) -> None:
    database = database_of(url, synchronous="normal", lock_timeout=5)
    database.upgrade()
    with closing(database.writer()) as link:
        _decided_in(database, link, decision, ended, status, failed)


def _decided_in(database: Database, link: Link, decision: str, ended: str, status: str, failed: bool) -> None:
    now = time.time()
    mine, others, deciding = (uuid.uuid4().hex for _ in range(3))

    def request(chain: str, outcome: str, **about: str) -> Seen:
        told = encode(about).decode()
        return Seen(
            chain, chain[16:], "", "request", "far.one", started=now, ended=now, outcome=outcome, about=told
        )

    chains.write(database, link, [request(mine, "waits_for_person", conversation=f"c{mine}")])
    chains.write(database, link, [request(others, "waits_for_person", conversation=f"c{others}")])
    decided = [request(deciding, ended, conversation=f"c{mine}", decision=decision)]
    chains.write(database, link, decided)
    for _ in range(2):  # of a batch that is written again nothing comes twice
        settle(database, link, decided)
    heads = {chain: chains.head_of(link, chain) for chain in (mine, others)}
    assert [(one.status, one.failed) for one in heads.values() if one is not None] == [
        (status, failed),
        ("waits", False),
    ]
    links = linked(link, [mine, others, deciding])
    stands = ended not in ("invalid_request", "engine_unavailable") and (decision, ended) != (
        "approve",
        "cancelled",
    )
    assert links == (
        {
            mine: [Linked(deciding, "decided_by", decision)],
            deciding: [Linked(mine, "decides", decision)],
        }
        if stands
        else {}
    )
    chains.retire(database, link, now + DAY)
