"""The bus as a peer sees it that knows nothing of the host but the types."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from enginehost.databus import Databus, DatabusConfig, answering
from enginehost.databus.port import ExecutionReply
from enginehost.engine import Call
from enginehost.errors import ERROR_TABLE, ConfigError, EngineUnavailable
from enginehost.policy import Policy
from enginehost.policy_rules import PolicyRules, Rule

from .conftest import PATIENCE


def code(reply: dict[str, Any]) -> str:
    """The error code of a reply, once its status, text and metadata agree on it."""
    error = reply["metadata"]["error"]
    assert reply["status"] == ERROR_TABLE[error["code"]].bus
    assert reply["error_message"] == error["message"]
    assert reply["result"] == ""
    return error["code"]


async def test_a_peer_discovers_a_function_and_calls_it(start_host, peer):
    host, bus = await start_host(service="calculator")
    host.put("add", description="Adds two integers.", tags=("math",))
    await peer.sees("add")
    capability = peer.named("add")
    assert capability["description"] == "Adds two integers."
    assert capability["service_name"] == "calculator"
    assert capability["provider_id"] == bus.describe()["host_id"]
    assert json.loads(capability["capabilities"]) == ["math"]
    schema = json.loads(capability["parameter_schema"])
    assert schema["properties"] == {"a": {"type": "integer"}, "b": {"type": "integer"}}
    assert schema["required"] == ["a", "b"]
    assert json.loads(capability["performance_metrics"]) == {}
    assert json.loads(capability["security_requirements"]) == {"level": "public"}
    assert isinstance(json.loads(capability["classification"]), dict)

    reply = await peer.call("add", {"a": 1, "b": 2})
    assert (reply["status"], reply["result"], reply["error_message"]) == (0, "3", "")
    assert reply["timestamp"] >= capability["last_seen"] > 1_700_000_000_000
    metadata = reply["metadata"]
    assert metadata["provider"] == capability["provider_id"]
    assert metadata["final"] is True
    assert metadata["duration_ms"] >= 0


async def test_a_function_goes_from_the_bus_when_it_is_removed_and_comes_back(start_host, peer):
    host, _ = await start_host()
    host.put("add")
    host.put("other")
    await peer.sees("add", "other")
    function_id = peer.named("add")["function_id"]
    host.remove("add")
    await peer.sees("other")
    late = await peer.call_id(function_id, {"a": 1, "b": 2})
    assert code(late) == "unknown_function"
    host.put("add")
    await peer.sees("add", "other")
    assert peer.named("add")["function_id"] == function_id


async def test_a_changed_function_is_advertised_anew_under_its_id(start_host, peer):
    host, _ = await start_host()
    host.put("add", description="old")
    await peer.sees("add")
    function_id = peer.named("add")["function_id"]
    host.put("add", description="new")
    await peer.until(lambda: peer.named("add")["description"] == "new")
    assert peer.named("add")["function_id"] == function_id


async def test_all_functions_go_when_the_host_stops(start_host, peer):
    host, bus = await start_host()
    host.put_all([f"f{number}" for number in range(50)])
    await peer.until(lambda: len(peer.capabilities) == 50)
    await bus.stop()
    await peer.sees()


async def test_a_peer_that_comes_late_sees_what_is_there(start_host, late_peer):
    host, bus = await start_host()
    host.put("add")
    async with asyncio.timeout(10):
        while bus.describe()["pending"]:
            await asyncio.sleep(0)
    async with late_peer() as peer:
        await peer.sees("add")


async def test_parameters_that_are_no_json_object_are_an_invalid_request(start_host, peer):
    host, _ = await start_host()
    host.put("add")
    await peer.sees("add")
    malformed = (
        "{",
        '["a"]',
        "7",
        '{"a": NaN, "b": 1}',
        '{"a": 1, "a',
        "[" * 5_000,
        " ",
        "\n",
        r'{"a": "\ud800"}',
    )
    for number, parameters in enumerate(malformed):
        assert code(await peer.call("add", parameters, f"r{number}")) == "invalid_request"


async def test_a_peer_that_chooses_no_data_representation_is_served_too(start_host, late_peer):
    host, _ = await start_host()
    host.put("add")
    async with late_peer("--default-representation") as peer:
        await peer.sees("add")
        assert (await peer.call("add", {"a": 1, "b": 2}))["result"] == "3"


async def test_errors_of_the_call_path_arrive_with_status_and_structure(start_host, peer):
    host, _ = await start_host()

    async def fail(arguments: dict[str, Any], call: Call) -> None:
        raise RuntimeError("no \0 luck")

    async def sleep(arguments: dict[str, Any], call: Call) -> None:
        await asyncio.sleep(60)

    host.put("add")
    host.put("fail", fail)
    host.put("sleep", sleep)
    await peer.sees("add", "fail", "sleep")
    wrong = await peer.call("add", {"a": "x"})
    assert code(wrong) == "invalid_arguments"
    assert wrong["metadata"]["error"]["detail"]["errors"]
    failed = await peer.call("fail", request_id="r2")
    assert failed["status"] == ERROR_TABLE["execution_failed"].bus
    assert "luck" in failed["error_message"]
    timed_out = await peer.call("sleep", request_id="r3", metadata='{"timeout": 0.05}')
    assert code(timed_out) == "timeout"
    other_start = await peer.call("add", {"a": 1, "b": 2}, "r4", metadata='{"incarnation": "yesterday"}')
    assert code(other_start) == "engine_unavailable"
    assert code(await peer.call("add", {"a": 1, "b": 2}, "")) == "invalid_request"


async def test_a_long_error_fits_peers_that_bound_their_strings(start_host, peer):
    host, _ = await start_host()

    async def fail(arguments: dict[str, Any], call: Call) -> None:
        raise RuntimeError("é" * 5_000)

    host.put("fail", fail)
    await peer.sees("fail")
    reply = await peer.call("fail")
    assert reply["metadata"]["error"]["code"] == "execution_failed"
    assert len(reply["error_message"].encode()) <= 2048


async def test_text_of_every_script_survives(start_host, peer):
    host, _ = await start_host()

    async def echo(arguments: dict[str, Any], call: Call) -> Any:
        return arguments

    host.put("größe_数", echo, description="Größe → 数 🎛")
    await peer.sees("größe_数")
    assert peer.named("größe_数")["description"] == "Größe → 数 🎛"
    sent = {"ß": "数🎛\u0000", "n": 2**64 + 1}
    reply = await peer.call("größe_数", sent, "id-ü")
    assert json.loads(reply["result"]) == sent


async def test_empty_parameters_mean_no_arguments(start_host, peer):
    host, _ = await start_host()

    async def seven(arguments: dict[str, Any], call: Call) -> int:
        return 7

    host.put("seven", seven)
    await peer.sees("seven")
    assert (await peer.call("seven", ""))["result"] == "7"


async def test_metadata_that_means_nothing_to_us_is_ignored(start_host, peer):
    host, _ = await start_host()
    host.put("add")
    await peer.sees("add")
    for number, metadata in enumerate(("not json", "[]", '{"timeout": "soon", "traceparent": 4, "x": {}}')):
        reply = await peer.call("add", {"a": number, "b": 1}, f"r{number}", metadata=metadata)
        assert reply["result"] == str(number + 1)


async def test_the_trace_of_a_request_is_the_trace_of_its_call(start_host, peer):
    host, _ = await start_host()

    async def chain(arguments: dict[str, Any], call: Call) -> list[str]:
        return [call.chain_id, f"{call.parent:016x}", call.caller.subject, call.caller.face]

    host.put("chain", chain)
    await peer.sees("chain")
    traceparent = f"00-{'ab' * 16}-{'cd' * 8}-01"
    reply = await peer.call("chain", metadata=json.dumps({"traceparent": traceparent}))
    assert json.loads(reply["result"]) == ["ab" * 16, "cd" * 8, "anonymous", "databus"]


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


async def test_a_request_that_arrives_twice_runs_once(start_host, peer):
    host, _ = await start_host()
    runs: list[int] = []

    async def count(arguments: dict[str, Any], call: Call) -> int:
        runs.append(1)
        return len(runs)

    host.put("count", count)
    await peer.sees("count")
    await peer.call("count", request_id="same")
    peer.send(peer.named("count")["function_id"], request_id="same")
    await peer.call("count", request_id="another")
    assert len(runs) == 2
    assert [reply["request_id"] for reply in peer.replies] == ["same", "another"]


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


async def test_a_request_without_an_id_is_refused_and_not_run(start_host, peer):
    host, _ = await start_host()
    runs: list[int] = []

    async def run(arguments: dict[str, Any], call: Call) -> None:
        runs.append(1)

    host.put("run", run)
    await peer.sees("run")
    for _ in range(2):
        reply = await peer.call("run", request_id="")
        assert (code(reply), reply["error_message"]) == (
            "invalid_request",
            "request_id must have 1 to 128 bytes",
        )
    assert runs == []


async def test_parameters_over_the_limit_are_refused(start_host, peer):
    host, _ = await start_host(max_request_bytes=100)
    host.put("add")
    await peer.sees("add")
    reply = await peer.call("add", {"a": 1, "b": 2, "c": "x" * 100})
    assert code(reply) == "too_large"


async def test_calls_that_run_when_the_host_stops_are_answered(start_host, peer):
    host, bus = await start_host()
    started = asyncio.Event()

    async def wait(arguments: dict[str, Any], call: Call) -> None:
        started.set()
        await asyncio.sleep(60)

    host.put("wait", wait)
    await peer.sees("wait")
    peer.send(peer.named("wait")["function_id"])
    await started.wait()
    await bus.stop(drain=0.0)
    await peer.until(lambda: peer.replies)
    assert peer.replies[0]["status"] == ERROR_TABLE["outcome_unknown"].bus


async def test_peers_see_and_call_what_the_policy_gives_to_anonymous(start_host, peer):
    rules = PolicyRules(
        rules=(
            Rule(allow="view", callers="anyone", functions=("shown",)),
            Rule(allow="call", callers="anyone", functions=("free",)),
            Rule(allow="call", callers="authenticated"),
        )
    )
    host, _ = await start_host(policy=Policy(rules))
    host.put_all(["free", "hidden", "shown"])
    await peer.sees("free", "shown")
    assert (await peer.call("free", {"a": 1, "b": 2}))["result"] == "3"
    denied = await peer.call("shown", {"a": 1, "b": 2}, "r2")
    assert denied["metadata"]["error"]["code"] in ("forbidden", "unauthorized")


async def test_tags_select_what_is_on_the_bus(start_host, peer):
    host, _ = await start_host(tags=("math", "shop"))
    host.put("sum", tags=("math", "demo"))
    host.put("buy", tags=("shop",))
    host.put("other", tags=("demo",))
    host.put("bare")
    await peer.sees("buy", "sum")
    assert (await peer.call("sum", {"a": 1, "b": 2}))["result"] == "3"


async def test_a_changed_policy_changes_what_is_on_the_bus(start_host, peer):
    host, bus = await start_host()
    host.put_all(["a", "b"])
    await peer.sees("a", "b")
    host.policy = Policy(PolicyRules(rules=(Rule(allow="call", callers="anyone", functions=("a",)),)))
    bus.refresh()
    await peer.sees("a")


async def test_two_hosts_in_one_domain_each_answer_their_own(start_host, peer):
    first, first_bus = await start_host()
    second, second_bus = await start_host(service="second")

    def answer(text: str) -> Any:
        async def run(arguments: dict[str, Any], call: Call) -> str:
            return text

        return run

    first.put("who", answer("first"))
    second.put("who", answer("second"))
    await peer.until(lambda: len(peer.capabilities) == 2 and peer.providers == 2)
    by_host = {c["provider_id"]: c["function_id"] for c in peer.capabilities.values()}
    assert set(by_host) == {first_bus.describe()["host_id"], second_bus.describe()["host_id"]}
    one = await peer.call_id(by_host[first_bus.describe()["host_id"]], request_id="one")
    two = await peer.call_id(by_host[second_bus.describe()["host_id"]], request_id="two")
    assert (one["result"], two["result"]) == ('"first"', '"second"')
    assert len(peer.replies) == 2


async def test_requests_for_unknown_ids_stay_unanswered(start_host, peer):
    host, _ = await start_host()
    host.put("add")
    await peer.sees("add")
    peer.send("somebody-elses-function", request_id="r1")
    await peer.call("add", {"a": 1, "b": 2}, "r2")
    assert len(peer.replies) == 1


async def test_many_functions_at_once_leave_the_event_loop_free(start_host, peer):
    host, bus = await start_host()
    await peer.until(lambda: peer.providers)
    names = [f"function_{number}" for number in range(2_000)]
    host.put_all(names, description="One of many.")
    await asyncio.sleep(0)
    turns = 0
    while bus.describe()["pending"]:
        await asyncio.sleep(0)
        turns += 1
    await peer.until(lambda: len(peer.capabilities) == 2_000)
    assert turns > 20  # others had their turns between the batches


async def test_large_results_arrive_whole_at_peers_that_take_them(start_host, peer):
    host, _ = await start_host()

    async def text(arguments: dict[str, Any], call: Call) -> str:
        return "x" * arguments["size"]

    host.put("text", text)
    await peer.sees("text")
    reply = await peer.call("text", {"size": 8_000})
    assert len(reply["result"]) == 8_002


async def test_large_parameters_are_read_beside_the_event_loop_and_their_call_knows(
    start_host, peer, monkeypatch
):
    monkeypatch.setattr(answering, "LARGE", 1000)  # this peer bounds what it sends
    host, _ = await start_host()

    async def is_large(arguments: dict[str, Any], call: Call) -> bool:
        return call.large

    host.put("is_large", is_large)
    await peer.sees("is_large")
    for size, result in ((10, "false"), (1000, "true")):
        reply = await peer.call("is_large", {"a": "x" * size}, f"r{size}")
        assert reply["result"] == result


async def test_a_domain_with_other_settings_in_this_process_is_refused(start_host, dds_domain):
    host, _ = await start_host()
    other = Databus(host, DatabusConfig(domain=dds_domain, fragment_bytes=1_300))
    with pytest.raises(EngineUnavailable, match="other network settings"):
        await other.start()
    assert not other.describe()["joined"]
    await other.stop()


async def test_an_interface_that_does_not_exist_is_a_clear_error(start_host, dds_domain):
    host, bus = await start_host()
    await bus.stop()
    other = Databus(host, DatabusConfig(domain=dds_domain, interface="nosuch0"))
    with pytest.raises(ConfigError, match="nosuch0"):
        await other.start()
    await bus.start()
    assert bus.describe()["joined"]


@asynccontextmanager
async def writing_requests(domain: int) -> AsyncGenerator[Callable[..., None]]:
    """Writes requests; each U+FFFD in one becomes three bytes that are no UTF-8."""
    from cyclonedds.domain import DomainParticipant
    from cyclonedds.pub import DataWriter
    from cyclonedds.topic import Topic

    from enginehost.databus.cyclone.qos import CALL_WRITER
    from enginehost.databus.cyclone.wire import Outcome, idl_type, write
    from enginehost.databus.types import FUNCTION_EXECUTION_REQUEST

    request = idl_type(FUNCTION_EXECUTION_REQUEST)
    participant = DomainParticipant(domain)
    writer = DataWriter(participant, Topic(participant, "FunctionExecutionRequest", request), CALL_WRITER)
    async with asyncio.timeout(10):
        while not writer.get_matched_subscriptions():
            await asyncio.sleep(0.005)

    def send(request_id: str, function_id: str, parameters: str, metadata: str = "") -> None:
        made = request(request_id, function_id, parameters, 1, metadata)
        broken = made.serialize(use_version_2=False).replace("\ufffd".encode(), b"\xff\xfe\xfd")
        assert write(writer, broken.ljust((len(broken) + 3) & ~3, b"\0")) is Outcome.DONE

    yield send
    for entity in (writer, writer.topic, participant):
        entity.__del__()


async def test_a_malformed_sample_is_dropped_alone(start_host, peer, dds_domain, caplog):
    host, bus = await start_host()
    host.put("add")
    await peer.sees("add")
    async with writing_requests(dds_domain) as send, asyncio.timeout(10):
        send("r\ufffd", peer.named("add")["function_id"], "{}")
        send("r", "f\ufffd", "{}")
        while bus.describe()["malformed"] < 2:
            await asyncio.sleep(0.005)
    assert "malformed sample" in caplog.text
    assert (await peer.call("add", {"a": 1, "b": 2}))["result"] == "3"


async def test_parameters_that_are_no_utf_8_are_refused_and_such_metadata_is_ignored(
    start_host, peer, dds_domain
):
    host, bus = await start_host()
    host.put("add")
    await peer.sees("add")
    function_id = peer.named("add")["function_id"]
    async with writing_requests(dds_domain) as send:
        send("wrong", function_id, '{"a": "\ufffd"}')
        send("right", function_id, '{"a": 1, "b": 2}', '{"timeout": "\ufffd"}')
        await peer.until(lambda: len(peer.replies) == 2)
    answers = {reply["request_id"]: reply for reply in peer.replies}
    assert answers["wrong"]["status"] == ERROR_TABLE["invalid_request"].bus
    assert answers["wrong"]["error_message"] == "not JSON: byte 8 (0xff) is not UTF-8"
    assert answers["right"]["result"] == "3"
    assert bus.describe()["malformed"] == 0


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


async def test_a_parameter_given_twice_is_refused_as_over_http(start_host, peer):
    host, _ = await start_host()
    host.put("add")
    await peer.sees("add")
    twice = await peer.call("add", '{"a": 1, "a": 2, "b": 3}')
    assert code(twice) == "invalid_request"
    assert "stands twice" in twice["error_message"]
