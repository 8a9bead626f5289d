"""A transport that does not get rid of what it should write, for whatever reason."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from enginehost.catalog import Catalog, EngineRecord
from enginehost.databus import advertise, refusals, respond
from enginehost.databus.advertise import Advertiser
from enginehost.databus.identity import Identity
from enginehost.databus.port import Capability, ExecutionReply, ExecutionRequest
from enginehost.databus.refusals import LINE
from enginehost.databus.respond import Responder
from enginehost.engine import EngineState, Function, RunMode
from enginehost.policy import BOTH
from enginehost.signature import FunctionSignature


class Stuck:
    """Writes nothing before it is let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.published: list[str] = []
        self.replies: list[str] = []

    async def publish(self, capabilities: Sequence[Capability]) -> None:
        await self.go.wait()
        self.published += [capability.name for capability in capabilities]

    async def withdraw(self, function_ids: Sequence[str], *, dispose: bool = True) -> None:
        await self.go.wait()

    async def reply(self, reply: ExecutionReply, source: str, partition: str = "") -> bool:
        await self.go.wait()
        self.replies.append(reply.request_id)
        return True


def put(catalog: Catalog, name: str) -> None:
    async def run(arguments: dict[str, Any], call: Any) -> None: ...

    function = Function(FunctionSignature(name), run, RunMode.ASYNC)
    catalog.put(EngineRecord(name, "test", state=EngineState.READY), [function])


async def test_functions_that_cannot_be_written_hold_up_later_ones_for_a_while_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(advertise, "WRITE_PATIENCE", 0.05)
    catalog, transport = Catalog(), Stuck()
    put(catalog, "first")
    advertiser: Any = Advertiser(catalog, transport, Identity(None), "s", lambda _: BOTH)  # type: ignore[arg-type]
    async with asyncio.timeout(10):
        while "does not hear of first" not in caplog.text:
            await asyncio.sleep(0.005)
        transport.go.set()
        put(catalog, "second")
        while transport.published != ["second"]:
            await asyncio.sleep(0)
    await advertiser.close()


def responder(transport: Stuck, call: Any = None, max_in_flight: int = 4) -> Responder:
    invoked = SimpleNamespace(new_call=lambda *given: given, call_json=call, refuse=lambda *given: None)
    return Responder(
        invoked,  # type: ignore[arg-type]
        transport,  # type: ignore[arg-type]
        SimpleNamespace(host_id="h", incarnation="i"),  # type: ignore[arg-type]
        lambda function_id: function_id,
        max_in_flight=max_in_flight,
        max_request_bytes=10,
    )


def too_large(count: int, participant: str, named: str = "") -> list[ExecutionRequest]:
    return [
        ExecutionRequest(f"{participant}{named}{n}", "f", b"x" * 100, 1, b"", f"writer {n}", participant)
        for n in range(count)
    ]


async def stuck_after_one_answer(transport: Stuck) -> Responder:
    """A responder whose transport has reached the participant ``a``, and now does not any more."""
    answering = responder(transport)
    transport.go.set()
    await answering.receive(too_large(1, "a", "first"))
    async with asyncio.timeout(20):
        while not answering.replies.answered:
            await asyncio.sleep(0)
    transport.go.clear()
    return answering


async def test_a_participant_that_was_never_reached_holds_up_nobody() -> None:
    transport = Stuck()
    answering = responder(transport)
    async with asyncio.timeout(10):
        await answering.receive(too_large(LINE + 200, "a"))  # does not wait, whatever the transport does
        await answering.receive(too_large(3, "b"))
        assert answering.replies.lost == 200
        transport.go.set()
        while answering.replies.answered < LINE + 3:
            await asyncio.sleep(0)
    assert [one for one in transport.replies if one.startswith("b")] == ["b0", "b1", "b2"]


async def test_a_participant_that_takes_its_replies_gets_each_refusal_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refusals, "PATIENCE", 3600.0)
    transport = Stuck()
    answering = await stuck_after_one_answer(transport)
    async with asyncio.timeout(20):
        held = asyncio.create_task(answering.receive(too_large(3 * LINE, "a")))
        for _ in range(12 * LINE):  # more turns of the loop than there are refusals
            await asyncio.sleep(0)
        assert not held.done()  # what comes faster than it goes is not taken
        transport.go.set()
        await held
        await answering.close(0.0)
    assert answering.replies.lost == 0
    assert transport.replies == ["afirst0", *(f"a{n}" for n in range(3 * LINE))]


async def test_a_participant_that_takes_no_more_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "PATIENCE", 0.05)
    transport = Stuck()
    answering = await stuck_after_one_answer(transport)
    async with asyncio.timeout(20):
        await answering.receive(too_large(LINE + 1_000, "a"))  # many times its patience, if for each
        assert 990 <= answering.replies.lost <= 1_000  # one is on its way
        transport.go.set()
        await answering.close(0.0)
    assert answering.replies.answered + answering.replies.lost == LINE + 1_001


async def test_a_transport_that_fails_once_gets_the_next_refusal(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Stuck):
        async def reply(self, reply: ExecutionReply, source: str, partition: str = "") -> bool:
            if reply.request_id == "a0":
                raise RuntimeError("it broke")
            return await super().reply(reply, source, partition)

    transport = Failing()
    transport.go.set()
    answering = responder(transport)
    await answering.receive(too_large(2, "a"))
    async with asyncio.timeout(20):
        await answering.close(0.0)
    assert transport.replies == ["a1"]
    assert "it broke" in caplog.text


async def test_refusals_that_nobody_takes_do_not_keep_the_responder_from_closing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(respond, "CANCELLED_PATIENCE", 0.01)
    answering = responder(Stuck())
    await answering.receive([ExecutionRequest("r", "f", b"x" * 100, 1, b"", "w", "p")])
    async with asyncio.timeout(10):
        await answering.close(0.0)


def test_a_peer_that_is_discovered_while_the_peers_are_counted_is_counted() -> None:
    pytest.importorskip("cyclonedds")
    from enginehost.databus.cyclone.outlet import matched

    answers: list[Any] = [IndexError("invalid index"), [1, 2]]

    def handles() -> list[int]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert matched(handles) == [1, 2]
