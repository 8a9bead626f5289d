"""How requests are answered, whatever carries them: acknowledged, once, streamed, cancelled, refused."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from enginehost.databus import respond, streams
from enginehost.databus.describing import DESCRIBE
from enginehost.databus.guard import Guard
from enginehost.databus.identity import Identity
from enginehost.databus.kept import MOST_TIMES
from enginehost.databus.keys import SigningKey, new_key, written
from enginehost.databus.metadata import ReplyMetadata, partition_of
from enginehost.databus.port import ExecutionReply, ExecutionRequest
from enginehost.databus.respond import METADATA_BOUND, Responder
from enginehost.databus.seen import Seen
from enginehost.databus.signing import Audience, sign_request, verify_reply
from enginehost.databus.trust import KeyEntry, Trust, read_trust, trust_key
from enginehost.engine import Call
from enginehost.errors import ERROR_TABLE
from enginehost.policy import Policy, authenticated_policy, open_policy
from enginehost.values import LARGE

from .conftest import ServedCatalog

MINE = "0123456789abcdef" * 2
"""The incarnation of a requester."""


class Wire:
    """A transport that keeps replies; ``room`` closes it for requesters of a partition."""

    def __init__(self) -> None:
        self.replies: list[ExecutionReply] = []
        self.partitions: list[str] = []
        self.unreachable = False
        self.held: dict[str, asyncio.Event] = {}
        self.moved = asyncio.Condition()

    async def reply(self, reply: ExecutionReply, source: str, partition: str = "") -> bool:
        if partition in self.held:
            await self.held[partition].wait()
        if self.unreachable:
            return False
        async with self.moved:
            self.replies.append(reply)
            self.partitions.append(partition)
            self.moved.notify_all()
        return True

    def of(self, request_id: str) -> list[tuple[ExecutionReply, ReplyMetadata]]:
        return [(r, ReplyMetadata.read(r.metadata)) for r in self.replies if r.request_id == request_id]

    def final(self, request_id: str) -> ExecutionReply | None:
        return next((reply for reply, said in self.of(request_id) if said.final), None)

    async def until(self, holds: Callable[[], Any]) -> None:
        async with asyncio.timeout(20), self.moved:
            await self.moved.wait_for(holds)

    async def answered(self, request_id: str) -> ExecutionReply:
        await self.until(lambda: self.final(request_id))
        reply = self.final(request_id)
        assert reply is not None
        return reply


class Provider:
    """A responder over a host of functions."""

    def __init__(self, policy: Policy, guard: Callable[[Identity], Guard | None], **options: Any) -> None:
        self.host = ServedCatalog(policy)
        self.wire = Wire()
        self.identity = Identity(None)
        self.responder = Responder(
            self.host,
            self.wire,  # type: ignore[arg-type]
            self.identity,
            lambda function_id: function_id.removeprefix("id:") if function_id.startswith("id:") else None,
            **{"max_in_flight": 100, "max_request_bytes": 1 << 20, **options},
            guard=guard(self.identity),
        )

    def request(
        self, name: str, request_id: str = "r", parameters: Any = None, who: str = "p", **metadata: Any
    ) -> ExecutionRequest:
        text = json.dumps(parameters or {}).encode()
        said = json.dumps(metadata).encode() if metadata else b""
        return ExecutionRequest(request_id, f"id:{name}", text, 1, said, f"writer of {who}", who)

    async def ask(self, *given: Any, **options: Any) -> None:
        await self.responder.receive([self.request(*given, **options)])


Make = Callable[..., Provider]


@pytest.fixture
async def provider() -> AsyncIterator[Make]:
    made: list[Provider] = []

    def make(
        policy: Policy | None = None,
        guard: Callable[[Identity], Guard | None] = lambda _: None,
        **options: Any,
    ) -> Provider:
        made.append(Provider(policy or open_policy(), guard, **options))
        return made[-1]

    yield make
    for one in made:
        await one.responder.close(0.0)
        await one.host.close()


def error(reply: ExecutionReply) -> dict[str, Any]:
    said = ReplyMetadata.read(reply.metadata).error
    assert reply.status == ERROR_TABLE[said["code"]].bus
    return said


async def count(arguments: dict[str, Any], call: Call) -> AsyncIterator[int]:
    for number in range(arguments["to"]):
        yield number


class Held:
    """A function that says when it begins, and waits to be let go."""

    def __init__(self) -> None:
        self.runs = 0
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.cancelled = 0

    async def run(self, arguments: dict[str, Any], call: Call) -> str:
        self.runs += 1
        self.begun.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return "done"


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
    for _ in range(40):
        await one.ask("add", "r", {"a": 1, "b": 2}, **{"from": MINE})
        await one.wire.answered("r")
    await one.responder.close(10)
    assert len(one.wire.replies) <= 1 + MOST_TIMES


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
    async def patient(arguments: dict[str, Any], call: Call) -> AsyncIterator[str]:
        yield "first"
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            yield "in time"

    one = provider()
    one.host.put("patient", patient, streaming=True)
    one.wire.held[partition_of(MINE)] = asyncio.Event()
    await one.ask("patient", "s", stream=True, batch=True, reply_partition=partition_of(MINE))
    await asyncio.sleep(0.05)  # the function's limit passes while its first item is on its way
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


# Signed requests


@pytest.fixture
def signer() -> SigningKey:
    return new_key()


@pytest.fixture
def trusting(tmp_path: Any, signer: SigningKey) -> Callable[[Identity], Guard]:
    path = tmp_path / "trusted.yaml"
    trust_key(path, KeyEntry(name="friend", key=written(signer.public)))
    assert read_trust(path).keys
    return lambda identity: Guard(identity, Trust(path), new_key())


def signed(one: Provider, signer: SigningKey, seq: int, *given: Any, **options: Any) -> ExecutionRequest:
    audience = Audience(one.identity.host_id, one.identity.incarnation)
    return sign_request(one.request(*given, **options), signer, audience, sender=MINE, seq=seq)


async def test_a_signed_request_is_that_of_the_trusted_key_and_its_reply_is_signed(
    provider: Make, signer: SigningKey, trusting: Any
) -> None:
    one = provider(authenticated_policy(), trusting)
    one.host.put("add")
    parameters = {"a": 1, "b": 2}
    await one.responder.receive([signed(one, signer, 1, "add", "s", parameters)])
    reply = await one.wire.answered("s")
    assert reply.result == b"3"
    assert json.loads(reply.metadata)["to"] == signer.id
    key = one.responder._guard._key  # type: ignore[union-attr]
    assert key is not None

    class Known:
        id, public, caller = key.id, key.public, None

    verify_reply(reply, MINE, lambda _: Known, signer=key.id)  # type: ignore[arg-type,return-value]
    await one.ask("add", "unsigned", parameters)
    assert error(await one.wire.answered("unsigned"))["code"] in (
        "forbidden",
        "unauthorized",
        "unknown_function",
    )


@pytest.mark.parametrize("size", [10, LARGE])
async def test_forged_replayed_and_repeated_requests_do_not_run(
    provider: Make, signer: SigningKey, trusting: Any, size: int
) -> None:
    one, runs = provider(authenticated_policy(), trusting), []

    async def run(arguments: dict[str, Any], call: Call) -> None:
        runs.append(call.caller.subject)

    one.host.put("run", run)
    padding = {"x": "x" * size}
    good = signed(one, signer, 1, "run", "good", padding)
    await one.responder.receive([good, good])
    await one.wire.answered("good")
    await one.responder.receive([good])  # it arrives again, and does not run again
    tampered = signed(one, signer, 2, "run", "tampered", padding)
    other = {"x": "y" * size}
    await one.responder.receive([replace(tampered, parameters=json.dumps(other).encode())])
    assert error(await one.wire.answered("tampered"))["detail"]["reason"] == "bad-signature"
    await one.responder.receive([signed(one, new_key(), 3, "run", "stranger", padding)])
    assert error(await one.wire.answered("stranger"))["detail"]["reason"] == "untrusted-key"
    await one.responder.receive([signed(one, signer, 1, "run", "old number", padding)])
    assert error(await one.wire.answered("old number"))["detail"]["reason"] == "replayed"
    elsewhere = Audience("another host", one.identity.incarnation)
    await one.responder.receive(
        [sign_request(one.request("run", "elsewhere", padding), signer, elsewhere, sender=MINE, seq=4)]
    )
    assert error(await one.wire.answered("elsewhere"))["detail"]["reason"] == "bad-signature"
    await one.responder.receive([tampered])  # a forgery took nothing from the request it was made of
    await one.wire.until(lambda: [r for r, s in one.wire.of("tampered") if r.status == 0])
    assert runs == ["friend", "friend"]
    assert {reply.result for reply, said in one.wire.of("good") if said.final} == {b"null"}


async def test_only_the_signer_of_a_call_cancels_it(
    provider: Make, signer: SigningKey, trusting: Any
) -> None:
    one, held = provider(authenticated_policy(), trusting), Held()
    one.host.put("held", held.run)
    await one.responder.receive([signed(one, signer, 1, "held", "s")])
    await held.begun.wait()
    await one.ask("held", "s", control="cancel", **{"from": MINE})
    await one.ask("held", "s", control="cancel", key=signer.id, **{"from": MINE})
    cancel = signed(one, signer, 2, "held", "s", control="cancel")
    forged = replace(cancel, timestamp=2)
    await one.responder.receive([forged])
    for _ in range(20):
        await asyncio.sleep(0)
    assert held.cancelled == 0
    await one.responder.receive([cancel])
    assert error(await one.wire.answered("s"))["code"] == "cancelled"


@pytest.mark.parametrize("hours", [-1, 1, 24 * 365 * 30])
async def test_a_clock_that_is_off_costs_no_call(
    provider: Make, signer: SigningKey, trusting: Any, hours: int
) -> None:
    one = provider(guard=trusting)
    one.host.put("add")
    then = int((time.time() + hours * 3600) * 1000)
    plain = replace(one.request("add", "plain", {"a": 1, "b": 2}, timeout=5), timestamp=then)
    unsigned = replace(one.request("add", "s", {"a": 1, "b": 2}), timestamp=then)
    audience = Audience(one.identity.host_id, one.identity.incarnation)
    sealed = sign_request(unsigned, signer, audience, sender=MINE, seq=1)
    await one.responder.receive([plain, sealed])
    assert (await one.wire.answered("plain")).result == b"3"
    assert (await one.wire.answered("s")).result == b"3"


async def test_a_requester_that_is_heard_of_again_keeps_its_calls(
    provider: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(respond, "GONE_SECONDS", 0.05)
    one, held = provider(), Held()
    one.host.put("held", held.run)
    mine = {"from": MINE}
    await one.ask("held", **mine)
    await held.begun.wait()
    one.responder.gone("p")
    await one.ask("held", control="status", **mine)
    await asyncio.sleep(0.1)
    assert held.cancelled == 0
    one.responder.gone("p")
    async with asyncio.timeout(10):
        while not held.cancelled:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("word", ["fly", "Cancel", "", 7, ["cancel"]])
async def test_a_word_of_control_that_is_not_known_is_no_call(provider: Make, word: Any) -> None:
    one, held = provider(), Held()
    one.host.put("held", held.run)
    await one.ask("held", control=word)
    assert error(await one.wire.answered("r"))["code"] == "invalid_request"
    assert held.runs == 0


async def test_nobody_has_replies_sent_to_somebody_else(provider: Make) -> None:
    one = provider()
    one.host.put("add")
    await one.ask("add", "r", {"a": 1, "b": 2}, reply_partition=partition_of(MINE[::-1]), **{"from": MINE})
    await one.ask("add", "s", {"a": 1, "b": 2}, reply_partition=partition_of(MINE))
    await one.wire.answered("r")
    await one.wire.answered("s")
    assert set(one.wire.partitions) == {""}
