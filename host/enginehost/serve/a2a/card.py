"""The card of an agent: what it is, what it can do, and where it is spoken to (A2A 1.0, section 4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import enginehost
from enginehost.agents.agent_engine import agent_behind
from enginehost.agents.contract import AgentSpec
from enginehost.agents.skills import Skill, chosen
from enginehost.serve.a2a.tasks import GIVES
from enginehost.serve.a2a.wire import VERSION

if TYPE_CHECKING:
    from enginehost.catalog import Entry
    from enginehost.host import Host

TAKES = ("text/plain", "application/json", "image/*", "application/pdf")
"""Media types of what agents are told; what a model takes of them is the model's affair."""

_BEARER, _OIDC = "bearer", "oidc"


def card_of(host: Host, name: str, base: str) -> dict[str, Any]:
    """The card of the agent ``name``, which is spoken to at the URL ``base``."""
    entry, spec = host.catalog.get(name), host.agent_specs().get(name, AgentSpec(name))
    card: dict[str, Any] = {
        "name": name,
        "description": entry.signature.description if entry is not None else spec.description,
        "version": _version(entry),
        "supportedInterfaces": [
            {"url": base, "protocolBinding": binding, "protocolVersion": VERSION}
            for binding in ("JSONRPC", "HTTP+JSON")
        ],
        "capabilities": {"streaming": True, "pushNotifications": False, "extendedAgentCard": False},
        "defaultInputModes": list(TAKES),
        "defaultOutputModes": list(GIVES),
        "skills": _skills(entry, spec),
    }
    return card | _security(host)


def _version(entry: Entry | None) -> str:
    engine = agent_behind(entry.record.engine) if entry is not None else None
    return (engine.version if engine is not None else "") or enginehost.__version__


def _skills(entry: Entry | None, spec: AgentSpec) -> list[dict[str, Any]]:
    """The agent's skills; where it has none, what it is for is the one."""
    engine = agent_behind(entry.record.engine) if entry is not None else None
    library: Mapping[str, Skill] = engine.skill_library if engine is not None else {}
    tags = list(entry.signature.tags) if entry is not None else []
    subjects = list(engine.facts.specializations) if engine is not None else []
    found = [
        {"id": skill.name, "name": skill.name, "description": skill.description, "tags": tags or [spec.name]}
        for skill in chosen(spec.skills, library)
    ]
    own = {
        "id": spec.name,
        "name": spec.name,
        "description": (entry.signature.description if entry is not None else "") or spec.description,
        "tags": [*subjects, *tags] or ["agent"],
    }
    return found or [own]


def _security(host: Host) -> dict[str, Any]:
    """How a caller shows who they are; nothing where the host asks nobody."""
    if not host.settings.authenticates:
        return {}
    schemes: dict[str, Any] = {_BEARER: {"httpAuthSecurityScheme": {"scheme": "Bearer"}}}
    for at, issuer in enumerate(host.settings.oidc):
        url = f"{issuer.issuer.rstrip('/')}/.well-known/openid-configuration"
        schemes[f"{_OIDC}{at or ''}"] = {"openIdConnectSecurityScheme": {"openIdConnectUrl": url}}
    requirements = [{"schemes": {name: {"list": []}}} for name in schemes]
    return {"securitySchemes": schemes, "securityRequirements": requirements}
