"""What is wrong on the bus, and what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product

from enginehost.contributions import OWN_TRANSPORT
from enginehost.databus.config import DatabusConfig
from enginehost.databus.matching import POLICY_WORDS, Endpoint, Mismatch, mismatches, partitions_meet
from enginehost.databus.offer_faults import shown
from enginehost.databus.peers import LOST_HINT
from enginehost.databus.peers import told as told_of_peers
from enginehost.databus.sight import REQUESTS, Sight
from enginehost.databus.signing_setup import Signing
from enginehost.databus.surroundings import (
    MOST_PARTICIPANTS,
    PORTS_PER_DOMAIN,
    first_port,
    in_container,
    is_full,
)
from enginehost.databus.survey import Member, is_known, members_of
from enginehost.databus.survey_functions import findings_of_functions
from enginehost.databus.survey_verdicts import doubtful, few, wrong
from enginehost.databus.trust import MISSING_TRUST_HINT, missing_trust
from enginehost.diagnostics import Diagnostic, Severity
from enginehost.errors import EngineUnavailable

SKEW_SECONDS = 60.0

_OWN_PREFIX = "eh."
_ALL_HOSTS = "eh.*"
"""Where whoever looks at the bus has a writer of requests, and sends none."""
_TYPES = {"type", "type name"}
_TYPE_POLICY = POLICY_WORDS[24]
"""What a DDS library calls it when types are apart."""


def findings_of(config: DatabusConfig, sight: Sight, signing: Signing) -> list[Diagnostic]:
    """Everything wrong or doubtful in what was seen, errors first."""
    members = members_of(sight)
    found = [
        *_alone(config, sight),
        *_other_transport(config),
        *_missing(config, sight),
        *(
            wrong("keys", problem, "`enginehost databus keygen`, `enginehost databus trust`")
            for problem in signing.problems
        ),
        *few(_apart(sight)),
        *_unexplained(sight),
        *few(_unread(sight)),
        *findings_of_functions(config, sight, members),
        *few(_skewed(members)),
        *_silent(sight),
        *_crowded(config, sight),
    ]
    return sorted(found, key=lambda one: one.severity is not Severity.ERROR)


def finding_of_no_bus(config: DatabusConfig, failure: EngineUnavailable) -> Diagnostic:
    """Why the bus could not be joined."""
    if failure.detail.get("reason") == "no-dds-library":
        return wrong("no-dds-library", failure.message, "pip install cyclonedds")
    if is_full(config.domain, MOST_PARTICIPANTS + 1):
        return wrong(
            "domain-full",
            f"domain {config.domain} is full: {MOST_PARTICIPANTS} processes of this machine are on it",
            "stop some of them, or use another domain (--domain)",
        )
    return wrong("not-joined", failure.message, "`ip address` shows the interfaces that are up")


def _alone(config: DatabusConfig, sight: Sight) -> Iterator[Diagnostic]:
    if sight.programs:
        return
    first = first_port(config.domain)
    reasons = ["no host runs", "peers are on another domain (--domain)"]
    if config.loopback:
        reasons.append(
            "peers are on a real interface, or on another machine: this is loopback (--bus-interface NAME)"
        )
    else:
        reasons.append("peers are on another interface or on loopback (--bus-interface)")
        reasons.append("multicast does not get through (then name the peers' addresses in databus.peers)")
        reasons.append(f"a firewall drops UDP ports {first} to {first + PORTS_PER_DOMAIN - 1}")
    if in_container():
        reasons.append("this is a container, whose network is its own")
    message = f"nobody else is on domain {config.domain} on interface {config.interface}"
    yield doubtful("nobody", message, "; or ".join(reasons))


def _other_transport(config: DatabusConfig) -> Iterator[Diagnostic]:
    if config.transport != OWN_TRANSPORT:
        message = f"the host goes on the bus by the transport {config.transport}; this looked by Cyclone DDS"
        yield doubtful("other-transport", message, "what is said of this host's own endpoints may differ")


def _missing(config: DatabusConfig, sight: Sight) -> Iterator[Diagnostic]:
    """What the settings name and is not there."""
    if sight.lost_peers:
        yield doubtful("lost-peers", told_of_peers(sight.lost_peers), LOST_HINT)
    if message := missing_trust(config):
        yield doubtful("keys", message, MISSING_TRUST_HINT)


def _apart(sight: Sight) -> Iterator[Diagnostic]:
    """Writers and readers of one topic that never match, told once for all that differ in the same."""
    groups: dict[tuple[str, bool], dict[tuple[object, ...], list[Endpoint]]] = {}
    for end in (*sight.endpoints, *sight.own):
        groups.setdefault((end.topic, end.writes), {}).setdefault(end.alike, []).append(end)
    pairs: dict[tuple[str, tuple[Mismatch, ...]], tuple[list[Endpoint], list[Endpoint]]] = {}
    for (topic, writes), writers in groups.items():
        readers = groups.get((topic, False), {}) if writes else {}
        for some, others in product(writers.values(), readers.values()):
            if len({end.program for end in (*some, *others)}) == 1:
                continue  # a program's own business
            found = mismatches(some[0], others[0])
            found = tuple(one for one in found if not _is_meant(one, some[0], others[0]))
            if found:
                told = pairs.setdefault((topic, found), ([], []))
                told[0].extend(some)
                told[1].extend(others)
    names = {program.key: str(program) for program in sight.programs}
    types = {topic: {end.type for end in sight.endpoints if end.topic == topic} for topic, _ in groups}
    for (topic, found), (writers, readers) in pairs.items():
        yield _mismatch(topic, found, writers, readers, names, known=is_known(topic, types[topic]))


def _is_meant(found: Mismatch, writer: Endpoint, reader: Endpoint) -> bool:
    """Hosts have partitions of their own: that two of them differ is as it should be."""
    if found.policy != "partition":
        return False
    return any(
        all(name.startswith(_OWN_PREFIX) for name in end.policies.partitions if name)
        and any(end.policies.partitions)
        for end in (writer, reader)
    )


def _mismatch(
    topic: str,
    found: tuple[Mismatch, ...],
    writers: list[Endpoint],
    readers: list[Endpoint],
    names: dict[str, str],
    *,
    known: bool,
) -> Diagnostic:
    policies = " and ".join(dict.fromkeys(one.policy for one in found))
    asked = ", ".join(one.asked for one in found)
    offered = ", ".join(one.offered for one in found)
    message = (
        f"{shown(topic)} ({policies}): the reader of {_whose(readers, names)} asks for {asked}; "
        f"the writer of {_whose(writers, names)} offers {offered}: they never match"
    )
    kinds = {one.policy for one in found}
    code = "type-mismatch" if kinds & _TYPES else "qos-mismatch"
    make = wrong if known and kinds != {"partition"} else doubtful
    return make(code, message, "; ".join(dict.fromkeys(one.hint for one in found)))


def _whose(ends: list[Endpoint], names: dict[str, str]) -> str:
    """The programs, the first by name; *a host* where only we, who look as one, are among them."""
    programs = list(dict.fromkeys(names[end.program] for end in ends if end.program in names))
    more = f" and {len(programs) - 1} more" if len(programs) > 1 else ""
    return f"{programs[0]}{more}" if programs else "a host"


def _unexplained(sight: Sight) -> Iterator[Diagnostic]:
    """What the library says of our own endpoints that nothing announced explains."""
    names = {program.key: str(program) for program in sight.programs}
    for end in sight.endpoints:
        if end.key in sight.unmatched and not _is_told(end, sight):
            kind = "writer" if end.writes else "reader"
            yield wrong(
                "type-mismatch",
                f"{shown(end.topic)} (type): the {kind} of {names.get(end.program, 'a program')} does not "
                f"match a host's: its type {shown(end.type)} is defined otherwise",
                "declare the type as `enginehost databus idl` prints it",
            )
    told = {(end.topic, _TYPE_POLICY) for end in sight.endpoints if end.key in sight.unmatched} | {
        (own.topic, _TYPE_POLICY if one.policy in _TYPES else one.policy)
        for own in sight.own
        for end in sight.endpoints
        if end.topic == own.topic and end.writes != own.writes
        for one in mismatches(*((end, own) if end.writes else (own, end)))
    }
    for topic, policy, count in sight.incompatible:
        word = POLICY_WORDS.get(policy, f"policy {policy}")
        if count and (topic, word) not in told:
            many = "one endpoint of another does" if count == 1 else f"{count} endpoints of others do"
            message = f"{topic} ({word}): {many} not match a host's"
            yield wrong("qos-mismatch", message, f"compare the {word} on both sides")


def _is_told(end: Endpoint, sight: Sight) -> bool:
    """Whether it is told already that its type is apart from somebody else's."""
    return any(
        one.policy in _TYPES
        for other in sight.endpoints
        if other.topic == end.topic and other.writes != end.writes and other.program != end.program
        for one in mismatches(*((end, other) if end.writes else (other, end)))
    )


