"""Decisions of people in recorded chains: a chain that waited, and the one in which somebody decided for it.

Where an agent of this host waited, the step ``choice`` in both chains names the other one. Where one of
another host did, asked over HTTP here, requests of one conversation tell it (:func:`settle`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from enginehost.errors import CallCancelled, ExecutionFailed, ResultInvalid, WaitsForPerson, is_failure
from enginehost.monitoring.database import transact, write
from enginehost.monitoring.seen import Seen
from enginehost.monitoring.texts import value_of
from enginehost.steps import DECIDED_BY, DECIDES, StepKind
from enginehost.store.link import Database, Link
from enginehost.values import encode

_MOST_AT_ONCE = 500
_WAITING = (
    "SELECT c.chain, c.root_call FROM chains c"
    " JOIN chain_events e ON e.chain = c.chain AND e.call = c.root_call"
    " WHERE c.outcome = :waits AND c.chain <> :chain AND e.kind = :kind AND e.about LIKE :about"
)
_DECIDED = (
    "UPDATE chains SET outcome = :outcome, failed = CASE WHEN :failed = 1 THEN 1 ELSE failed END"
    " WHERE chain = :chain AND outcome = :waits"
)
_ENDS = ("ok", ExecutionFailed.code, ResultInvalid.code)
"""Outcomes of a decision with which the turn has ended; with others it waits on."""


@dataclass(frozen=True, slots=True)
class Linked:
    """Another chain, and the decision: ``role`` is ``decides`` where that one waited, else ``decided_by``."""

    chain: str
    role: str
    decision: str

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)


def linked_in(steps: Iterable[Seen]) -> list[Linked]:
    """The chains that a chain's steps name."""
    found: dict[Linked, None] = {}
    for step in sorted(steps, key=lambda one: one.started):
        about: Any = value_of(step.about) if step.kind == StepKind.CHOICE and step.about else None
        if isinstance(about, dict) and about.get("role") in (DECIDES, DECIDED_BY) and "chain" in about:
            found[Linked(str(about["chain"]), about["role"], str(about.get("decision", "")))] = None
    return list(found)


def linked(link: Link, chains: Sequence[str]) -> dict[str, list[Linked]]:
    """The same of several chains at once, by chain."""
    steps: dict[str, list[Seen]] = {}
    for first in range(0, len(chains), _MOST_AT_ONCE):
        params = {f"c{n}": chain for n, chain in enumerate(chains[first : first + _MOST_AT_ONCE])}
        among = ", ".join(f":{name}" for name in params)
        sql = (
            f"SELECT chain, call, about, started FROM chain_events WHERE kind = :kind AND chain IN ({among})"  # noqa: S608
        )
        for chain, call, about, started in link.all(sql, params | {"kind": str(StepKind.CHOICE)}):
            seen = Seen(chain, call, kind=StepKind.CHOICE, about=about, started=started)
            steps.setdefault(chain, []).append(seen)
    return {chain: linked_in(own) for chain, own in steps.items()}


def settle(database: Database, link: Link, seen: Iterable[Seen]) -> None:
    """Requests that carried a decision have ended: what waited in their conversation went on."""
    for request in seen:
        if request.kind == StepKind.REQUEST and request.outcome and request.about:
            about: Any = value_of(request.about)
            if isinstance(about, dict) and about.get("decision") and about.get("conversation"):
                _settle(database, link, request, str(about["decision"]), str(about["conversation"]))


def _settle(database: Database, link: Link, request: Seen, decision: str, conversation: str) -> None:
    stands = request.outcome in (*_ENDS, WaitsForPerson.code)
    if not stands and not (request.outcome == CallCancelled.code and decision == "cancel"):
        return
    wanted = {
        "waits": WaitsForPerson.code,
        "chain": request.chain,
        "kind": str(StepKind.REQUEST),
        "about": f'%"conversation":{encode(conversation).decode()}%',
    }
    waiting = [(str(chain), str(call)) for chain, call in link.all(_WAITING, wanted)]
    both = [one for chain, call in waiting for one in _links(request, decision, chain, call)]
    if not both:
        return
    write(database, link, both)
    ended = {"outcome": request.outcome, "failed": int(is_failure(request.outcome)), "waits": wanted["waits"]}
    transact(database, link, [(_DECIDED, [ended | {"chain": chain} for chain, _ in waiting])])


def _links(request: Seen, decision: str, chain: str, root: str) -> tuple[Seen, Seen]:
    """The step of a decision in both chains."""

    def step(own: str, call: str, parent: str, role: str, other: str) -> Seen:
        about = encode({"decision": decision, "role": role, "chain": other}).decode()
        when = request.ended
        return Seen(
            own, call, parent, str(StepKind.CHOICE), decision, request.host, started=when, ended=when,
            seconds=0.0, outcome="ok", start=request.start, about=about,
        )  # fmt: skip

    return (
        step(request.chain, chain[:16], request.call, DECIDES, chain),
        step(chain, request.call, root, DECIDED_BY, request.chain),
    )
