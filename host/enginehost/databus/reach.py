"""Whether a request to a program would arrive, and its reply, as far as can be seen."""

from __future__ import annotations

from collections.abc import Iterable

from enginehost.databus.matching import Endpoint, mismatches, partitions_meet
from enginehost.databus.metadata import partition_of
from enginehost.databus.offers import understand
from enginehost.databus.sight import CAPABILITIES, REPLIES, REQUESTS, Offer, Sight

UNMATCHED = "does not match those of hosts"


class Reach:
    """Answers for one sight; what is the same for all functions of a program is looked up once."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        self._ends: dict[str, list[Endpoint]] = {}
        for end in sight.endpoints:
            self._ends.setdefault(end.program, []).append(end)
        self._found: dict[tuple[str, str], str] = {}

    def endpoints(self, program: str) -> list[Endpoint]:
        """Those of one program."""
        return self._ends.get(program, [])

    def why_not(self, offer: Offer) -> str:
        """Why no host can call the function; empty where one can.

        What hosts make of the capability is their own judgement, and a program that claims to be a host is
        called in the partition of that host.
        """
        if offer.lost:
            return "its provider is not heard of any more"
        return understand(offer.capability).fault or self.why_unheard(offer)

    def why_unheard(self, offer: Offer) -> str:
        """Why the provider hears of no request to such a function, or hosts hear of none of its functions."""
        key = (offer.program, offer.capability.service_name)
        if key not in self._found:
            self._found[key] = self._why_not(*key)
        claimed = understand(offer.capability).incarnation
        if not self._found[key] and claimed and not self.reads_as(offer.program, claimed):
            return "reads no requests in the partition of the host that its classification names"
        return self._found[key]

    def reads_as(self, program: str, incarnation: str) -> bool:
        """Whether the program reads requests where a host that was started as ``incarnation`` does."""
        own = (partition_of(incarnation),)
        readers = _some(self.endpoints(program), REQUESTS, writes=False)
        return any(partitions_meet(end.policies.partitions, own) for end in readers)

    def requests_arrive(self, program: str) -> bool:
        """Whether the program has a reader of requests that matches a host's writer."""
        return self._is_met(_some(self.endpoints(program), REQUESTS, writes=False))

    def replies_arrive(self, program: str) -> bool:
        """Whether the program has a writer of replies that matches a host's reader."""
        return self._is_met(_some(self.endpoints(program), REPLIES, writes=True))

    def _is_met(self, ends: list[Endpoint]) -> bool:
        return bool(ends) and not self._why_apart(ends)

    def _why_not(self, program: str, service: str) -> str:
        theirs = self.endpoints(program)
        readers, writers = _some(theirs, REQUESTS, writes=False), _some(theirs, REPLIES, writes=True)
        if not readers:
            topic = f"{service}Request"
            if service and any(not end.writes and end.topic.endswith(topic) for end in theirs):
                return f"its provider is called by the topic {topic} only, as Genesis does"
            return f"offers functions but reads no {REQUESTS}"
        if not writers:
            return f"reads requests but writes no {REPLIES}"
        offering = _some(theirs, CAPABILITIES, writes=True)
        for role, ends in (("capabilities", offering), ("requests", readers), ("replies", writers)):
            if why := self._why_apart(ends):
                return f"its endpoint of {role} {UNMATCHED}: {why}"
        return ""

    def _why_apart(self, ends: Iterable[Endpoint]) -> str:
        """Why none of ``ends`` matches ours; empty where one does."""
        why = ""
        for end in ends:
            for own in self._sight.own:
                if end.topic != own.topic or end.writes == own.writes:
                    continue
                found = mismatches(end, own) if end.writes else mismatches(own, end)
                if not found and end.key not in self._sight.unmatched:
                    return ""
                why = found[0].policy if found else "its type is defined otherwise"
        return why


def _some(ends: Iterable[Endpoint], topic: str, *, writes: bool) -> list[Endpoint]:
    return [end for end in ends if end.topic == topic and end.writes is writes]
