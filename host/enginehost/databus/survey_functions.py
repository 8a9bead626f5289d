"""What is wrong with the functions on the bus, and what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from enginehost.databus.config import DatabusConfig
from enginehost.databus.matching import Endpoint, mismatches
from enginehost.databus.offer_faults import doubts_of, faults_of, shown
from enginehost.databus.offers import understand
from enginehost.databus.reach import UNMATCHED, Reach
from enginehost.databus.sight import CAPABILITIES, REPLIES, REQUESTS, Offer, Sight
from enginehost.databus.survey import Member
from enginehost.databus.survey_verdicts import doubtful, few, wrong
from enginehost.databus.trust import Trust, TrustedKey
from enginehost.diagnostics import Diagnostic
from enginehost.errors import ConfigError, Unauthorized


def findings_of_functions(
    config: DatabusConfig, sight: Sight, members: Iterable[Member]
) -> Iterator[Diagnostic]:
    """Everything wrong or doubtful about capabilities and who offers them."""
    members = list(members)
    yield from few(_malformed(sight))
    yield from _undecodable(sight)
    yield from few(_cut_short(sight))
    yield from _twins(members, sight)
    yield from few(_of_keys(config, sight))
    yield from few(_deaf(members, sight))


def _malformed(sight: Sight) -> Iterator[Diagnostic]:
    names = {program.key: str(program) for program in sight.programs}
    for offer in sight.offers:
        faults = list(faults_of(offer.capability))
        told = [*faults, *doubts_of(offer.capability)]
        if told:
            whose = names.get(offer.program, "a program that left")
            message = f"the function {shown(offer.capability.name)} of {whose}: {'; '.join(told)}"
            make = wrong if faults else doubtful
            yield make("malformed-capability", message, "correct what that program advertises")


def _undecodable(sight: Sight) -> Iterator[Diagnostic]:
    names = {program.key: str(program) for program in sight.programs}
    for program, count in sight.undecodable.items():
        whose = names.get(program, "a program that left")
        many = "a sample" if count == 1 else f"{count:,} samples"
        message = f"{many} of {CAPABILITIES} of {whose} cannot be read: cut off, or no UTF-8"
        yield wrong("malformed-sample", message, "its type must be as `enginehost databus idl` prints it")


def _cut_short(sight: Sight) -> Iterator[Diagnostic]:
    """Types that match although they have fewer members, and whose samples do not say where they end."""
    names = {program.key: str(program) for program in sight.programs}
    for writer in sight.endpoints:
        if not writer.writes or writer.policies.representations[0] != "XCDR1" or not writer.members:
            continue
        readers = (end for end in (*sight.endpoints, *sight.own) if _is_longer(end, writer))
        if reader := next(readers, None):
            whose = names.get(writer.program, "a program that left")
            message = (
                f"the type of {shown(writer.topic)} of {whose} has {len(writer.members)} of "
                f"{len(reader.members)} members: written as XCDR1 its samples do not say where they end, "
                "and hosts drop them"
            )
            hint = "declare all members (`enginehost databus idl` prints them), or write XCDR2"
            yield wrong("malformed-sample", message, hint)


def _is_longer(reader: Endpoint, writer: Endpoint) -> bool:
    return (
        (reader.topic, reader.writes) == (writer.topic, False)
        and reader.topic in (CAPABILITIES, REQUESTS, REPLIES)
        and len(reader.members) > len(writer.members)
        and not mismatches(writer, reader)
    )


def _twins(members: Iterable[Member], sight: Sight) -> Iterator[Diagnostic]:
    """Host ids, and function ids, that two programs have."""
    heard = {offer.program for offer in sight.offers if not offer.lost}
    hosts: dict[str, list[Member]] = {}
    for member in members:
        if member.host_id and member.program.key in heard:
            hosts.setdefault(member.host_id, []).append(member)
    for host_id, some in hosts.items():
        if len(some) > 1:
            whose = " and ".join(str(one.program) for one in some[:3])
            message = f"{len(some)} providers have the id {shown(host_id)}: {whose}"
            hint = "one has a copy of the other's state directory: give it a state_dir of its own"
            yield wrong("same-host-id", message, hint)
    told = {host_id for host_id, some in hosts.items() if len(some) > 1}
    offered = Counter(
        offer.capability.function_id for offer in sight.offers if offer.capability.provider_id not in told
    )
    for function_id, count in offered.items():
        if count > 1:
            message = f"{count} programs offer a function with the id {shown(function_id)}"
            yield wrong("same-function-id", message, "each call of it runs in each of them: make ids differ")


def _of_keys(config: DatabusConfig, sight: Sight) -> Iterator[Diagnostic]:
    """Services that two trusted keys sign, or one that may not, as the file of trusted keys tells."""
    try:
        keys = Trust(config.trust_path).keys()
    except ConfigError:
        return  # told of the file
    trusted = {key.id: key for key in keys}
    names = {program.key: str(program) for program in sight.programs}
    signers: dict[str, dict[str, tuple[TrustedKey, str]]] = {}
    known: set[tuple[str, str]] = set()
    for offer in sight.offers:
        service = offer.capability.service_name
        if trusted and (offer.program, service) not in known and (by := _signer(offer, trusted)):
            known.add((offer.program, service))
            whose = names.get(offer.program, "a program that left")
            signers.setdefault(service, {}).setdefault(by.id, (by, whose))
    for service, found in signers.items():
        yield from _of_signers(service, list(found.values()))


def _of_signers(service: str, signers: list[tuple[TrustedKey, str]]) -> Iterator[Diagnostic]:
    hint = "in the file of trusted keys, services says what a key may offer; or name the services apart"
    for key, whose in signers:
        if not key.offers(service):
            message = (
                f"{whose} signs functions of the service {shown(service)} with the key of "
                f"{shown(key.caller.subject)}, which may not offer them: hosts that trust it let none in"
            )
            yield wrong("service-of-another-key", message, hint)
    some = [f"{shown(key.caller.subject)} ({whose})" for key, whose in signers if key.offers(service)]
    if len(some) > 1:
        message = f"the service {shown(service)} is signed by {len(some)} trusted keys: {' and '.join(some)}"
        yield doubtful("service-of-two-keys", message, f"is each meant to offer it? {hint}")


def _signer(offer: Offer, trusted: Mapping[str, TrustedKey]) -> TrustedKey | None:
    from enginehost.databus.signing import verify_capability

    if understand(offer.capability).fault:
        return None
    try:
        return verify_capability(offer.capability, trusted.get).by
    except Unauthorized:
        return None


def _deaf(members: Iterable[Member], sight: Sight) -> Iterator[Diagnostic]:
    """Providers none of whose functions can be called."""
    kinds = {member.program.key: member for member in members}
    told: set[tuple[str, str]] = set()
    reach = Reach(sight)
    for offer in sight.offers:
        member, why = kinds.get(offer.program), reach.why_unheard(offer)
        if member is None or not why or offer.lost or (offer.program, why) in told:
            continue
        told.add((offer.program, why))
        if UNMATCHED in why and not why.endswith(": partition"):
            continue  # that is told of the two endpoints
        make = doubtful if member.kind == "genesis" else wrong
        reason = why if why.startswith("its ") else f"it {why}"
        message = f"functions of {member.program} cannot be called by hosts: {reason}"
        hint = f"a provider reads {REQUESTS} and writes {REPLIES} (docs/databus.md)"
        yield make("not-callable", message, hint)
