"""How calls end before their time: cancelled, left by their requester, or stopped with the host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from enginehost.databus import respond
from enginehost.databus.metadata import partition_of
from enginehost.engine import Call

from .wired_responder import MINE, Held, Make, error


async def test_a_cancelled_call_answers_that_it_was(provider: Make) -> None:
    one, held = provider(), Held()
    one.host.put("held", held.run)
    await one.ask("held", **{"from": MINE})
    await held.begun.wait()
    await one.ask("held", control="cancel", who="somebody else", **{"from": MINE})
    await one.ask("held", control="cancel", **{"from": MINE[::-1]})
    await one.ask("held", "another id", control="cancel", **{"from": MINE})
    await one.ask("held", "another id", control="credit", credit=7)
    assert not one.wire.replies
    await one.ask("held", control="cancel", **{"from": MINE})
    assert error(await one.wire.answered("r"))["code"] == "cancelled"
    assert held.cancelled == 1
    await one.ask("held", control="cancel", **{"from": MINE})  # too late, and of no account
    assert len(one.wire.replies) == 1
    assert one.host.stats("held").outcomes == {"cancelled": 1}  # type: ignore[union-attr]


async def test_a_call_that_is_cancelled_before_its_first_step_is_answered_and_not_run(provider: Make) -> None:
    one, held = provider(), Held()
    one.host.put("held", held.run)
    await one.responder.receive([one.request("held"), one.request("held", control="cancel")])
    assert error(await one.wire.answered("r"))["code"] == "cancelled"
    assert held.runs == 0


async def test_a_call_that_had_not_begun_when_the_host_stopped_can_be_made_elsewhere(provider: Make) -> None:
    one, held = provider(), Held()
    one.host.put("held", held.run)
    await one.ask("held", "begun")
    await held.begun.wait()
    reader = one.wire.held[partition_of(MINE)] = asyncio.Event()
    await one.ask("held", "waits", ack=True, reply_partition=partition_of(MINE), **{"from": MINE})
    closing = asyncio.create_task(one.responder.close(0.0))
    await one.wire.answered("begun")
    reader.set()
    await closing
    assert error(await one.wire.answered("begun"))["code"] == "outcome_unknown"
    assert error(await one.wire.answered("waits"))["code"] == "engine_unavailable"
    assert held.runs == 1
    await one.ask("held", "late")
    assert error(await one.wire.answered("late"))["code"] == "engine_unavailable"


async def test_calls_of_requesters_that_went_are_cancelled_and_streams_closed(provider: Make) -> None:
    one, ours, theirs, closed = provider(), Held(), Held(), asyncio.Event()

    async def endless(arguments: dict[str, Any], call: Call) -> AsyncIterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.set()

    one.host.put("ours", ours.run)
    one.host.put("theirs", theirs.run)
    one.host.put("endless", endless, streaming=True)
    await one.ask("ours", "a", **{"from": MINE})
    await one.ask("theirs", "b")
    await one.ask("endless", "c", stream=True, credit=3)
    await asyncio.gather(ours.begun.wait(), theirs.begun.wait())
    await one.wire.until(lambda: len(one.wire.of("c")) == 3)
    one.responder.gone("somebody else")
    assert one.responder.in_flight == 3
    one.responder.gone("p")
    async with asyncio.timeout(10):
        await closed.wait()
        while one.responder.in_flight > 1:
            await asyncio.sleep(0)
    assert ours.cancelled == 1
    assert not one.wire.of("a")
    theirs.go.set()  # a peer that knows only the types has its answer when it comes back
    assert (await one.wire.answered("b")).result == b'"done"'


async def test_a_requester_that_is_heard_of_again_keeps_its_calls(
    provider: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(respond, "GONE_SECONDS", 0.05)
    one, held, other = provider(), Held(), Held()
    one.host.put("held", held.run)
    one.host.put("other", other.run)
    mine = {"from": MINE}
    await one.ask("held", **mine)
    await one.ask("other", "o", who="q", **{"from": MINE[::-1]})
    await asyncio.gather(held.begun.wait(), other.begun.wait())
    one.responder.gone("p")
    one.responder.gone("q")
    await one.ask("held", control="status", **mine)
    async with asyncio.timeout(10):
        while not other.cancelled:  # who went when it did, and was not heard of
            await asyncio.sleep(0.01)
        assert held.cancelled == 0
        one.responder.gone("p")
        while not held.cancelled:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("word", ["fly", "Cancel", "", 7, ["cancel"]])
async def test_a_word_of_control_that_is_not_known_is_no_call(provider: Make, word: Any) -> None:
    one, held = provider(), Held()
    one.host.put("held", held.run)
    await one.ask("held", control=word)
    assert error(await one.wire.answered("r"))["code"] == "invalid_request"
    assert held.runs == 0
