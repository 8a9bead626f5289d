"""Who sends requests, and whether they can hear the answers."""

from __future__ import annotations

import asyncio
from typing import Any

from cyclonedds.sub import DataReader

from enginehost.databus.cyclone.outlet import Outlet

MATCH_PATIENCE = 1.0
"""Seconds for which the first replies to a participant wait until its reply reader is discovered."""
MATCH_POLL = 0.005

MOST_KNOWN = 4_096
"""Writers, and participants, that are remembered."""

GONE = "gone"
"""The participant of writers that have left before their request was read."""


class Requesters:
    """The participants behind the writers of requests.

    Requests and replies are not kept for late joiners, and a requester's two endpoints are discovered
    independently: the answer to its very first request would now and then be lost. So the replies to
    each participant wait, once, and for themselves.
    """

    def __init__(self, requests: DataReader[Any], replies: Outlet) -> None:
        self._requests = requests
        self._replies = replies
        self._of_writer: dict[int, str] = {}
        self._of_reader: dict[int, str] = {}
        self._matching: dict[str, asyncio.Task[None]] = {}

    def participant(self, writer: int) -> str:
        """Whose writer (publication handle) that is."""
        known = self._of_writer.get(writer)
        if known is None:
            found = self._requests.get_matched_publication_data(writer)
            if found is None:
                return GONE
            known = self._of_writer[writer] = str(found.participant_key)
            if len(self._of_writer) > MOST_KNOWN:
                del self._of_writer[next(iter(self._of_writer))]
        return known

    async def matched(self, participant: str) -> None:
        """Wait, at most once for each participant, until its reply reader is discovered."""
        if participant == GONE:
            return
        task = self._matching.get(participant)
        if task is None:
            if len(self._matching) >= MOST_KNOWN:
                self._matching = {name: t for name, t in self._matching.items() if not t.done()}
            task = asyncio.get_running_loop().create_task(self._match(participant))
            self._matching[participant] = task
        if not task.done():
            await asyncio.wait((task,))

    def close(self) -> None:
        """Wait for nobody any more."""
        for task in self._matching.values():
            task.cancel()

    async def _match(self, participant: str) -> None:
        for _ in range(int(MATCH_PATIENCE / MATCH_POLL)):
            if participant in self._listening():
                return
            await asyncio.sleep(MATCH_POLL)

    def _listening(self) -> frozenset[str]:
        """The participants whose reply readers are discovered."""
        handles = frozenset(self._replies.readers)
        self._of_reader = {handle: key for handle, key in self._of_reader.items() if handle in handles}
        for handle in handles - self._of_reader.keys():
            if (found := self._replies.reader_data(handle)) is not None:
                self._of_reader[handle] = str(found.participant_key)
        return frozenset(self._of_reader.values())
