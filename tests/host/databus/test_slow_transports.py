"""A transport that does not get rid of what it should write, for whatever reason."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from enginehost.catalog import Catalog, EngineRecord
from enginehost.databus import advertise, respond
from enginehost.databus.advertise import Advertiser
from enginehost.databus.identity import Identity
from enginehost.databus.port import Capability, ExecutionReply, ExecutionRequest
from enginehost.databus.respond import REFUSALS_WAITING, Responder
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

    async def withdraw(self, function_ids: Sequence[str]) -> None:
        await self.go.wait()

    async def reply(self, reply: ExecutionReply, source: str) -> bool:
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
    return Responder(
        call,
        transport,  # type: ignore[arg-type]
        SimpleNamespace(host_id="h", incarnation="i"),  # type: ignore[arg-type]
        lambda function_id: function_id,
        max_in_flight=max_in_flight,
        max_request_bytes=10,
    )


async def test_refusals_wait_for_one_participant_in_bounded_number_and_for_no_other() -> None:
    transport = Stuck()
    answering = responder(transport)
    too_large = "x" * 100

    def requests(count: int, participant: str) -> list[ExecutionRequest]:
        return [
            ExecutionRequest(f"{participant}{n}", "f", too_large, 1, "", f"writer {n}", participant)
            for n in range(count)
        ]

    async with asyncio.timeout(10):
        await answering.receive(requests(1000, "a"))  # does not wait, whatever the transport does
        await answering.receive(requests(3, "b"))
        assert answering.lost == 1000 - REFUSALS_WAITING
        transport.go.set()
        while answering.answered < REFUSALS_WAITING + 3:
            await asyncio.sleep(0)
    assert [one for one in transport.replies if one.startswith("b")] == ["b0", "b1", "b2"]


async def test_refusals_that_nobody_takes_do_not_keep_the_responder_from_closing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(respond, "CANCELLED_PATIENCE", 0.01)
    answering = responder(Stuck())
    await answering.receive([ExecutionRequest("r", "f", "x" * 100, 1, "", "w", "p")])
    async with asyncio.timeout(10):
        await answering.close(0.0)
