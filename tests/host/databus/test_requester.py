"""What a caller gets when a provider answers, refuses, or goes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from enginehost.databus import presence, reminders
from enginehost.databus.exchange import Ask
from enginehost.databus.port import ExecutionReply, ExecutionRequest
from enginehost.databus.remote import RemoteFunction
from enginehost.databus.replicas import Provider, Replica
from enginehost.databus.requester import Requester
from enginehost.engine import Call
from enginehost.errors import (
    CallTimeout,
    EngineUnavailable,
    ExecutionFailed,
    InvalidArguments,
    OutcomeUnknown,
    Overloaded,
    ResultInvalid,
)
from enginehost.signature import FunctionSignature

ME, A, B = "0" * 32, "a" * 32, "b" * 32


class Wire:
    """A transport that keeps what is sent; the test answers."""

    def __init__(self) -> None:
        self.sent: list[tuple[ExecutionRequest, str]] = []
        self.forgotten: list[str] = []
        self.reachable = True
        self.takes = True
        self.left: Callable[[str], None] | None = None
        self._handler: Callable[..., None] | None = None
        self._news = asyncio.Event()

    async def listen(self, handler: Callable[..., None], partition: str, gone: Callable[[str], None]) -> None:
        assert partition == f"eh.{ME}"
        self._handler, self.left = handler, gone

    async def reach(self, partition: str, participant: str, patience: float) -> bool:
        return self.reachable

    async def send(self, request: ExecutionRequest, partition: str) -> bool:
        if self.takes:
            self.sent.append((request, partition))
            self._news.set()
        return self.takes

    def forget(self, partition: str) -> None:
        self.forgotten.append(partition)

    def answer(self, request: ExecutionRequest, result: str = "", status: int = 0, **metadata: Any) -> None:
        participant = metadata.pop("participant", "")
        assert self._handler is not None
        said = json.dumps(metadata).encode()
        reply = ExecutionReply(
            request.request_id, request.function_id, result.encode(), status, "", 0, said, participant
        )
        self._handler([reply])

    async def request(self, number: int = 1) -> ExecutionRequest:
        """The request number so-and-so, as soon as it has been sent."""
        async with asyncio.timeout(10):
            while len(self.sent) < number:
                self._news.clear()
                await self._news.wait()
        return self.sent[number - 1][0]


def provider(incarnation: str = A) -> Provider:
    who = incarnation[:1]
    return Provider(f"participant-{who}", f"host-{who}", incarnation, f"eh.{incarnation}")


def said(request: ExecutionRequest) -> dict[str, Any]:
    return json.loads(request.metadata)


@pytest.fixture
async def wire() -> Wire:
    return Wire()


@pytest.fixture
async def requester(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> Requester:
    monkeypatch.setattr(presence, "MISSED_SECONDS", 0.05)
    made = Requester(wire, ME)  # type: ignore[arg-type]
    await made.start()
    return made


ONCE, AGAIN = Ask("add", b"{}"), Ask("add", b"{}", repeatable=True)


async def test_an_answer_is_the_result(requester: Requester, wire: Wire) -> None:
    replica = Replica("f", provider())
    call = asyncio.ensure_future(requester.call(ONCE, [replica]))
    request = await wire.request()
    assert wire.sent[0][1] == f"eh.{A}"
    assert said(request)["incarnation"] == A
    assert said(request)["reply_partition"] == f"eh.{ME}"
    assert replica.outstanding == 1
    wire.answer(request, "3")
    assert await call == b"3"
    assert (requester.in_flight, replica.outstanding) == (0, 0)
    wire.answer(request, "4")
    assert requester.foreign == 1


async def test_errors_arrive_as_what_they_are(requester: Requester, wire: Wire) -> None:
    call = asyncio.ensure_future(requester.call(ONCE, [Replica("f", provider())]))
    error = InvalidArguments("no a", errors=[{"pointer": "/a", "message": "is missing"}])
    wire.answer(await wire.request(), status=error.row.bus, error=error.to_json())
    with pytest.raises(InvalidArguments) as found:
        await call
    assert found.value.detail == error.detail


async def test_a_provider_that_knows_only_the_types_may_answer_with_a_status_alone(
    requester: Requester, wire: Wire
) -> None:
    call = asyncio.ensure_future(requester.call(ONCE, [Replica("f", provider(""))]))
    request = await wire.request()
    assert "reply_partition" not in said(request)
    wire.answer(request, status=99)
    with pytest.raises(ExecutionFailed):
        await call


async def test_a_reply_of_somebody_else_is_no_answer(requester: Requester, wire: Wire) -> None:
    call = asyncio.ensure_future(requester.call(ONCE, [Replica("f", provider())]))
    request = await wire.request()
    wire.answer(request, '"forged"', participant="somebody")
    assert requester.forged == 1
    wire.answer(request, '"true"', participant="participant-a")
    assert await call == b'"true"'


async def test_a_refusal_before_the_call_ran_moves_it_to_another_replica(
    requester: Requester, wire: Wire
) -> None:
    replicas = [Replica("fa", provider(A)), Replica("fb", provider(B))]
    call = asyncio.ensure_future(requester.call(ONCE, replicas))
    first = await wire.request()
    assert (said(first)["ack"], said(first)["hold"]) == (True, True)
    busy = Overloaded("busy")
    wire.answer(first, status=busy.row.bus, error=busy.to_json())
    second = await wire.request(2)
    assert {first.function_id, second.function_id} == {"fa", "fb"}
    assert first.request_id != second.request_id
    wire.answer(second, "1")
    assert await call == b"1"


async def test_a_provider_that_goes_before_it_accepted_costs_nothing(
    requester: Requester, wire: Wire
) -> None:
    replicas = [Replica("fa", provider(A)), Replica("fb", provider(B))]
    call = asyncio.ensure_future(requester.call(ONCE, replicas))
    first = await wire.request()
    requester.gone(next(r.provider for r in replicas if r.function_id == first.function_id))
    wire.answer(await wire.request(2), "1")
    assert await call == b"1"


async def test_a_provider_that_goes_after_it_accepted_leaves_the_outcome_unknown(
    requester: Requester, wire: Wire
) -> None:
    replicas = [Replica("fa", provider(A)), Replica("fb", provider(B))]
    call = asyncio.ensure_future(requester.call(ONCE, replicas))
    first = await wire.request()
    wire.answer(first, accepted=True, final=False)
    go = await wire.request(2)
    assert (go.request_id, said(go)["control"]) == (first.request_id, "go")
    requester.gone(next(r.provider for r in replicas if r.function_id == first.function_id))
    with pytest.raises(OutcomeUnknown):
        await call
    assert len(wire.sent) == 2


async def test_a_call_that_may_be_repeated_is_repeated_also_after_it_was_accepted(
    requester: Requester, wire: Wire
) -> None:
    replicas = [Replica("fa", provider(A)), Replica("fb", provider(B))]
    call = asyncio.ensure_future(requester.call(AGAIN, replicas))
    first = await wire.request()
    assert "ack" not in said(first)
    wire.answer(first, accepted=True, final=False)
    requester.gone(next(r.provider for r in replicas if r.function_id == first.function_id))
    wire.answer(await wire.request(2), "1")
    assert await call == b"1"


async def test_the_last_provider_that_goes_leaves_the_outcome_unknown(
    requester: Requester, wire: Wire
) -> None:
    only = Replica("f", provider())
    call = asyncio.ensure_future(requester.call(ONCE, [only]))
    await wire.request()
    requester.gone(only.provider)
    with pytest.raises(OutcomeUnknown):
        await call
    assert wire.forgotten == [f"eh.{A}"]
    with pytest.raises(EngineUnavailable):
        await requester.call(ONCE, [only])


async def test_where_nobody_takes_requests_the_call_did_not_run(requester: Requester, wire: Wire) -> None:
    wire.reachable = False
    with pytest.raises(EngineUnavailable):
        await requester.call(ONCE, [Replica("f", provider())])
    wire.reachable, wire.takes = True, False
    with pytest.raises(EngineUnavailable):
        await requester.call(ONCE, [Replica("f", provider())])
    assert requester.in_flight == 0


async def test_a_cancelled_call_is_cancelled_there(requester: Requester, wire: Wire) -> None:
    call = asyncio.ensure_future(requester.call(ONCE, [Replica("f", provider())]))
    request = await wire.request()
    call.cancel()
    control = await wire.request(2)
    assert control.request_id == request.request_id
    assert said(control)["control"] == "cancel"
    assert requester.in_flight == 0


async def test_time_that_is_over_is_not_sent_anywhere(requester: Requester, wire: Wire) -> None:
    with pytest.raises(CallTimeout):
        await requester.call(Ask("add", b"{}", until=0.0), [Replica("f", provider())])
    assert wire.sent == []
    assert requester.in_flight == 0


async def test_a_stream_gives_items_and_credit(requester: Requester, wire: Wire) -> None:
    items = requester.stream(ONCE, [Replica("f", provider())])
    first = asyncio.ensure_future(anext(items))
    request = await wire.request()
    assert said(request)["stream"] is True
    credit = said(request)["credit"]
    wire.answer(request, "[1,2,3]", final=False, sequence=1, items=3)
    wire.answer(request, "[4]", final=False, sequence=2)
    got = [await first, *[await anext(items) for _ in range(3)]]
    assert got == [1, 2, 3, [4]]
    for number in range(3, credit + 3):
        wire.answer(request, str(number), final=False, sequence=number)
    for number in range(3, credit + 3):
        assert await anext(items) == number
    await asyncio.sleep(0)
    told = [said(control) for control, _ in wire.sent[1:]]
    assert told
    assert all(one["control"] == "credit" for one in told)
    assert sum(one["credit"] for one in told) >= credit // 2
    wire.answer(request, final=True, sequence=credit + 3)
    with pytest.raises(StopAsyncIteration):
        await anext(items)
    assert requester.in_flight == 0


async def test_a_stream_that_is_left_is_cancelled_there(requester: Requester, wire: Wire) -> None:
    items = requester.stream(ONCE, [Replica("f", provider())])
    first = asyncio.ensure_future(anext(items))
    request = await wire.request()
    wire.answer(request, "1", final=False, sequence=1)
    assert await first == 1
    await items.aclose()
    assert said(await wire.request(2))["control"] == "cancel"
    assert requester.in_flight == 0


async def test_items_that_are_lost_on_the_way_are_no_silent_loss(requester: Requester, wire: Wire) -> None:
    items = requester.stream(ONCE, [Replica("f", provider())])
    first = asyncio.ensure_future(anext(items))
    request = await wire.request()
    wire.answer(request, "1", final=False, sequence=1)
    assert await first == 1
    wire.answer(request, "3", final=False, sequence=3)
    with pytest.raises(OutcomeUnknown):
        [item async for item in items]


async def test_a_stream_whose_provider_goes_ends_with_an_error(requester: Requester, wire: Wire) -> None:
    only = Replica("f", provider())
    items = requester.stream(ONCE, [only])
    first = asyncio.ensure_future(anext(items))
    wire.answer(await wire.request(), "1", final=False, sequence=1)
    assert await first == 1
    requester.gone(only.provider)
    with pytest.raises(OutcomeUnknown):
        await anext(items)


async def test_a_large_item_is_not_asked_for_a_thousand_times_over(requester: Requester, wire: Wire) -> None:
    """What waits for its reader is bounded in bytes: few large items are on their way at once."""
    items = requester.stream(ONCE, [Replica("f", provider())])
    first = asyncio.ensure_future(anext(items))
    request = await wire.request()
    large = json.dumps("x" * 2_000_000)
    for number in range(1, 65):
        wire.answer(request, large, final=False, sequence=number)
    await first
    for _ in range(61):
        await anext(items)
    await asyncio.sleep(0)
    assert len(wire.sent) == 1
    await anext(items)
    await anext(items)
    control = await wire.request(2)
    assert said(control)["credit"] <= 2
    await items.aclose()


async def test_a_call_whose_provider_vanished_before_it_ran_waits_a_moment_for_its_return(
    requester: Requester, wire: Wire
) -> None:
    away = provider()
    replicas = [Replica("f", away)]
    call = asyncio.ensure_future(requester.call(AGAIN, replicas))
    await wire.request()
    requester.gone(away)
    replicas.clear()
    await asyncio.sleep(0.05)
    assert not call.done()
    replicas.append(Replica("f", provider(B)))
    wire.answer(await wire.request(2), "1")
    assert await call == b"1"


async def test_a_participant_that_left_answers_nothing_any_more(requester: Requester, wire: Wire) -> None:
    call = asyncio.ensure_future(requester.call(ONCE, [Replica("f", provider())]))
    await wire.request()
    assert wire.left is not None
    wire.reachable = False
    wire.left("participant-a")
    with pytest.raises(OutcomeUnknown):
        await call


async def test_a_call_that_may_have_run_waits_a_moment_for_a_provider_that_is_out_of_sight(
    requester: Requester, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "MISSED_SECONDS", 10.0)
    away = provider()
    call = asyncio.ensure_future(requester.call(ONCE, [Replica("f", away)]))
    first = await wire.request()
    wire.answer(first, accepted=True, final=False)
    requester.gone(away)
    await asyncio.sleep(0.05)
    assert not call.done()
    away.gone = away.reached = False  # the directory has seen it again
    asked = await wire.request(2)
    assert said(asked)["control"] == "status"
    wire.answer(first, "1")
    assert await call == b"1"


async def test_a_provider_that_says_nothing_is_asked_again(
    requester: Requester, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reminders, "REMIND_SECONDS", 0.01)
    monkeypatch.setattr(reminders, "LOOK_SECONDS", 0.01)
    call = asyncio.ensure_future(requester.call(ONCE, [Replica("f", provider())]))
    first, again = await wire.request(), await wire.request(2)
    assert again.request_id == first.request_id
    assert again.parameters == first.parameters
    assert said(again)["ack"] is True
    wire.answer(again, accepted=True, final=False)
    sent = len(wire.sent)
    asked = await wire.request(sent + 1)
    assert said(asked)["control"] == "status"
    assert asked.parameters == b""
    wire.answer(first, "7")
    assert await call == b"7"


async def test_a_program_that_knows_only_the_types_is_asked_once(
    requester: Requester, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reminders, "REMIND_SECONDS", 0.01)
    monkeypatch.setattr(reminders, "LOOK_SECONDS", 0.01)
    call = asyncio.ensure_future(requester.call(ONCE, [Replica("f", provider(""))]))
    other = asyncio.ensure_future(requester.call(ONCE, [Replica("g", provider())]))
    request = await wire.request()
    await wire.request(3)
    assert [one.request_id for one, _ in wire.sent].count(request.request_id) == 1
    wire.answer(request, "7")
    assert await call == b"7"
    other.cancel()


@pytest.mark.parametrize("reason", ["incarnation", "unknown-id"])
async def test_whoever_was_not_meant_costs_the_call_nothing(
    reason: str, requester: Requester, wire: Wire
) -> None:
    replicas = [Replica("fa", provider(A))]
    call = asyncio.ensure_future(requester.call(ONCE, replicas))
    first = await wire.request()
    replicas.append(Replica("fb", provider(B)))
    refusal = EngineUnavailable("no", reason=reason)
    wire.answer(first, status=refusal.row.bus, error=refusal.to_json())
    wire.answer(await wire.request(2), "1")
    assert await call == b"1"


async def test_a_provider_that_was_out_of_sight_for_a_moment_is_asked_again(
    requester: Requester, wire: Wire
) -> None:
    call = asyncio.ensure_future(requester.call(AGAIN, [Replica("f", provider())]))
    await wire.request()
    assert wire.left is not None
    wire.left("participant-a")
    wire.answer(await wire.request(2), "1")
    assert await call == b"1"


@pytest.mark.parametrize("result", ["{nojson", "", '"\\ud800"'])
async def test_an_answer_that_is_no_json_is_the_providers_fault(
    requester: Requester, wire: Wire, result: str
) -> None:
    remote = RemoteFunction(requester, FunctionSignature("evil.f"))
    remote.replicas.append(Replica("f", provider()))
    call = asyncio.ensure_future(remote.call({}, Call("evil.f")))
    wire.answer(await wire.request(), result)
    with pytest.raises(ResultInvalid, match=r"evil\.f: its provider"):
        await call
    items = remote.stream({}, Call("evil.f"))
    first = asyncio.ensure_future(anext(items))
    wire.answer(await wire.request(2), result, final=False, sequence=1)
    with pytest.raises(ResultInvalid):
        await first


async def test_a_program_that_leaves_says_so_and_blames_nobody(requester: Requester, wire: Wire) -> None:
    call = asyncio.ensure_future(requester.call(ONCE, [Replica("f", provider())]))
    await wire.request()
    await requester.close()
    with pytest.raises(OutcomeUnknown, match="this program left"):
        await call
