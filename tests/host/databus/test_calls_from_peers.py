"""What a peer is answered that knows nothing of the host but the types."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from enginehost.databus import answering
from enginehost.engine import Call
from enginehost.errors import ERROR_TABLE

from .peer_process import code


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


async def test_requests_for_unknown_ids_stay_unanswered(start_host, peer):
    host, _ = await start_host()
    host.put("add")
    await peer.sees("add")
    peer.send("somebody-elses-function", request_id="r1")
    await peer.call("add", {"a": 1, "b": 2}, "r2")
    assert len(peer.replies) == 1


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


async def test_a_parameter_given_twice_is_refused_as_over_http(start_host, peer):
    host, _ = await start_host()
    host.put("add")
    await peer.sees("add")
    twice = await peer.call("add", '{"a": 1, "a": 2, "b": 3}')
    assert code(twice) == "invalid_request"
    assert "stands twice" in twice["error_message"]
