"""The bus on one page, for people."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from enginehost.cli.output import counted, emphasised, escaped, print_table, printable, say
from enginehost.databus.signing_setup import Signing
from enginehost.databus.survey import Member, Offered, Place, Survey, TopicUse
from enginehost.databus.survey_events import full_name
from enginehost.databus.survey_findings import skew_words
from enginehost.diagnostics import Diagnostic, Severity

MOST_FUNCTIONS = 200
"""Functions that are listed; ``--json`` has all."""

MOST_CHARACTERS = 60
"""Of a text of a peer's in a column: every row is as wide as the longest (``--json`` has all)."""

_MARKS = {Severity.WARNING: ("warn", "yellow"), Severity.ERROR: ("FAIL", "red")}


def print_page(survey: Survey) -> None:
    """Where we looked, who and what is there, what is wrong."""
    _print_place(survey.place, survey.signing)
    if survey.members:
        _head("participants")
        heads = (
            "WHAT",
            "SERVICE",
            "PROCESS",
            "HOST",
            "FUNCTIONS",
            "CALLS",
            "CLOCK",
            "LEASE",
            "DDS",
            "ADDRESS",
        )
        print_table(heads, [_member(one) for one in survey.members])
    if survey.topics:
        _head("topics")
        print_table(("TOPIC", "TYPE", "WRITERS", "READERS", "OURS"), [_topic(one) for one in survey.topics])
    if survey.capabilities:
        _head("functions")
        listed = sorted(survey.capabilities, key=full_name)[:MOST_FUNCTIONS]
        names = {one.program.key: f"{one.program.pid or one.program.key[:24]}" for one in survey.members}
        heads = ("FUNCTION", "PROCESS", "AGE", "SCHEMA", "CALLABLE")
        print_table(heads, [_function(one, names) for one in listed])
        if len(survey.capabilities) > len(listed):
            say(f"and {len(survey.capabilities) - len(listed):,} more (--json has all)")
    say()
    print_findings(survey.findings)


def print_findings(findings: Sequence[Diagnostic]) -> None:
    """What is wrong, each with what to do."""
    for found in findings:
        mark, style = _MARKS[found.severity]
        say(f"{emphasised(mark, sys.stdout, style)}  {escaped(found.message)}")
        if found.hint:
            say(f"      {emphasised('mend:', sys.stdout, 'cyan')} {printable(found.hint)}")
    wrong = sum(found.severity is Severity.ERROR for found in findings)
    doubtful = len(findings) - wrong
    say(f"\n{wrong} wrong, {doubtful} doubtful" if findings else "all is well")


def _head(title: str) -> None:
    say()
    say(emphasised(title, sys.stdout, "bold"))


def _print_place(place: Place, signing: Signing) -> None:
    address = f" ({place.address})" if place.address and place.address != place.interface else ""
    reach = "multicast" if place.multicast else "this machine only"
    say(f"{'domain':<10} {place.domain} on {escaped(place.interface)}{address}, {reach}")
    if place.peers:
        say(f"{'peers':<10} {escaped(', '.join(place.peers))}")
    say(f"{'ports':<10} UDP {place.ports[0]} to {place.ports[1]}")
    say(f"{'library':<10} {place.library or 'none'}")
    signs = f"signs with the key {signing.key}" if signing.key else "does not sign"
    takes = "any peer's" if signing.accepts_any else "those that a trusted key signed"
    say(f"{'keys':<10} {signs}; trusts {counted(signing.trusted, 'key')}; takes in functions: {takes}")


def _member(member: Member) -> tuple[str, ...]:
    program = member.program
    return (
        member.kind,
        shortened(",".join(member.services)),
        shortened(f"{program.pid or ''} {program.process or program.name}".strip()) or program.key[:24],
        shortened(program.host),
        str(member.functions) if member.functions else "",
        _part_in_calls(member),
        _clock(member),
        "" if program.lease == float("inf") else f"{program.lease:g} s",
        program.vendor,
        shortened(",".join(program.addresses)),
    )


def _part_in_calls(member: Member) -> str:
    answers = member.requests_arrive and member.replies_arrive
    parts = ["answers"] * answers + ["calls"] * member.sends_requests
    if member.takes_requests and not answers:
        parts.append("does not match" if member.writes_replies else "reads requests only")
    return ", ".join(parts)


def _clock(member: Member) -> str:
    clock = member.clock
    if clock is None or (not clock.exact and clock.ahead <= 0):
        return ""
    return f"{'' if clock.exact else 'at least '}{skew_words(clock.ahead)}"


def _topic(topic: TopicUse) -> tuple[str, ...]:
    ours = "yes" if topic.known else ""
    types = shortened(", ".join(topic.types))
    return (shortened(topic.name), types, str(topic.writers), str(topic.readers), ours)


def _function(offered: Offered, names: dict[str, str]) -> tuple[str, ...]:
    return (
        shortened(full_name(offered)),
        names.get(offered.offer.program, ""),
        _age(offered.age),
        "in short" if offered.schema_shortened else "",
        "yes" if offered.callable else f"no: {offered.why_not}",
    )


def shortened(text: str) -> str:
    """A text without its middle, where it is too long for a column."""
    if len(text) <= MOST_CHARACTERS:
        return text
    half = MOST_CHARACTERS // 2
    return f"{text[:half]}…{text[1 - half :]}"


def _age(seconds: float) -> str:
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