def _unread(sight: Sight) -> Iterator[Diagnostic]:
    """Writers of requests where nobody reads, unless that is told of the pair of them."""
    names = {program.key: str(program) for program in sight.programs}
    ends = [end for end in sight.endpoints if end.topic == REQUESTS]
    readers = [end for end in ends if not end.writes]
    told: set[tuple[str, tuple[str, ...]]] = set()
    for writer in ends:
        names_of = writer.policies.partitions
        if not writer.writes or _ALL_HOSTS in names_of or (writer.program, names_of) in told:
            continue
        told.add((writer.program, names_of))
        if all(_is_out_of_sight(writer, reader) for reader in readers):
            where = " and ".join(shown(name) if name else "'' (the default)" for name in names_of)
            who = names.get(writer.program, "a program that left")
            message = f"{who} writes {REQUESTS} in the partition {where}, where nobody reads"
            hint = "hosts read in the default partition and in their own: write there, or start the provider"
            yield doubtful("unread-requests", message, hint)


def _is_out_of_sight(writer: Endpoint, reader: Endpoint) -> bool:
    found = mismatches(writer, reader)
    apart = not partitions_meet(writer.policies.partitions, reader.policies.partitions)
    return apart and all(_is_meant(one, writer, reader) for one in found if one.policy == "partition")


