"""A survey of the bus tells what is wrong with capabilities, in the words of hosts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.databus.capability import capability_of
from enginehost.databus.config import DatabusConfig
from enginehost.databus.identity import Identity
from enginehost.databus.matching import Endpoint, Policies
from enginehost.databus.offer_faults import faults_of
from enginehost.databus.offers import understand
from enginehost.databus.port import Capability
from enginehost.databus.sight import Offer, Program, Sight
from enginehost.databus.signing_setup import Signing
from enginehost.databus.survey import judged
from enginehost.databus.survey_findings import findings_of
from enginehost.signature import FunctionSignature

pytest.importorskip("cyclonedds")
from cyclonedds.idl import annotations, make_idl_struct
from cyclonedds.idl.types import bounded_str
from cyclonedds.qos import Policy, Qos

from enginehost.databus.cyclone.wire import idl_type
from enginehost.databus.types import (
    FUNCTION_CAPABILITY,
    FUNCTION_EXECUTION_REPLY,
    FUNCTION_EXECUTION_REQUEST,
)

from .raw_peers import CALLS, GOOD, OFFERS, UNBOUNDED, Raw, findings, looked

MALFORMED = {
    "its parameter_schema is no JSON": replace(GOOD, parameter_schema="{nonsense"),
    "its parameter_schema is no JSON Schema": replace(GOOD, parameter_schema='{"type": 7}'),
    "is no UUID": replace(GOOD, function_id="not an id"),
    "its function_id is empty": replace(GOOD, function_id=""),
    "its name has 3,000 bytes, over 256": replace(GOOD, name="x" * 3_000),
    "its description has 9,000 bytes, over 2,048": replace(GOOD, description="é" * 4_500),
    "is no name that can be called": replace(GOOD, name="\x1b[2J"),
    "its classification are no JSON": replace(GOOD, classification="{"),
}


async def test_each_malformed_capability_is_named_with_what_is_wrong(raw: Raw) -> None:
    for number, capability in enumerate(MALFORMED.values()):
        wanted = capability.function_id == GOOD.function_id
        fresh = f"6f1a5f0e-6c1c-5d8c-9a53-0d3a4f1f6e{number:02}" if wanted else capability.function_id
        raw.offer(replace(capability, function_id=fresh))
    raw.answer()
    said = findings(await looked(raw), "malformed-capability")
    assert [fault for fault in MALFORMED if not any(fault in one for one in said)] == []
    assert len(said) == len(MALFORMED)
    assert all(one.isprintable() and len(one) < 600 for one in said)


USELESS = {
    "is not the one that its provider and name make": replace(
        GOOD,
        provider_id="6f1a5f0e-6c1c-5d8c-9a53-0d3a4f1f6e12",
        classification=json.dumps({"incarnation": "0" * 32}),
    ),
    "it is no schema of an object": replace(GOOD, parameter_schema='{"type":"string"}'),
    "characters that cannot be shown": replace(GOOD, service_name="shop\n"),
}


async def test_what_hosts_judge_of_no_use_is_not_callable_and_told_in_their_words(raw: Raw) -> None:
    for number, one in enumerate(USELESS.values()):
        raw.offer(replace(one, function_id=f"6f1a5f0e-6c1c-5d8c-9a53-0d3a4f1f6e{number:02}"))
    raw.answer()
    found = await looked(raw)
    said = findings(found, "malformed-capability")
    assert [words for words in USELESS if not any(words in one for one in said)] == []
    assert sorted(one.why_not for one in found.capabilities) == sorted(
        understand(one.offer.capability).fault for one in found.capabilities
    )
    assert not any(one.callable for one in found.capabilities)
    assert not found.ok


async def test_a_copy_of_a_hosts_capability_makes_no_host(raw: Raw) -> None:
    identity = Identity(None)
    copied = capability_of(FunctionSignature("sum"), identity, "calc", 1, public=True)
    raw.offer(GOOD, copied)
    raw.answer()
    host = raw.join()
    raw.offer(copied, whose=host)
    raw.read(
        "FunctionExecutionRequest",
        idl_type(FUNCTION_EXECUTION_REQUEST),
        CALLS,
        partition=f"eh.{identity.incarnation}",
        whose=host,
    )
    raw.write("FunctionExecutionReply", idl_type(FUNCTION_EXECUTION_REPLY), CALLS, whose=host)
    found = await looked(raw)
    assert [(one.kind, one.incarnation) for one in found.members] == [
        ("enginehost", identity.incarnation),
        ("other", ""),
    ]
    callable_by = {(one.offer.program, one.offer.capability.name): one.callable for one in found.capabilities}
    copier = found.members[1].program.key
    assert [callable_by[copier, "sum"], list(callable_by.values()).count(True)] == [False, 2]


async def test_capabilities_with_fewer_members_are_read_as_hosts_read_them(raw: Raw) -> None:
    kind: Any = annotations.appendable(
        make_idl_struct(
            "FunctionCapability",
            "FunctionCapability",
            {"function_id": bounded_str[128], "name": str, "description": str, "provider_id": str},
            field_annotations={"function_id": {"key": True, "must_understand": True}},
        )
    )
    sample = kind(function_id=GOOD.function_id, name="add", description="", provider_id="a-host")
    wide = Qos(Policy.DataRepresentation(use_xcdrv2_representation=True), base=OFFERS)
    raw.write("FunctionCapability", kind, wide).write(sample)
    raw.answer()
    found = await looked(raw)
    assert found.findings == ()
    assert [(one.offer.capability.name, one.callable) for one in found.capabilities] == [("add", True)]
    raw.write("FunctionCapability", kind, OFFERS, whose=raw.join()).write(sample)
    (said,) = findings(await looked(raw), "malformed-sample")
    assert "has 4 of 11 members: written as XCDR1" in said


async def test_samples_that_cannot_be_read_are_counted_and_take_no_other_with_them(raw: Raw) -> None:
    kind: Any = idl_type(UNBOUNDED)
    from enginehost.databus.cyclone.wire import serialized, write

    writer = raw.offer(GOOD)
    sample = kind(**{one.name: getattr(GOOD, one.name) for one in FUNCTION_CAPABILITY.members})
    sample.function_id, sample.name = "other", "latin"
    write(writer, serialized(sample).replace(b"latin", b"l\xe4tin"))
    raw.answer()
    found = await looked(raw)
    assert [one.offer.capability.name for one in found.capabilities] == ["add"]
    assert len(findings(found, "malformed-sample")) == 1


TEXT = st.text(max_size=40) | st.sampled_from(["{}", "[" * 2_000, '{"type":7}', "\0", "a" * 9_000])


@given(st.builds(Capability, *(TEXT,) * 9, st.integers(-(2**63), 2**63 - 1), TEXT), st.booleans())
@settings(max_examples=100, deadline=None)
def test_no_capability_upsets_the_judgement(capability: Capability, lost: bool) -> None:
    program = Program("0101" + "0" * 28)
    sight = Sight(
        programs=(program,),
        endpoints=(
            Endpoint(
                "w", program.key, "FunctionCapability", "x", writes=True, keyed=True, policies=Policies()
            ),
        ),
        offers=(Offer(capability, program.key, 0.0, 1.0, lost=lost),),
    )
    found = judged(DatabusConfig(), sight, Signing(), findings_of(DatabusConfig(), sight, Signing()))
    json.dumps(found.to_json(), allow_nan=False)
    assert all(one.isprintable() for one in faults_of(capability))
