"""Hosts that sign: what an agent says of itself is its own host's word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.agents.facts import AgentFacts
from enginehost.databus.agents_capability import agent_capability
from enginehost.databus.identity import Identity
from enginehost.databus.keys import new_key, write_key, written
from enginehost.databus.signing import sign_agent, verify_agent
from enginehost.databus.trust import KeyEntry, Trust, trust_key
from enginehost.errors import Unauthorized
from enginehost.signature import FunctionSignature

from .conftest import PRIMARY, WEATHER, StartHost, agent, sees


def trusted(path: Path, **keys: Any) -> Trust:
    for name, key in keys.items():
        trust_key(path, KeyEntry(name=name, key=written(key.public)))
    return Trust(path)


@settings(max_examples=30)
@given(st.sampled_from(["name", "description", "specializations", "agent_id", "last_seen", "model_info"]))
def test_a_sample_that_was_changed_is_not_its_hosts(tmp_path_factory: Any, member: str) -> None:
    key = new_key()
    trust = trusted(tmp_path_factory.mktemp("trust") / "trusted.yaml", far=key)
    facts = AgentFacts(specializations=("weather",), model="m" * 2_000)
    values = agent_capability(FunctionSignature("a", "b"), facts, Identity(None), "s", None)
    signed = sign_agent(values, key)
    assert verify_agent(signed, trust.find).by.id == key.id
    changed = 5 if member == "last_seen" else f"{signed[member]} "
    with pytest.raises(Unauthorized):
        verify_agent(signed | {member: changed}, trust.find)


async def test_signed_agents_are_found_and_asked_by_agents_that_the_policy_names(
    start: StartHost, tmp_path: Path
) -> None:
    pytest.importorskip("cyclonedds")
    far, near = new_key(), new_key()
    for service, own, other in (("far", far, near), ("near", near, far)):
        folder = tmp_path / service / "state" / "databus"
        folder.mkdir(parents=True)
        write_key(folder / "key.pem", own)
        trusted(folder / "trusted.yaml", friend=other)
    rule = {"allow": "call", "subjects": ["friend"], "agents": ["primary"]}
    policy = {"default": "deny", "rules": [rule, {"allow": "view", "callers": "anyone"}]}
    signs = {"sign": True, "accept": "trusted"}
    one = agent("weatherman", "SPECIALIZATIONS = weather")
    await start("far", WEATHER, bus=signs, settings={"policy": policy}, weatherman=one)
    files = {name: agent(name, "TOOLS = *") for name in ("primary", "second")}
    here = await start("near", PRIMARY, bus=signs, **files)
    await sees(here, "weatherman")
    assert await here.call("primary", {"message": "weather"}) == 'They say "Sunny in turn 1: how is it"'
    assert "may not call weatherman" in await here.call("second", {"message": "weather"})
