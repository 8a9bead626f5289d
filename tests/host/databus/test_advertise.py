"""What goes on the bus, for whom, and in which forms."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from enginehost.caller import Caller
from enginehost.catalog import Catalog, EngineRecord
from enginehost.databus import Databus, DatabusConfig
from enginehost.databus.advertise import Advertiser
from enginehost.databus.describing import DESCRIBE
from enginehost.databus.identity import Identity
from enginehost.databus.keys import new_key, written
from enginehost.databus.offering import ADVERTISEMENTS
from enginehost.databus.pause import Pulse
from enginehost.databus.port import Capability
from enginehost.databus.signing import verify_capability
from enginehost.databus.trust import KeyEntry, distrust, trust_key
from enginehost.engine import EngineState, Function, RunMode
from enginehost.policy import BOTH, Policy
from enginehost.policy_rules import PolicyRules, Rule
from enginehost.signature import FunctionSignature

from .served import ServedCatalog


class Board:
    """A transport on which everything is seen at once."""

    def __init__(self) -> None:
        self.on: dict[str, Capability] = {}
        self.put_there: dict[str, Mapping[str, Any]] = {}
        self.undisposed: list[str] = []
        self.writes = 0

    async def publish(self, capabilities: Sequence[Capability]) -> None:
        self.writes += 1
        self.on |= {one.function_id: one for one in capabilities}

    async def withdraw(self, function_ids: Sequence[str], *, dispose: bool = True) -> None:
        if not dispose:
            self.undisposed += function_ids
        for one in function_ids:
            del self.on[one]

    async def put(self, topic: str, samples: Sequence[Mapping[str, Any]]) -> None:
        assert topic == ADVERTISEMENTS
        self.put_there |= {one["advertisement_id"]: one for one in samples}

    async def drop(self, topic: str, keys: Sequence[str]) -> None:
        assert topic == ADVERTISEMENTS
        for key in keys:
            del self.put_there[key]

    async def serve(self, *given: Any) -> None: ...

    async def close(self) -> None: ...

    def describe(self) -> dict[str, Any]:
        return {}

    @property
    def names(self) -> set[str]:
        return {one.name for one in self.on.values()}


def put(catalog: Catalog, name: str, kind: str = "test", **signature: Any) -> None:
    async def run(arguments: dict[str, Any], call: Any) -> None: ...

    function = Function(FunctionSignature(name, **signature), run, RunMode.ASYNC)
    catalog.put(EngineRecord(name, kind, state=EngineState.READY), [function])


async def written_all(advertiser: Advertiser) -> None:
    async with asyncio.timeout(10):
        while advertiser.pending:
            await asyncio.sleep(0.001)


async def test_functions_of_other_hosts_and_the_hosts_own_are_not_offered() -> None:
    catalog, board = Catalog(), Board()
    put(catalog, "mine")
    put(catalog, "theirs", kind="databus")
    put(catalog, DESCRIBE)
    advertiser = Advertiser(catalog, board, Identity(None), "s", lambda _: BOTH)  # type: ignore[arg-type]
    await written_all(advertiser)
    assert board.names == {"mine"}
    put(catalog, "mine", kind="databus")  # the own one went, and another host's has its name now
    await written_all(advertiser)
    assert not board.on
    await advertiser.close()


async def test_the_second_era_hears_of_the_same_functions_under_the_same_ids() -> None:
    catalog, board = Catalog(), Board()
    put(catalog, "one", description="One.")
    put(catalog, "two")
    advertiser = Advertiser(
        catalog,
        board,
        Identity(None),
        "s",
        lambda _: BOTH,
        second_era=True,  # type: ignore[arg-type]
    )
    await written_all(advertiser)
    assert board.put_there.keys() == board.on.keys()
    (one,) = (said for said in board.put_there.values() if said["name"] == "one")
    assert (one["description"], json.loads(one["payload"])["parameter_schema"]["type"]) == ("One.", "object")
    catalog.remove("one")
    await written_all(advertiser)
    assert [said["name"] for said in board.put_there.values()] == ["two"]
    await advertiser.close()
    assert not board.put_there


async def test_who_is_trusted_decides_what_is_on_the_bus_and_is_followed(
    tmp_path: Any, monkeypatch: Any
) -> None:
    rules = (
        Rule(allow="call", callers="anyone", functions=("free",)),
        Rule(allow="call", subjects=("friend",), functions=("shared",)),
    )
    host, board, trusted = ServedCatalog(Policy(PolicyRules(rules=rules))), Board(), tmp_path / "trusted.yaml"
    host.put_all(["free", "shared", "secret"])
    config = DatabusConfig(transport="board", trust_file=trusted, directory=False)
    monkeypatch.setattr("enginehost.databus.bus.find_transport", lambda *_: lambda _: board)
    bus = Databus(host, config)
    await bus.start()

    async def sees(*names: str) -> None:
        async with asyncio.timeout(10):
            while board.names != set(names):
                await asyncio.sleep(0.01)

    await sees("free")
    trust_key(trusted, KeyEntry(name="friend", key=written(new_key().public)))
    await sees("free", "shared")
    said = {one.name: json.loads(one.security_requirements) for one in board.on.values()}
    assert said == {
        "free": {"level": "public"},
        "shared": {"level": "authenticated", "signature": "ed25519"},
    }
    distrust(trusted, "friend")
    await sees("free")
    await bus.stop()
    await host.close()


async def test_a_host_that_signs_signs_its_capabilities(tmp_path: Any) -> None:
    from enginehost.databus.guard import Guard
    from enginehost.databus.trust import Trust, TrustedKey

    key, identity = new_key(), Identity(None)
    catalog, board = Catalog(), Board()
    put(catalog, "add", description="Adds.")
    advertiser = Advertiser(
        catalog,
        board,
        identity,
        "s",
        lambda _: BOTH,
        guard=Guard(identity, Trust(None), key),  # type: ignore[arg-type]
    )
    await written_all(advertiser)
    (capability,) = board.on.values()
    known = TrustedKey(key.id, key.public, Caller("host"))
    assert verify_capability(capability, {key.id: known}.get).by is known
    assert json.loads(capability.classification)["incarnation"] == identity.incarnation
    await advertiser.close()


async def test_a_pause_is_noticed_and_told_once() -> None:
    now, beats, pauses = [0.0], [], []

    async def paused() -> None:
        pauses.append(now[0])

    pulse = Pulse(lambda: beats.append(now[0]), paused, lambda: now[0])
    async with asyncio.timeout(10):
        while len(beats) < 2:
            now[0] += 0.05
            await asyncio.sleep(0.01)
        now[0] += 5.0
        while not pauses:
            await asyncio.sleep(0.01)
        counted = len(beats)
        while len(beats) < counted + 2:
            await asyncio.sleep(0.01)
    assert len(pauses) == 1
    await pulse.close()
