"""Peers that ask much, and peers that do not read their answers: nobody else waits for them."""

from __future__ import annotations

import asyncio
from typing import Any

from enginehost.databus.port import ExecutionReply
from enginehost.engine import Call
from enginehost.errors import ERROR_TABLE

from .processes import PATIENCE


async def test_a_burst_of_500_requests_is_answered_in_full(start_host, peer):
    host, _ = await start_host()
    host.put("add")
    await peer.sees("add")
    peer.send(peer.named("add")["function_id"], {"a": 1, "b": 2}, "burst", times=500)
    await peer.until(lambda: len(peer.replies) == 500)
    assert {reply["request_id"] for reply in peer.replies} == {f"burst-{n}" for n in range(500)}
    assert {reply["result"] for reply in peer.replies} == {"3"}


async def test_a_peer_that_reads_gets_an_answer_or_a_refusal_for_each_of_many_requests(start_host, peer):
    host, bus = await start_host(max_in_flight=40)

    async def turn(arguments: dict[str, Any], call: Call) -> None:
        await asyncio.sleep(0)

    host.put("turn", turn)
    await peer.sees("turn")
    peer.send(peer.named("turn")["function_id"], "{}", "many", times=4_000)
    await peer.until(lambda: len(peer.replies) == 4_000)
    assert {reply["request_id"] for reply in peer.replies} == {f"many-{n}" for n in range(4_000)}
    assert {reply["status"] for reply in peer.replies} <= {0, ERROR_TABLE["overloaded"].bus}
    assert bus.describe()["lost"] == 0


async def test_more_requests_than_may_run_are_refused_and_may_be_sent_again(start_host, peer):
    host, _ = await start_host(max_in_flight=2)
    release = asyncio.Event()

    async def wait(arguments: dict[str, Any], call: Call) -> str:
        await release.wait()
        return "done"

    host.put("wait", wait)
    await peer.sees("wait")
    peer.send(peer.named("wait")["function_id"], "{}", "w", times=5)
    await peer.until(lambda: len(peer.replies) == 3)
    assert {reply["status"] for reply in peer.replies} == {ERROR_TABLE["overloaded"].bus}
    refused = peer.replies[0]["request_id"]
    release.set()
    await peer.until(lambda: len(peer.replies) == 5)
    again = await peer.call("wait", request_id=refused)
    assert again["result"] == '"done"'


async def text(arguments: dict[str, Any], call: Call) -> str:
    return "x" * 8_000


async def test_a_peer_that_stands_still_holds_up_neither_the_event_loop_nor_the_end(start_host, peer):
    host, bus = await start_host()
    host.put("text", text)
    await peer.sees("text")
    peer.pause()
    peer.send(peer.named("text")["function_id"])
    reply = ExecutionReply("r", "f", b"x" * 8_000, 0, "", 1, b"")
    transport = bus._joined.transport
    unsent = {asyncio.create_task(transport.reply(reply, "1")) for _ in range(300)}
    turns = 0
    async with asyncio.timeout(PATIENCE):
        while not bus.describe()["reader_behind"]:
            await asyncio.sleep(0)
            turns += 1
    assert turns > 100  # what waited on the event loop would have left it a few
    assert any(not task.done() for task in unsent)
    async with asyncio.timeout(PATIENCE):
        await bus.stop()
    done, _ = await asyncio.wait(unsent, timeout=PATIENCE)
    assert done == unsent
    peer.resume()


async def test_a_peer_that_takes_no_reply_holds_up_nobody_else(start_host, peer, late_peer, caplog):
    host, bus = await start_host()
    host.put("text", text)
    await peer.sees("text")
    function_id = peer.named("text")["function_id"]
    async with late_peer("--never-take") as stuck:
        await stuck.until(lambda: stuck.providers)
        stuck.send(function_id, "{}", "stuck", times=5)
        for number in range(200):
            reply = await peer.call("text", request_id=f"r{number}")
            assert len(reply["result"]) == 8_002
        assert bus.describe()["reader_behind"]
        peer.replies.clear()
        peer.send(function_id, "{}", "burst", times=300)  # and it holds up no burst either
        await peer.until(lambda: len(peer.replies) >= 300)
        host.put_all([f"f{number}" for number in range(100)])  # nor the news of functions
        await peer.until(lambda: len(peer.capabilities) == 101)
        host.remove("f0")
        await peer.until(lambda: len(peer.capabilities) == 100)
        await stuck.kill()  # to leave the bus in good order would take it many seconds
    assert caplog.text.count("does not take its replies") == 1  # it was waited for once in all


async def test_the_host_waits_for_readers_again_when_the_one_that_was_behind_has_caught_up(
    start_host, peer, late_peer, monkeypatch
):
    from enginehost.databus.cyclone import replies

    monkeypatch.setattr(replies, "LAG_SECONDS", 0.0)
    monkeypatch.setattr(replies, "LOOK_SECONDS", 0.0)
    host, bus = await start_host()
    host.put("text", text)
    await peer.sees("text")
    async with late_peer("--never-take") as stuck:
        await stuck.until(lambda: stuck.providers)
        async with asyncio.timeout(30):
            while not bus.describe()["reader_behind"]:
                await peer.call("text", request_id=f"r{len(peer.replies)}")
        stuck.recover()
        async with asyncio.timeout(30):
            while bus.describe()["reader_behind"]:
                await peer.call("text", request_id=f"r{len(peer.replies)}")
        await stuck.kill()


async def test_bad_requests_of_a_peer_without_reply_reader_delay_nobody(
    start_host, peer, late_peer, monkeypatch
):
    from enginehost.databus.cyclone import provider

    # whom that delays is not answered in time
    monkeypatch.setattr(provider, "MATCH_PATIENCE", 10 * PATIENCE)
    host, bus = await start_host(max_request_bytes=100)
    host.put("add")
    await peer.sees("add")
    function_id = peer.named("add")["function_id"]
    async with late_peer("--no-reader") as deaf:
        await deaf.until(lambda: deaf.providers)
        deaf.send(function_id, {"a": "x" * 100}, "deaf", times=20)  # refused, which nobody hears
        number = 0
        async with asyncio.timeout(30):
            while not bus.describe()["requesters"] >= 22 or number < 50:
                await peer.call("add", {"a": number, "b": 1}, f"r{number}")
                number += 1


async def test_one_peer_cannot_have_all_the_calls_that_may_run(start_host, peer, late_peer):
    host, _ = await start_host(max_in_flight=8)
    release = asyncio.Event()

    async def wait(arguments: dict[str, Any], call: Call) -> str:
        await release.wait()
        return "done"

    host.put("add")
    host.put("wait", wait)
    await peer.sees("add", "wait")
    async with late_peer() as greedy:
        await greedy.sees("add", "wait")
        greedy.send(greedy.named("wait")["function_id"], "{}", "w", times=20)
        await greedy.until(lambda: len(greedy.replies) == 14)
        assert {reply["status"] for reply in greedy.replies} == {ERROR_TABLE["overloaded"].bus}
        assert (await peer.call("add", {"a": 1, "b": 2}))["result"] == "3"
        release.set()
        await greedy.until(lambda: len([r for r in greedy.replies if r["request_id"] != "r1"]) == 20)
