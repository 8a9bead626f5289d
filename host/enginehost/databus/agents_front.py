"""Which of several hosts answers a question that names a service and no agent.

Each host that has an agent there hears it. Of those whose agents anybody may ask one answers, the same one in
the eyes of all: the question is answered, and what it sets off is done, once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from enginehost.databus.agents_capability import front_agents, interface_service
from enginehost.databus.agents_understood import AgentOffer


def is_for_us(
    own: Mapping[str, Any],
    asked_at: str,
    others: Iterable[tuple[AgentOffer, bool]],
    *,
    anybody_may_ask: bool,
) -> bool:
    """Whether our agent (``AGENT_CAPABILITY``) answers what is asked at ``asked_at``.

    ``others`` are the agents of its service at other hosts, and whether anybody may ask them.
    """
    rivals = [_rank(one) for one in _heard_at(asked_at, others)]
    return not rivals or (anybody_may_ask and _rank(own) < min(rivals))


def _heard_at(asked_at: str, others: Iterable[tuple[AgentOffer, bool]]) -> Iterable[Mapping[str, Any]]:
    """Those of them that anybody may ask and that hear what is asked there."""
    hosts: defaultdict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
    for one, public in others:
        hosts[one.host][one.name] = {
            "agent_id": one.id,
            "name": one.name,
            "service_name": one.service,
            "default_capable": one.default_capable,
            "public": public,
        }
    for agents in hosts.values():
        fronts = front_agents(agents)
        yield from (
            one for one in agents.values() if one["public"] and interface_service(one, fronts) == asked_at
        )


def _rank(agent: Mapping[str, Any]) -> tuple[bool, str, str]:
    return not agent["default_capable"], str(agent["name"]), str(agent["agent_id"])
