"""Calls of a recorded chain that are made once more, and what is different today."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from enginehost.errors import EngineHostError, UnknownFunction
from enginehost.monitoring.seen import Node, Seen, tree_of
from enginehost.monitoring.texts import is_whole, value_of
from enginehost.steps import StepKind


class Functions(Protocol):
    """Today's functions."""

    async def describe(self, name: str) -> dict[str, Any]:
        """All that there is to know of one."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any], timeout: float | None) -> bytes:
        """Its result as JSON."""
        ...


@dataclass(frozen=True, slots=True)
class Again:
    """``verdict``: ``same``, ``differs``, ``fails``, ``works`` (it failed then), ``skipped``, ``gone``."""

    call: str
    name: str
    verdict: str
    reason: str = ""
    then: Any = None
    now: Any = None

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        known = {"call": self.call, "name": self.name, "verdict": self.verdict, "reason": self.reason}
        return known | {"then": self.then, "now": self.now}


async def again(seen: Seen, functions: Functions, timeout: float | None) -> Again:
    """Make one call once more, if its function only reads and what it was given is whole."""

    def said(verdict: str, reason: str = "", now: Any = None) -> Again:
        return Again(seen.call, seen.name, verdict, reason, value_of(seen.gave) if seen.gave else None, now)

    if not seen.given:
        return said("skipped", "what it was given was not recorded (record_chains: values)")
    arguments = value_of(seen.given)
    if not is_whole(seen.given) or not isinstance(arguments, dict):
        return said("skipped", "what it was given was too long to be recorded whole")
    if "***" in seen.given:
        return said("skipped", "a secret was taken out of what it was given")
    try:
        about = await functions.describe(seen.name)
        if about.get("annotations", {}).get("readOnly") is not True:
            return said("skipped", "the function does not say that it only reads (readOnly)")
        now = orjson.loads(await functions.call(seen.name, arguments, timeout))
    except UnknownFunction as error:
        return said("gone", error.message)
    except EngineHostError as error:
        same = seen.outcome == error.code
        return said("same" if same else "fails", f"{error.code}: {error.message}")
    if seen.failed:
        return said("works", f"it ended with {seen.outcome} then", now)
    if seen.gave and not is_whole(seen.gave):
        return said("skipped", "what it gave was too long to be recorded whole", now)
    return said("same" if not seen.gave or value_of(seen.gave) == now else "differs", "", now)


def calls_of(steps: Mapping[str, Seen]) -> Iterator[Seen]:
    """The calls of a chain that have a name, in the order in which they began.

    Of a call that another host ran for this one, only that host's own.
    """
    waiting: list[Node] = list(reversed(tree_of(steps)))
    while waiting:
        node = waiting.pop()
        waiting += reversed(node.below)
        seen = node.seen
        passed_on = any(below.seen.kind == seen.kind and below.seen.host != seen.host for below in node.below)
        if seen.kind == StepKind.CALL and seen.name and not (passed_on and not seen.given):
            yield seen
