"""Whatever agents hosts have: what names no agent is answered by one of those that hear it."""

from __future__ import annotations

from collections import defaultdict
from typing import Any
from uuid import UUID, uuid5

from hypothesis import given, settings
from hypothesis import strategies as st

from enginehost.databus.agents_capability import front_agents, interface_service
from enginehost.databus.agents_front import is_for_us
from enginehost.databus.agents_understood import understand_agent
from enginehost.databus.types import AGENT_CAPABILITY

NAMES = st.sampled_from(["alpha", "beta", "gamma"])
HOSTS: Any = st.dictionaries(
    st.sampled_from("ABC"),
    st.dictionaries(NAMES, st.tuples(st.booleans(), st.booleans()), min_size=1),
    min_size=1,
)
"""By host and agent: whether it answers by default, and whether anybody may ask it."""


def capability(host: str, name: str, default: bool) -> dict[str, Any]:
    empty = {member.name: "" for member in AGENT_CAPABILITY.members} | {"last_seen": 0}
    agent_id = str(uuid5(UUID(int=0), host + name))
    model_info = f'{{"enginehost": {{"host": "{host}", "incarnation": "{host}"}}}}'
    said = {"agent_id": agent_id, "name": name, "service_name": "s", "model_info": model_info}
    return empty | said | {"default_capable": int(default)}


@settings(max_examples=150)
@given(HOSTS)
def test_one_of_all_hosts_answers(hosts: dict[str, dict[str, tuple[bool, bool]]]) -> None:
    offered = {
        host: {name: (capability(host, name, default), public) for name, (default, public) in agents.items()}
        for host, agents in hosts.items()
    }
    heard, answers = defaultdict[str, list[bool]](list), defaultdict[str, list[bool]](list)
    for host, agents in offered.items():
        others = [
            (understand_agent(values), public)
            for other, theirs in offered.items()
            if other != host
            for values, public in theirs.values()
        ]
        fronts = front_agents({name: values for name, (values, _) in agents.items()})
        for values, public in agents.values():
            asked_at = interface_service(values, fronts)
            heard[asked_at].append(public)
            if is_for_us(values, asked_at, others, anybody_may_ask=public):
                answers[asked_at].append(public)
    for asked_at, public in heard.items():
        # one whom anybody may ask; where there is none, each refuses
        assert answers[asked_at] == ([True] if any(public) else public), asked_at
