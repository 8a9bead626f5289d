"""On whose behalf a session runs: the owner whose it is, and the caller whose rights its tools have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from enginehost.caller import LOCAL, Caller
from enginehost.store.port import Owner


def owner_of(caller: Caller) -> Owner:
    """Whose sessions a caller sees."""
    return Owner(caller.subject, caller.tenant)


def asking(caller: Caller, agent: str) -> Caller:
    """The caller as an agent asks on their behalf. The program that owns the host stays what it is."""
    if caller is LOCAL or not agent or caller.agent == agent:
        return caller
    return replace(caller, agent=agent)


def caller_to_json(caller: Caller) -> dict[str, Any]:
    """What a run keeps of its caller, so that any process runs its tools with the same rights.

    Claims and proofs are not among it.
    """
    if caller is LOCAL:
        return {"local": True}
    return {
        "subject": caller.subject,
        "tenant": caller.tenant,
        "scopes": sorted(caller.scopes),
        "face": caller.face,
        "authenticated": caller.authenticated,
    }


def caller_from_json(kept: Mapping[str, Any]) -> Caller:
    """The inverse of :func:`caller_to_json`. What was never kept is an anonymous caller, who may least."""
    if kept.get("local") is True:
        return LOCAL
    return Caller(
        str(kept.get("subject", "anonymous")),
        tenant=str(kept.get("tenant", "")),
        scopes=frozenset(map(str, kept.get("scopes", ()))),
        face=str(kept.get("face", "python")),
        authenticated=kept.get("authenticated") is True,
    )
