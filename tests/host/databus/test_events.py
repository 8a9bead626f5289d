"""What monitors are told: by a transport that writes down, and on the real bus."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import sys
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost import EngineContext, Function, Host, HostSettings
from enginehost.call import Call
from enginehost.caller import Caller
from enginehost.catalog import EngineRecord
from enginehost.databus import outbox
from enginehost.databus.components import READY, Component
from enginehost.databus.config import DatabusConfig
from enginehost.databus.events import Events
from enginehost.databus.graph import TOPOLOGY
from enginehost.databus.identity import Identity
from enginehost.databus.lifecycle_events import Transition, lifecycle_values
from enginehost.databus.log_events import LOGS, log_values
from enginehost.databus.struct import Struct
from enginehost.databus.types import (
    CHAIN_EVENT,
    COMPONENT_LIFECYCLE_EVENT,
    COMPONENT_STATE,
    LOG_MESSAGE,
    TOPICS,
)
from enginehost.databus.unified import EVENT
from enginehost.engine import AbstractFunctionEngine, EngineState
from enginehost.errors import ERROR_TABLE, ConfigError, EngineHostError
from enginehost.policy import BOTH, VIEW
from enginehost.settings import load_settings
from enginehost.signature import FunctionSignature
from enginehost.trace_context import TraceContext

CHAIN, LIFECYCLE = CHAIN_EVENT.name, COMPONENT_LIFECYCLE_EVENT.name
ANYTHING = {"type": "object", "additionalProperties": True}
SECRET = "correct-horse-battery"


class Monitored:
    """A transport that writes down what it is given. ``accepts`` says whether there is room."""

    def __init__(self, *topics: str) -> None:
        self.topics = set(topics)
        self.events: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.ended: list[str] = []
        self.tried = 0
        self.durable: dict[str, dict[str, Any]] = {}
        self.offline: list[str] = []
        self.accepts: Callable[[], bool] = lambda: True

    def listened(self, topic: str) -> bool:
        return topic in self.topics

    def announce(self, topic: str, values: Mapping[str, Any], *, last: bool = False) -> bool:
        self.tried += 1
        if topic not in self.topics or not self.accepts():
            return False
        assert set(values) == {member.name for member in TOPICS[topic].struct.members}
        self.events[topic].append(dict(values))
        if last:
            self.ended.append(values[next(m.name for m in TOPICS[topic].struct.members if m.key)])
        return True

    async def put(self, topic: str, samples: Sequence[Mapping[str, Any]]) -> None:
        assert topic == TOPOLOGY
        self.durable |= {sample["element_id"]: dict(sample) for sample in samples}
        self.offline += [sample["element_id"] for sample in samples if sample["state"] == "OFFLINE"]

    async def drop(self, topic: str, keys: Sequence[str]) -> None:
        for key in keys:
            del self.durable[key]

    async def until(self, holds: Callable[[], Any]) -> None:
        async with asyncio.timeout(20):
            while not holds():
                await asyncio.sleep(0.002)


class Functions(AbstractFunctionEngine):
    """Functions that call one another."""

    def __init__(self, host: Host, *names: str) -> None:
        super().__init__(EngineContext("e"))
        self._host = host
        self._names = names or ("add", "outer", "broken", "slow")
        self.go = asyncio.Event()

    def functions(self) -> list[Function]:
        return [
            self.context.function(getattr(self, name), name=name, parameters=ANYTHING) for name in self._names
        ]

    async def add(self, arguments: dict[str, Any], call: Call) -> Any:
        return arguments.get("a", 0) + 1

    async def outer(self, arguments: dict[str, Any], call: Call) -> Any:
        return [await self._host.call("add", {"a": 1}), await self._host.call("add")]

    async def broken(self, arguments: dict[str, Any], call: Call) -> Any:
        raise ValueError(f"no good: {arguments}")

    async def slow(self, arguments: dict[str, Any], call: Call) -> Any:
        await self.go.wait()


def everything(signature: FunctionSignature) -> int:
    return BOTH


class Running:
    """A host, and its events on a transport."""

    def __init__(self, host: Host, engine: Functions, monitor: Monitored, log: io.StringIO) -> None:
        self.host, self.engine, self.monitor, self._log = host, engine, monitor, log
        self.identity = Identity(None)
        self.events: Any = None

    async def start(self, rights: Callable[[FunctionSignature], int] = everything, **config: Any) -> Events:
        bus = DatabusConfig(service="shop", **config)
        self.events = Events(self.monitor, self.host, self.identity, bus, rights)  # type: ignore[arg-type]
        self.events.start()
        await asyncio.sleep(0)  # in which it looks who listens
        return self.events

    def told(self, topic: str) -> list[dict[str, Any]]:
        return self.monitor.events[topic]

    @property
    def lines(self) -> list[dict[str, Any]]:
        self.host.write_down()
        return [json.loads(line) for line in self._log.getvalue().splitlines()]

    def id_of(self, name: str) -> str:
        return self.identity.function_id("shop", name)


@asynccontextmanager
async def running(*topics: str) -> AsyncGenerator[Running]:
    log, monitor = io.StringIO(), Monitored(*topics)
    async with Host(None, None, settings=HostSettings(log={"format": "json"}), log=log) as host:  # type: ignore[arg-type]
        engine = Functions(host)
        await host.add_engine(EngineRecord("e", "Test"), engine)
        made = Running(host, engine, monitor, log)
        yield made
        if made.events is not None:
            await made.events.stop()


# Calls


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


# Components


def steps(events: list[dict[str, Any]], component_id: str) -> list[tuple[str, str]]:
    state = COMPONENT_STATE.enumerators
    mine = [event for event in events if event["component_id"] == component_id]
    return [(state[event["previous_state"]], state[event["new_state"]]) for event in mine]


async def test_the_host_and_its_functions_are_told_as_they_come_change_and_go() -> None:
    async with running(LIFECYCLE) as on:
        events = await on.start()
        host_id, add, outer = on.identity.host_id, on.id_of("add"), on.id_of("outer")
        await on.monitor.until(lambda: steps(on.told(LIFECYCLE), add))
        record = on.host.catalog.records["e"]
        record.move(EngineState.STALE, "the newer version fails")
        on.host.catalog.put_record(record)
        await on.monitor.until(lambda: len(steps(on.told(LIFECYCLE), add)) == 2)
        await on.host.remove_engine("e")
        await on.monitor.until(lambda: add in on.monitor.ended)
        await on.host.add_engine(EngineRecord("e", "Test"), Functions(on.host, "outer"))
        await on.monitor.until(lambda: len(steps(on.told(LIFECYCLE), outer)) == 4)
        await events.stop()
        told = on.told(LIFECYCLE)
    assert steps(told, host_id) == [("JOINING", "JOINING"), ("JOINING", "READY"), ("READY", "OFFLINE")]
    assert steps(told, add) == [("JOINING", "READY"), ("READY", "DEGRADED"), ("DEGRADED", "OFFLINE")]
    assert steps(told, outer)[3:] == [("JOINING", "READY"), ("READY", "OFFLINE")]
    assert {host_id, add, outer} <= set(on.monitor.ended)
    assert {event["chain_id"] + event["call_id"] for event in told} == {""}
    one = next(event for event in told if event["component_id"] == add)
    assert json.loads(one["capabilities"])["provider_id"] == one["source_id"] == host_id


async def test_a_monitor_that_comes_later_is_told_of_all_that_is_there_however_much() -> None:
    async with running() as on:
        names = [f"f{n}" for n in range(3 * outbox.MOST_WAITING)]
        record = EngineRecord("many", "Test", state=EngineState.READY)
        run = on.host.catalog.get("add").function  # type: ignore[union-attr]
        on.host.catalog.put(record, [Function(FunctionSignature(name), run.run, run.mode) for name in names])
        await on.start()
        on.monitor.topics.add(LIFECYCLE)
        wanted = len(on.host.catalog) + 2  # the two steps of the host
        await on.monitor.until(lambda: len(on.told(LIFECYCLE)) == wanted)
        assert on.events.describe()["dropped"] == 0


# The log


async def test_the_log_goes_out_without_secrets_paths_and_what_functions_print() -> None:
    async with running(LOGS) as on:
        on.host.redactor.add(SECRET)
        await on.start()
        log = logging.getLogger("enginehost.host")
        log.warning("the key %s of /home/ada/smss/x.smss does not fit", SECRET)
        log.info("not severe enough")
        await asyncio.to_thread(log.warning, "from another thread")
        logging.getLogger("enginehost.engine.e").error("a function printed its arguments")
        logging.getLogger("enginehost.databus").error("would go round in circles")
        try:
            raise ValueError("of a function's arguments")
        except ValueError:
            log.exception("it broke")
        await on.monitor.until(lambda: len(on.told(LOGS)) == 3)
    first, elsewhere, second = on.told(LOGS)
    assert first["message"] == "the key *** of x.smss does not fit"
    assert (first["level"], first["level_name"]) == (logging.WARNING, "WARNING")
    assert (first["source_id"], first["source_name"]) == (on.identity.host_id, "shop")
    assert (first["logger_name"], first["file_name"]) == ("enginehost.host", "test_events.py")
    assert second["message"] == "it broke (ValueError)"
    assert elsewhere["message"] == "from another thread"
    assert elsewhere["thread_name"] != first["thread_name"] == "MainThread"
    assert not any(type(one).__name__ == "LogEvents" for one in logging.getLogger("enginehost").handlers)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"log_level": "info"}, ["info", "warning"]),
        ({"log_level": "error"}, []),
        ({"log_level": "off"}, []),
        ({"interface": "192.0.2.1"}, []),
        ({"interface": "192.0.2.1", "log_level": "warning"}, ["warning"]),
        ({"events": False}, []),
    ],
)
async def test_the_settings_say_how_much_of_the_log_goes_out(
    config: dict[str, Any], told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "enginehost")
    async with running(LOGS) as on:
        await on.start(**config)
        logging.getLogger("enginehost.host").info("info")
        logging.getLogger("enginehost.host").warning("warning")
        await on.monitor.until(lambda: len(on.told(LOGS)) == len(told))
    assert [event["message"] for event in on.told(LOGS)] == told


async def test_a_program_without_logging_of_its_own_still_prints_its_warnings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("enginehost"), "handlers", [])  # what another test has left
    async with running(LOGS) as on:
        await on.start()
        monkeypatch.setattr(logging.getLogger(), "handlers", [])
        logging.getLogger("enginehost.host").warning("printed, and told")
        await on.monitor.until(lambda: on.told(LOGS))
    assert capsys.readouterr().err.count("printed, and told") == 1


def test_the_settings_of_events_are_read(tmp_path: Any) -> None:
    file = tmp_path / "enginehost.yaml"
    file.write_text("databus: {events: false, log_level: off}\n")
    bus = load_settings(config=file, environ={}).databus
    assert (bus.events, bus.log_level) == (False, "off")
    with pytest.raises(ConfigError, match="loud"):
        DatabusConfig(log_level="loud")


# Bounds

TEXTS = st.text(st.characters() | st.sampled_from("ä€😀\0\ud800"), max_size=60).map(lambda text: text * 200)


def fits(values: Mapping[str, Any], struct: Struct) -> None:
    for member in struct.members:
        if isinstance(values[member.name], str):
            assert "\0" not in values[member.name]
            assert len(values[member.name].encode()) <= (member.bound or 10**9), member.name


@settings(max_examples=60, deadline=None)
@given(TEXTS, TEXTS, st.lists(TEXTS, max_size=3))
def test_every_text_is_within_its_bound_in_bytes(text: str, other: str, tags: list[str]) -> None:
    record = logging.LogRecord(text, 30, f"/x/{other}", 3, text, None, None, func=other)
    record.threadName = text
    fits(log_values(record, "h", "s", str), LOG_MESSAGE)
    about = {"name": "n", "tags": [tag.encode(errors="replace").decode() for tag in tags]}
    step = Transition(Component("c", "FUNCTION", "n", READY, about), READY, "STATE_CHANGE", text, 1)
    fits(lifecycle_values(step, "h", str), COMPONENT_LIFECYCLE_EVENT)


async def test_a_caller_with_a_long_name_is_told_within_the_bound() -> None:
    async with running(CHAIN) as on:
        await on.start()
        await on.host.call("add", caller=Caller("ä" * 1_000))
        await on.monitor.until(lambda: on.monitor.ended)
    for event in on.told(CHAIN):
        fits(event, CHAIN_EVENT)
        assert event["source_id"].startswith("ä" * 60)


# The second era


async def test_the_second_era_has_the_host_and_its_functions_as_nodes_and_edges() -> None:
    async with running() as on:
        events = await on.start(profiles=("genesis1", "genesis2"))
        host_id, add = on.identity.host_id, on.id_of("add")
        edge = f"{host_id}|{add}|SERVICE_TO_FUNCTION"
        durable = on.monitor.durable
        await on.monitor.until(lambda: len(durable) == 1 + 2 * 4)
        assert (durable[host_id]["kind"], durable[host_id]["component_type"]) == (0, "SERVICE")
        node = json.loads(durable[add]["metadata"])
        assert (node["node_type"], node["node_state"]) == ("FUNCTION", "READY")
        assert (node["capabilities"]["name"], node["capabilities"]["reason"]) == ("add", "")
        assert (durable[edge]["kind"], durable[edge]["state"]) == (1, "ACTIVE")
        assert durable[edge]["component_type"] == "SERVICE_TO_FUNCTION"
        told = json.loads(durable[edge]["metadata"])
        assert set(told) == {"source_id", "target_id", "edge_type", "attributes"}
        durable.clear()
        events.refresh()
        await on.monitor.until(lambda: len(durable) == 1 + 2 * 4)
        await on.host.remove_engine("e")
        await on.monitor.until(lambda: set(durable) == {host_id})
        assert add in on.monitor.offline
        await events.stop()
        assert not durable
        assert on.monitor.offline[-1] == host_id


async def test_the_second_era_has_events_with_the_keys_that_genesis_reads() -> None:
    async with running(EVENT) as on:
        await on.start(profiles=("genesis1", "genesis2"))
        await on.monitor.until(lambda: len(on.told(EVENT)) == 2 + 3 * 4)
        with pytest.raises(Exception, match="no good"):
            await on.host.call("broken")
        await on.monitor.until(lambda: len(on.told(EVENT)) == 2 + 3 * 4 + 2)
        told = on.told(EVENT)
        (line,) = on.lines
    calls = [event for event in told if event["kind"] == 0]
    start, end = (json.loads(event["payload"]) for event in calls)
    assert set(start) == {
        "chain_id", "call_id", "interface_id", "primary_agent_id", "specialized_agent_ids", "function_id",
        "query_id", "event_type", "source_id", "target_id", "status",
    }  # fmt: skip
    assert (start["status"], end["status"]) == (0, ERROR_TABLE["execution_failed"].bus)
    assert {event["event_id"] for event in calls} == {end["call_id"]} == {line["call_id"]}
    assert [event["severity"] for event in calls] == ["INFO", "ERROR"]
    lifecycle = [json.loads(event["payload"]) for event in told if event["kind"] == 1]
    keys = {"previous_state", "new_state", "reason", "capabilities", "component_type"}
    assert all(keys <= set(payload) for payload in lifecycle)
    assert sum(payload.get("event_category") == "EDGE_DISCOVERY" for payload in lifecycle) == 4
    general = [json.loads(event["payload"]) for event in told if event["kind"] == 2]
    assert {tuple(payload) for payload in general} == {
        ("event_type", "entity_type", "entity_id", "metadata", "call_data", "result_data", "status_data")
    }


# The real bus


class RawMonitor:
    """A participant with readers, and nothing of ours but the types."""

    def __init__(self, domain: int) -> None:
        from cyclonedds.domain import DomainParticipant

        self._participant = DomainParticipant(domain)
        self._readers: dict[str, Any] = {}
        self.events: dict[str, list[Any]] = defaultdict(list)
        self.without_writers: set[str] = set()

    def read(self, topic: str, *more: Any) -> None:
        from cyclonedds.qos import Policy, Qos
        from cyclonedds.sub import DataReader
        from cyclonedds.topic import Topic

        from enginehost.databus.cyclone.wire import idl_type

        durable = TOPICS[topic].profile.durable
        qos = Qos(
            Policy.Reliability.Reliable(0),
            Policy.Durability.TransientLocal if durable else Policy.Durability.Volatile,
            Policy.History.KeepAll,
            Policy.DataRepresentation(use_cdrv0_representation=True),
            *more,
        )
        made = Topic(self._participant, topic, idl_type(TOPICS[topic].struct))
        self._readers[topic] = DataReader(self._participant, made, qos=qos)

    def take(self) -> dict[str, list[Any]]:
        from cyclonedds.core import InstanceState

        for topic, reader in self._readers.items():
            for sample in reader.take(1000):
                if sample.sample_info.valid_data:
                    self.events[topic].append(sample)
                if sample.sample_info.instance_state == InstanceState.NotAliveNoWriters:
                    self.without_writers.add(topic)
        return self.events

    async def until(self, holds: Callable[[], Any]) -> None:
        async with asyncio.timeout(20):
            while not (self.take() and holds()):
                await asyncio.sleep(0.005)


@asynccontextmanager
async def on_the_bus(domain: int, **config: Any) -> AsyncGenerator[tuple[Running, RawMonitor]]:
    pytest.importorskip("cyclonedds")
    from enginehost.databus.cyclone.transport import CycloneTransport

    async with running() as on:
        transport = await asyncio.to_thread(CycloneTransport, DatabusConfig(domain=domain))
        on.monitor = transport  # type: ignore[assignment]
        try:
            await on.start(**config)
            yield on, RawMonitor(domain)
            await on.events.stop()
        finally:
            await transport.close()


async def test_a_raw_reader_sees_components_a_whole_chain_and_the_log(dds_domain: int) -> None:
    async with on_the_bus(dds_domain, profiles=("genesis1", "genesis2")) as (on, raw):
        for topic in (CHAIN, LIFECYCLE, LOGS, EVENT, TOPOLOGY):
            raw.read(topic)
        await raw.until(
            lambda: len(raw.events[LIFECYCLE]) == 2 + 4 and len(raw.events[TOPOLOGY]) == 1 + 2 * 4
        )
        async with asyncio.timeout(20):
            while on.events.describe()["listened"] != sorted((CHAIN, LIFECYCLE, LOGS, EVENT)):
                await asyncio.sleep(0.01)
        raw.events[EVENT].clear()
        await on.host.call("outer")
        logging.getLogger("enginehost.host").warning("ä warning")
        await raw.until(
            lambda: len(raw.events[CHAIN]) == len(raw.events[EVENT]) == 6 and CHAIN in raw.without_writers
        )
        await raw.until(lambda: raw.events[LOGS])
        lines = on.lines
        components = list(raw.events[LIFECYCLE])
        await on.events.stop()
        await raw.until(lambda: raw.events[LIFECYCLE][-1].component_id == on.identity.host_id)
    told = raw.events[CHAIN]
    assert {event.chain_id for event in told} == {line["chain_id"] for line in lines}
    assert sorted(event.call_id for event in told) == sorted(2 * [line["call_id"] for line in lines])
    assert {event.function_id for event in told} == {on.id_of("outer"), on.id_of("add")}
    assert [event.message for event in raw.events[LOGS]] == ["ä warning"]
    assert {event.new_state.name for event in components} == {"JOINING", "READY"}
    assert {event.component_type.name for event in components} == {"SERVICE", "FUNCTION"}
    assert {event.new_state.name for event in raw.events[LIFECYCLE][len(components) :]} == {"OFFLINE"}


NEVER_TAKES = """
import sys
from cyclonedds.domain import DomainParticipant
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from enginehost.databus.config import DatabusConfig
from enginehost.databus.cyclone.domain import enter_domain
from enginehost.databus.cyclone.wire import idl_type
from enginehost.databus.types import CHAIN_EVENT

