"""One function in the form of either era."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.databus.advertisement import FUNCTION, Advertisement, advertisement_of, capability_in
from enginehost.databus.capability import capability_of
from enginehost.databus.identity import Identity
from enginehost.databus.port import Capability
from enginehost.databus.types import GENESIS_ADVERTISEMENT
from enginehost.signature import FunctionSignature

IN_PAYLOAD = (
    "parameter_schema",
    "capabilities",
    "performance_metrics",
    "security_requirements",
    "classification",
)
TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=20)
NAME = TEXT.filter(bool)
DEEP = "[" * 300 + "]" * 300
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)
MEMBER = JSON.map(lambda value: json.dumps(value, ensure_ascii=False)) | TEXT
TIME = st.integers(-(2**63), 2**63 - 1)
CAPABILITIES = st.builds(
    Capability, NAME, NAME, TEXT, NAME, MEMBER, MEMBER, MEMBER, MEMBER, MEMBER, TIME, TEXT
)
ADVERTISEMENTS = st.builds(
    Advertisement,
    NAME,
    st.just(FUNCTION),
    NAME,
    TEXT,
    TEXT,
    NAME,
    TIME,
    st.fixed_dictionaries({}, optional=dict.fromkeys(IN_PAYLOAD, JSON)).map(json.dumps),
)


def meaning(text: str) -> Any:
    """What a text in JSON says; any other text is itself."""
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return found if isinstance(found, dict | list) else text


def advertised(**payload: Any) -> Advertisement:
    return Advertisement("f1", FUNCTION, "add", "Adds.", "calc", "p1", 7, json.dumps(payload))


@settings(max_examples=60, deadline=None)
@given(CAPABILITIES)
def test_a_capability_comes_back_with_the_same_meaning(capability: Capability) -> None:
    back = asdict(capability_in(advertisement_of(capability)))
    for member, value in asdict(capability).items():
        assert (meaning(back[member]) if member in IN_PAYLOAD else back[member]) == (
            meaning(value) if member in IN_PAYLOAD else value
        )


@settings(max_examples=60, deadline=None)
@given(ADVERTISEMENTS)
def test_an_advertisement_comes_back_with_the_same_meaning(advertisement: Advertisement) -> None:
    """Where Genesis writes a member as text, that text may stand for the same value."""
    back = advertisement_of(capability_in(advertisement))
    assert replace(back, payload="") == replace(advertisement, payload="")
    before, after = json.loads(advertisement.payload), json.loads(back.payload)
    said = {name: value for name, value in before.items() if value not in (None, "")}
    assert after.keys() == said.keys()
    for name, value in said.items():
        wanted = meaning(value) if isinstance(value, str) else value
        assert after[name] == (wanted if isinstance(wanted, dict | list | str) else json.dumps(wanted))


def test_a_function_of_ours_has_one_id_and_the_payload_that_genesis_reads() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    signature = FunctionSignature("add", "Adds.", parameters=schema, tags=("math",))
    capability = capability_of(signature, Identity(None), "calc", 7, public=True)
    made = advertisement_of(capability)
    assert made.advertisement_id == capability.function_id
    payload = json.loads(made.payload)
    assert tuple(payload) == IN_PAYLOAD
    assert payload["parameter_schema"]["required"] == ["a"]
    assert payload["capabilities"] == ["math"]
    assert payload["security_requirements"] == {"level": "public"}
    assert capability_in(made) == capability


def test_its_members_are_those_of_the_type_in_order() -> None:
    assert [one.name for one in fields(Advertisement)] == [one.name for one in GENESIS_ADVERTISEMENT.members]


@pytest.mark.parametrize("form", [["a", "é"], '["a","é"]'], ids=["list", "text"])
def test_capabilities_may_be_a_list_or_its_text(form: Any) -> None:
    assert capability_in(advertised(capabilities=form)).capabilities == '["a","é"]'


def test_a_schema_that_is_nested_too_deep_comes_back_all_the_same() -> None:
    capability = replace(capability_in(advertised()), parameter_schema=DEEP)
    assert capability_in(advertisement_of(capability)) == capability


def test_what_is_not_said_is_empty() -> None:
    found = capability_in(replace(advertised(), payload=""))
    assert {getattr(found, member) for member in IN_PAYLOAD} == {""}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"advertisement_id": ""}, "its advertisement_id is empty"),
        ({"name": ""}, "its name is empty"),
        ({"provider_id": ""}, "its provider_id is empty"),
        ({"kind": 1}, "it advertises no function"),
        ({"payload": "[1]"}, "its payload is no JSON object"),
        ({"payload": '{"a":'}, "its payload is not JSON"),
        ({"payload": "[" * 100_000}, "its payload is not JSON"),
        ({"payload": f'{{"capabilities":{DEEP}}}'}, "its payload has more than 128 levels"),
        ({"payload": '{"classification":1e999}'}, "its payload is not JSON"),
    ],
    ids=["no id", "no name", "no provider", "an agent", "a list", "cut short", "deepest", "deep", "infinite"],
)
def test_what_cannot_be_called_says_why(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        capability_in(replace(advertised(), **change))
