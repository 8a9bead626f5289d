"""Names of agents as tools, and an agent's sample there and back."""

from __future__ import annotations

import json
import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.agents.config import AgentConfig
from enginehost.agents.facts import AgentFacts, facts_of
from enginehost.databus.agents_capability import agent_advertisement, agent_capability, registration
from enginehost.databus.agents_names import tool_name
from enginehost.databus.agents_understood import second_era, understand_agent
from enginehost.databus.identity import Identity
from enginehost.databus.types import AGENT_CAPABILITY
from enginehost.signature import FunctionSignature

GOLDEN = {
    "weather": "get_weather_info",
    "Weather": "get_weather_info",
    "climate change": "get_climate_change_info",
    "e-mail": "get_e_mail_info",
    "Space-Science DATA": "get_space_science_data_info",
    "C3PO": "get_c3po_info",
    "größe": "get_grosse_info_axwqik4q",
    "a/b": "get_a_b_info_p5hwvwlp",
    "x" * 55: "get_" + "x" * 55 + "_info",
}


@pytest.mark.parametrize(("specialization", "name"), GOLDEN.items())
def test_a_tool_is_called_as_genesis_calls_it(specialization: str, name: str) -> None:
    assert tool_name([specialization, "another"]) == name


def test_an_agent_without_a_specialization_has_its_own_name() -> None:
    assert tool_name([]) == ""


@given(st.text(min_size=1, max_size=300))
def test_every_specialization_gives_a_name_that_models_take(text: str) -> None:
    name = tool_name([text])
    assert 1 <= len(name) <= 64
    assert set(name) <= set(string.ascii_letters + string.digits + "_-")
    assert name == tool_name([text])


WORDS = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=20)
FACTS = st.builds(
    AgentFacts,
    type=WORDS,
    capabilities=st.lists(WORDS, max_size=5, unique=True).map(tuple),
    specializations=st.lists(WORDS, max_size=5, unique=True).map(tuple),
    default_capable=st.booleans(),
    model=WORDS,
)
SIGNATURES = st.builds(
    FunctionSignature, WORDS, WORDS, tags=st.lists(WORDS, max_size=5, unique=True).map(tuple)
)


@settings(max_examples=50)
@given(FACTS, SIGNATURES, WORDS)
def test_an_agent_is_understood_as_it_was_told(
    facts: AgentFacts, signature: FunctionSignature, service: str
) -> None:
    identity = Identity(None)
    values = agent_capability(signature, facts, identity, service, None)
    offer = understand_agent(values)
    told = (offer.type, offer.capabilities, offer.specializations, offer.default_capable, offer.model)
    assert told == (
        facts.type,
        facts.capabilities,
        facts.specializations,
        facts.default_capable,
        facts.model,
    )
    assert (offer.name, offer.tags, offer.service) == (signature.name, signature.tags, service)
    assert (offer.host, offer.incarnation) == (identity.host_id, identity.incarnation)
    second = agent_advertisement(values, service, identity.host_id)
    again = second_era({name: getattr(second, name) for name in second.__dataclass_fields__}, None)
    other = understand_agent(again, 2)
    assert (other.specializations, other.tags, other.model) == (
        offer.specializations,
        offer.tags,
        offer.model,
    )
    assert other.incarnation == offer.incarnation


@settings(max_examples=50)
@given(
    st.lists(st.text(max_size=400), max_size=60),
    st.text(max_size=6000),
    st.text(min_size=1, max_size=600),
)
def test_every_member_fits_its_bound(words: list[str], description: str, name: str) -> None:
    facts = AgentFacts("T", tuple(words), tuple(words), False, "m" * 2000)
    signature = FunctionSignature(name, description, tags=tuple(words))
    values = agent_capability(signature, facts, Identity(None), "service", None)
    for member in AGENT_CAPABILITY.members:
        if isinstance(values[member.name], str):
            assert len(values[member.name].encode()) <= member.bound
    for one in ("capabilities", "specializations", "classification_tags"):
        assert isinstance(json.loads(values[one]), list)
    assert json.loads(values["model_info"])["enginehost"]
    assert registration(values, "s")["default_capable"] == 0


VALUES: Any = st.fixed_dictionaries(
    {
        member.name: st.integers(-(2**31), 2**31 - 1)
        if member.name in ("last_seen", "default_capable")
        else st.one_of(st.text(max_size=50), st.sampled_from(['["a"]', "{}", "[[]]", '{"model": 3}', "null"]))
        for member in AGENT_CAPABILITY.members
    }
)


@settings(max_examples=100)
@given(VALUES)
def test_whatever_a_peer_says_is_understood_or_refused_with_a_reason(values: dict[str, Any]) -> None:
    try:
        offer = understand_agent(values)
    except ValueError:
        return
    for word in (*offer.specializations, *offer.tags, offer.type, offer.model, offer.name):
        assert word.isprintable()


def test_what_an_agent_says_is_read_from_its_keys() -> None:
    config = AgentConfig.model_validate(
        {"specializations": "weather,  climate   change", "capabilities": ["a", "a"], "default_capable": True}
    )
    assert config.facts == AgentFacts("AGENT", ("a",), ("weather", "climate change"), True, "")
    assert facts_of(object()) is None
