"""Which writers and readers find each other: DDS's rules of quality of service, in words.

The rules are those of OMG DDS 1.4 (2.2.3, *requested/offered*) and DDS-XTypes 1.3 (7.6.3, types and data
representation). Times are in seconds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import zip_longest

DURABILITIES = ("volatile", "transient local", "transient", "persistent")
LIVELINESS_KINDS = ("automatic", "manual by participant", "manual by topic")
ACCESS_SCOPES = ("instance", "topic", "group")

POLICY_WORDS = {
    2: "durability",
    3: "presentation",
    4: "deadline",
    5: "latency budget",
    6: "ownership",
    8: "liveliness",
    10: "partition",
    11: "reliability",
    12: "destination order",
    24: "type consistency",
    25: "data representation",
}
"""What the policy ids in the statuses of a DDS library mean."""


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies of an endpoint that decide whom it matches; the defaults are those of a reader."""

    reliable: bool = False
    durability: str = DURABILITIES[0]
    deadline: float = math.inf
    latency_budget: float = 0.0
    liveliness: str = LIVELINESS_KINDS[0]
    lease: float = math.inf
    exclusive: bool = False
    by_source_time: bool = False
    access: str = ACCESS_SCOPES[0]
    coherent: bool = False
    ordered: bool = False
    partitions: tuple[str, ...] = ("",)
    representations: tuple[str, ...] = ("XCDR1",)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A writer or a reader of somebody.

    ``definition`` tells types apart that have one name; ``members`` are those of the type (name, kind), where
    they could be had; ``extensibility`` is ``final``, ``appendable`` or ``mutable``.
    """

    key: str
    program: str
    topic: str
    type: str
    writes: bool
    keyed: bool
    policies: Policies
    definition: str = ""
    members: tuple[tuple[str, str], ...] = ()
    extensibility: str = ""

    @property
    def alike(self) -> tuple[object, ...]:
        """Equal for endpoints of one topic that match the same others."""
        return (self.type, self.keyed, self.policies, self.definition, self.members)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why a writer and a reader of one topic never match; ``hint`` says what to do."""

    policy: str
    asked: str
    offered: str
    hint: str

    def __str__(self) -> str:
        return f"the reader asks for {self.asked}, the writer offers {self.offered}"


def mismatches(writer: Endpoint, reader: Endpoint) -> tuple[Mismatch, ...]:
    """Everything that keeps the two apart; empty where they match."""
    found = [*_of_types(writer, reader), *_of_policies(writer.policies, reader.policies)]
    return tuple(found)


def seconds(time: float) -> str:
    """A time as one says it."""
    return "infinite" if math.isinf(time) else f"{time:,.6g} s"


