"""Decides who may *view* and who may *call* which function: one evaluator for every face.

A :class:`Policy` never changes; a changed file becomes a new one (:func:`load_policy`). Decisions are
remembered per caller and function. What is remembered is bounded: callers who fall under the same
rules share their decisions, however many subjects an issuer names.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from enginehost.caller import LOCAL, Caller
from enginehost.checked_model import checked
from enginehost.errors import ConfigError
from enginehost.policy_rules import PolicyRules, Rule
from enginehost.signature import UNREAD, FunctionSignature
from enginehost.yaml_document import Loc, Place, read_document

if TYPE_CHECKING:
    from enginehost.settings import HostSettings

VIEW = 1
CALL = 2
BOTH = VIEW | CALL
_ALLOWS = {"deny": 0, "view": VIEW, "call": BOTH}
_DENIES = {"view": BOTH, "call": CALL}
_MAX_CALLERS = 10_000
_MAX_FUNCTIONS = 50_000
_MAX_GROUPS = 1_000

Match = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Which rule decided. ``view_by`` and ``call_by`` name the rule, or ``default``, or the reason."""

    may_view: bool
    may_call: bool
    view_by: str
    call_by: str

    def __str__(self) -> str:
        words = {True: "yes", False: "no"}
        return f"view: {words[self.may_view]}, {self.view_by}\ncall: {words[self.may_call]}, {self.call_by}"


class Policy:
    """Rules, compiled. ``origin`` says in explanations where they come from."""

    def __init__(
        self, rules: PolicyRules, *, origin: str = "", places: Mapping[Loc, Place] | None = None
    ) -> None:
        self.written = rules
        self.origin = origin
        self.places: Mapping[Loc, Place] = places or {}
        self._default = _ALLOWS[rules.default]
        self._rules = tuple(
            _Compiled(rule, _title(rule, number, self.places)) for number, rule in enumerate(rules.rules)
        )
        self._callers: dict[tuple[object, ...], dict[str, tuple[tuple[str, ...], int]]] = {}
        self._latest: tuple[Caller, dict[str, tuple[tuple[str, ...], int]] | None] = LOCAL, None
        self._groups: dict[tuple[int, ...], dict[str, tuple[tuple[str, ...], int]]] = {}

    def may_view(self, caller: Caller, signature: FunctionSignature) -> bool:
        """Whether the function exists for the caller."""
        return self.rights(caller, signature) & VIEW != 0

    def may_call(self, caller: Caller, signature: FunctionSignature) -> bool:
        """Whether the caller may call the function; then they may view it too."""
        return self.rights(caller, signature) & CALL != 0

    def rights(self, caller: Caller, signature: FunctionSignature) -> int:
        """:data:`VIEW` and :data:`CALL`, as bits. :data:`~enginehost.caller.LOCAL` has both."""
        if caller is LOCAL:
            return BOTH
        latest, known = self._latest
        if caller is not latest:  # most calls are of a caller that calls again
            known = self._callers.get(
                (
                    caller.subject,
                    caller.scopes,
                    caller.face,
                    caller.tenant,
                    caller.authenticated,
                    caller.agent,
                )
            )
            if known is not None:
                self._latest = caller, known
        if known is not None:
            found = known.get(signature.name)
            if found is not None and found[0] == signature.tags:
                return found[1]
        return self._decide(caller, signature)

    def explain(self, caller: Caller, signature: FunctionSignature) -> Explanation:
        """Which rule decides for this caller and function."""
        if caller is LOCAL:
            return Explanation(True, True, "this program owns the host", "this program owns the host")
        rights = self.rights(caller, signature)
        ruling = [
            rule for rule in self._rules if rule.applies(caller) and rule.covers(signature, in_doubt=False)
        ]
        return Explanation(
            rights & VIEW != 0, rights & CALL != 0, self._reason(ruling, VIEW), self._reason(ruling, CALL)
        )

    def _decide(self, caller: Caller, signature: FunctionSignature) -> int:
        group = tuple(number for number, rule in enumerate(self._rules) if rule.applies(caller))
        if len(self._groups) >= _MAX_GROUPS:
            self._groups.clear()
            self._callers.clear()
        decisions = self._groups.setdefault(group, {})
        if len(self._callers) >= _MAX_CALLERS:
            self._callers.clear()
        known_by = (caller.subject, caller.scopes, caller.face, caller.tenant, caller.authenticated)
        self._callers[*known_by, caller.agent] = decisions
        self._latest = caller, decisions
        if len(decisions) >= _MAX_FUNCTIONS:
            decisions.clear()
        rights = self._evaluate((self._rules[number] for number in group), signature)
        decisions[signature.name] = (signature.tags, rights)
        return rights

    def _evaluate(self, rules: Iterable[_Compiled], signature: FunctionSignature) -> int:
        allowed, denied = self._default, 0
        for rule in rules:
            if rule.covers(signature, in_doubt=False):
                allowed |= rule.allows
            if rule.covers(signature, in_doubt=True):
                denied |= rule.denies
        return allowed & ~denied

    def _reason(self, ruling: list[_Compiled], right: int) -> str:
        by = next((rule for rule in ruling if rule.denies & right), None)
        by = by or next((rule for rule in ruling if rule.allows & right), None)
        if by is not None:
            return f"{'denied' if by.denies & right else 'allowed'} by {by.title}"
        default = f"the default ({self.written.default})"
        return f"{default} of {self.origin}" if self.origin else default


