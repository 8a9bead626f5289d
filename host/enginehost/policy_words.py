"""Words of a policy that mean nothing here: a rule with a slip of the pen applies to nobody, silently."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

from enginehost.diagnostics import Diagnostic, Severity
from enginehost.policy import Policy, matcher
from enginehost.yaml_document import Place

if TYPE_CHECKING:
    from enginehost.signature import FunctionSignature

FACES = frozenset({"databus", "http", "python"})
"""The ways in that every host has; plugins add theirs."""

_FEW = 12
"""Names that are listed whole where none of them looks like the word."""


def unknown_faces(policy: Policy, faces: Iterable[str]) -> list[Diagnostic]:
    """Warnings for ``faces`` of rules that are neither the host's own nor among ``faces`` (the plugins')."""
    return list(_idle(policy, "faces", "face", FACES.union(faces)))


def idle_functions(policy: Policy, signatures: Collection[FunctionSignature]) -> list[Diagnostic]:
    """Warnings for ``functions`` and ``tags`` of rules that no function here has."""
    names = {signature.name for signature in signatures}
    tags = {tag for signature in signatures for tag in signature.tags}
    return [*_idle(policy, "functions", "function", names), *_idle(policy, "tags", "tag", tags)]


class Owner(Protocol):
    """Who can prove who they are: a token of the settings, a trusted key of the databus."""

    @property
    def name(self) -> str:
        """The subject."""
        ...

    @property
    def scopes(self) -> Collection[str]:
        """What the proof grants."""
        ...

    @property
    def tenant(self) -> str:
        """The customer."""
        ...


def idle_callers(policy: Policy, tokens: Collection[Owner], keys: Collection[Owner] = ()) -> list[Diagnostic]:
    """Warnings for ``subjects``, ``scopes`` and ``tenants`` that no token and no trusted key has.

    For hosts where these alone prove who somebody is.
    """
    owners = [*tokens, *keys]
    proof = "token or trusted key" if keys else "token"
    scopes = {scope for owner in owners for scope in owner.scopes}
    tenants = {owner.tenant for owner in owners if owner.tenant}
    return [
        *_idle(policy, "subjects", f"{proof} named", {owner.name for owner in owners}),
        *_idle(policy, "scopes", f"{proof} with the scope", scopes),
        *_idle(policy, "tenants", f"{proof} of the tenant", tenants),
    ]


def what_is_meant(word: str, known: Collection[str]) -> str:
    """What may be meant by ``word``: the names that look like it, or those there are, where they are few."""
    if close := difflib.get_close_matches(word, list(known)):
        return f"did you mean {', '.join(close)}?"
    return f"there are {', '.join(sorted(known))}" if 0 < len(known) <= _FEW else ""


def _idle(policy: Policy, field: str, what: str, known: Collection[str]) -> Iterator[Diagnostic]:
    for number, rule in enumerate(policy.written.rules):
        place = policy.places.get(("rules", number, field), Place(policy.origin))
        title = f"rule {rule.name!r}" if rule.name else f"rule {number + 1}"
        for entry in getattr(rule, field) or ():
            for word in entry.split() if field == "scopes" else (entry,):
                if any(map(matcher(word), known)):
                    continue
                message = f"{title}: there is no {what} {word!r}"
                yield Diagnostic(*place, Severity.WARNING, "policy-word", message, what_is_meant(word, known))
