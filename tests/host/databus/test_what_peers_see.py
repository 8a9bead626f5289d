"""Functions as a peer sees them that knows nothing of the host but the types."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from enginehost.engine import Call
from enginehost.policy import Policy
from enginehost.policy_rules import PolicyRules, Rule

from .peer_process import code


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


async def test_a_peer_that_chooses_no_data_representation_is_served_too(start_host, late_peer):
    host, _ = await start_host()
    host.put("add")
    async with late_peer("--default-representation") as peer:
        await peer.sees("add")
        assert (await peer.call("add", {"a": 1, "b": 2}))["result"] == "3"


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
