"""How streams are answered, whatever carries them: in order, and no faster than they are taken."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from enginehost.databus import streams
from enginehost.databus.metadata import partition_of
from enginehost.engine import Call

from .wired_responder import MINE, Make, count, error


async def test_a_stream_comes_item_by_item_and_ends_with_an_empty_final_reply(provider: Make) -> None:
    one = provider()
    one.host.put("count", count, streaming=True)
    one.host.put("add")
    await one.ask("count", "s", {"to": 3}, stream=True)
    await one.wire.answered("s")
    got = [(reply.result, said.sequence, said.final) for reply, said in one.wire.of("s")]
    assert got == [(b"0", 1, False), (b"1", 2, False), (b"2", 3, False), (b"", 4, True)]
    await one.ask("add", "plain", {"a": 1, "b": 2}, stream=True)
    await one.wire.answered("plain")
    assert [reply.result for reply, _ in one.wire.of("plain")] == [b"3", b""]


async def test_an_error_in_a_stream_comes_after_the_items_before_it(provider: Make) -> None:
    async def fail(arguments: dict[str, Any], call: Call) -> AsyncIterator[int]:
        yield 1
        yield 2
        raise RuntimeError("no luck")

    one = provider()
    one.host.put("fail", fail, streaming=True)
    for batch in (False, True):
        await one.ask("fail", f"r{batch}", stream=True, batch=batch)
        final = await one.wire.answered(f"r{batch}")
        assert error(final)["code"] == "execution_failed"
        items = b",".join(
            reply.result.strip(b"[]") for reply, said in one.wire.of(f"r{batch}") if not said.final
        )
        assert items == b"1,2"


async def test_a_stream_sends_no_more_than_its_requester_allows(provider: Make) -> None:
    one = provider()
    one.host.put("count", count, streaming=True)
    await one.ask("count", "slow", {"to": 10}, stream=True, credit=2, batch=True, **{"from": MINE})
    await one.ask("count", "fast", {"to": 300}, who="q", stream=True)
    await one.wire.answered("fast")  # whom the slow one does not hold up

    def items() -> int:
        return sum(max(1, said.items) for _, said in one.wire.of("slow") if not said.final)

    await one.wire.until(lambda: items() == 2)
    for allowed in (5, 9):
        await one.ask("count", "slow", control="credit", credit=allowed - items(), **{"from": MINE})
        await one.wire.until(lambda expected=allowed: items() >= expected)
        for _ in range(100):
            await asyncio.sleep(0)
        assert items() == allowed
    await one.ask("count", "slow", control="credit", credit=64, **{"from": MINE})
    await one.wire.answered("slow")
    assert items() == 10


async def test_a_stream_without_credit_ends_at_its_deadline(provider: Make) -> None:
    one = provider()
    one.host.put("count", count, streaming=True)
    await one.ask("count", "s", {"to": 10}, stream=True, credit=1, timeout=0.05)
    final = await one.wire.answered("s")
    assert error(final)["code"] == "timeout"
    assert "does not take its items" in final.error_message
    assert one.host.stats("count").outcomes == {"timeout": 1}  # type: ignore[union-attr]


async def test_what_is_ready_rides_in_one_reply_and_what_is_not_holds_up_nothing(provider: Make) -> None:
    go = asyncio.Event()

    async def numbers(arguments: dict[str, Any], call: Call) -> AsyncIterator[int]:
        for number in range(70):
            yield number
        await go.wait()
        yield 70

    one = provider()
    one.host.put("numbers", numbers, streaming=True)
    await one.ask("numbers", "s", stream=True, batch=True)
    await one.wire.until(lambda: len(one.wire.replies) == 2)  # while the function waits
    go.set()
    await one.wire.answered("s")
    got = [(json.loads(reply.result), said.items) for reply, said in one.wire.of("s")[:-1]]
    assert got == [(list(range(64)), 64), ([*range(64, 70)], 6), (70, 0)]


async def test_a_slow_reader_of_a_batched_stream_does_not_let_the_functions_own_time_limits_go_astray(
    provider: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = asyncio.Event()

    async def patient(arguments: dict[str, Any], call: Call) -> AsyncIterator[str]:
        yield "first"
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            passed.set()
            yield "in time"

    one = provider()
    one.host.put("patient", patient, streaming=True)
    one.wire.held[partition_of(MINE)] = asyncio.Event()
    await one.ask("patient", "s", stream=True, batch=True, reply_partition=partition_of(MINE))
    await asyncio.wait_for(
        passed.wait(), 10
    )  # the function's limit passes while its first item is on its way
    one.wire.held[partition_of(MINE)].set()
    await one.wire.answered("s")
    assert [reply.result for reply, _ in one.wire.of("s")] == [b'"first"', b'"in time"', b""]


async def test_large_items_do_not_wait_for_many(provider: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST_BYTES", 25)

    async def texts(arguments: dict[str, Any], call: Call) -> AsyncIterator[str]:
        for _ in range(6):
            yield "x" * 8

    one = provider()
    one.host.put("texts", texts, streaming=True)
    await one.ask("texts", "s", stream=True, batch=True)
    await one.wire.answered("s")
    assert [said.items for _, said in one.wire.of("s")] == [3, 3, 0]