class _Compiled:
    """One rule, ready to be asked."""

    __slots__ = (
        "_agents",
        "_faces",
        "_functions",
        "_known",
        "_scopes",
        "_subjects",
        "_tags",
        "_tenants",
        "allows",
        "denies",
        "title",
    )

    def __init__(self, rule: Rule, title: str) -> None:
        self.title = title
        self.allows = _ALLOWS[rule.allow] if rule.allow else 0
        self.denies = _DENIES[rule.deny] if rule.deny else 0
        self._known = {"authenticated": True, "anonymous": False}.get(
            rule.callers or "", True if rule.proven else None
        )
        self._subjects = _matcher(rule.subjects)
        self._tenants = _matcher(rule.tenants)
        self._faces = _matcher(rule.faces)
        self._agents = _matcher(rule.agents)
        self._functions = _matcher(rule.functions)
        self._tags = _matcher(rule.tags)
        self._scopes = _scope_matcher(rule.scopes)

    def applies(self, caller: Caller) -> bool:
        """Whether the rule is about this caller."""
        return (
            (self._known is None or self._known is caller.authenticated)
            and (self._subjects is None or self._subjects(caller.subject))
            and (self._tenants is None or self._tenants(caller.tenant))
            and (self._faces is None or self._faces(caller.face))
            and (self._scopes is None or self._scopes(caller.scopes))
            and (self._agents is None or (self._agents(caller.agent) and self._believes(caller)))
        )

    def _believes(self, caller: Caller) -> bool:
        """Whether an agent asks, and is the one that it is said to be.

        Who does not sign on the databus may claim any: that takes rights, and never gives them.
        """
        claims = caller.face == "databus" and not caller.authenticated
        return caller.agent != "" and (self.denies != 0 or not claims)

    def covers(self, signature: FunctionSignature, *, in_doubt: bool) -> bool:
        """Whether the rule is about this function; ``in_doubt`` is the answer about what is unread of it."""
        return (
            self._functions is None
            or self._functions(signature.name)
            or (in_doubt and signature.name == UNREAD)
        ) and (
            self._tags is None
            or any(map(self._tags, signature.tags))
            or (in_doubt and UNREAD in signature.tags)
        )


def matcher(*patterns: str) -> Match:
    """Whether a text is one of ``patterns``, in which ``*`` and ``?`` stand for other characters."""
    names = frozenset(p for p in patterns if "*" not in p and "?" not in p)
    wild = [fnmatch.translate(p.replace("[", "[[]")) for p in patterns if p not in names]
    if not wild:
        return names.__contains__
    expression = re.compile("|".join(wild))
    return lambda text: text in names or expression.match(text) is not None


def _matcher(patterns: tuple[str, ...] | None) -> Match | None:
    return None if patterns is None else matcher(*patterns)


def _scope_matcher(entries: tuple[str, ...] | None) -> Callable[[frozenset[str]], bool] | None:
    if entries is None:
        return None
    choices = [[_matcher((scope,)) for scope in entry.split()] for entry in entries]

    def granted(scopes: frozenset[str]) -> bool:
        return any(all(any(map(ask, scopes)) for ask in choice if ask) for choice in choices)

    return granted


def _title(rule: Rule, number: int, places: Mapping[Loc, Place]) -> str:
    name = f"rule {rule.name!r}" if rule.name else f"rule {number + 1}"
    place = places.get(("rules", number))
    return f"{name} ({place.path}:{place.line})" if place else name


def load_policy(path: str | Path) -> Policy:
    """The policy in a YAML file. Raises :class:`~enginehost.errors.ConfigError` at what is wrong."""
    document = read_document(Path(path))
    if not isinstance(document.value, dict):
        raise ConfigError(
            "a policy has the keys default and rules",
            path=document.path,
            line=1,
            hint="such as default: deny",
        )

    def place(loc: Loc) -> Place:
        prefixes = (loc[:length] for length in range(len(loc), 0, -1))
        return next((document.places[p] for p in prefixes if p in document.places), Place(document.path))

    rules = checked(PolicyRules, document.value, place)
    return Policy(rules, origin=document.path, places=document.places)


def open_policy() -> Policy:
    """Everyone may call everything: for a host that only its own machine reaches."""
    return Policy(PolicyRules(default="call"), origin="the built-in open policy")


def authenticated_policy() -> Policy:
    """Who showed a proof may call everything; anonymous callers see nothing."""
    rules = PolicyRules(rules=(Rule(name="authenticated callers", allow="call", callers="authenticated"),))
    return Policy(rules, origin="the built-in policy for authenticated callers")


def policy_for(
    settings: HostSettings, *, allow_unsigned: Iterable[str] = (), reachable: bool = False
) -> Policy:
    """The policy that the settings ask for, a built-in one where they name none.

    ``databus.allow_unsigned`` adds a rule to it; ``allow_unsigned`` are further such functions.
    ``reachable``: other machines reach the host in a way that the settings do not tell.
    """
    policy = _asked_for(settings, reachable)
    functions = (*settings.databus.allow_unsigned, *allow_unsigned)
    return _with_unsigned(policy, functions) if functions else policy


def _asked_for(settings: HostSettings, reachable: bool) -> Policy:
    written = settings.policy
    if written is not None and written.file is not None:
        return load_policy(written.file)
    if written is not None:
        return Policy(written, origin=str(settings.config_file or "the settings"))
    if settings.authenticates or reachable or not settings.on_loopback:
        return authenticated_policy()
    return open_policy()


def _with_unsigned(policy: Policy, functions: tuple[str, ...]) -> Policy:
    rule = Rule(
        name="databus.allow_unsigned",
        allow="call",
        callers="anonymous",
        faces=("databus",),
        functions=functions,
    )
    rules = PolicyRules(default=policy.written.default, rules=(*policy.written.rules, rule))
    return Policy(rules, origin=policy.origin, places=policy.places)
