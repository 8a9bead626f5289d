"""What monitors are told of calls, and that telling them costs no call."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from enginehost.caller import Caller
from enginehost.databus import outbox
from enginehost.databus.log_events import LOGS
from enginehost.databus.unified import EVENT
from enginehost.errors import ERROR_TABLE, ConfigError, EngineHostError
from enginehost.policy import VIEW
from enginehost.signature import FunctionSignature
from enginehost.trace_context import TraceContext

from .monitored import CHAIN, LIFECYCLE, SECRET, running


async def test_a_chain_is_told_with_the_ids_of_the_log_from_its_first_start_to_its_last_end() -> None:
    async with running(CHAIN) as on:
        await on.start()
        await on.host.call("outer", {}, caller=Caller("ada", face="http"))
        await on.monitor.until(lambda: on.monitor.ended)
        told, lines = on.told(CHAIN), on.lines
    assert len({event["chain_id"] for event in told} | {line["chain_id"] for line in lines}) == 1
    assert on.monitor.ended == [lines[0]["chain_id"]]
    assert [event["event_type"].rpartition("_")[2] for event in told] == [*["START"] * 3, *["COMPLETE"] * 3]
    for name, count in (("outer", 1), ("add", 2)):
        mine = [event for event in told if event["function_id"] == event["target_id"] == on.id_of(name)]
        logged = [line["call_id"] for line in lines if line["function"] == name]
        assert sorted(event["call_id"] for event in mine) == sorted(2 * logged)
        assert len(logged) == count
    assert {(event["source_id"], event["status"]) for event in told} == {("ada", 0)}
    assert all(isinstance(event["timestamp"], int) for event in told)


async def test_a_call_that_runs_is_told_before_it_ends() -> None:
    async with running(CHAIN) as on:
        await on.start()
        call = asyncio.create_task(on.host.call("slow"))
        await on.monitor.until(lambda: on.told(CHAIN))
        assert not call.done()
        assert [event["event_type"] for event in on.told(CHAIN)] == ["FUNCTION_CALL_START"]
        assert not on.monitor.ended
        on.engine.go.set()
        await call
        await on.monitor.until(lambda: on.monitor.ended)


async def test_failures_and_refusals_have_the_status_of_a_reply_and_nothing_of_what_was_said() -> None:
    async with running(CHAIN, EVENT, LIFECYCLE, LOGS) as on:
        await on.start(profiles=("genesis1", "genesis2"))
        for name, arguments in (("broken", {"a": SECRET}), ("nobody", {}), ("add", [SECRET])):
            with pytest.raises(EngineHostError):
                await on.host.call(name, arguments)  # type: ignore[arg-type]
        refused = on.host.new_call("add", None, TraceContext(7, 8))
        on.host.refuse(refused, ConfigError("no"))
        await on.monitor.until(lambda: len(on.monitor.ended) == 4)
        told = on.told(CHAIN)
    ends = [
        (event["function_id"], event["status"]) for event in told if event["event_type"].endswith("COMPLETE")
    ]
    assert ends == [
        (on.id_of("broken"), ERROR_TABLE["execution_failed"].bus),
        ("", ERROR_TABLE["unknown_function"].bus),
        (on.id_of("add"), ERROR_TABLE["invalid_arguments"].bus),
        (on.id_of("add"), ERROR_TABLE["config"].bus),
    ]
    assert told[-1]["chain_id"] == f"{7:032x}"
    assert SECRET not in json.dumps(on.monitor.events)


async def test_while_nobody_listens_nothing_is_written_and_the_call_path_knows_of_nothing() -> None:
    async with running() as on:
        await on.start()
        for _ in range(100):
            await on.host.call("add")
        logging.getLogger("enginehost.host").warning("heard by nobody")
        on.host.write_down()
        await asyncio.sleep(0)
        assert on.host._invoker.tracing.on is False
        assert on.monitor.tried == 0
        on.monitor.topics.add(CHAIN)
        await on.monitor.until(lambda: on.host._invoker.tracing.on)
        await on.host.call("add")
        await on.monitor.until(lambda: on.monitor.ended)
        on.monitor.topics.clear()
        await on.monitor.until(lambda: not on.host._invoker.tracing.on)
        tried = on.monitor.tried
        await on.host.call("add")
        on.host.write_down()
        await asyncio.sleep(0)
        assert on.monitor.tried == tried


async def test_a_chain_that_runs_while_the_last_monitor_goes_still_ends() -> None:
    async with running(CHAIN) as on:
        await on.start()
        call = asyncio.create_task(on.host.call("slow"))
        await on.monitor.until(lambda: on.told(CHAIN))
        on.monitor.topics.clear()
        await on.monitor.until(lambda: not on.host._invoker.tracing.on)
        tried = on.monitor.tried
        on.engine.go.set()
        await call
        await on.monitor.until(lambda: on.monitor.tried == tried + 1)  # with which the transport forgets it


async def test_a_burst_that_a_monitor_cannot_take_is_dropped_and_counted_while_calls_go_on() -> None:
    calls = 100_000
    async with running(CHAIN) as on:
        on.monitor.accepts = lambda: on.monitor.tried % 7 == 0  # a reader that is behind
        await on.start()
        for n in range(calls):
            await on.host.call("add")
            if n % 1000 == 0:
                await asyncio.sleep(0)
        on.host.write_down()
        on.monitor.accepts = lambda: True
        await on.monitor.until(lambda: not on.events._outbox._queue and not on.events._parts.chains._running)
        about = on.events.describe()
        told = on.told(CHAIN)
    assert about["dropped"] > calls
    assert about["sent"] == len(told)
    assert about["sent"] + about["dropped"] == 2 * calls
    assert {event["chain_id"] for event in told} == set(on.monitor.ended)  # nothing is kept of any chain
    assert len(on.monitor.ended) == len(set(on.monitor.ended))


async def test_calls_whose_records_were_lost_do_not_fill_the_events_for_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("enginehost.databus.chain_events.MOST_RUNNING", 10)
    async with running(CHAIN) as on:
        await on.start()
        monkeypatch.setattr(on.host._recorder, "put", lambda raw: None)
        for _ in range(30):
            await on.host.call("add")
        await on.monitor.until(lambda: len(on.monitor.ended) == 20)
        assert len(on.events._parts.chains._running) == 10


async def test_who_calls_is_told_on_loopback_only_and_what_peers_may_not_view_nowhere() -> None:
    def rights(signature: FunctionSignature) -> int:
        return VIEW if signature.name == "add" else 0

    ada = Caller("ada", face="http")
    async with running(CHAIN, LIFECYCLE) as on:
        await on.start(rights, interface="192.0.2.1")
        await on.host.call("add", caller=ada)
        await on.host.call("outer", caller=ada)
        await on.monitor.until(lambda: len(on.monitor.ended) == 2)
        await on.monitor.until(lambda: len(on.told(LIFECYCLE)) == 3)
    assert {event["source_id"] for event in on.told(CHAIN)} == {""}
    assert {event["function_id"] for event in on.told(CHAIN)} == {on.id_of("add"), ""}
    names = [json.loads(event["capabilities"]).get("name") for event in on.told(LIFECYCLE)]
    assert set(names) == {None, "add"}


async def test_a_transport_that_fails_loses_events_and_nothing_else(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "AFTER_FAILURE", 0.01)
    broken = [True, True]

    def accepts() -> bool:
        if broken:
            broken.pop()
            raise RuntimeError("it broke")
        return True

    async with running(CHAIN) as on:
        on.monitor.accepts = accepts
        await on.start()
        for _ in range(3):
            await on.host.call("add")
        await on.monitor.until(lambda: len(on.told(CHAIN)) == 4)
        assert on.events.describe()["dropped"] == 2
    assert caplog.text.count("events cannot be written") == 1


async def test_a_transport_that_knows_of_no_events_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    asked = 0

    def listened(topic: str) -> bool:
        nonlocal asked
        asked += 1
        raise AttributeError("listened")

    async with running() as on:
        on.monitor.listened = listened  # type: ignore[method-assign]
        await on.start(profiles=("genesis1", "genesis2"))
        assert await on.host.call("add", {"a": 1}) == 2
        await on.monitor.until(lambda: asked > 2)
    assert caplog.text.count("cannot say who listens") == 1


async def test_where_calls_are_traced_events_have_the_ids_of_the_spans(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    provider = TracerProvider(shutdown_on_exit=False)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    async with running(CHAIN) as on:
        await on.start()
        await on.monitor.until(lambda: on.host._invoker.tracing._heard)
        await on.host.call("outer")
        await on.monitor.until(lambda: on.monitor.ended)
        lines = on.lines
    assert {event["call_id"] for event in on.told(CHAIN)} == {line["call_id"] for line in lines}
    assert [event["event_type"][-5:] for event in on.told(CHAIN)] == [*["START"] * 3, *["PLETE"] * 3]
    assert len(on.monitor.ended) == 1
