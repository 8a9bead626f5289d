"""Functions of one host, called from another: real processes on a real bus."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from enginehost import Host, HostSettings
from enginehost.databus import Client, DatabusConfig, SyncClient
from enginehost.errors import (
    CallTimeout,
    EngineUnavailable,
    ExecutionFailed,
    InvalidArguments,
    OutcomeUnknown,
    UnknownFunction,
)

pytest.importorskip("cyclonedds")

from .processes import PATIENCE, ends_well, line_of, running_program
from .provider_process import provider


@pytest.fixture
async def bus(dds_domain: int) -> AsyncIterator[Client]:
    async with Client(domain=dds_domain) as client:
        yield client


@asynccontextmanager
async def host_on(domain: int, state: Path, **settings: Any) -> AsyncIterator[Host]:
    config = DatabusConfig(domain=domain, service="here", state_dir=state)
    async with Host(None, config, settings=HostSettings(state_dir=state, **settings)) as host:
        yield host


async def until(holds: Callable[[], Any], patience: float = PATIENCE) -> None:
    async with asyncio.timeout(patience):
        while not holds():
            await asyncio.sleep(0.01)


def replicas(bus: Client, name: str) -> list[Any]:
    """Who offers a function now."""
    entry = bus._catalog.get(name)
    return entry.function.run.__self__.replicas if entry is not None else []


def marks(file: Path) -> list[str]:
    return file.read_text().split("\n")[:-1] if file.exists() else []


async def test_a_host_calls_functions_of_another_as_its_own(dds_domain: int, tmp_path: Path) -> None:
    async with provider(dds_domain), host_on(dds_domain, tmp_path) as host:
        await until(lambda: host.catalog.get("add"))
        assert await host.call("calc.add", {"a": 1, "b": 2}) == 3
        assert await host.call("add", {"a": 1, "b": 2}) == 3
        assert [item async for item in host.stream("numbers", {"count": 5})] == [0, 1, 2, 3, 4]
        assert await host.call("numbers", {"count": 3}) == [0, 1, 2]
        with pytest.raises(InvalidArguments):
            await host.call("add", {"a": "x"})
        with pytest.raises(ExecutionFailed, match="no luck"):
            await host.call("fail")
        listed = {entry.name: entry for entry in host.functions()}
        assert "calc.add" in listed
        assert "add" not in listed
        assert listed["calc.add"].signature.tags == ("math",)
        assert listed["calc.add"].signature.annotations.idempotent is True
        assert {tool["function"]["name"] for tool in host.tools(tags=["math"])} == {"add"}
        assert host.resolve("add", "openai") == "add"


async def test_remote_functions_are_not_offered_a_second_time(dds_domain: int, tmp_path: Path) -> None:
    async with provider(dds_domain) as other, host_on(dds_domain, tmp_path) as host:
        await until(lambda: host.catalog.get("calc.add"))
        names = (await other.ask(describe=True))["names"]
        assert [name for name in names if "." in name] == []
        assert host.bus is not None
        assert host.bus.describe()["capabilities"] == 0


async def test_who_calls_and_in_which_chain_goes_along(dds_domain: int, tmp_path: Path) -> None:
    from enginehost import Caller

    async with provider(dds_domain), host_on(dds_domain, tmp_path) as host:
        await until(lambda: host.catalog.get("who"))
        call = host.new_call("who", Caller("alice", face="http"))
        told = json.loads(await host.call_json(call, {}, timeout=7.0))
        assert told["chain_id"] == call.chain_id
        assert told["on_behalf_of"] == "alice"
        assert (told["subject"], told["face"], told["authenticated"]) == ("anonymous", "databus", False)
        assert 5.0 < told["remaining"] <= 7.0


async def test_functions_come_and_go_with_their_provider(dds_domain: int, bus: Client) -> None:
    async with provider(dds_domain) as other:
        await bus.wait_for("calc.add", PATIENCE)
        await other.ask(drop="add")
        await until(lambda: "calc.add" not in {one.name for one in bus.functions()})
        with pytest.raises(EngineUnavailable, match=r"calc\.add"):
            await bus.call("add", {"a": 1, "b": 2}, timeout=0.2)
        await other.ask(put="add")
        assert (await bus.wait_for("calc.add", PATIENCE)).description == "Adds."
    await until(lambda: not bus.functions())


async def test_arrivals_and_departures_are_events(dds_domain: int, bus: Client) -> None:
    events = bus.events()
    first = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    async with provider(dds_domain):
        arrived = [await asyncio.wait_for(first, PATIENCE)]
        while len(arrived) < 9:
            arrived.append(await asyncio.wait_for(anext(events), PATIENCE))
    departed = [await asyncio.wait_for(anext(events), PATIENCE) for _ in arrived]
    assert {event.kind for event in arrived} == {"arrived"}
    assert {event.kind for event in departed} == {"departed"}
    assert {e.signature.name for e in arrived} == {e.signature.name for e in departed}
    await events.aclose()


async def test_a_name_that_nobody_offers_is_unknown(dds_domain: int, bus: Client) -> None:
    async with provider(dds_domain):
        await bus.wait_for("add", PATIENCE)
        with pytest.raises(UnknownFunction, match="add"):
            await bus.call("addd", timeout=0.2)


async def test_a_program_without_an_event_loop_calls_too(dds_domain: int) -> None:
    def use() -> Any:
        with SyncClient(domain=dds_domain) as bus:
            assert bus.call("add", {"a": 1, "b": 2}) == 3
            assert list(bus.stream("numbers", {"count": 3})) == [0, 1, 2]
            assert "calc.add" in {one.name for one in bus.functions("calc")}
            with pytest.raises(CallTimeout):
                bus.call("nap", {"seconds": 60}, timeout=0.2)
            for item in bus.stream("numbers", {"count": 1_000_000}):
                if item == 10:
                    break
            return bus.call("echo", {"value": "still there"})

    async with provider(dds_domain):
        assert await asyncio.to_thread(use) == "still there"


async def test_large_arguments_and_results_pass(dds_domain: int, bus: Client) -> None:
    async with provider(dds_domain):
        value = "ü🎛" * 700_000
        assert len(value.encode()) > 4_000_000
        assert await bus.call("echo", {"value": value}) == value


async def test_a_call_that_is_not_waited_for_any_more_is_cancelled_there(
    dds_domain: int, bus: Client, tmp_path: Path
) -> None:
    file = tmp_path / "marks"
    async with provider(dds_domain, "--marks", str(file)):
        call = asyncio.ensure_future(bus.call("nap", {"seconds": 60}))
        await until(lambda: marks(file) == ["began"])
        call.cancel()
        await until(lambda: marks(file) == ["began", "cancelled"])
        with pytest.raises(CallTimeout):
            await bus.call("nap", {"seconds": 60}, timeout=0.3)
        await until(lambda: marks(file)[2:] == ["began", "cancelled"])


async def test_a_stream_that_is_left_ends_there(dds_domain: int, bus: Client, tmp_path: Path) -> None:
    file = tmp_path / "marks"
    async with provider(dds_domain, "--marks", str(file)):
        items = bus.stream("numbers", {"count": 1_000_000})
        assert [await anext(items) for _ in range(3)] == [0, 1, 2]
        await items.aclose()
        await until(lambda: marks(file) == ["stream began", "stream ended"])


async def test_a_reader_that_takes_its_time_stops_its_own_stream_only(dds_domain: int, bus: Client) -> None:
    async with provider(dds_domain) as other:
        slow = bus.stream("numbers", {"count": 1_000_000})
        assert await anext(slow) == 0
        count = 0
        async for _ in bus.stream("numbers", {"count": 50_000}):
            count += 1
        assert count == 50_000
        assert (await other.ask(describe=True))["bus"]["in_flight"] == 1
        assert [await anext(slow) for _ in range(5_000)] == list(range(1, 5_001))
        await slow.aclose()


async def test_a_killed_provider_in_the_middle_of_a_call_leaves_the_outcome_unknown(
    dds_domain: int, bus: Client, tmp_path: Path
) -> None:
    file = tmp_path / "marks"
    async with provider(dds_domain, "--marks", str(file)) as other:
        call = asyncio.ensure_future(bus.call("once", {"id": "x", "seconds": 60}))
        items = bus.stream("numbers", {"count": 1_000_000, "delay": 0.05})
        assert await anext(items) == 0
        await until(lambda: "x" in marks(file))
        await other.kill()
        killed = time.monotonic()
        with pytest.raises(OutcomeUnknown):
            await call
        with pytest.raises(OutcomeUnknown):
            [item async for item in items]
        assert time.monotonic() - killed < 10, "the lease is two seconds"
        await until(lambda: not bus.functions())


async def test_a_provider_that_stands_still_is_gone_and_comes_back(dds_domain: int, bus: Client) -> None:
    async with provider(dds_domain) as other:
        assert await bus.call("add", {"a": 1, "b": 2}) == 3
        call = asyncio.ensure_future(bus.call("nap", {"seconds": 30}))
        await bus.call("pid")
        other.pause()
        try:
            with pytest.raises(OutcomeUnknown):
                await call
            await until(lambda: not bus.functions())
        finally:
            other.resume()
        resumed = time.monotonic()
        await bus.wait_for("calc.add", PATIENCE)
        assert time.monotonic() - resumed < 10
        assert await bus.call("add", {"a": 2, "b": 2}) == 4


async def test_replicas_share_the_work(dds_domain: int, bus: Client) -> None:
    async with AsyncExitStack() as stack:
        three = [await stack.enter_async_context(provider(dds_domain)) for _ in range(3)]
        await until(lambda: len(replicas(bus, "turn")) == 3)
        calls = [bus.call("turn", {"seconds": 0.02}) for _ in range(90)]
        answered = await asyncio.gather(*calls)
        for one in three:
            assert answered.count(one.pid) >= 15


async def test_no_call_that_may_be_repeated_is_lost_with_a_killed_replica(
    dds_domain: int, bus: Client
) -> None:
    async with AsyncExitStack() as stack:
        three = [await stack.enter_async_context(provider(dds_domain)) for _ in range(3)]
        await until(lambda: len(replicas(bus, "pid")) == 3)
        calls = [asyncio.ensure_future(bus.call("pid", {"seconds": 0.3})) for _ in range(60)]
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        calls += [asyncio.ensure_future(bus.call("pid", {"seconds": 0.1})) for _ in range(60)]
        await asyncio.sleep(0)
        await three[0].kill()
        answered = await asyncio.gather(*calls)
        assert len(answered) == 120


async def test_a_call_that_may_not_be_repeated_runs_once_or_its_outcome_is_unknown(
    dds_domain: int, bus: Client, tmp_path: Path
) -> None:
    file = tmp_path / "marks"
    async with AsyncExitStack() as stack:
        options = ("--marks", str(file))
        two = [await stack.enter_async_context(provider(dds_domain, *options)) for _ in range(2)]
        await until(lambda: len(replicas(bus, "once")) == 2)
        calls = {
            f"id-{n}": asyncio.ensure_future(bus.call("once", {"id": f"id-{n}", "seconds": 0.2}))
            for n in range(60)
        }
        await until(lambda: len(marks(file)) >= 10)
        await two[0].kill()
        outcomes = dict(
            zip(calls, await asyncio.gather(*calls.values(), return_exceptions=True), strict=True)
        )
    ran = marks(file)
    assert len(ran) == len(set(ran)), "none ran twice"
    for name, outcome in outcomes.items():
        assert outcome == name or isinstance(outcome, OutcomeUnknown), outcome
        assert name in ran or isinstance(outcome, OutcomeUnknown)


async def test_two_hosts_with_one_id_tell_themselves_apart(
    dds_domain: int, bus: Client, tmp_path: Path
) -> None:
    """A copied state directory: the later one takes a fresh id, and both can be called."""
    import shutil

    first, second = tmp_path / "first", tmp_path / "second"
    async with provider(dds_domain, "--state", str(first), "--service", "one") as one:
        before = (await one.ask(describe=True))["bus"]["host_id"]
        shutil.copytree(first, second)
        async with provider(dds_domain, "--state", str(second), "--service", "one") as other:
            ids: set[str] = set()
            async with asyncio.timeout(PATIENCE):
                while len(ids) < 2:
                    ids = {(await each.ask(describe=True))["bus"]["host_id"] for each in (one, other)}
            assert before in ids
            assert (await one.ask(describe=True))["bus"]["host_id"] == before
            pids: set[int] = set()
            async with asyncio.timeout(PATIENCE):
                while pids != {one.pid, other.pid}:
                    calls = [bus.call("one.pid", {"seconds": 0.1}) for _ in range(4)]
                    pids = set(await asyncio.gather(*calls))


async def test_a_host_that_was_killed_has_its_id_again(dds_domain: int, tmp_path: Path) -> None:
    """What its last start has left on the bus is no second host."""
    async with provider(dds_domain, "--state", str(tmp_path)) as first:
        before = (await first.ask(describe=True))["bus"]["host_id"]
        await first.kill()
    async with provider(dds_domain, "--state", str(tmp_path)) as again, Client(domain=dds_domain) as bus:
        assert await bus.call("pid") == again.pid
        await asyncio.sleep(3)  # the lease of the one that was killed, and what asking it may take
        assert (await again.ask(describe=True))["bus"]["host_id"] == before
        assert await bus.call("pid") == again.pid


async def test_a_client_that_stood_still_still_knows_what_is_there(dds_domain: int, tmp_path: Path) -> None:
    script = (
        "import asyncio, sys, time\n"
        "from enginehost.databus import Client\n"
        "async def main():\n"
        f"    async with Client(domain={dds_domain}) as bus:\n"
        "        print(await bus.call('add', {'a': 1, 'b': 2}), flush=True)\n"
        "        while True:\n"
        "            line = await asyncio.to_thread(sys.stdin.readline)\n"
        "            if not line: return\n"
        "            print(await bus.call('add', {'a': 2, 'b': 2}), flush=True)\n"
        "asyncio.run(main())\n"
    )
    async with provider(dds_domain), running_program("-c", script) as process:
        assert process.stdin is not None
        assert await line_of(process) == b"3\n"
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(4)  # longer than the lease
        process.send_signal(signal.SIGCONT)
        for _ in range(3):
            process.stdin.write(b"\n")
            assert await line_of(process) == b"4\n"
            await asyncio.sleep(0.7)
        await ends_well(process)


async def test_a_peer_that_talks_garbage_hurts_nobody(dds_domain: int, tmp_path: Path) -> None:
    program = Path(__file__).with_name("garbage.py")
    async with provider(dds_domain) as other, host_on(dds_domain, tmp_path) as host:
        await until(lambda: host.catalog.get("calc.add"))
        async with running_program(str(program), str(dds_domain)) as process:
            assert await line_of(process) == b"ready\n"
            assert host.bus is not None
            await until(lambda: len(host.bus.describe()["capability_faults"]) >= 8)  # type: ignore[union-attr]
            assert await host.call("calc.add", {"a": 1, "b": 2}) == 3
            assert (await other.ask(describe=True))["bus"]["joined"] is True
            assert [one["function"]["name"] for one in host.tools()]
            await ends_well(process)
        await until(lambda: not host.bus.describe()["capability_faults"])  # type: ignore[union-attr]
        assert await host.call("calc.add", {"a": 2, "b": 2}) == 4


async def test_what_cannot_be_sent_is_an_argument_at_fault(dds_domain: int, bus: Client) -> None:
    async with provider(dds_domain):
        with pytest.raises(InvalidArguments, match="cannot be sent"):
            await bus.call("echo", {"value": float("nan")})
