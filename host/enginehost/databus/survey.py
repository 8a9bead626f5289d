"""Who and what is on the bus, as somebody sees it who joins for a moment: plain values.

:func:`survey` looks, and judges what it saw; ``survey_findings.py`` has the judgement.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from enginehost.databus.config import DatabusConfig
from enginehost.databus.matching import Endpoint
from enginehost.databus.offer_faults import is_shortened
from enginehost.databus.offers import incarnation_of
from enginehost.databus.port import Capability
from enginehost.databus.proof import Proofs
from enginehost.databus.reach import Reach
from enginehost.databus.sight import REPLIES, REQUESTS, Clock, Offer, Program, Sight
from enginehost.databus.signing_setup import Signing, signing_of
from enginehost.databus.surroundings import PORTS_PER_DOMAIN, address_of, first_port
from enginehost.databus.transports import load_cyclone
from enginehost.databus.trust import Trust
from enginehost.databus.types import TOPICS
from enginehost.diagnostics import Diagnostic, Severity
from enginehost.errors import ConfigError, EngineUnavailable, Unauthorized

GENESIS_PREFIX = "rti/connext/genesis/"

_OWN_PARTITION = re.compile(r"eh\.[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Place:
    """Where one looks. ``ports`` are UDP, first and last; ``address`` is empty where it is not known."""

    domain: int
    interface: str
    address: str
    multicast: bool
    peers: tuple[str, ...]
    ports: tuple[int, int]
    library: str


@dataclass(frozen=True, slots=True)
class Member:
    """A participant and what it is: ``enginehost``, ``genesis`` or ``other``, and its part in calls.

    ``takes_requests``, ``writes_replies`` and ``sends_requests`` are said of the topics that hosts call each
    other by; ``requests_arrive`` and ``replies_arrive`` of endpoints there that match those of a host.
    """

    program: Program
    kind: str
    host_id: str
    incarnation: str
    services: tuple[str, ...]
    functions: int
    takes_requests: bool
    writes_replies: bool
    sends_requests: bool
    requests_arrive: bool
    replies_arrive: bool
    clock: Clock | None


@dataclass(frozen=True, slots=True)
class TopicUse:
    """A topic with its types; ``known`` where it is one of ours."""

    name: str
    types: tuple[str, ...]
    writers: int
    readers: int
    known: bool


@dataclass(frozen=True, slots=True)
class Offered:
    """A function on the bus. ``age`` in seconds; ``why_not`` says why no host, or this one, can call it."""

    offer: Offer
    age: float
    schema_shortened: bool
    callable: bool
    why_not: str


@dataclass(frozen=True, slots=True)
class Survey:
    """The bus, seen and judged; every finding says what to do."""

    place: Place
    signing: Signing
    members: tuple[Member, ...] = ()
    topics: tuple[TopicUse, ...] = ()
    capabilities: tuple[Offered, ...] = ()
    findings: tuple[Diagnostic, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong (something may be doubtful)."""
        return not any(one.severity is Severity.ERROR for one in self.findings)

    def to_json(self) -> dict[str, Any]:
        """The survey as a JSON object; times without end are ``null``."""
        return {
            "ok": self.ok,
            "place": asdict(self.place),
            "signing": asdict(self.signing),
            "participants": [_member_json(one) for one in self.members],
            "topics": [asdict(one) for one in self.topics],
            "capabilities": [_offered_json(one) for one in self.capabilities],
            "findings": [_finding_json(one) for one in self.findings],
        }


async def survey(config: DatabusConfig, seconds: float) -> Survey:
    """Join the bus, look for about ``seconds`` (longer while much arrives), and judge what was seen.

    A bus that cannot be joined is a finding; :class:`ConfigError` where the config names what there is not.
    """
    return await asyncio.to_thread(survey_now, config, seconds)


