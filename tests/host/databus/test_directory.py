"""What other hosts offer, as functions of the catalog."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from enginehost.catalog import Catalog, EngineRecord
from enginehost.databus import directory as module
from enginehost.databus.aliases import Aliases
from enginehost.databus.capability import capability_of
from enginehost.databus.config import DatabusConfig
from enginehost.databus.directory import Directory, Signer
from enginehost.databus.identity import Identity
from enginehost.databus.link import let_in
from enginehost.databus.port import Capability, Sighting
from enginehost.databus.requester import Requester
from enginehost.engine import EngineState, Function
from enginehost.errors import Unauthorized
from enginehost.signature import FunctionSignature

OWN = Identity(None)


class Nothing:
    """A transport on which nothing happens, which notes what is forgotten."""

    def __init__(self) -> None:
        self.forgotten: list[str] = []
        self.reachable = True

    async def reach(self, partition: str, participant: str, patience: float) -> bool:
        return self.reachable

    def forget(self, partition: str) -> None:
        self.forgotten.append(partition)


def made(catalog: Catalog, transport: Nothing | None = None, **given: Any) -> Directory:
    requester = Requester(transport or Nothing(), OWN.incarnation)  # type: ignore[arg-type]
    given.setdefault("own", lambda: (OWN.host_id, OWN.incarnation))
    return Directory(catalog, requester, Aliases(None), **given)


def offered(
    name: str = "add", service: str = "calc", host: Identity | None = None, **signature: Any
) -> Capability:
    return capability_of(
        FunctionSignature(name, **signature), host or Identity(None), service, 1, public=True
    )


def seen(capability: Capability, participant: str = "p") -> Sighting:
    return Sighting(capability.function_id, capability, participant)


def went(capability: Capability, participant: str = "p", *, lost: bool = False) -> Sighting:
    return Sighting(capability.function_id, None, participant, lost)


def names(catalog: Catalog) -> list[str]:
    return [entry.name for entry in catalog]


def local(catalog: Catalog, name: str, engine_id: str = "own") -> None:
    async def run(arguments: dict[str, Any], call: Any) -> str:
        return "local"

    record = EngineRecord(engine_id, "test", state=EngineState.READY)
    catalog.put(record, [Function(FunctionSignature(name), run)])


def target(catalog: Catalog, name: str) -> str:
    entry = catalog.get(name)
    assert entry is not None
    return entry.name


async def test_a_function_has_a_long_name_and_a_short_one_while_it_is_there() -> None:
    catalog = Catalog()
    directory = made(catalog)
    capability = offered()
    directory.seen([seen(capability)])
    assert names(catalog) == ["calc.add"]
    assert target(catalog, "add") == "calc.add"
    directory.seen([went(capability)])
    assert names(catalog) == []
    assert catalog.get("add") is None
    assert catalog.records == {}


async def test_a_local_name_never_changes_because_of_a_remote_one() -> None:
    catalog = Catalog()
    local(catalog, "add")
    directory = made(catalog)
    directory.seen([seen(offered())])
    assert target(catalog, "add") == "add"
    catalog.remove("own")
    assert catalog.get("add") is None, "it was not free when calc.add was first seen"
    assert target(catalog, "calc.add") == "calc.add"


async def test_a_local_function_that_comes_later_has_its_name_as_long_as_it_is_there() -> None:
    catalog = Catalog()
    directory = made(catalog)
    directory.seen([seen(offered())])
    local(catalog, "add")
    assert target(catalog, "add") == "add"
    assert catalog.conflicts() == []
    catalog.remove("own")
    assert target(catalog, "add") == "calc.add"


async def test_the_short_name_stays_with_whom_it_was_given_to_first() -> None:
    catalog = Catalog()
    directory = made(catalog)
    first, second = offered(service="calc"), offered(service="other")
    directory.seen([seen(first)])
    directory.seen([seen(second, "q")])
    assert target(catalog, "add") == "calc.add"
    directory.seen([went(first)])
    assert catalog.get("add") is None
    assert names(catalog) == ["other.add"]
    directory.seen([seen(first)])
    assert target(catalog, "add") == "calc.add"


async def test_providers_of_one_function_are_its_replicas() -> None:
    catalog = Catalog()
    directory = made(catalog)
    one, two = offered(), offered()
    directory.seen([seen(one, "p"), seen(two, "q")])
    assert names(catalog) == ["calc.add"]
    assert len(directory.providers) == 2
    directory.seen([went(one, "p", lost=True)])
    assert names(catalog) == ["calc.add"]
    directory.seen([went(two, "q")])
    assert names(catalog) == []


async def test_another_shape_is_no_replica_and_takes_over_when_the_first_has_gone() -> None:
    catalog = Catalog()
    directory = made(catalog)
    old = offered(parameters={"type": "object", "properties": {"a": {"type": "integer"}}})
    new = offered(parameters={"type": "object", "properties": {"b": {"type": "integer"}}})
    directory.seen([seen(old, "p"), seen(new, "q")])
    entry = catalog.get("calc.add")
    assert entry is not None
    assert list(entry.signature.properties) == ["a"]
    directory.seen([went(old, "p")])
    entry = catalog.get("calc.add")
    assert entry is not None
    assert list(entry.signature.properties) == ["b"]


async def test_a_function_that_changes_at_its_provider_changes_here() -> None:
    catalog = Catalog()
    directory = made(catalog)
    host = Identity(None)
    directory.seen([seen(offered(description="old", host=host))])
    directory.seen([seen(offered(description="new", host=host))])
    entry = catalog.get("calc.add")
    assert entry is not None
    assert entry.signature.description == "new"


async def test_news_of_measurements_alone_changes_nothing() -> None:
    catalog = Catalog()
    directory = made(catalog)
    capability = offered()
    directory.seen([seen(capability)])
    version = catalog.version
    directory.seen([seen(replace(capability, performance_metrics='{"calls":7}', last_seen=99))])
    assert catalog.version == version + 0
    assert len(directory) == 1


async def test_our_own_functions_are_not_remote_ones() -> None:
    catalog = Catalog()
    directory = made(catalog)
    directory.seen([seen(offered(host=OWN))])
    assert names(catalog) == []


async def test_another_host_with_our_id_is_noticed_and_not_let_in() -> None:
    catalog = Catalog()
    noticed: list[str] = []
    directory = made(catalog, conflict=lambda offer, participant: noticed.append(participant))
    twin = Identity(None)
    twin.host_id = OWN.host_id  # a copied state directory
    directory.seen([seen(offered(host=twin), "q")])
    assert noticed == ["q"]
    assert names(catalog) == []


@pytest.mark.parametrize("garbage", ["{", "[]", '{"type":"array"}'])
async def test_garbage_is_told_of_and_hurts_nobody_else(garbage: str) -> None:
    catalog = Catalog()
    directory = made(catalog)
    bad = replace(offered("bad"), parameter_schema=garbage)
    directory.seen([seen(bad), seen(offered("good"), "q")])
    assert names(catalog) == ["calc.good"]
    assert bad.function_id in directory.faults
    directory.seen([went(bad)])
    assert directory.faults == {}


async def test_a_flood_of_garbage_is_told_of_in_part() -> None:
    directory = made(Catalog())
    directory.seen([seen(replace(offered(f"f{n}"), parameter_schema="{")) for n in range(1_000)])
    assert len(directory.faults) == module.MOST_FAULTS


async def test_a_provider_that_is_lost_takes_all_its_functions_with_it() -> None:
    catalog, transport = Catalog(), Nothing()
    directory = made(catalog, transport)
    host = Identity(None)
    all_of_it = [offered(name, host=host) for name in ("a", "b", "c")]
    directory.seen([seen(one) for one in all_of_it])
    directory.seen([went(all_of_it[0], lost=True)])
    assert transport.forgotten == [f"eh.{host.incarnation}"]
    directory.seen([went(one, lost=True) for one in all_of_it[1:]])
    assert names(catalog) == []
    assert directory.providers == ()


async def test_a_lost_provider_that_comes_back_can_be_called_again() -> None:
    catalog = Catalog()
    directory = made(catalog)
    capability = offered()
    directory.seen([seen(capability)])
    directory.seen([went(capability, lost=True)])
    directory.seen([seen(capability)])
    assert names(catalog) == ["calc.add"]
    assert [provider.gone for provider in directory.providers] == [False]


async def test_what_a_new_look_does_not_see_again_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = Catalog()
    directory = made(catalog)
    stays, goes = offered("stays"), offered("goes")
    directory.seen([seen(stays, "p"), seen(goes, "q")])
    directory.anew()
    directory.seen([seen(stays, "p")])
    assert names(catalog) == ["calc.goes", "calc.stays"]
    directory._confirmed(directory._round)
    assert names(catalog) == ["calc.stays"]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["calc.add", "calc.sub", "shop.order"]),
        ({"let_in_services": ("calc",)}, ["calc.add", "calc.sub"]),
        ({"let_in_functions": ("add", "shop.*")}, ["calc.add", "shop.order"]),
        ({"let_in_tags": ("math",)}, ["calc.add"]),
        ({"let_in_tags": ("math",), "let_in_services": ("shop",)}, []),
    ],
)
async def test_filters_decide_what_is_let_in(filters: dict[str, Any], expected: list[str]) -> None:
    catalog = Catalog()
    directory = made(catalog, let_in=let_in(DatabusConfig(**filters)))
    directory.seen(
        [
            seen(offered("add", tags=("math",)), "a"),
            seen(offered("sub"), "b"),
            seen(offered("order", service="shop"), "c"),
        ]
    )
    assert names(catalog) == expected


async def test_a_signed_function_goes_before_an_unsigned_one_and_they_are_no_replicas() -> None:
    catalog = Catalog()
    signed = offered(description="signed")
    vet: Callable[[Capability], Signer] = lambda one: Signer("plant", "k") if one is signed else Signer()  # noqa: E731
    directory = made(catalog, vet=vet)
    directory.seen([seen(offered(description="unsigned"), "p")])
    directory.seen([seen(signed, "q")])
    entry = catalog.get("calc.add")
    assert entry is not None
    assert entry.signature.description == "signed"
    directory.seen([went(signed, "q")])
    entry = catalog.get("calc.add")
    assert entry is not None
    assert entry.signature.description == "unsigned"


async def test_what_is_not_signed_as_it_must_be_is_not_let_in() -> None:
    def vet(capability: Capability) -> Signer:
        raise Unauthorized("it is signed by nobody who is trusted here")

    catalog = Catalog()
    directory = made(catalog, vet=vet)
    capability = offered()
    directory.seen([seen(capability)])
    assert names(catalog) == []
    assert "trusted" in directory.faults[capability.function_id]


async def test_a_program_that_reads_no_requests_is_not_in_the_catalog() -> None:
    catalog, transport = Catalog(), Nothing()
    transport.reachable = False
    directory = made(catalog, transport)
    genesis = replace(offered(), classification="{}", function_id="x-1")
    directory.seen([seen(genesis)])
    for task in tuple(directory._asking):
        await task
    assert names(catalog) == []
    transport.reachable = True
    directory.seen([went(genesis), seen(genesis, "q")])
    for task in tuple(directory._asking):
        await task
    assert names(catalog) == ["calc.add"]


async def test_who_asks_for_a_short_name_whose_holder_is_away_hears_of_others() -> None:
    catalog = Catalog()
    directory = made(catalog)
    first = offered(service="zzz")
    directory.seen([seen(first)])
    directory.seen([went(first), seen(offered(service="calc"), "q")])
    assert catalog.target("add") == "zzz.add"
    assert catalog.nearest("add", lambda _: True)[0] == "calc.add"


async def test_a_foreign_description_moves_no_cursor_and_turns_no_text() -> None:
    catalog = Catalog()
    made(catalog).seen([seen(offered(description="\x1b]0;pwn\x07\u202e evil\nzwei\tdrei ü"))])
    entry = catalog.get("calc.add")
    assert entry is not None
    assert entry.signature.description == "\ufffd]0;pwn\ufffd\ufffd evil\nzwei\tdrei ü"


async def test_one_fault_of_a_host_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    directory = made(Catalog())
    host = Identity(None)
    directory.seen([seen(replace(offered(f"f{n}", host=host), parameter_schema="{")) for n in range(50)])
    assert len([one for one in caplog.records if "of no use" in one.message]) == 1
