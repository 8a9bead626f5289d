"""Which requests have been let in, so that one that arrives twice runs once."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

EACH = 16_384
"""Requests remembered of one participant: no flood of another's pushes them out."""

IN_ALL = 262_144
"""Requests remembered in all (some 60 MB). Beyond, who has most is remembered half as long."""


class Seen:
    """The latest requests of each participant. A request is whatever tells it from others."""

    def __init__(self, each: int = EACH, in_all: int = IN_ALL) -> None:
        self._each = each
        self._in_all = in_all
        self._ids: set[Hashable] = set()
        self._of: dict[str, deque[Hashable]] = {}

    def __contains__(self, request: Hashable) -> bool:
        return request in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, request: Hashable, participant: str) -> None:
        """Remember a request that is not remembered yet."""
        line = self._of.get(participant)
        if line is None:
            line = self._of[participant] = deque()
        self._ids.add(request)
        line.append(request)
        if len(line) > self._each:
            self._ids.discard(line.popleft())
        if len(self._ids) > self._in_all:
            self._halve()

    def _halve(self) -> None:
        participant = max(self._of, key=lambda one: len(self._of[one]))
        line = self._of[participant]
        for _ in range((len(line) + 1) // 2):
            self._ids.discard(line.popleft())
        if not line:
            del self._of[participant]