def survey_now(config: DatabusConfig, seconds: float) -> Survey:
    """As :func:`survey`, on this thread."""
    from enginehost.databus.survey_findings import finding_of_no_bus, findings_of

    signing = signing_of(config)
    try:
        sight = look(config, seconds)
    except EngineUnavailable as failure:
        place = place_of(config, "")
        return Survey(place, signing, findings=(finding_of_no_bus(config, failure),))
    return judged(config, sight, signing, findings_of(config, sight, signing))


def judged(
    config: DatabusConfig, sight: Sight, signing: Signing, findings: Iterable[Diagnostic] = ()
) -> Survey:
    """What was seen, put in order."""
    members = members_of(sight)
    reach, clocks = Reach(sight), {one.program: one for one in sight.clocks}
    refusal = _refusals_of(config)
    return Survey(
        place_of(config, sight.library),
        signing,
        members,
        topics_of(sight),
        tuple(
            _offered(offer, reach.why_not(offer) or refusal(offer.capability), clocks.get(offer.program))
            for offer in sight.offers
        ),
        tuple(findings),
    )


def look(config: DatabusConfig, seconds: float) -> Sight:
    """What is to be seen within about ``seconds``. Raises :class:`EngineUnavailable`."""
    with observer(config) as looking:
        return looking.until_quiet(seconds)


def observer(config: DatabusConfig) -> Any:
    """Joins the bus to look. Raises :class:`EngineUnavailable`, with the reason, where that is impossible."""
    return load_cyclone("survey").Observer(config)


def place_of(config: DatabusConfig, library: str) -> Place:
    """Where a host with this config would be."""
    first = first_port(config.domain)
    return Place(
        domain=config.domain,
        interface=config.interface,
        address=address_of(config),
        multicast=not config.loopback,
        peers=config.peers,
        ports=(first, first + PORTS_PER_DOMAIN - 1),
        library=library,
    )


def members_of(sight: Sight) -> tuple[Member, ...]:
    """The participants, with what is known of each, hosts first."""
    offers: dict[str, list[Offer]] = {}
    for offer in sight.offers:
        offers.setdefault(offer.program, []).append(offer)
    clocks, reach = {one.program: one for one in sight.clocks}, Reach(sight)
    made = [
        _member(program, reach, offers.get(program.key, []), clocks.get(program.key))
        for program in sight.programs
    ]
    ranks = ("enginehost", "genesis", "other")
    return tuple(sorted(made, key=lambda m: (ranks.index(m.kind), m.program.host, m.program.pid)))


def _member(program: Program, reach: Reach, offers: list[Offer], clock: Clock | None) -> Member:
    ends = reach.endpoints(program.key)
    claimed = {text for one in offers if (text := incarnation_of(one.capability))}
    incarnation = next((text for text in sorted(claimed) if reach.reads_as(program.key, text)), "")
    return Member(
        program,
        _kind(program, ends, is_host=bool(incarnation) or (not claimed and _has_partition(ends))),
        host_id=next((one.capability.provider_id for one in offers if one.capability.provider_id), ""),
        incarnation=incarnation,
        services=tuple(sorted({one.capability.service_name for one in offers} - {""})),
        functions=len(offers),
        takes_requests=any(not end.writes and end.topic == REQUESTS for end in ends),
        writes_replies=any(end.writes and end.topic == REPLIES for end in ends),
        sends_requests=any(end.writes and end.topic == REQUESTS for end in ends),
        requests_arrive=reach.requests_arrive(program.key),
        replies_arrive=reach.replies_arrive(program.key),
        clock=clock,
    )


def _has_partition(ends: list[Endpoint]) -> bool:
    """Whether it reads in a partition such as hosts and clients have: whoever calls a host writes in its."""
    return any(_OWN_PARTITION.fullmatch(n) for end in ends if not end.writes for n in end.policies.partitions)


