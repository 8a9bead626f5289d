"""What a tool needs to know of its function when it is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from enginehost.engine import Approval, Function
from enginehost.errors import EngineHostError

NEEDS_APPROVAL = "a person has to approve this call, and nobody can be asked here"


class Offer(NamedTuple):
    """A tool as a model sees it; ``schema`` is that of the arguments."""

    name: str
    description: str
    schema: dict[str, Any]


class Facts(NamedTuple):
    """Of one function: whether a person decides on each call, and whether it streams."""

    needs_person: bool
    streaming: bool


def offer_of(tool: Mapping[str, Any]) -> Offer:
    """The tool in a spec of kind ``openai``."""
    function = tool["function"]
    return Offer(function["name"], function.get("description", ""), function["parameters"])


def facts_of(function: Function) -> Facts:
    """The facts of a function in this process."""
    hints = function.signature.annotations
    needs = asks_person(str(function.approval), destructive=hints.destructive, read_only=hints.read_only)
    return Facts(needs, function.signature.streaming)


def facts_in(description: Mapping[str, Any]) -> Facts:
    """The facts in what a host says of a function."""
    hints: Mapping[str, Any] = description.get("annotations") or {}
    asks = str(description.get("approval", ""))
    needs = asks_person(asks, destructive=hints.get("destructive"), read_only=hints.get("readOnly"))
    return Facts(needs, description.get("streaming") is True)


def asks_person(approval: str, *, destructive: bool | None, read_only: bool | None) -> bool:
    """Whether a person decides, as for a host's own agents: ``APPROVAL``, or a call that says it destroys."""
    if approval == Approval.ALWAYS or destructive is True:
        return True
    return approval == Approval.DESTRUCTIVE and destructive is not False and read_only is not True


def explained(error: EngineHostError) -> str:
    """An error as a model reads it."""
    hint = error.detail.get("hint")
    return f"{error.code}: {error.message}" + (f" ({hint})" if hint else "")