def partitions_meet(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether two endpoints share a partition; a name with wildcards (POSIX ``fnmatch``) stands for many."""
    return any(_same_partition(a, b) for a in one or ("",) for b in other or ("",))


def _same_partition(one: str, other: str) -> bool:
    wild_one, wild_other = _is_wild(one), _is_wild(other)
    if wild_one and wild_other:
        return False  # DDS 1.4, 2.2.3.13: two patterns never match each other
    if wild_one or wild_other:
        return fnmatchcase(other, one) if wild_one else fnmatchcase(one, other)
    return one == other


def _is_wild(name: str) -> bool:
    return "*" in name or "?" in name or "[" in name


def _of_types(writer: Endpoint, reader: Endpoint) -> Iterator[Mismatch]:
    if writer.keyed != reader.keyed:
        words = {True: "a type with a key", False: "a type without key"}
        hint = "mark the same members with @key on both sides"
        yield Mismatch("type", words[reader.keyed], words[writer.keyed], hint)
        return  # their members differ in that at least: it would be told twice
    if writer.definition and writer.definition == reader.definition:
        return
    if writer.members and reader.members:
        yield from _of_members(writer, reader)
    elif writer.type != reader.type:
        hint = "register the type under one name (`enginehost databus idl` prints ours)"
        yield Mismatch("type name", f"type {_named(reader.type)}", f"type {_named(writer.type)}", hint)


def _of_members(writer: Endpoint, reader: Endpoint) -> Iterator[Mismatch]:
    hint = "declare the type alike on both sides (`enginehost databus idl` prints ours)"
    if writer.extensibility != reader.extensibility:
        asked, offered = f"an @{reader.extensibility} type", f"an @{writer.extensibility} one"
        yield Mismatch("type", asked, offered, hint)
        return
    for number, (asked, offered) in enumerate(zip_longest(reader.members, writer.members), 1):
        if asked is not None and offered is not None and _goes_into(offered, asked):
            continue
        if (asked and offered) or writer.extensibility != "appendable":
            yield Mismatch("type", f"{_member(asked)} as member {number}", _member(offered), hint)
        return


_KEY_TEXT = re.compile("@key string(?:<([0-9]+)>)?")


def _goes_into(offered: tuple[str, str], asked: tuple[str, str]) -> bool:
    """Whether a reader's member takes a writer's.

    Of texts only those in keys have bounds that count: the reader's must be as large (DDS-XTypes 1.3,
    7.2.4.4.8).
    """
    if offered == asked:
        return True
    bounds = [_KEY_TEXT.fullmatch(kind) for _, kind in (offered, asked)]
    if offered[0] != asked[0] or bounds[0] is None or bounds[1] is None:
        return False
    most_offered, most_asked = (float(bound[1] or "inf") for bound in bounds if bound)
    return most_offered <= most_asked


def _member(member: tuple[str, str] | None) -> str:
    return f"{member[1]} {_named(member[0])}" if member else "none"


def _named(name: str) -> str:
    return repr(name if len(name) <= 80 else f"{name[:79]}…")


def _of_policies(offered: Policies, asked: Policies) -> Iterator[Mismatch]:
    yield from _of_delivery(offered, asked)
    yield from _of_time(offered, asked)
    yield from _of_order(offered, asked)
    if offered.representations[0] not in asked.representations:
        yield Mismatch(
            "data representation",
            " or ".join(asked.representations),
            offered.representations[0],
            "let writers write XCDR1, which all stacks read, and readers take both",
        )
    if not partitions_meet(offered.partitions, asked.partitions):
        yield Mismatch(
            "partition",
            _partitions(asked.partitions),
            _partitions(offered.partitions),
            "put both into one partition, or name none",
        )


def _of_delivery(offered: Policies, asked: Policies) -> Iterator[Mismatch]:
    if asked.reliable and not offered.reliable:
        hint = "make the writer reliable, or the reader best-effort"
        yield Mismatch("reliability", "reliable delivery", "best effort", hint)
    if DURABILITIES.index(asked.durability) > DURABILITIES.index(offered.durability):
        hint = f"make the writer {asked.durability}, or the reader {offered.durability}"
        yield Mismatch("durability", f"durability {asked.durability}", offered.durability, hint)
    if asked.exclusive != offered.exclusive:
        words = {True: "exclusive", False: "shared"}
        hint = "give both the same ownership"
        yield Mismatch("ownership", f"{words[asked.exclusive]} ownership", words[offered.exclusive], hint)


def _of_time(offered: Policies, asked: Policies) -> Iterator[Mismatch]:
    if offered.deadline > asked.deadline:
        hint = f"give the writer a deadline of {seconds(asked.deadline)} or less, or the reader none"
        yield Mismatch(
            "deadline", f"a deadline of {seconds(asked.deadline)}", seconds(offered.deadline), hint
        )
    if offered.latency_budget > asked.latency_budget:
        asks, offers = seconds(asked.latency_budget), seconds(offered.latency_budget)
        hint = f"give the writer a latency budget of {asks} or less"
        yield Mismatch("latency budget", f"a latency budget of {asks}", offers, hint)
    kinds = LIVELINESS_KINDS
    if offered.lease > asked.lease or kinds.index(offered.liveliness) < kinds.index(asked.liveliness):
        hint = f"give the writer {asked.liveliness} liveliness with a lease of {seconds(asked.lease)} or less"
        yield Mismatch(
            "liveliness",
            f"{asked.liveliness} liveliness with a lease of {seconds(asked.lease)}",
            f"{offered.liveliness}, {seconds(offered.lease)}",
            hint,
        )


def _of_order(offered: Policies, asked: Policies) -> Iterator[Mismatch]:
    if asked.by_source_time and not offered.by_source_time:
        hint = "let the writer order by source time, or the reader by reception"
        yield Mismatch("destination order", "order by source time", "order by reception", hint)
    if (
        ACCESS_SCOPES.index(asked.access) > ACCESS_SCOPES.index(offered.access)
        or (asked.coherent and not offered.coherent)
        or (asked.ordered and not offered.ordered)
    ):
        hint = "give writer and reader the same presentation"
        yield Mismatch("presentation", _access(asked), _access(offered), hint)


def _access(policies: Policies) -> str:
    words = [f"{policies.access} access"]
    words += ["coherent"] * policies.coherent + ["ordered"] * policies.ordered
    return ", ".join(words)


def _partitions(names: tuple[str, ...]) -> str:
    return "partition " + " or ".join(_named(name) if name else "'' (the default)" for name in names or ("",))
