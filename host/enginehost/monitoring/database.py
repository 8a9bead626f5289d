"""Chains in the database of sessions: written in batches, read one by one."""

# ruff: noqa: S608 - the names in statements are our own

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from typing import Any

from enginehost.errors import OutcomeUnknown, WaitsForPerson
from enginehost.monitoring.seen import Seen, merged
from enginehost.steps import StepKind
from enginehost.store.link import Database, Link

DAY = 86_400.0
WAITS = "waits"
"""The status of a chain whose first step waits for a person."""
_COLUMNS = tuple(one.name for one in fields(Seen))
_FLOATS = ("started", "ended", "seconds")
_TEXTS = tuple(name for name in _COLUMNS[2:] if name not in (*_FLOATS, "outcome"))


def _greater(name: str) -> str:
    return f"{name} = CASE WHEN excluded.{name} > e.{name} THEN excluded.{name} ELSE e.{name} END"


_STEP = (
    "INSERT INTO chain_events AS e ("
    + ", ".join(_COLUMNS)
    + ") VALUES (:"
    + ", :".join(_COLUMNS)
    + ") ON CONFLICT (chain, call) DO UPDATE SET "
    + ", ".join(map(_greater, (*_TEXTS, "ended", "seconds")))
    + ", outcome = CASE WHEN e.outcome IN ('', 'ok') AND excluded.outcome <> '' THEN excluded.outcome"
    " ELSE e.outcome END"
    ", started = CASE WHEN e.started = 0 OR (excluded.started > 0 AND excluded.started < e.started)"
    " THEN excluded.started ELSE e.started END"
)
_IS_ROOT = (
    "(excluded.rooted > c.rooted OR (excluded.rooted = c.rooted AND excluded.root_call = c.root_call)"
    " OR (excluded.rooted = c.rooted AND excluded.started < c.started))"
)
_CHAIN = (
    "INSERT INTO chains AS c (chain, root, root_call, rooted, outcome, failed, started, modified)"
    " VALUES (:chain, :root, :root_call, :rooted, :outcome, :failed, :started, :modified)"
    " ON CONFLICT (chain) DO UPDATE SET outcome = CASE WHEN "
    + _IS_ROOT
    + " AND excluded.outcome <> '' THEN excluded.outcome ELSE c.outcome END, "
    + ", ".join(
        f"{name} = CASE WHEN {_IS_ROOT} AND excluded.root <> '' THEN excluded.{name} ELSE c.{name} END"
        for name in ("root", "root_call", "rooted")
    )
    + ", failed = CASE WHEN excluded.failed > c.failed THEN excluded.failed ELSE c.failed END"
    ", started = CASE WHEN excluded.started < c.started THEN excluded.started ELSE c.started END"
    ", modified = CASE WHEN excluded.modified > c.modified THEN excluded.modified ELSE c.modified END"
)
_WENT_ON = (
    "UPDATE chains SET outcome = :outcome WHERE chain = :chain AND outcome = :waits"
    " AND (root_call = :parent OR root = :name)"
)
"""A turn that waited for a person was taken up again: what became of it is what became of the chain."""
_BEGINS = {False: "BEGIN IMMEDIATE", True: "BEGIN"}


@dataclass(frozen=True, slots=True)
class Recorded:
    """A chain in the list; ``outcome`` is that of its first step, empty where its end was not seen."""

    chain: str
    root: str
    root_call: str
    outcome: str
    failed: bool
    started: float
    modified: float

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self) | {"status": self.status}

    @property
    def status(self) -> str:
        """``running``, ``waits`` (for a person), ``ok`` or the code of an error."""
        return WAITS if self.outcome == WaitsForPerson.code else self.outcome or "running"


def write(database: Database, link: Link, seen: Iterable[Seen]) -> None:
    """Add what was seen, in one transaction. Raises what the driver raises; then nothing is written."""
    steps: dict[tuple[str, str], Seen] = {}
    for one in seen:
        key = one.chain, one.call
        steps[key] = merged(steps[key], one) if key in steps else one
    rows = sorted(steps.items())  # one order for all who write: no deadlock
    now = time.time()
    heads = [_head(chain, own, now) for chain, own in _by_chain([one for _, one in rows])]
    went_on = [_went_on(one) for _, one in rows if one.kind == StepKind.TURN and one.outcome]
    transact(database, link, [(_CHAIN, heads), (_STEP, [_row(one) for _, one in rows]), (_WENT_ON, went_on)])


