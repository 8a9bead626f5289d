"""How requests are answered, whatever carries them: acknowledged, once, described, refused."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from enginehost.databus import answering
from enginehost.databus.describing import DESCRIBE
from enginehost.databus.kept import MOST_TIMES
from enginehost.databus.metadata import ReplyMetadata, partition_of
from enginehost.databus.respond import METADATA_BOUND
from enginehost.databus.seen import Seen
from enginehost.engine import Call
from enginehost.policy import authenticated_policy

from .wired_responder import MINE, Held, Make, error


async def test_a_call_is_accepted_before_it_runs_and_answered_where_the_requester_reads(
    provider: Make,
) -> None:
    one, held = provider(), Held()
    one.host.put("held", held.run)
    await one.ask("held", ack=True, reply_partition=partition_of(MINE), **{"from": MINE})
    await held.begun.wait()
    [(accepted, said)] = one.wire.of("r")
    assert (said.accepted, said.final, said.sequence, accepted.status) == (True, False, 0, 0)
    held.go.set()
    final = await one.wire.answered("r")
    assert (final.result, ReplyMetadata.read(final.metadata).sequence) == (b'"done"', 1)
    assert one.wire.partitions == [partition_of(MINE)] * 2


async def test_a_held_call_runs_when_its_requester_has_heard_that_it_is_accepted(provider: Make) -> None:
    """Whatever becomes of this host: nobody asks another one for a call that may have run here."""
    one, held = provider(), Held()
    one.host.put("held", held.run)
    held.go.set()
    mine = {"from": MINE, "reply_partition": partition_of(MINE)}
    await one.ask("held", ack=True, hold=True, **mine)
    await one.wire.until(lambda: one.wire.replies)
    await one.ask("held", ack=True, hold=True, **mine)  # the acknowledgement got lost
    await one.wire.until(lambda: len(one.wire.replies) == 2)
    assert [said.accepted for _, said in one.wire.of("r")] == [True, True]
    assert held.runs == 0
    for _ in range(2):
        await one.ask("held", control="go", **mine)
    assert (await one.wire.answered("r")).result == b'"done"'
    assert held.runs == 1


async def test_a_held_call_that_nobody_lets_go_does_not_run(
    provider: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "HELD_SECONDS", 0.05)
    one, held = provider(), Held()
    one.host.put("held", held.run)
    await one.ask("held", ack=True, hold=True, **{"from": MINE})
    assert error(await one.wire.answered("r"))["detail"]["reason"] == "not-heard"
    assert held.runs == 0


async def test_a_call_whose_requester_cannot_hear_that_it_is_accepted_does_not_run(provider: Make) -> None:
    one, held = provider(), Held()
    one.host.put("held", held.run)
    one.wire.unreachable = True
    await one.ask("held", ack=True)
    async with asyncio.timeout(10):
        while one.responder.in_flight:
            await asyncio.sleep(0)
    assert held.runs == 0


async def test_a_request_for_another_start_of_the_host_is_not_run(provider: Make) -> None:
    one, held = provider(), Held()
    one.host.put("held", held.run)
    await one.ask("held", incarnation="yesterday")
    assert error(await one.wire.answered("r"))["detail"]["reason"] == "incarnation"
    assert held.runs == 0


async def test_who_is_meant_says_that_it_has_no_such_function(provider: Make) -> None:
    one = provider()
    unknown = replace(one.request("add", "r", incarnation=one.identity.incarnation), function_id="gone")
    others = replace(one.request("add", "s"), function_id="another host's")
    await one.responder.receive([others, unknown])
    assert error(await one.wire.answered("r"))["detail"]["reason"] == "unknown-id"
    assert not one.wire.of("s")


async def test_one_id_runs_once_for_each_requester(provider: Make) -> None:
    one = provider()
    runs: list[str] = []

    async def run(arguments: dict[str, Any], call: Call) -> None:
        runs.append("run")

    one.host.put("run", run)
    for who in ("p", "p", "q"):
        await one.ask("run", who=who)
    for who in ("p", "q"):  # the same requester, from whichever of its participants
        await one.ask("run", who=who, **{"from": MINE})
    await one.wire.until(lambda: len(one.wire.replies) >= 3)
    await one.responder.close(10)
    assert len(runs) == 3


async def test_a_request_that_comes_again_is_accepted_and_answered_again(provider: Make) -> None:
    """One of the two was lost: a host or client of our kind asks once more, and nothing runs twice."""
    one, held = provider(), Held()
    one.host.put("held", held.run)
    mine = {"from": MINE, "reply_partition": partition_of(MINE)}
    await one.ask("held", **mine)
    await held.begun.wait()
    await one.ask("held", ack=True, **mine | {"reply_partition": partition_of(MINE[::-1])})
    await one.wire.until(lambda: one.wire.replies)
    assert one.wire.of("r")[0][1].accepted
    await one.ask("held", control="status", **mine)
    await one.wire.until(lambda: len(one.wire.replies) == 2)
    held.go.set()
    final = await one.wire.answered("r")
    async with asyncio.timeout(10):
        while one.responder.in_flight:
            await asyncio.sleep(0)
    await one.ask("held", **mine)
    await one.ask("held", control="status", **mine)
    await one.wire.until(lambda: len(one.wire.replies) == 5)
    assert [reply for reply, said in one.wire.of("r") if said.final] == [final] * 3
    assert set(one.wire.partitions) == {partition_of(MINE)}, "always where it was to go at first"
    assert held.runs == 1
    await one.ask("held", "never seen", control="status", **mine)
    assert error(await one.wire.answered("never seen"))["code"] == "outcome_unknown"


async def test_an_answer_is_sent_again_only_so_often(provider: Make) -> None:
    one = provider()
    one.host.put("add")
    mine = {"from": MINE, "reply_partition": partition_of(MINE)}
    async with asyncio.timeout(10):
        while len(one.wire.replies) < 1 + MOST_TIMES:
            await one.ask("add", "r", {"a": 1, "b": 2}, **mine)
            await asyncio.sleep(0)
    for _ in range(MOST_TIMES):
        await one.ask("add", "r", {"a": 1, "b": 2}, **mine)
    await one.responder.close(10)
    assert len(one.wire.replies) == 1 + MOST_TIMES


def test_the_flood_of_one_participant_pushes_out_no_request_of_another() -> None:
    seen = Seen(each=100, in_all=150)
    for number in range(40):
        seen.add(("quiet", number), "quiet")
    for number in range(1_000):
        seen.add(("loud", number), "loud")
    assert all(("quiet", number) in seen for number in range(40))
    assert ("loud", 999) in seen
    assert ("loud", 0) not in seen
    for who in range(1_000):
        seen.add(("many", who), f"p{who}")
    assert len(seen) <= 150


async def test_metadata_without_end_is_refused(provider: Make) -> None:
    one = provider()
    one.host.put("add")
    await one.ask("add", x="x" * METADATA_BOUND)
    assert error(await one.wire.answered("r"))["code"] == "too_large"


async def test_the_whole_description_of_a_function_can_be_asked_for(provider: Make) -> None:
    one = provider()
    one.host.put("add", description="Adds.", tags=("math",), result={"type": "integer"})
    await one.ask(DESCRIBE, "d", {"function_id": "id:add"})
    told = json.loads((await one.wire.answered("d")).result)
    assert set(told["parameters"]["properties"]) == {"a", "b"}
    assert (told["name"], told["description"], told["tags"]) == ("add", "Adds.", ["math"])
    assert (told["result"], told["annotations"], told["streaming"]) == ({"type": "integer"}, {}, False)
    for number, wrong in enumerate(
        ({"function_id": "id:nothing"}, {"function_id": "x"}, {}, {"function_id": 7})
    ):
        await one.ask(DESCRIBE, f"w{number}", wrong)
        assert error(await one.wire.answered(f"w{number}"))["code"] in (
            "unknown_function",
            "invalid_arguments",
        )


async def test_what_a_caller_may_not_view_is_not_described(provider: Make) -> None:
    one = provider(authenticated_policy())
    one.host.put("add")
    await one.ask(DESCRIBE, "d", {"function_id": "id:add"})
    assert error(await one.wire.answered("d"))["code"] == "unknown_function"


async def test_for_whom_a_request_is_made_is_told_and_proves_nothing(provider: Make) -> None:
    async def who(arguments: dict[str, Any], call: Call) -> list[Any]:
        return [call.caller.subject, call.caller.authenticated, dict(call.caller.claims)]

    one = provider()
    one.host.put("who", who)
    await one.ask("who", caller="alice")
    assert json.loads((await one.wire.answered("r")).result) == [
        "anonymous",
        False,
        {"on_behalf_of": "alice"},
    ]


async def test_nobody_has_replies_sent_to_somebody_else(provider: Make) -> None:
    one = provider()
    one.host.put("add")
    await one.ask("add", "r", {"a": 1, "b": 2}, reply_partition=partition_of(MINE[::-1]), **{"from": MINE})
    await one.ask("add", "s", {"a": 1, "b": 2}, reply_partition=partition_of(MINE))
    await one.wire.answered("r")
    await one.wire.answered("s")
    assert set(one.wire.partitions) == {""}


async def test_each_request_is_for_whom_it_says_whatever_others_said_before(provider: Make) -> None:
    one = provider()
    seen: list[tuple[str, str]] = []

    async def run(arguments: dict[str, Any], call: Call) -> None:
        seen.append((str(call.caller.claims["on_behalf_of"]), call.caller.agent))

    one.host.put("run", run)
    for number, name in enumerate(("ann", "bob", "ann")):
        await one.ask("run", f"r{number}", caller=name, agents=["planner"], **{"from": MINE})
        await one.wire.answered(f"r{number}")
    assert seen == [("ann", "planner"), ("bob", "planner"), ("ann", "planner")]
