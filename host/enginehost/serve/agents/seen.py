"""The agents that a caller may know of: of this host, and of others on the databus."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from enginehost.agents.facts import AgentFacts, facts_of
from enginehost.caller import LOCAL, Caller
from enginehost.catalog import OTHERS, Entry
from enginehost.databus import BusAgent
from enginehost.errors import InvalidRequest, UnknownFunction
from enginehost.genesis.routing import named

if TYPE_CHECKING:
    from enginehost.host import Host


def agents_seen(host: Host, caller: Caller) -> list[BusAgent]:
    """The agents whose functions ``caller`` may view: those of this host by name, then those of others.

    Of this host, ``id`` is the one on the databus, or the name where it is on none; nobody saw it first
    (``age`` is without end).
    """
    own = [
        _own(host, entry, facts)
        for name in sorted(host.agent_specs())
        if (entry := host.visible(name, caller)) is not None
        and (facts := facts_of(entry.record.engine)) is not None
    ]
    others = host.bus.agents() if host.bus is not None else []
    return [*own, *(agent for agent in others if host.visible(agent.function, caller) is not None)]


def agents_callable(host: Host, caller: Caller) -> list[BusAgent]:
    """Those of them that ``caller`` may ask."""
    return [agent for agent in agents_seen(host, caller) if _may_call(host, agent, caller)]


async def agent_called(host: Host, name: str, caller: Caller, before: str = "") -> BusAgent:
    """The agent of this name, tool name, ``service.name``, service or id.

    Of several it is the one with the id ``before``. Raises ``UnknownFunction`` (also where the caller may not
    view it), and ``InvalidRequest`` where several have the name.
    """
    there = agents_seen(host, caller)
    try:
        found = named(there, name, before)
    except InvalidRequest:
        if host.bus is None:
            raise
        found = named(await host.bus.askable(there), name, before)
    if found is not None:
        return found
    names = [one.name for one in there][:5]
    more = f" and {len(there) - len(names)} more" if len(there) > len(names) else ""
    error = UnknownFunction(name, nearest=names)
    text = f"there is no agent {name[:200]!r} here; there is {', '.join(names) or 'none'}{more}"
    error.message, error.args = text, (text,)
    raise error


def is_own(host: Host, agent: BusAgent) -> bool:
    """Whether it is an agent of this host."""
    entry = host.catalog.get(agent.function)
    return entry is not None and entry.record.kind != OTHERS


def agent_json(host: Host, agent: BusAgent) -> dict[str, Any]:
    """An agent as HTTP shows it."""
    return {
        "id": agent.id,
        "name": agent.name,
        "host": agent.host,
        "local": is_own(host, agent),
        "service": agent.service,
        "function": agent.function,
        "tool": agent.tool,
        "description": agent.description,
        "type": agent.type,
        "specializations": list(agent.specializations),
        "capabilities": list(agent.capabilities),
        "tags": list(agent.tags),
        "model": agent.model,
        "default_capable": agent.default_capable,
    }


def _own(host: Host, entry: Entry, facts: AgentFacts) -> BusAgent:
    signature, bus = entry.signature, host.bus
    service = entry.function.service or (bus.config.service if bus is not None else "")
    host_id, agent_id = bus.ids(signature.name, service) if bus is not None else ("", "")
    return BusAgent(
        id=agent_id or signature.name,
        name=signature.name,
        service=service,
        description=signature.description,
        type=facts.type,
        specializations=facts.specializations,
        capabilities=facts.capabilities,
        tags=signature.tags,
        model=facts.model,
        default_capable=facts.default_capable,
        host=host_id,
        function=signature.name,
        tool=signature.name,
        age=math.inf,
        holds=(signature.name,),
    )


def _may_call(host: Host, agent: BusAgent, caller: Caller) -> bool:
    entry = host.visible(agent.function, caller)
    return entry is not None and (caller is LOCAL or host.policy.may_call(caller, entry.signature))
