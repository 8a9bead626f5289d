"""What happened on the bus between two looks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from enginehost.databus.offer_faults import shown
from enginehost.databus.survey import Member, Offered, Survey
from enginehost.diagnostics import Diagnostic


@dataclass(frozen=True, slots=True)
class Happening:
    """``event`` is stable (``participant-arrived``), ``text`` is for people, ``about`` for programs."""

    event: str
    text: str
    about: dict[str, Any]


def happenings(before: Survey, after: Survey) -> Iterator[Happening]:
    """Who and what came, changed and went, in an order that makes sense."""
    were, are = _members(before), _members(after)
    yield from (_of_member("arrived", are[key]) for key in are if key not in were)
    yield from _of_functions(_functions(before), _functions(after), are)
    yield from (_of_member("left", were[key]) for key in were if key not in are)


def judgements(before: Survey, after: Survey) -> Iterator[Happening]:
    """Findings that are new, and those that hold no longer."""
    yield from (_of_finding("finding", one) for one in after.findings if one not in before.findings)
    yield from (_of_finding("finding-over", one) for one in before.findings if one not in after.findings)


def _members(survey: Survey) -> dict[str, Member]:
    return {one.program.key: one for one in survey.members}


def _functions(survey: Survey) -> dict[tuple[str, str], Offered]:
    return {(one.offer.program, one.offer.capability.function_id): one for one in survey.capabilities}


def _of_functions(
    were: dict[tuple[str, str], Offered], are: dict[tuple[str, str], Offered], members: dict[str, Member]
) -> Iterator[Happening]:
    for key, now in are.items():
        before = were.get(key)
        if before is None:
            yield _of_function("arrived", now, members)
        elif before.offer.lost != now.offer.lost:
            yield _of_function("lost" if now.offer.lost else "back", now, members)
        elif before.offer.capability != now.offer.capability:
            yield _of_function("changed", now, members)
    for key, gone in were.items():
        if key not in are:
            yield _of_function("gone", gone, members)


def _of_member(what: str, member: Member) -> Happening:
    program = member.program
    about = {"participant": program.key, "host": program.host, "pid": program.pid, "process": program.process}
    return Happening(f"participant-{what}", f"{program} ({program.vendor})", about)


def _of_function(what: str, offered: Offered, members: dict[str, Member]) -> Happening:
    offer, capability = offered.offer, offered.offer.capability
    about = {
        "participant": offer.program,
        "service": capability.service_name,
        "name": capability.name,
        "function_id": capability.function_id,
    }
    whose = f" of {members[offer.program].program}" if offer.program in members else ""
    return Happening(f"function-{what}", f"{shown(full_name(offered))}{whose}", about)


def full_name(offered: Offered) -> str:
    """``service.name``, as hosts call it."""
    capability = offered.offer.capability
    return f"{capability.service_name}.{capability.name}" if capability.service_name else capability.name


def _of_finding(event: str, found: Diagnostic) -> Happening:
    about = {"severity": str(found.severity), "code": found.code, "message": found.message}
    return Happening(event, found.message, about | {"hint": found.hint})