def _kind(program: Program, ends: list[Endpoint], *, is_host: bool) -> str:
    """Anybody can copy a host's capability; a host reads requests in the partition that its own names."""
    if is_host:
        return "enginehost"
    if any(_is_genesis(end) for end in ends) or "Content Filtered Topic STRINGMATCH" in program.name:
        return "genesis"
    return "other"


def _is_genesis(end: Endpoint) -> bool:
    """Topics that a program has which is a Genesis application, and none which only knows a type or two."""
    return end.topic.startswith(GENESIS_PREFIX) or end.type in (
        "genesis_agent_registration_announce",
        "AgentCapability",
        "FunctionRequest",
        "FunctionReply",
        "InterfaceAgentRequest",
        "InterfaceAgentReply",
    )


def topics_of(sight: Sight) -> tuple[TopicUse, ...]:
    """The topics of others, by name."""
    writers = Counter(end.topic for end in sight.endpoints if end.writes)
    readers = Counter(end.topic for end in sight.endpoints if not end.writes)
    types: dict[str, set[str]] = {}
    for end in sight.endpoints:
        types.setdefault(end.topic, set()).add(end.type)
    return tuple(
        TopicUse(name, tuple(sorted(types[name])), writers[name], readers[name], is_known(name, types[name]))
        for name in sorted(types)
    )


def is_known(topic: str, types: Iterable[str]) -> bool:
    """Whether the topic is one of ours: by name or, where names are made (``<service>Request``), by type."""
    names = (topic, topic.removeprefix(GENESIS_PREFIX).removeprefix("monitoring/"))
    if any(name in TOPICS for name in names):
        return True
    return any(
        known.struct.name in types and pattern.fullmatch(name) for known, pattern in _MADE for name in names
    )


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(".+".join(map(re.escape, re.split("<[^>]*>", name))))


_MADE = tuple((topic, _pattern(name)) for name, topic in TOPICS.items() if "<" in name)


def _refusals_of(config: DatabusConfig) -> Callable[[Capability], str]:
    """Why a host with these settings lets a capability not in, as it judges signatures itself."""
    try:
        trust = Trust(config.trust_path)
    except ConfigError:  # that is a finding of its own; such a host does not start
        return lambda _: ""
    proofs = Proofs(str, trust, None, accepts_any=config.accepts_any)

    def refusal(capability: Capability) -> str:
        try:
            proofs.capability(capability)
        except Unauthorized as reason:
            only = "" if config.accepts_any else " (it accepts only what a trusted key signed)"
            return f"this host does not let it in{only}: {reason.message}"
        return ""

    return refusal


def _offered(offer: Offer, why_not: str, clock: Clock | None) -> Offered:
    age = offer.arrived + (clock.ahead if clock else 0.0) - offer.written
    return Offered(offer, max(0.0, age), is_shortened(offer.capability), not why_not, why_not)


def _member_json(member: Member) -> dict[str, Any]:
    program = asdict(member.program)
    found = (
        asdict(member) | program | {"lease": _finite(member.program.lease), "vendor": member.program.vendor}
    )
    del found["program"]
    clock = member.clock
    return found | {"clock": {"ahead": round(clock.ahead, 3) + 0.0, "exact": clock.exact} if clock else None}


def _offered_json(offered: Offered) -> dict[str, Any]:
    offer, capability = offered.offer, offered.offer.capability
    return {
        "service": capability.service_name,
        "name": capability.name,
        "function_id": capability.function_id,
        "provider_id": capability.provider_id,
        "participant": offer.program,
        "last_seen": capability.last_seen,
        "age": round(offered.age, 3),
        "lost": offer.lost,
        "schema_shortened": offered.schema_shortened,
        "callable": offered.callable,
        "why_not": offered.why_not,
    }


def _finding_json(found: Diagnostic) -> dict[str, str]:
    severity, code = str(found.severity), found.code
    return {"severity": severity, "code": code, "message": found.message, "hint": found.hint}


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
