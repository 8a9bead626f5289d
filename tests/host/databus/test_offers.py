"""What a capability of another host means here, whatever it says."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from enginehost.databus.capability import capability_of
from enginehost.databus.identity import Identity
from enginehost.databus.offers import understand, with_schema
from enginehost.databus.port import Capability
from enginehost.signature import Annotations, FunctionSignature
from enginehost.testing.strategies import signatures

from .genesis import OFFERED

DEEP = '{"type":"object","properties":' + '{"a":{"properties":' * 900 + "{}" + "}}" * 900 + "}"


@given(signatures())
def test_what_a_host_offers_is_understood_as_the_function_it_is(signature: FunctionSignature) -> None:
    capability = capability_of(signature, Identity(None), "calc", 1, public=True)
    offer = understand(capability)
    if offer.fault:
        assert not signature.name.isprintable() or len(signature.name.encode(errors="replace")) > 256
        return
    told = offer.signature
    assert told.name == f"calc.{signature.name}"
    assert told.streaming == signature.streaming
    assert offer.incarnation
    if not offer.omitted:
        assert set(told.properties) == set(signature.properties)
        assert set(told.required) == set(signature.required)


def test_a_capability_of_genesis_is_a_function_without_an_incarnation() -> None:
    offer = understand(OFFERED)
    assert (offer.fault, offer.incarnation) == ("", "")
    assert offer.signature.name == "CalculatorService.add"
    assert offer.signature.tags == ("math",)
    assert offer.signature.required == ("x",)


@given(
    st.builds(
        Capability,
        **{name: st.text(max_size=40) for name in Capability.__dataclass_fields__ if name != "last_seen"},
        last_seen=st.integers(),
    )
)
def test_no_capability_is_too_strange_to_be_looked_at(capability: Capability) -> None:
    offer = understand(capability)
    assert offer.fault or offer.signature.parameters["type"] == "object"


@pytest.mark.parametrize(
    ("member", "text", "word"),
    [
        ("parameter_schema", "{", "no JSON"),
        ("parameter_schema", "[]", "no JSON object"),
        ("parameter_schema", '{"type":"string"}', "no schema of an object"),
        ("parameter_schema", '{"type":"object","properties":{"a":{"type":"nonsense"}}}', "nonsense"),
        ("parameter_schema", '{"type":"object","properties":[]}', "malformed"),
        (
            "parameter_schema",
            '{"type":"object","properties":{"a":{"$ref":"http://a.example/x"}}}',
            "reference",
        ),
        ("parameter_schema", DEEP, ""),
        ("name", "", "empty"),
        ("name", "a" * 257, "257 bytes"),
        ("name", "red\x1b[31m", "cannot be shown"),
        ("provider_id", "", "empty"),
        ("service_name", "x\n", "cannot be shown"),
    ],
)
def test_what_is_wrong_with_a_capability_is_said(member: str, text: str, word: str) -> None:
    changed: dict[str, Any] = {member: text}
    assert word in understand(replace(OFFERED, **changed)).fault
    assert understand(replace(OFFERED, **changed)).fault


def test_nobody_can_put_a_function_under_the_id_of_another_host() -> None:
    identity = Identity(None)
    capability = capability_of(FunctionSignature("add"), identity, "calc", 1, public=True)
    stolen = replace(capability, provider_id=Identity(None).host_id)
    assert "function_id" in understand(stolen).fault


def test_hints_travel() -> None:
    hints = Annotations(idempotent=True, destructive=False, title="Sum")
    capability = capability_of(
        FunctionSignature("add", annotations=hints), Identity(None), "calc", 1, public=True
    )
    assert understand(capability).signature.annotations == hints


def test_a_schema_without_room_can_be_told_afterwards() -> None:
    schema = {"type": "object", "properties": {f"parameter_{n}": {"type": "string"} for n in range(600)}}
    signature = FunctionSignature("wide", "Many.", schema, result={"type": "integer"})
    offer = understand(capability_of(signature, Identity(None), "calc", 1, public=True))
    assert offer.omitted
    told = with_schema(offer, json.loads(json.dumps({"parameters": schema, "result": {"type": "integer"}})))
    assert not told.omitted
    assert told.signature.properties == schema["properties"]
    assert told.signature.result == {"type": "integer"}
    assert with_schema(offer, {"parameters": {"type": "string"}}).fault