domain = int(sys.argv[1])
enter_domain(DatabusConfig(domain=domain))
participant = DomainParticipant(domain)
limits = Policy.ResourceLimits(max_samples=16)
xcdr1 = Policy.DataRepresentation(use_cdrv0_representation=True)
qos = Qos(Policy.Reliability.Reliable(0), Policy.History.KeepAll, limits, xcdr1)
reader = DataReader(participant, Topic(participant, "ChainEvent", idl_type(CHAIN_EVENT)), qos=qos)
sys.stdin.read()
"""


async def test_a_reader_that_takes_nothing_holds_up_no_call_and_makes_nothing_grow(dds_domain: int) -> None:
    calls = 20_000
    async with on_the_bus(dds_domain) as (on, _):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", NEVER_TAKES, str(dds_domain), stdin=asyncio.subprocess.PIPE
        )
        try:
            async with asyncio.timeout(30):
                while not on.events.describe()["listened"]:
                    await asyncio.sleep(0.01)
                for n in range(calls):
                    await on.host.call("add")
                    if n % 100 == 0:
                        await asyncio.sleep(0)
            on.host.write_down()
            await asyncio.sleep(0)
            about = on.events.describe()
            waiting = len(on.events._outbox._queue)
            assert waiting <= 2 * outbox.MOST_WAITING  # the ends of calls whose start was told come on top
            assert about["sent"] + about["dropped"] + waiting == 2 * calls
            assert about["dropped"] > calls
        finally:
            process.kill()
            await process.wait()


# Faults


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
