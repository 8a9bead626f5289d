"""An agent of this host as the bus shows it, in the forms of both eras, fitted to the bounds of the types."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from enginehost.agents.facts import AgentFacts
from enginehost.databus.advertisement import AGENT, Advertisement
from enginehost.databus.agents_names import FACE
from enginehost.databus.capability import shorten
from enginehost.databus.identity import Identity
from enginehost.databus.measured import measured
from enginehost.databus.signing import SEALED_BYTES
from enginehost.databus.struct import Kind
from enginehost.databus.types import AGENT_CAPABILITY, AGENT_REGISTRATION
from enginehost.names import face_name
from enginehost.record import Stats
from enginehost.signature import FunctionSignature
from enginehost.values import write

MARK = "enginehost"
"""The member of ``model_info`` by which hosts like this one know each other: ``host`` and ``incarnation``."""

_JSON_MEMBERS = (
    "capabilities",
    "specializations",
    "classification_tags",
    "model_info",
    "performance_metrics",
)


def agent_capability(
    signature: FunctionSignature,
    facts: AgentFacts,
    identity: Identity,
    service: str,
    stats: Stats | None,
) -> dict[str, Any]:
    """An agent as ``AGENT_CAPABILITY``: one complete sample. Its id is that of its function.

    What is longer than its bound is told in short: prose is cut, of a list as many words stay as fit.
    """
    info: dict[str, Any] = {"model": facts.model} if facts.model else {}
    info[MARK] = {"host": identity.host_id, "incarnation": identity.incarnation}
    return _fitted(
        {
            "agent_id": identity.function_id(service, signature.name),
            "name": signature.name,
            "description": signature.description,
            "agent_type": facts.type,
            "service_name": service,
            "last_seen": time.time_ns() // 1_000_000,
            "capabilities": list(facts.capabilities),
            "specializations": list(facts.specializations),
            "classification_tags": list(signature.tags),
            "model_info": info,
            "performance_metrics": measured(stats),
            "default_capable": int(facts.default_capable),
        }
    )


def registration(agent: Mapping[str, Any], service: str) -> dict[str, Any]:
    """Likewise as ``AGENT_REGISTRATION``, by which interfaces find it; ``service`` is where they ask it."""
    bound = AGENT_REGISTRATION.bound
    return {
        "message": agent["description"],
        "prefered_name": shorten(agent["name"], bound("prefered_name")),
        "default_capable": agent["default_capable"],
        "instance_id": agent["agent_id"],
        "service_name": shorten(service, bound("service_name")),
    }


def agent_advertisement(agent: Mapping[str, Any], service: str, provider_id: str) -> Advertisement:
    """Likewise in the second era, all in one payload.

    Its function has the id of both already, on the same topic: the agent's key is made of that
    (:func:`second_id`), and ``function_id`` in the payload says so.
    """
    payload = {name: json.loads(agent[name]) for name in _JSON_MEMBERS}
    payload |= {
        "agent_type": agent["agent_type"],
        "default_capable": agent["default_capable"],
        "prefered_name": agent["name"],
        "replier_guid": replier_guid(agent["agent_id"]),
        "function_id": agent["agent_id"],
    }
    return Advertisement(
        advertisement_id=second_id(agent["agent_id"]),
        kind=AGENT,
        name=agent["name"],
        description=agent["description"],
        service_name=service,
        provider_id=provider_id,
        last_seen=agent["last_seen"],
        payload=write(payload).decode(),
    )


def second_id(agent_id: str) -> str:
    """The key of an agent's advertisement in the second era."""
    return str(uuid.uuid5(uuid.UUID(agent_id), "agent"))


def replier_guid(agent_id: str) -> str:
    """What stands in ``target_service_guid`` of a request that is for this agent alone: 32 digits."""
    return uuid.UUID(second_id(agent_id)).hex


def front_agents(agents: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """By service, whom a question to it is for: the first that answers by default, else the first."""
    fronts: dict[str, str] = {}
    for name in sorted(agents, key=lambda name: (not agents[name]["default_capable"], name)):
        fronts.setdefault(agents[name]["service_name"], name)
    return fronts


def interface_service(agent: Mapping[str, Any], fronts: Mapping[str, str]) -> str:
    """The service at which interfaces ask an agent: its own where it is the front one, else one beside it."""
    service, name = str(agent["service_name"]), str(agent["name"])
    return service if fronts.get(service) == name else f"{service}_{face_name(name, FACE)}"


def _fitted(values: Mapping[str, Any]) -> dict[str, Any]:
    fitted: dict[str, Any] = {}
    for member in AGENT_CAPABILITY.members:
        value = values[member.name]
        if member.kind is not Kind.STRING:
            fitted[member.name] = value
        elif isinstance(value, str):
            fitted[member.name] = shorten(value, member.bound)
        else:
            room = SEALED_BYTES if member.name == "model_info" else 0
            fitted[member.name] = _json_within(value, member.bound - room)
    return fitted


def _json_within(value: Any, bound: int) -> str:
    for less in _shorter(value):
        text = write(less).decode()
        if len(text.encode()) <= bound:
            return text
    return "[]" if isinstance(value, list) else "{}"


def _shorter(value: Any) -> Sequence[Any]:
    """The value, then shorter ones: of a list its beginning, of an object what hosts need of it."""
    if isinstance(value, list):
        items: list[Any] = value
        return [items[:count] for count in range(len(items), -1, -1)]
    return [value, {name: one for name, one in value.items() if name == MARK}]
