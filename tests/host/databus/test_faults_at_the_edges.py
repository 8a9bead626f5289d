"""What fails at the edges of the databus (a transport, a peer's data, a file) takes nothing else with it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from enginehost.catalog import Catalog, EngineRecord
from enginehost.databus.advertise import Advertiser
from enginehost.databus.config import DatabusConfig
from enginehost.databus.identity import Identity
from enginehost.databus.kept import MOST_BYTES, Kept
from enginehost.databus.keys import new_key, written
from enginehost.databus.port import Capability, ExecutionReply
from enginehost.databus.replies import ReturnAddress
from enginehost.databus.sight import Offer, Program, Sight
from enginehost.databus.signing import sign_capability
from enginehost.databus.signing_setup import Signing
from enginehost.databus.survey import judged, survey
from enginehost.databus.trust import KeyEntry, trust_key
from enginehost.engine import EngineState, Function, RunMode
from enginehost.policy import BOTH
from enginehost.record import Stats
from enginehost.signature import FunctionSignature

from .raw_peers import GOOD, Raw

KNOWN = ("", "requester", "r1")


def kept_reply(size: int) -> tuple[ExecutionReply, ReturnAddress]:
    return ExecutionReply("r1", "f1", b"x" * size, 0, "", 0, b""), ReturnAddress("r1", "f1", "1", "1", "")


def test_replies_kept_under_one_id_again_and_again_leave_room_for_others() -> None:
    kept = Kept()
    for _ in range(20):
        kept.add(KNOWN, *kept_reply(MOST_BYTES // 8))
    for number in range(7):
        kept.add(("", "requester", f"s{number}"), *kept_reply(MOST_BYTES // 8))
    assert kept.again(KNOWN) is not None


class Failing:
    """A transport of a plugin that cannot take anything back."""

    async def publish(self, capabilities: Sequence[Capability]) -> None: ...

    async def withdraw(self, function_ids: Sequence[str], *, dispose: bool = True) -> None:
        raise OSError("the library is gone")


def put(catalog: Catalog, name: str) -> None:
    async def run(arguments: dict[str, Any], call: Any) -> None: ...

    function = Function(FunctionSignature(name), run, RunMode.ASYNC)
    catalog.put(EngineRecord(name, "test", state=EngineState.READY), [function])


async def settled(advertiser: Advertiser) -> None:
    async with asyncio.timeout(10):
        while advertiser.pending:
            await asyncio.sleep(0.001)


async def test_a_transport_that_cannot_withdraw_does_not_keep_a_host_from_leaving(
    caplog: pytest.LogCaptureFixture,
) -> None:
    catalog: Any = Catalog()
    put(catalog, "add")
    advertiser = Advertiser(catalog, Failing(), Identity(None), "s", lambda _: BOTH)  # type: ignore[arg-type]
    await settled(advertiser)
    with caplog.at_level(logging.ERROR):
        await advertiser.close()
    assert "peers do not hear that functions go" in caplog.text


class Silent(Failing):
    async def withdraw(self, function_ids: Sequence[str], *, dispose: bool = True) -> None: ...


async def test_nothing_is_remembered_of_functions_that_went() -> None:
    catalog = Catalog()
    advertiser = Advertiser(
        catalog,
        Silent(),  # type: ignore[arg-type]
        Identity(None),
        "s",
        lambda _: BOTH,
        stats=lambda _: Stats(calls=1),
    )
    for number in range(20):
        put(catalog, f"f{number}")
        await settled(advertiser)
        catalog.remove(f"f{number}")
        await settled(advertiser)
    await advertiser.close()
    assert advertiser._told == {}


def callable_sight(*capabilities: Capability) -> Sight:
    program = Program("0110" + "0" * 28, pid=7)
    return Sight(programs=(program,), offers=tuple(Offer(one, program.key, 0.0, 0.0) for one in capabilities))


async def test_what_this_host_lets_not_in_is_not_shown_as_callable(raw: Raw, tmp_path: Path) -> None:
    trusted, key = tmp_path / "trusted.yaml", new_key()
    trust_key(trusted, KeyEntry(name="plant", key=written(key.public)))
    raw.offer(GOOD)
    raw.offer(sign_capability(replace(GOOD, function_id="signed", name="signed"), key))
    raw.answer()
    wary = replace(raw.config, accept="trusted", trust_file=trusted)
    found = {one.offer.capability.name: one for one in (await survey(wary, 0.05)).capabilities}
    assert (found["signed"].callable, found["signed"].why_not) == (True, "")
    why = found[GOOD.name].why_not
    assert not found[GOOD.name].callable
    assert why.startswith("this host does not let it in (it accepts only what a trusted key signed): ")
    assert "is not signed" in why
    assert all(one.callable for one in (await survey(raw.config, 0.05)).capabilities)


async def test_a_bad_trust_file_is_told_and_the_bus_is_shown_all_the_same(tmp_path: Path) -> None:
    trusted = tmp_path / "trusted.yaml"
    trusted.write_text("keys: 7\n")
    config = DatabusConfig(accept="trusted", trust_file=trusted)
    found = judged(config, callable_sight(GOOD), Signing())
    assert len(found.capabilities) == 1
    assert "trusted key" not in found.capabilities[0].why_not


async def test_a_thread_of_the_transport_goes_on_after_what_it_could_not_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("cyclonedds")
    from enginehost.databus.cyclone import waits

    monkeypatch.setattr(waits, "AFTER_FAILURE", 0.001)
    steps: list[int] = []
    done = threading.Event()

    def step() -> None:
        steps.append(len(steps))
        if len(steps) == 1:
            raise LookupError("a peer's data")
        done.set()

    thread = threading.Thread(target=waits.keep_on, args=(step, done.is_set))
    with caplog.at_level(logging.ERROR):
        thread.start()
        await asyncio.to_thread(thread.join, 10)
    assert steps == [0, 1]
    assert "a thread of the databus failed, and goes on" in caplog.text


async def test_a_thread_of_the_transport_ends_where_nobody_is_left() -> None:
    pytest.importorskip("cyclonedds")
    from enginehost.databus.cyclone.waits import keep_on, post

    closed = asyncio.new_event_loop()
    closed.close()
    await asyncio.wait_for(asyncio.to_thread(keep_on, lambda: post(closed, print), lambda: False), timeout=10)


async def test_one_event_that_cannot_be_written_keeps_no_other_back() -> None:
    pytest.importorskip("cyclonedds")
    from enginehost.databus.cyclone.topics import Events

    events = Events(SimpleNamespace(), SimpleNamespace())  # type: ignore[arg-type]
    events._writers["log"] = (SimpleNamespace(), SimpleNamespace(participants={"p"}))  # type: ignore[assignment]
    seen: list[str] = []

    def write(topic: str, values: Any, *, last: bool) -> None:
        seen.append(values["n"])
        if values["n"] == 1:
            raise OverflowError("a number that fits nowhere")

    events._write = write  # type: ignore[method-assign]
    for number in (1, 2):
        assert events.announce("log", {"n": number}, last=False)
    await asyncio.to_thread(events._queue.put, None)
    assert events._thread is not None
    await asyncio.to_thread(events._thread.join, 10)
    assert (seen, events.dropped) == ([1, 2], 1)
