"""Who calls: every call has a caller, and anonymous is one too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Caller:
    """The party on whose behalf a call runs.

    ``subject`` is a stable name (a token's name, a JWT's ``sub``), ``tenant`` separates customers,
    ``scopes`` are what the proof grants, ``face`` is the way in (``python``, ``cli``, ``http``,
    ``mcp``, ``databus``), ``claims`` what the issuer said besides (never used by the policy).
    ``agent`` is the agent that asks on their behalf, where one does; over the databus an unsigned request
    only claims it.
    ``may_prove``: an anonymous caller who could show a proof here is asked for one, where it meets what
    it may not see.
    """

    subject: str
    tenant: str = ""
    scopes: frozenset[str] = frozenset()
    face: str = "python"
    authenticated: bool = True
    claims: Mapping[str, Any] = field(default_factory=dict, compare=False)
    may_prove: bool = field(default=False, compare=False)
    agent: str = ""


def anonymous(face: str, *, may_prove: bool = False) -> Caller:
    """The caller who showed no proof, through ``face``. ``may_prove``: the face and the host take proofs."""
    return Caller("anonymous", face=face, authenticated=False, may_prove=may_prove)


LOCAL = Caller("local", face="python")
"""The program that embeds the host: it owns the process, the policy does not bind it."""

RESERVED_SUBJECTS = frozenset({"anonymous", LOCAL.subject})
"""Subjects that the host gives by itself: a proof for one would pass for somebody else in the log."""
