"""Whether a request to a program would arrive, and its reply, as far as can be seen."""

from __future__ import annotations

from collections.abc import Iterable

from enginehost.databus.matching import Endpoint, mismatches
from enginehost.databus.sight import REPLIES, REQUESTS, Offer, Sight


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
        """Why a request to the function would not be answered; empty where it would."""
        if offer.lost:
            return "its provider is not heard of any more"
        key = (offer.program, offer.capability.service_name)
        if key not in self._found:
            self._found[key] = self._why_not(*key)
        return self._found[key]

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
        for role, ends in (("requests", readers), ("replies", writers)):
            if why := self._why_apart(ends):
                return f"its endpoint of {role} does not match those of hosts: {why}"
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