def close_lost(database: Database, link: Link, host: str, start: str) -> None:
    """Steps of earlier starts of a host whose end was never seen: nobody will tell it any more."""
    lost = {"host": host, "start": start, "lost": OutcomeUnknown.code}
    ended = "UPDATE chain_events SET outcome = :lost WHERE host = :host AND start <> :start AND outcome = ''"
    chains = (
        "UPDATE chains SET outcome = :lost, failed = 1 WHERE outcome = ''"
        " AND EXISTS (SELECT 1 FROM chain_events e"
        " WHERE e.chain = chains.chain AND e.call = chains.root_call AND e.outcome = :lost)"
    )
    transact(database, link, [(ended, [lost]), (chains, [{"lost": lost["lost"]}])])


def retire(database: Database, link: Link, before: float) -> None:
    """Forget chains whose last step is older than a time."""
    params = [{"before": before}]
    old = "DELETE FROM chain_events WHERE chain IN (SELECT chain FROM chains WHERE modified < :before)"
    transact(database, link, [(old, params), ("DELETE FROM chains WHERE modified < :before", params)])


def latest(
    link: Link, *, most: int, failed: bool = False, root: str = "", after: float = 0.0
) -> list[Recorded]:
    """The latest chains, the last first: with a step that ``failed``, of a ``root``, begun ``after``."""
    rules = {"failed = 1": failed, "started >= :after": True, "root = :root": bool(root)}
    where = " AND ".join(rule for rule, holds in rules.items() if holds)
    sql = f"SELECT {_HEADS} FROM chains WHERE {where} ORDER BY started DESC, chain LIMIT :most"
    return [_recorded(row) for row in link.all(sql, {"most": most, "root": root, "after": after})]


def beginning_with(link: Link, text: str) -> list[str]:
    """The ids of the chains (two at most) that begin so."""
    sql = "SELECT chain FROM chains WHERE chain >= :first AND chain < :last ORDER BY chain LIMIT 2"
    return [str(row[0]) for row in link.all(sql, {"first": text, "last": f"{text}g"})]


def head_of(link: Link, chain: str) -> Recorded | None:
    """A chain in the list."""
    row = link.one(f"SELECT {_HEADS} FROM chains WHERE chain = :chain", {"chain": chain})
    return _recorded(row) if row else None


def steps_of(link: Link, chain: str) -> dict[str, Seen]:
    """The steps of a chain by call id."""
    sql = f"SELECT {', '.join(_COLUMNS)} FROM chain_events WHERE chain = :chain"
    found = [Seen(*row) for row in link.all(sql, {"chain": chain})]
    return {one.call: one for one in found}


_HEADS = "chain, root, root_call, outcome, failed, started, modified"


def transact(database: Database, link: Link, work: Sequence[tuple[str, Sequence[Any]]]) -> None:
    """Run statements, each with several rows of parameters, in one transaction."""
    link.run(_BEGINS[not database.polls])
    try:
        for sql, rows in work:
            if rows:
                link.many(sql, rows)
        link.run("COMMIT")
    except BaseException:
        with suppress(Exception):
            link.run("ROLLBACK")
        raise


def _row(one: Seen) -> dict[str, Any]:
    return {name: _storable(getattr(one, name)) for name in _COLUMNS}


def _went_on(turn: Seen) -> dict[str, Any]:
    own = {"chain": turn.chain, "outcome": turn.outcome, "parent": turn.parent, "name": _storable(turn.name)}
    return own | {"waits": WaitsForPerson.code}


def _storable(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return value.replace("\0", "\ufffd").encode(errors="replace").decode()


def _by_chain(steps: list[Seen]) -> list[tuple[str, list[Seen]]]:
    found: dict[str, list[Seen]] = {}
    for one in steps:
        found.setdefault(one.chain, []).append(one)
    return list(found.items())


def _head(chain: str, steps: list[Seen], now: float) -> dict[str, Any]:
    root = min(steps, key=lambda one: (bool(one.parent), one.started or one.ended or now))
    begun = [one.started or one.ended for one in steps if one.started or one.ended]
    return {
        "chain": chain,
        "root": _storable(root.name or root.function_id or root.kind),
        "root_call": root.call,
        "rooted": int(not root.parent and bool(root.started)),
        "outcome": root.outcome,
        "failed": int(any(one.failed for one in steps)),
        "started": min(begun, default=now),
        "modified": max(one.ended or one.started for one in steps) or now,
    }


def _recorded(row: Sequence[Any]) -> Recorded:
    chain, root, call, outcome, failed, started, modified = row
    return Recorded(chain, root, call, outcome, bool(failed), started, modified)


def last_good(link: Link, head: Recorded) -> str:
    """The latest chain before this one that began with the same step and worked; empty: there is none."""
    sql = (
        "SELECT chain FROM chains WHERE root = :root AND outcome = 'ok' AND failed = 0 AND started < :started"
        " AND chain <> :chain ORDER BY started DESC LIMIT 1"
    )
    row = link.one(sql, {"root": head.root, "started": head.started, "chain": head.chain})
    return str(row[0]) if row else ""