def _skewed(members: Iterable[Member]) -> Iterator[Diagnostic]:
    for member in members:
        clock = member.clock
        if clock and abs(clock.ahead) > SKEW_SECONDS and (clock.exact or clock.ahead > 0):
            message = f"the clock of {member.program} is {skew_words(clock.ahead)}"
            yield doubtful(
                "clock-skew", message, "set both clocks by NTP; times in logs do not compare until then"
            )


def skew_words(ahead: float) -> str:
    """``3,600 s ahead``, ``2.5 s behind``, ``in step``."""
    if abs(ahead) < 0.1:
        return "in step"
    amount = f"{abs(ahead):,.0f}" if abs(ahead) >= 10 else f"{abs(ahead):.1f}"
    return f"{amount} s {'ahead' if ahead > 0 else 'behind'}"


def _silent(sight: Sight) -> Iterator[Diagnostic]:
    names = {program.key: str(program) for program in sight.programs}
    lost = Counter(offer.program for offer in sight.offers if offer.lost and offer.program in names)
    for program, count in lost.items():
        message = f"{names[program]} offers {count} functions and is not heard of within its lease"
        yield wrong(
            "silent", message, "it hangs, is stopped (SIGSTOP), or the network between is cut: look at it"
        )


def _crowded(config: DatabusConfig, sight: Sight) -> Iterator[Diagnostic]:
    processes = {(one.host, one.pid) for one in sight.programs if one.pid}
    for host, count in Counter(host for host, _ in processes).items():
        if count >= MOST_PARTICIPANTS * 9 // 10:
            message = f"domain {config.domain} is nearly full: {count} processes on {host or 'one machine'}"
            hint = f"a domain has {MOST_PARTICIPANTS} participants on one machine: use another one for some"
            yield doubtful("domain-crowded", message, hint)
